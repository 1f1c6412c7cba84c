use super::*;

/// Shows: MNT-1
#[test]
fn a_save_is_one_version_however_often_it_is_flushed() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"hello ").unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::End, b"world\n").unwrap();
    for _ in 0..3 {
        space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    }
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log(), ["ann|ann: a.md"]);
    assert_eq!(space.text("a.md"), "hello world\n");
}

/// Shows: MNT-2
#[test]
fn unpublished_bytes_are_shared_but_not_committed() {
    let space = TestSpace::new();
    space.put("a.md", "old\n");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"new text\n").unwrap();
    let (other, reader) = open(&space, "a.md", OpenMode::default());
    assert_eq!(node, other);
    assert_eq!(space.vfs.read_node(other, 4, 100).unwrap(), "text\n");
    assert_eq!(space.vfs.attributes(other).unwrap().size, 9);
    assert_eq!(space.text("a.md"), "old\n");
    space.vfs.release(&ann(), reader).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "new text\n");
}

/// Shows: MNT-3
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
fn closing_a_new_file_after_a_disk_error_fails_without_a_name() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    *space.vfs.core.write_error.lock() = Some(svcfs_base::Fault::new(Kind::NoSpace, "no space left"));
    assert_eq!(space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"text").unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(space.vfs.publish(&ann(), node, Durability::Soon).unwrap_err().kind(), Kind::NoSpace);
    // Before the handle is let go of: the kernel tells of that a moment later.
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.md")).unwrap_err().kind(), Kind::NotFound);
    let (.., again) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
    *space.vfs.core.write_error.lock() = None;
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.release(&ann(), again).unwrap();
}

/// Shows: LINT-3
#[test]
fn a_rejected_save_preserves_the_last_version_and_its_own_text() {
    let space = TestSpace::new();
    space.put("a.md", "good\n");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"refuse this").unwrap();
    assert_eq!(space.vfs.publish(&ann(), node, Durability::Soon).unwrap_err().kind(), Kind::Rejected);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "good\n");
    assert_eq!(space.text(".svc/rejected/a.md"), "refuse this");
    assert_eq!(space.vfs.rejection_reason(node).as_deref(), Some("bad word"));
    space.put("b.md", "other");
    let (node, handle) = open(&space, "a.md", EMPTYING);
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"better\n").unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.vfs.rejection_reason(node), None);
    assert!(space.vfs.read(Protocol::Fuse, &at(".svc/rejected/a.md")).is_err());
}

/// Shows: COND-7
#[test]
fn a_partial_write_over_a_foreign_write_is_rejected_and_stored() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let (node, handle) = open(&space, "a.md", WRITING);
    space.vfs.write_node(&ann(), handle, WriteAt::End, b"mine\n").unwrap();
    space.put("a.md", "theirs\n");
    assert_eq!(space.vfs.publish(&ann(), node, Durability::Soon).unwrap_err().kind(), Kind::Conflict);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "theirs\n");
    assert_eq!(space.text(".svc/rejected/a.md"), "one\nmine\n");
}

#[test]
fn a_created_file_is_listed_unpublished_and_removable() {
    let space = TestSpace::new();
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o600).unwrap();
    let listed = space.vfs.entries(&ann(), NodeId::ROOT).unwrap();
    assert!(listed.iter().any(|(entry, _, attributes)| entry.as_str() == "a.md" && attributes.mode == 0o600));
    assert_eq!(space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o600).unwrap_err().kind(), Kind::Exists);
    space.vfs.unlink(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    save(&space, "b.md", "b");
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log(), ["ann|ann: b.md"]);
}

/// Shows: MNT-32
#[test]
fn fallocate_zeroes_a_range_and_extends_only_on_request() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"xxxxxxxx").unwrap();
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

#[test]
fn truncate_by_name_is_saved_immediately_despite_open_readers() {
    let space = TestSpace::new();
    space.put("a.md", "one two\n");
    let (node, reading) = open(&space, "a.md", OpenMode::default());
    let set = SetAttributes { size: Some(3), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, set).unwrap().size, 3);
    space.vfs.wait_committed().unwrap();
    assert_eq!((space.text("a.md").as_str(), space.log()[0].as_str()), ("one", "ann|ann: a.md"));
    assert_eq!(space.vfs.read_node(node, 0, 9).unwrap(), "one");
    space.vfs.release(&eve(), reading).unwrap();
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 2);
}

#[test]
fn a_rewritten_long_file_is_a_new_version_only_if_bytes_differ() {
    let space = TestSpace::new();
    let mut content: Vec<u8> = (b'a'..=b'w').cycle().take(700_000).collect();
    space.put("a.txt", str::from_utf8(&content).unwrap());
    let mut save = |last: u8| {
        *content.last_mut().unwrap() = last;
        let (_, handle) = open(&space, "a.txt", EMPTYING);
        for part in content.chunks(100_001) {
            space.vfs.write_node(&ann(), handle, WriteAt::End, part).unwrap();
        }
        space.vfs.release(&ann(), handle).unwrap();
        space.vfs.wait_applied().unwrap();
        assert_eq!(space.text("a.txt").as_bytes(), content);
        space.log().len()
    };
    let first = b'a' + (699_999 % 23) as u8;
    assert_eq!([first, b'1', b'1', first].map(&mut save), [1, 2, 2, 3]);
}
