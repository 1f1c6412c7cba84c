use svcfs_store::SetXattrMode;

use super::*;

/// Shows: MNT-20
#[test]
fn attributes_set_before_and_after_publishing_reach_the_disk() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("run.sh"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"#!/bin/sh\n").unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let later = then + std::time::Duration::from_secs(1);
    let set =
        SetAttributes { modified: Some(then), accessed: Some(later), mode: Some(0o640), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), node, set).unwrap();
    let of = |attributes: crate::PathAttributes| (attributes.modified, attributes.accessed, attributes.mode);
    assert_eq!(of(space.vfs.attributes(node).unwrap()), (then, later, 0o640));
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(of(space.vfs.attributes(node).unwrap()), (then, later, 0o640));
    space.vfs.wait_applied().unwrap();
    assert_eq!(of(space.vfs.attributes(node).unwrap()), (then, later, 0o640));
    let set = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, set).unwrap().mode, 0o755);
    assert_eq!(space.vfs.attributes(node).unwrap().modified, then);
    assert_eq!(space.git(&["ls-tree", "HEAD", "run.sh"]).split(' ').next(), Some("100755"));
}

/// Shows: MNT-22
#[test]
fn a_saved_file_has_its_save_time_also_after_installation() {
    let space = TestSpace::new();
    save(&space, "a.md", "text\n");
    let (node, handle) = open(&space, "a.md", OpenMode::default());
    space.vfs.release(&ann(), handle).unwrap();
    let changed = || space.vfs.attributes(node).unwrap().changed;
    let saved = changed();
    space.vfs.wait_applied().unwrap();
    assert_eq!((changed(), changed()), (saved, saved), "it was put in place meanwhile");
    let (from, to) = (name("a.md"), name("b.md"));
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &from), (NodeId::ROOT, &to), true).unwrap();
    let renamed = changed();
    assert_ne!(renamed, saved, "a rename is a change");
    space.vfs.wait_applied().unwrap();
    assert_eq!(changed(), renamed);
    let bits = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    assert_ne!(space.vfs.set_attributes(&ann(), node, bits).unwrap().changed, renamed);
    let behind = changed();
    space.put("b.md", "by another door\n");
    assert_ne!(changed(), behind);
}

#[test]
fn a_directory_mtime_changes_with_unpublished_files() {
    let space = TestSpace::new();
    let changed = || {
        let directory = space.vfs.attributes(NodeId::ROOT).unwrap();
        (directory.modified, directory.changed)
    };
    let before = changed();
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    let made = changed();
    assert!(made.0 > before.0 && made.1 > before.1);
    space.vfs.unlink(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    let gone = changed();
    assert!(gone.0 > made.0 && gone.1 > made.1);
    let past = SetAttributes { modified: Some(std::time::SystemTime::UNIX_EPOCH), ..SetAttributes::default() };
    assert_eq!(
        space.vfs.set_attributes(&ann(), NodeId::ROOT, past).unwrap().modified,
        std::time::SystemTime::UNIX_EPOCH
    );
    space.vfs.release(&ann(), handle).unwrap();
}

#[test]
fn a_time_set_on_a_directory_is_unchanged_by_earlier_saves() {
    let space = TestSpace::new();
    let (directory, _) = space.vfs.make_directory(&ann(), NodeId::ROOT, &name("d"), 0o755).unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for n in 0..20 {
        space.vfs.apply(&ann(), ChangeSet::from(Change::put(at(&format!("d/{n}.md")), "x")).soon()).unwrap();
    }
    let set = SetAttributes { modified: Some(then), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), directory, set).unwrap();
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.vfs.attributes(directory).unwrap().modified, then);
}

