//! The inode face on a real disk.

use svcfs_base::{Durability, Kind};

use super::*;
use crate::tests::{TestSpace, at, eve};
use crate::{EntryKind, WriteAt};
use svcfs_base::{Caller, Change, ChangeSet, Door, Expect, Name};

fn ann() -> Caller {
    Caller::new(Door::Fuse).named(svcfs_base::Actor::new("ann"))
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn open(space: &TestSpace, path: &str, mode: OpenMode) -> (NodeId, HandleId) {
    let (node, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(path)).unwrap();
    (node, space.vfs.open_node(&ann(), node, mode).unwrap())
}

const WRITING: OpenMode = OpenMode { write: true, truncate: false };
const EMPTYING: OpenMode = OpenMode { write: true, truncate: true };

fn save(space: &TestSpace, file: &str, text: &str) {
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name(file), 0o644).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(0), text.as_bytes()).unwrap();
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
}

#[test]
fn a_save_is_one_version_however_often_it_is_flushed() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(0), b"hello ").unwrap();
    space.vfs.write_node(handle, WriteAt::End, b"world\n").unwrap();
    for _ in 0..3 {
        space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    }
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.settled().unwrap();
    assert_eq!(space.log(), ["ann|ann: a.md"]);
    assert_eq!(space.text("a.md"), "hello world\n");
}

#[test]
fn unpublished_bytes_are_shared_but_not_committed() {
    let space = TestSpace::new();
    space.put("a.md", "old\n");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(handle, WriteAt::Offset(0), b"new text\n").unwrap();
    let (other, reader) = open(&space, "a.md", OpenMode::default());
    assert_eq!(node, other);
    assert_eq!(space.vfs.read_node(other, 4, 100).unwrap(), "text\n");
    assert_eq!(space.vfs.attributes(other).unwrap().size, 9);
    assert_eq!(space.text("a.md"), "old\n");
    space.vfs.release(&ann(), reader).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "new text\n");
}

#[test]
fn an_emptied_file_waits_for_its_last_handle() {
    let space = TestSpace::new();
    space.put("a.md", "old\n");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    assert_eq!(space.text("a.md"), "old\n");
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "");
}

#[test]
fn closing_a_new_file_the_disk_refused_says_so_and_leaves_no_name() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    *space.vfs.core.trouble.lock() = Some(svcfs_base::Fault::new(Kind::NoSpace, "no space left"));
    assert_eq!(space.vfs.write_node(handle, WriteAt::Offset(0), b"text").unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(space.vfs.publish(&ann(), node, Durability::Soon).unwrap_err().kind(), Kind::NoSpace);
    // Before the handle is let go of: the kernel tells of that a moment later.
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.md")).unwrap_err().kind(), Kind::NotFound);
    let (.., again) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    *space.vfs.core.trouble.lock() = None;
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.release(&ann(), again).unwrap();
}

#[test]
fn a_refused_save_keeps_the_last_good_version_and_the_refused_text() {
    let space = TestSpace::new();
    space.put("a.md", "good\n");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(handle, WriteAt::Offset(0), b"refuse this").unwrap();
    assert_eq!(space.vfs.publish(&ann(), node, Durability::Soon).unwrap_err().kind(), Kind::Rejected);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "good\n");
    assert_eq!(space.text(".svc/rejected/a.md"), "refuse this");
    assert_eq!(space.vfs.refusal(node).as_deref(), Some("bad word"));
    space.put("b.md", "other");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(handle, WriteAt::Offset(0), b"better\n").unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.vfs.refusal(node), None);
    assert!(space.vfs.read(Door::Fuse, &at(".svc/rejected/a.md")).is_err());
}

#[test]
fn a_partial_write_over_another_doors_write_is_refused_and_kept() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let (node, handle) = open(&space, "a.md", WRITING);
    space.vfs.write_node(handle, WriteAt::End, b"mine\n").unwrap();
    space.put("a.md", "theirs\n");
    assert_eq!(space.vfs.publish(&ann(), node, Durability::Soon).unwrap_err().kind(), Kind::Conflict);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "theirs\n");
    assert_eq!(space.text(".svc/rejected/a.md"), "one\nmine\n");
}

