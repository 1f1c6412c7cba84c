//! Attributes of files that are accepted and not in the tree yet, whatever follows at once; and
//! directories that hold such files.
#![expect(clippy::disallowed_methods, reason = "files are changed behind the server, and read from its disk")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::SystemTime;

use svcfs_store::SetXattrMode;

use super::*;

/// Mode, owner and extended attribute of a file, as the node has them now, and the same once it is
/// on the disk.
fn seen(space: &TestSpace, path: &str) -> [(u32, u32, Option<Vec<u8>>); 2] {
    let look = || {
        let (node, attributes) = space.vfs.lookup_path(&ann(), &at(path)).unwrap();
        space.vfs.forget(node, 1);
        (attributes.mode, attributes.uid)
    };
    let now = look();
    space.vfs.wait_applied().unwrap();
    assert_eq!(now, look(), "{path}: attributes change when the file comes to the disk");
    let disk = std::fs::metadata(space.directory.path().join(path)).unwrap();
    let (node, _) = space.vfs.lookup_path(&ann(), &at(path)).unwrap();
    let extended = space.vfs.xattr(node, b"user.mark").unwrap();
    space.vfs.forget(node, 1);
    let on_disk = (disk.permissions().mode() & 0o7777, disk.uid());
    [(now.0, now.1, extended.clone()), (on_disk.0, on_disk.1, extended)]
}

fn private(space: &TestSpace, path: &str) {
    private_with(space, path, "text\n");
}

/// A file of mode 0600, queued.
fn private_with(space: &TestSpace, path: &str, text: &str) {
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name(path), 0o600).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), text.as_bytes()).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.forget(node, 1);
}

/// Saves a file that is there.
fn save_again(space: &TestSpace, path: &str, mode: OpenMode) {
    let (node, handle) = open(space, path, mode);
    space.vfs.write_node(&ann(), handle, WriteAt::End, b"more\n").unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.forget(node, 1);
}

fn rename(space: &TestSpace, from: &str, to: &str) {
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &name(from)), (NodeId::ROOT, &name(to)), true).unwrap();
}

fn remove(space: &TestSpace, path: &str) {
    space.vfs.unlink(&ann(), NodeId::ROOT, &name(path)).unwrap();
}

fn is_private(space: &TestSpace, path: &str, after: &str) {
    for (mode, ..) in seen(space, path) {
        assert_eq!(mode, 0o600, "{path} after {after}");
    }
}

#[test]
fn a_queued_private_file_stays_private_whatever_follows() {
    for mode in [EMPTYING, WRITING] {
        let space = TestSpace::new();
        private(&space, "a.md");
        save_again(&space, "a.md", mode);
        is_private(&space, "a.md", "a second save");
        // It stands on the disk by now, and what is queued says nothing of its mode.
        save_again(&space, "a.md", mode);
        rename(&space, "a.md", "b.md");
        is_private(&space, "b.md", "a save and a rename");
        save_again(&space, "b.md", mode);
        save(&space, "open.md", "of everybody\n");
        rename(&space, "b.md", "open.md");
        is_private(&space, "open.md", "it replaced another file");
        private_with(&space, "c.md", "c\n");
        save(&space, "d.md", "d\n");
        save_again(&space, "c.md", mode);
        let exchange =
            |one, other| space.vfs.exchange(&ann(), (NodeId::ROOT, &name(one)), (NodeId::ROOT, &name(other)));
        exchange("c.md", "d.md").unwrap();
        is_private(&space, "d.md", "an exchange");
        save_again(&space, "d.md", mode);
        exchange("d.md", "c.md").unwrap();
        assert_eq!(seen(&space, "d.md")[1].0, 0o644);
        is_private(&space, "c.md", "a second exchange");
    }
}

/// Shows: MNT-18
#[test]
fn a_queued_private_file_is_private_for_other_protocols_too() {
    let space = TestSpace::new();
    private(&space, "a.md");
    let put = |text: &str| Change::put(at("a.md"), text.to_owned());
    space.vfs.apply(&eve(), ChangeSet::from(put("of eve\n")).soon()).unwrap();
    is_private(&space, "a.md", "another protocol wrote it");
    space.vfs.apply(&eve(), ChangeSet::from(put("once more\n")).soon()).unwrap();
    space.vfs.apply(&eve(), ChangeSet::from(Change::rename(at("a.md"), at("b.md"))).soon()).unwrap();
    is_private(&space, "b.md", "another protocol renamed it");
}

#[test]
fn a_file_created_right_after_a_removal_inherits_nothing() {
    let space = TestSpace::new();
    for kind in ["queued", "on the disk"] {
        private(&space, "a.md");
        let (node, _) = space.vfs.lookup_path(&ann(), &at("a.md")).unwrap();
        space.vfs.set_xattr(&eve(), node, (b"user.mark", b"old"), SetXattrMode::CreateOrReplace).unwrap();
        space.vfs.forget(node, 1);
        if kind == "queued" {
            save_again(&space, "a.md", EMPTYING);
        }
        remove(&space, "a.md");
        space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("a.md"), "new\n")).soon()).unwrap();
        let owner = std::fs::metadata(space.directory.path()).unwrap().uid();
        assert_eq!(seen(&space, "a.md"), [(0o644, owner, None), (0o644, owner, None)], "{kind}");
        remove(&space, "a.md");
    }
}