#[test]
fn user_attributes_follow_a_rename_by_any_protocol() {
    let space = TestSpace::new();
    let mark = |path: &str, value: &[u8]| {
        let (node, _) = space.vfs.lookup_path(&ann(), &at(path)).unwrap();
        space.vfs.set_xattr(&eve(), node, (b"user.mood", value), SetXattrMode::CreateOrReplace).unwrap();
        space.vfs.forget(node, 1);
    };
    let marked = |path: &str| {
        let (node, _) = space.vfs.lookup_path(&ann(), &at(path)).unwrap();
        let value = space.vfs.xattr(node, b"user.mood").unwrap();
        space.vfs.forget(node, 1);
        value.map(|value| String::from_utf8(value).unwrap())
    };
    space.put("a.md", "[b](b.md)\n");
    space.put("b.md", "text\n");
    space.put("c.md", "plain\n");
    mark("a.md", b"of a");
    mark("b.md", b"of b");
    // As a rename that mends links does it: the others are written in the same set.
    let set = vec![Change::rename(at("b.md"), at("d/e.md")), Change::put(at("a.md"), "[b](d/e.md)\n")];
    space.vfs.apply(&eve(), ChangeSet::new(set)).unwrap();
    assert_eq!((marked("d/e.md").as_deref(), marked("a.md").as_deref()), (Some("of b"), Some("of a")));
    let over = Change::rename(at("c.md"), at("d/e.md")).with_precondition(Precondition::Any);
    space.vfs.apply(&eve(), ChangeSet::from(over)).unwrap();
    assert_eq!(marked("d/e.md"), None, "another file");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("f"))).unwrap();
    space.vfs.apply(&eve(), ChangeSet::from(Change::rename(at("a.md"), at("g.md"))).soon()).unwrap();
    assert_eq!(marked("g.md").as_deref(), Some("of a"));
}

/// Shows: XATTR-2
#[test]
fn unsaved_files_accept_xattrs_up_to_the_disk_limit() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"text\n").unwrap();
    let set = |number: i32| {
        space.vfs.set_xattr(
            &eve(),
            node,
            (format!("user.{number}").as_bytes(), &[b'x'; 1000]),
            SetXattrMode::CreateOrReplace,
        )
    };
    let refused = (0..200).find_map(|number| Some((number, set(number).err()?)));
    let (taken, fault) = refused.expect("somewhere is an end");
    assert_eq!(fault.kind(), Kind::NoSpace);
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.vfs.xattr_names(node).unwrap().len(), taken as usize);
}

#[test]
fn an_xattr_of_an_unsaved_file_is_tested_on_disk_once() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    let set =
        |name: &str| space.vfs.set_xattr(&eve(), node, (name.as_bytes(), b"x"), SetXattrMode::CreateOrReplace).unwrap();
    assert!(set("user.first") && set("user.second"));
    let drafts = std::fs::read_dir(space.vfs.state_directory().join("tmp")).unwrap();
    let drafts = drafts.map(|draft| draft.unwrap().path()).collect::<Vec<_>>();
    let has = |name: &str| {
        let has = |draft: &&std::path::PathBuf| rustix::fs::getxattr(*draft, name, &mut [0; 1][..]).is_ok();
        drafts.iter().find(has).cloned()
    };
    let tried = has("user.second").expect("nothing that stays has what was tried");
    rustix::fs::removexattr(&tried, "user.first").unwrap();
    assert!(set("user.third"));
    assert!(has("user.third") == Some(tried) && has("user.first").is_none(), "all of them were tried again");
    assert!(space.vfs.remove_xattr(&eve(), node, b"user.second").unwrap());
    assert!(has("user.second").is_none(), "there is room again");
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.vfs.xattr_names(node).unwrap().len(), 2);
    assert!(has("user.third").is_none(), "it is let go of when the file is saved");
}

#[test]
fn a_save_is_accepted_although_the_disk_refuses_earlier_xattrs() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"text\n").unwrap();
    // The disk took it when it was set, and has no room by now.
    let given = std::collections::BTreeMap::from([(b"user.large".to_vec(), vec![0; 1 << 17])]);
    space.vfs.nodes.shared(node).unwrap().lock().xattrs = given.into();
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "text\n");
}