#[test]
fn a_node_follows_its_file_through_renames_of_it_and_of_its_directory() {
    let space = TestSpace::new();
    space.put("d/a.md", "one\n");
    let (directory, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("d")).unwrap();
    let (node, _) = space.vfs.lookup(&ann(), directory, &name("a.md")).unwrap();
    space.vfs.rename_node(&ann(), (directory, &name("a.md")), (directory, &name("b.md")), true).unwrap();
    assert_eq!(space.vfs.path_of(node).unwrap(), at("d/b.md"));
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &name("d")), (NodeId::ROOT, &name("e")), true).unwrap();
    assert_eq!(space.vfs.path_of(node).unwrap(), at("e/b.md"));
    assert_eq!(space.vfs.read_node(node, 0, 10).unwrap(), "one\n");
    space.vfs.settled().unwrap();
    assert_eq!(space.log()[..2], ["ann|ann: rename dir d → e", "ann|ann: rename d/a.md → d/b.md"]);
}

#[test]
fn rename_without_replacing_refuses_a_taken_name() {
    let space = TestSpace::new();
    space.put("a.md", "a");
    space.put("b.md", "b");
    let rename =
        |replace| space.vfs.rename_node(&ann(), (NodeId::ROOT, &name("a.md")), (NodeId::ROOT, &name("b.md")), replace);
    assert_eq!(rename(false).unwrap_err().kind(), Kind::Exists);
    assert_eq!(space.text("b.md"), "b");
    rename(true).unwrap();
    assert_eq!(space.text("b.md"), "a");
}

#[test]
fn exchange_swaps_two_files_in_one_commit() {
    let space = TestSpace::new();
    space.put("a.md", "a");
    space.put("b.md", "b");
    let (node, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    space.vfs.exchange(&ann(), (NodeId::ROOT, &name("a.md")), (NodeId::ROOT, &name("b.md"))).unwrap();
    assert_eq!((space.text("a.md").as_str(), space.text("b.md").as_str()), ("b", "a"));
    assert_eq!(space.vfs.path_of(node).unwrap(), at("b.md"));
    assert_eq!(space.log().len(), 3);
}

#[test]
fn an_unlinked_file_lives_on_for_its_handles() {
    let space = TestSpace::new();
    space.put("a.md", "kept\n");
    let (node, handle) = open(&space, "a.md", WRITING);
    space.vfs.unlink(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 10).unwrap(), "kept\n");
    space.vfs.write_node(handle, WriteAt::End, b"more\n").unwrap();
    assert_eq!(space.vfs.attributes(node).unwrap().size, 10);
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.vfs.read(Door::Http, &at("a.md")).unwrap_err().kind(), Kind::NotFound);
    space.vfs.settled().unwrap();
    assert_eq!(space.log()[0], "ann|delete: a.md");
}

#[test]
fn a_created_file_is_listed_before_it_is_published_and_leaves_no_trace_when_removed() {
    let space = TestSpace::new();
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o600).unwrap();
    let listed = space.vfs.entries(&ann(), NodeId::ROOT).unwrap();
    assert!(listed.iter().any(|(entry, _, attributes)| entry.as_str() == "a.md" && attributes.mode == 0o600));
    assert_eq!(space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o600).unwrap_err().kind(), Kind::Exists);
    space.vfs.unlink(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    save(&space, "b.md", "b");
    space.vfs.settled().unwrap();
    assert_eq!(space.log(), ["ann|ann: b.md"]);
}

#[test]
fn attributes_set_before_and_after_publishing_reach_the_disk() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("run.sh"), 0o644).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(0), b"#!/bin/sh\n").unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let set = SetAttributes { modified: Some(then), mode: Some(0o640), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), node, set).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.settled().unwrap();
    let attributes = space.vfs.attributes(node).unwrap();
    assert_eq!((attributes.modified, attributes.mode), (then, 0o640));
    let set = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, set).unwrap().mode, 0o755);
    assert_eq!(space.vfs.attributes(node).unwrap().modified, then);
    assert_eq!(space.git(&["ls-tree", "HEAD", "run.sh"]).split(' ').next(), Some("100755"));
}

#[test]
fn the_time_set_on_a_directory_is_not_changed_by_saves_that_came_before() {
    let space = TestSpace::new();
    let (directory, _) = space.vfs.make_directory(&ann(), NodeId::ROOT, &name("d"), 0o755).unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for n in 0..20 {
        space.vfs.apply(&ann(), ChangeSet::from(Change::put(at(&format!("d/{n}.md")), "x")).soon()).unwrap();
    }
    let set = SetAttributes { modified: Some(then), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), directory, set).unwrap();
    space.vfs.settled().unwrap();
    assert_eq!(space.vfs.attributes(directory).unwrap().modified, then);
}

