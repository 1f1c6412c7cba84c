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
fn a_file_that_was_found_is_opened_and_read_although_its_name_has_gone_to_another() {
    let space = TestSpace::new();
    for (is_settled, page) in [(true, "a.md"), (false, "b.md")] {
        save(&space, page, "old text\n");
        save(&space, "new", "new\n");
        if is_settled {
            space.vfs.settled().unwrap();
        }
        let (found, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(page)).unwrap();
        space.vfs.rename_node(&ann(), (NodeId::ROOT, &name("new")), (NodeId::ROOT, &name(page)), true).unwrap();
        let handle = space.vfs.open_node(&ann(), found, WRITING).unwrap();
        assert_eq!(space.vfs.read_node(found, 4, 100).unwrap(), "text\n");
        assert_eq!((space.vfs.attributes(found).unwrap().size, space.vfs.attributes(found).unwrap().links), (9, 0));
        let (other, there) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(page)).unwrap();
        assert_eq!((other == found, there.size), (false, 4));
        space.vfs.write_node(handle, WriteAt::End, b"more\n").unwrap();
        assert_eq!(space.vfs.read_node(found, 0, 100).unwrap(), "old text\nmore\n");
        space.vfs.publish(&ann(), found, Durability::Now).unwrap();
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.text(page), "new\n", "what has no name is nobody's version");
        space.vfs.forget(found, 2);
        assert_eq!(space.vfs.attributes(found).unwrap_err().kind(), Kind::Stale, "nobody knows it any more");
    }
}

#[test]
fn a_handle_reads_on_what_another_door_removes_or_renames() {
    let space = TestSpace::new();
    let gone: [(&str, Change); 3] = [
        ("a.md", Change::remove(at("a.md"))),
        ("b.md", Change::rename(at("b.md"), at("elsewhere.md"))),
        ("d", Change::rename(at("d"), at("e"))),
    ];
    for (place, change) in gone {
        for is_settled in [true, false] {
            let page = if place == "d" { "d/page.md" } else { place };
            space.vfs.apply(&eve(), ChangeSet::from(Change::put(at(page), "kept\n")).soon()).unwrap();
            if is_settled {
                space.vfs.settled().unwrap();
            }
            let mut found = NodeId::ROOT;
            for part in page.split('/') {
                found = space.vfs.lookup(&ann(), found, &name(part)).unwrap().0;
            }
            let handle = space.vfs.open_node(&ann(), found, WRITING).unwrap();
            let _ = space.vfs.apply(&eve(), Change::remove(at("elsewhere.md")));
            space.vfs.apply(&eve(), change.clone()).unwrap();
            assert_eq!(space.vfs.read_node(found, 0, 100).unwrap(), "kept\n", "{change:?}");
            assert_eq!(space.vfs.attributes(found).unwrap().links, 0);
            let directory = space.vfs.path_of(found).unwrap().parent().unwrap();
            let listed = space.vfs.node_at(&directory).and_then(|directory| space.vfs.entries(&ann(), directory).ok());
            assert!(listed.is_none_or(|listed| listed.iter().all(|(_, node, _)| *node != found)), "{change:?}");
            // What is written now is no version of a page that is gone, and is not lost either.
            space.vfs.write_node(handle, WriteAt::End, b"more\n").unwrap();
            assert_eq!(space.vfs.publish(&ann(), found, Durability::Soon).unwrap_err().kind(), Kind::Conflict);
            space.vfs.release(&ann(), handle).unwrap();
            assert_eq!(space.text(&format!(".svc/rejected/{page}")), "kept\nmore\n");
            assert_eq!(space.vfs.attributes(found).unwrap_err().kind(), Kind::NotFound);
            let _ = space.vfs.apply(&eve(), Change::rename(at("e"), at("other")));
            let _ = space.vfs.apply(&eve(), Change::remove(at("other/page.md")));
        }
    }
}