/// Shows: MNT-19
#[test]
fn a_rename_over_identical_bytes_preserves_source_attributes() {
    let space = TestSpace::new();
    let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    // Which of the two is on the disk by then, and whether the source is a scratch file.
    for (at_rest, source) in [("both", "b.md"), ("target", "b.md"), ("none", "b.md"), ("both", "b~"), ("none", "b~")] {
        save(&space, "a.md", "same\n");
        if at_rest != "none" {
            space.vfs.wait_applied().unwrap();
        }
        private_with(&space, source, "same\n");
        let (node, _) = space.vfs.lookup_path(&ann(), &at(source)).unwrap();
        if at_rest == "both" {
            let set = SetAttributes { modified: Some(then), ..SetAttributes::default() };
            space.vfs.set_attributes(&ann(), node, set).unwrap();
            space.vfs.set_xattr(&eve(), node, (b"user.mark", b"b"), SetXattrMode::CreateOrReplace).unwrap();
        }
        let before = space.vfs.attributes(node).unwrap();
        rename(&space, source, "a.md");
        assert_eq!(space.vfs.attributes(node).unwrap().modified, before.modified, "{at_rest} {source}");
        space.vfs.forget(node, 1);
        let mark = (at_rest == "both").then(|| b"b".to_vec());
        for (mode, _, extended) in seen(&space, "a.md") {
            assert_eq!((mode, &extended), (0o600, &mark), "{at_rest} {source}");
        }
        let modified = std::fs::metadata(space.directory.path().join("a.md")).unwrap().modified().unwrap();
        assert_eq!(modified, before.modified, "{at_rest} {source}");
        assert!(space.vfs.stat(Protocol::Fuse, &at(source)).is_err());
        remove(&space, "a.md");
        space.vfs.wait_applied().unwrap();
    }
}

/// Shows: MNT-19
#[test]
fn an_external_edit_survives_a_rename_of_the_same_bytes() {
    let space = TestSpace::new();
    save(&space, "a.md", "same\n");
    save(&space, "b.md", "same\n");
    space.vfs.wait_applied().unwrap();
    let root = space.directory.path().to_owned();
    let page = root.join("a.md");
    let edit = move || std::fs::write(&page, "of a person\n").unwrap();
    svcfs_store::FailPoints::new(&root).set_callback(svcfs_store::FailPoint::AcceptPlanned, edit);
    rename(&space, "b.md", "a.md");
    space.vfs.wait_applied().unwrap();
    assert_eq!(std::fs::read_to_string(root.join("a.md")).unwrap(), "of a person\n");
}

/// Shows: MNT-15
#[test]
fn no_directory_is_renamed_over_one_that_holds_an_unsaved_file() {
    let space = TestSpace::new();
    for (what, is_open) in [("open", true), ("queued", false)] {
        let make = |directory: &str| space.vfs.make_directory(&ann(), NodeId::ROOT, &name(directory), 0o755).unwrap().0;
        let (empty, full) = (format!("{what} empty"), format!("{what} full"));
        let (_, node) = (make(&empty), make(&full));
        let (file, _, handle) = space.vfs.create(&ann(), node, &name("a.md"), 0o644).unwrap();
        space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"text\n").unwrap();
        if !is_open {
            space.vfs.release(&ann(), handle).unwrap();
        }
        let over = || space.vfs.rename_node(&ann(), (NodeId::ROOT, &name(&empty)), (NodeId::ROOT, &name(&full)), true);
        assert_eq!(over().unwrap_err().kind(), Kind::NotEmpty, "{what}");
        let change = Change::rename(at(&empty), at(&full));
        assert_eq!(space.vfs.apply(&eve(), change).unwrap_err().kind(), Kind::NotEmpty, "{what}");
        let removal = Change::RemoveDir { path: at(&full) };
        assert_eq!(space.vfs.apply(&eve(), removal).unwrap_err().kind(), Kind::NotEmpty, "{what}");
        if is_open {
            space.vfs.release(&ann(), handle).unwrap();
        }
        assert_eq!(space.text(&format!("{full}/a.md")), "text\n");
        assert!(space.vfs.attributes(file).is_ok());
        space.vfs.unlink(&ann(), node, &name("a.md")).unwrap();
        over().unwrap();
    }
}

/// Shows: MNT-15
#[test]
fn no_directory_takes_the_name_of_an_unsaved_file() {
    let space = TestSpace::new();
    space.vfs.make_directory(&ann(), NodeId::ROOT, &name("d"), 0o755).unwrap();
    space.put("full/a.md", "text\n");
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("f"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"text\n").unwrap();
    for directory in ["d", "full"] {
        let over = space.vfs.rename_node(&ann(), (NodeId::ROOT, &name(directory)), (NodeId::ROOT, &name("f")), true);
        assert_eq!(over.unwrap_err().kind(), Kind::NotDirectory);
        let change = Change::rename(at(directory), at("f"));
        assert_eq!(space.vfs.apply(&eve(), change).unwrap_err().kind(), Kind::NotDirectory);
    }
    assert_eq!(space.vfs.apply(&eve(), Change::MakeDir { path: at("f") }).unwrap_err().kind(), Kind::Exists);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!((space.text("f"), space.text("full/a.md")), ("text\n".to_owned(), "text\n".to_owned()));
}

#[test]
fn the_setuid_bit_is_cleared_by_the_first_write_not_by_the_save() {
    let space = TestSpace::new();
    save(&space, "run.sh", "#!/bin/sh\n");
    let (node, _) = space.vfs.lookup_path(&ann(), &at("run.sh")).unwrap();
    let bits = SetAttributes { mode: Some(0o6755), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, bits).unwrap().mode, 0o6755);
    for mode in [WRITING, EMPTYING] {
        space.vfs.set_attributes(&ann(), node, bits).unwrap();
        let (_, handle) = open(&space, "run.sh", mode);
        space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"#!/bin/false\n").unwrap();
        assert_eq!(space.vfs.attributes(node).unwrap().mode, 0o755);
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(seen(&space, "run.sh")[0].0, 0o755);
        assert_eq!(seen(&space, "run.sh")[1].0, 0o755);
    }
    space.vfs.forget(node, 2);
}