#[test]
fn a_length_set_by_name_is_a_version() {
    let space = TestSpace::new();
    space.put("a.md", "0123456789");
    let (node, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    let set = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, set(4)).unwrap().size, 4);
    assert_eq!(space.text("a.md"), "0123");
    space.vfs.set_attributes(&ann(), node, set(6)).unwrap();
    assert_eq!(space.text("a.md"), "0123\0\0");
    assert_eq!(space.vfs.set_attributes(&ann(), node, set(u64::MAX)).unwrap_err().kind(), Kind::TooLarge);
}

#[test]
fn a_file_over_the_limit_is_refused_and_the_rest_stays() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("big"), 0o644).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(0), b"start").unwrap();
    let fault = space.vfs.write_node(handle, WriteAt::Offset(64 << 20), b"x").unwrap_err();
    assert_eq!(fault.kind(), Kind::TooLarge);
    assert_eq!(space.vfs.read_node(node, 0, 10).unwrap(), "start");
    space.vfs.release(&ann(), handle).unwrap();
}

#[test]
fn directories_are_made_listed_and_removed_only_when_empty() {
    let space = TestSpace::new();
    let (directory, attributes) = space.vfs.make_directory(&ann(), NodeId::ROOT, &name("d"), 0o750).unwrap();
    assert_eq!((attributes.kind, attributes.mode), (EntryKind::Directory, 0o750));
    let (_, _, handle) = space.vfs.create(&ann(), directory, &name("a.md"), 0o644).unwrap();
    let remove = || space.vfs.remove_directory(&ann(), NodeId::ROOT, &name("d"));
    assert_eq!(remove().unwrap_err().kind(), Kind::NotEmpty);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(remove().unwrap_err().kind(), Kind::NotEmpty);
    space.vfs.unlink(&ann(), directory, &name("a.md")).unwrap();
    remove().unwrap();
    assert_eq!(space.vfs.path_of(directory).unwrap_err().kind(), Kind::Stale);
}

#[test]
fn links_are_made_read_and_versioned() {
    let space = TestSpace::new();
    space.put("a.md", "text");
    let (node, attributes) = space.vfs.make_link(&ann(), NodeId::ROOT, &name("l"), "a.md").unwrap();
    assert_eq!(attributes.kind, EntryKind::Symlink);
    assert_eq!(space.vfs.link_target(&ann(), node).unwrap(), "a.md");
    assert_eq!(space.vfs.make_link(&ann(), NodeId::ROOT, &name("l"), "b").unwrap_err().kind(), Kind::Exists);
    space.vfs.settled().unwrap();
    assert_eq!(space.git(&["ls-tree", "HEAD", "l"]).split(' ').next(), Some("120000"));
}

#[test]
fn state_of_the_server_is_neither_found_nor_made_through_the_mount() {
    let space = TestSpace::new();
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name(".git")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(space.vfs.create(&ann(), NodeId::ROOT, &name(".git"), 0o644).unwrap_err().kind(), Kind::Forbidden);
    assert_eq!(
        space.vfs.make_directory(&ann(), NodeId::ROOT, &name(".git"), 0o755).unwrap_err().kind(),
        Kind::Forbidden
    );
    let put = svcfs_base::Change::put(at(".svc/config.toml"), "").expecting(Expect::Any);
    space.vfs.apply(&ann(), put).unwrap();
    assert_eq!(space.vfs.read(Door::Http, &at(".svc/config.toml")).unwrap_err().kind(), Kind::NotFound);
    assert!(space.vfs.apply(&eve(), svcfs_base::Change::remove(at(".svc/config.toml"))).is_err());
}

#[test]
fn a_file_that_is_being_published_is_in_every_listing() {
    let space = TestSpace::new();
    for number in 0..200 {
        let file = format!("{number}.md");
        let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name(&file), 0o644).unwrap();
        std::thread::scope(|scope| {
            let published = scope.spawn(|| space.vfs.release(&ann(), handle).unwrap());
            let mut is_over = false;
            while !is_over {
                is_over = published.is_finished();
                let entries = space.vfs.entries(&ann(), NodeId::ROOT).unwrap();
                assert!(entries.iter().any(|(name, _, _)| name.as_str() == file), "{file}");
            }
        });
    }
}