#[test]
fn whoever_reads_a_name_that_others_replace_reads_one_of_them_whole() {
    const WRITERS: u8 = 4;
    let space = TestSpace::new();
    save(&space, "page.md", &"0".repeat(1000));
    std::thread::scope(|threads| {
        for writer in 0..WRITERS {
            let space = &space;
            threads.spawn(move || {
                let beside = name(&format!("{writer}~"));
                for _ in 0..50 {
                    save(space, beside.as_str(), &writer.to_string().repeat(1000));
                    space
                        .vfs
                        .rename_node(&ann(), (NodeId::ROOT, &beside), (NodeId::ROOT, &name("page.md")), true)
                        .unwrap();
                    let (node, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("page.md")).unwrap();
                    let handle = space.vfs.open_node(&ann(), node, OpenMode::default()).unwrap();
                    assert_eq!(space.vfs.attributes(node).unwrap().size, 1000);
                    let text = space.vfs.read_node(node, 0, 2000).unwrap();
                    assert!(text.len() == 1000 && text.iter().all(|byte| *byte == text[0]), "two writers in one file");
                    space.vfs.release(&ann(), handle).unwrap();
                    space.vfs.forget(node, 1);
                }
            });
        }
    });
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
    let later = then + std::time::Duration::from_secs(1);
    let set =
        SetAttributes { modified: Some(then), accessed: Some(later), mode: Some(0o640), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), node, set).unwrap();
    let of = |attributes: crate::Attributes| (attributes.modified, attributes.accessed, attributes.mode);
    assert_eq!(of(space.vfs.attributes(node).unwrap()), (then, later, 0o640));
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(of(space.vfs.attributes(node).unwrap()), (then, later, 0o640));
    space.vfs.settled().unwrap();
    assert_eq!(of(space.vfs.attributes(node).unwrap()), (then, later, 0o640));
    let set = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, set).unwrap().mode, 0o755);
    assert_eq!(space.vfs.attributes(node).unwrap().modified, then);
    assert_eq!(space.git(&["ls-tree", "HEAD", "run.sh"]).split(' ').next(), Some("100755"));
}

#[test]
fn a_saved_file_changed_when_it_was_saved_also_after_it_was_put_in_place() {
    let space = TestSpace::new();
    save(&space, "a.md", "text\n");
    let (node, handle) = open(&space, "a.md", OpenMode::default());
    space.vfs.release(&ann(), handle).unwrap();
    let changed = || space.vfs.attributes(node).unwrap().changed;
    let saved = changed();
    space.vfs.settled().unwrap();
    assert_eq!((changed(), changed()), (saved, saved), "it was put in place meanwhile");
    let (from, to) = (name("a.md"), name("b.md"));
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &from), (NodeId::ROOT, &to), true).unwrap();
    let renamed = changed();
    assert_ne!(renamed, saved, "a rename is a change");
    space.vfs.settled().unwrap();
    assert_eq!(changed(), renamed);
    let bits = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    assert_ne!(space.vfs.set_attributes(&ann(), node, bits).unwrap().changed, renamed);
    let behind = changed();
    space.put("b.md", "by another door\n");
    assert_ne!(changed(), behind);
}

#[test]
fn a_directory_changes_when_a_file_is_made_in_it_and_when_it_goes_unpublished() {
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
fn a_part_of_a_file_becomes_zeros_and_the_file_longer_only_where_asked() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o644).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(0), b"xxxxxxxx").unwrap();
    let allocate = |offset, length, is_zeroed, grows| {
        space
            .vfs
            .allocate(&ann(), handle, Allocation { offset, length, is_zeroed, grows })
            .map_err(|fault| fault.kind())
    };
    let content = || space.vfs.read_node(node, 0, 100).unwrap();
    allocate(1, 2, true, false).unwrap();
    assert_eq!(content(), "x\0\0xxxxx");
    allocate(6, 100, true, false).unwrap();
    assert_eq!(content(), "x\0\0xxx\0\0");
    allocate(0, 100, false, false).unwrap();
    assert_eq!(content().len(), 8, "room is asked for, not length");
    allocate(5, 5, true, true).unwrap();
    assert_eq!(content(), "x\0\0xx\0\0\0\0\0");
    allocate(8, 4, false, true).unwrap();
    assert_eq!(content(), "x\0\0xx\0\0\0\0\0\0\0");
    assert_eq!(allocate(0, i64::MAX as u64, false, false), Err(Kind::NoSpace));
    assert_eq!(allocate(u64::MAX, 1, false, false), Err(Kind::TooLarge));
    let (_, reader) = open(&space, "a.bin", OpenMode::default());
    let part = Allocation { offset: 0, length: 1, is_zeroed: true, grows: false };
    assert_eq!(space.vfs.allocate(&ann(), reader, part).unwrap_err().kind(), Kind::Forbidden);
    space.vfs.release(&ann(), reader).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
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

/// A byte more than can be recorded.
const LARGE: u64 = svcfs_base::MAX_FILE_BYTES as u64 + 1;

fn lengthen(space: &TestSpace, node: NodeId, size: u64) {
    let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, set).unwrap().size, size);
}