/// Shows: MNT-22
#[test]
fn a_save_of_the_same_bytes_keeps_the_time_that_it_got() {
    let space = TestSpace::new();
    for mode in [EMPTYING, WRITING] {
        for is_settled in [true, false] {
            save(&space, "a.md", "same\n");
            if is_settled {
                space.vfs.wait_applied().unwrap();
            }
            let (node, handle) = open(&space, "a.md", mode);
            space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"same\n").unwrap();
            let saved = space.vfs.attributes(node).unwrap();
            space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
            space.vfs.release(&ann(), handle).unwrap();
            let told = |what: &str| {
                let now = space.vfs.attributes(node).unwrap();
                assert_eq!((now.modified, now.changed), (saved.modified, saved.changed), "{what} {is_settled}");
            };
            told("when it is closed");
            space.vfs.wait_applied().unwrap();
            told("a moment later");
            assert_eq!(space.vfs.stat(Protocol::Http, &at("a.md")).unwrap().modified, saved.modified);
            let (node, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
            space.vfs.unlink(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
            space.vfs.forget(node, 1);
        }
    }
    space.vfs.wait_applied().unwrap();
    assert!(space.log().iter().all(|line| line == "ann|ann: a.md" || line == "ann|delete: a.md"));
    assert_eq!(space.log().len(), 8, "the same bytes are no version");
}

#[test]
fn an_unchanged_foreign_page_is_saved_without_setting_its_mtime() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    use std::os::unix::fs::{MetadataExt, chown};
    let space = TestSpace::new();
    let root = space.directory.path();
    let mut own = capabilities(None).unwrap();
    if !own.effective.contains(CapabilitySet::CHOWN | CapabilitySet::FOWNER) {
        return;
    }
    space.put("a.md", "the same\n");
    space.vfs.wait_applied().unwrap();
    let page = root.join("a.md");
    chown(&page, Some(12345), None).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::options().write(true).open(&page).unwrap().set_modified(long_ago).unwrap();
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"the same\n").unwrap();
    // Of this thread alone, which ends with the test.
    own.effective -= CapabilitySet::FOWNER;
    set_capabilities(None, own).unwrap();
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(std::fs::metadata(&page).unwrap().mtime(), 0, "only whoever owns a file sets its times");
    assert!(space.vfs.nodes.shared(node).unwrap().lock().reported_times.is_some());
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 1);
}

#[test]
fn chmod_hits_no_other_file_despite_directory_renames() {
    let space = TestSpace::new();
    let own = "of mallory\n".repeat(20_000);
    space.put("mal/m.md", &own);
    space.put("alice/m.md", "of alice\n");
    space.vfs.wait_applied().unwrap();
    let find = |path: &str| space.vfs.lookup_path(&ann(), &at(path)).unwrap().0;
    let (mallorys, alices) = (find("mal/m.md"), find("alice/m.md"));
    let bits = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), alices, bits(0o600)).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (from, to) in [("mal", "x"), ("alice", "mal"), ("mal", "alice"), ("x", "mal")].repeat(20) {
                let (from, to) = (name(from), name(to));
                space.vfs.rename_node(&ann(), (NodeId::ROOT, &from), (NodeId::ROOT, &to), false).unwrap();
            }
            is_over.store(true, std::sync::atomic::Ordering::Release);
        });
        for mode in [0o777, 0o666].into_iter().cycle() {
            space.vfs.set_attributes(&ann(), mallorys, bits(mode)).unwrap();
            assert_eq!(space.vfs.attributes(alices).unwrap().mode, 0o600);
            if is_over.load(std::sync::atomic::Ordering::Acquire) {
                break;
            }
        }
    });
    assert_eq!((space.text("mal/m.md"), space.text("alice/m.md").as_str()), (own, "of alice\n"));
}