#[test]
fn a_file_too_large_to_be_recorded_is_on_the_disk_alone_from_its_first_save_on() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o640).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(0), b"begin").unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(LARGE), b"end").unwrap();
    space.vfs.write_node(handle, WriteAt::End, b"!").unwrap();
    assert_eq!(space.vfs.read_node(node, LARGE - 1, 100).unwrap(), "\0end!");
    assert!(!space.directory.path().join("a.bin").exists(), "nothing is saved yet");
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    let on_disk = std::fs::metadata(space.directory.path().join("a.bin")).unwrap();
    assert_eq!(
        (on_disk.len(), std::os::unix::fs::PermissionsExt::mode(&on_disk.permissions()) & 0o777),
        (LARGE + 4, 0o640)
    );
    // From now on it is written where it is, by every handle.
    let (_, other) = open(&space, "a.bin", WRITING);
    space.vfs.write_node(other, WriteAt::Offset(0), b"BEGIN").unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 5).unwrap(), "BEGIN");
    lengthen(&space, node, LARGE + 2);
    assert_eq!(space.vfs.seek_node(node, 1 << 20, true).unwrap(), Some(1 << 20));
    assert!(space.vfs.seek_node(node, 1 << 20, false).unwrap().is_some_and(|data| data > 1 << 20));
    assert_eq!(space.vfs.seek_node(node, LARGE + 2, false).unwrap(), None);
    for handle in [handle, other] {
        space.vfs.release(&ann(), handle).unwrap();
    }
    assert_eq!(space.vfs.read_node(node, LARGE, 100).unwrap(), "en");
    space.vfs.settled().unwrap();
    assert_eq!(space.vfs.last_seq(), svcfs_base::Seq(0), "history has not heard of it");
}

#[test]
fn a_page_that_becomes_too_large_is_removed_in_history_and_comes_back_when_it_is_cut() {
    let space = TestSpace::new();
    space.put("a.md", "text\n");
    let (node, handle) = open(&space, "a.md", WRITING);
    lengthen(&space, node, LARGE);
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 6).unwrap(), "text\n\0");
    assert_eq!(space.log().first().unwrap(), "ann|delete: a.md");
    lengthen(&space, node, 4);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "text");
    lengthen(&space, node, LARGE);
    assert_eq!(space.vfs.attributes(node).unwrap().size, LARGE, "set by name");
    let (_, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(handle, WriteAt::Offset(0), b"new\n").unwrap();
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "new\n");
    assert_eq!(space.log().len(), 5, "{:?}", space.log());
}

#[test]
fn a_large_file_is_written_anew_over_itself() {
    let space = TestSpace::new();
    for content in ["first", "again", "third"] {
        let (node, handle) = match content {
            "first" => {
                space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o640).map(|made| (made.0, made.2)).unwrap()
            }
            _ => open(&space, "a.bin", EMPTYING),
        };
        space.vfs.write_node(handle, WriteAt::Offset(LARGE), content.as_bytes()).unwrap();
        space.vfs.publish(&ann(), node, Durability::Now).unwrap();
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.vfs.read_node(node, LARGE - 1, 100).unwrap(), format!("\0{content}"));
        assert_eq!(space.vfs.attributes(node).unwrap().mode & 0o777, 0o640);
    }
    space.vfs.settled().unwrap();
    assert_eq!(space.vfs.last_seq(), svcfs_base::Seq(0), "history has not heard of it");
}

#[test]
fn a_large_file_is_renamed_replaced_and_removed_as_any_other_and_lives_on_for_its_handles() {
    let space = TestSpace::new();
    space.put("page.md", "text\n");
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o644).unwrap();
    lengthen(&space, node, LARGE);
    let rename = |from: &str, to: &str| {
        let (from, to) = (name(from), name(to));
        space.vfs.rename_node(&ann(), (NodeId::ROOT, &from), (NodeId::ROOT, &to), true)
    };
    assert_eq!(space.vfs.read(Door::Http, &at("page.md")).unwrap().content, "text\n");
    rename("a.bin", "page.md").unwrap();
    assert_eq!(space.vfs.read(Door::Http, &at("page.md")).unwrap_err().kind(), Kind::TooLarge);
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name("page.md")).unwrap().1.size, LARGE);
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.bin")).unwrap_err().kind(), Kind::NotFound);
    space.put("small.md", "small\n");
    rename("small.md", "page.md").unwrap();
    assert_eq!(space.text("page.md"), "small\n");
    space.vfs.write_node(handle, WriteAt::Offset(0), b"alive").unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 5).unwrap(), "alive");
    assert_eq!(space.vfs.attributes(node).unwrap().links, 0);
    space.vfs.release(&ann(), handle).unwrap();
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("b.bin"), 0o644).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(LARGE), b"end").unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.unlink(&ann(), NodeId::ROOT, &name("b.bin")).unwrap();
    assert!(!space.directory.path().join("b.bin").exists());
    let drafts = std::fs::read_dir(space.directory.path().join(".svc/state/tmp")).unwrap();
    // As large as they are; what else is there are files made in advance.
    let left = drafts.filter(|draft| draft.as_ref().unwrap().metadata().is_ok_and(|file| file.len() > 0)).count();
    assert_eq!(left, 0, "drafts are taken away");
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
