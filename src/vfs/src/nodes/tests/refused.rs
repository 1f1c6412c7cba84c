use super::*;

fn publish(space: &TestSpace, handle: HandleId, durability: Durability) -> Result<(), Kind> {
    space.vfs.publish_handle(&ann(), handle, durability).map_err(|fault| fault.kind())
}

fn write(space: &TestSpace, handle: HandleId, at: WriteAt, text: &str) {
    space.vfs.write_node(&ann(), handle, at, text.as_bytes()).unwrap();
}

fn is_kept(space: &TestSpace, path: &str) -> bool {
    space.vfs.read(Protocol::Fuse, &at(&format!(".svc/rejected/{path}"))).is_ok()
}

/// Shows: LINT-7
#[test]
fn a_rejected_save_continues_at_its_offset() {
    for durability in [Durability::Soon, Durability::Now] {
        let space = TestSpace::new();
        space.put("a.md", "the old page, which is longer than what comes\n");
        let (node, handle) = open(&space, "a.md", EMPTYING);
        write(&space, handle, WriteAt::Offset(0), "refuse");
        assert_eq!(publish(&space, handle, durability), Err(Kind::Rejected));
        assert_eq!(space.text("a.md"), "the old page, which is longer than what comes\n");
        write(&space, handle, WriteAt::Offset(5), "ry of sugar\n");
        assert_eq!(publish(&space, handle, durability), Ok(()));
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.text("a.md"), "refusry of sugar\n", "{durability:?}");
        assert_eq!(space.vfs.rejection_reason(node), None);
        assert!(!is_kept(&space, "a.md"), "it was accepted");
    }
}

#[test]
fn a_new_page_continued_after_rejection_is_saved_completely() {
    let space = TestSpace::new();
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o640).unwrap();
    write(&space, handle, WriteAt::Offset(0), "refuse");
    assert_eq!(publish(&space, handle, Durability::Soon), Err(Kind::Rejected));
    let set = SetAttributes { size: Some(4), handle: Some(handle), ..SetAttributes::default() };
    let (node, set) = (space.vfs.nodes.handle(handle).unwrap().node, set);
    space.vfs.set_attributes(&ann(), node, set).unwrap();
    write(&space, handle, WriteAt::End, "rence\n");
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "refurence\n");
}

/// Shows: LINT-7
#[test]
fn opening_a_page_after_a_rejected_close_reads_the_stored_page() {
    let space = TestSpace::new();
    space.put("a.md", "good\n");
    let (_, refused) = open(&space, "a.md", EMPTYING);
    write(&space, refused, WriteAt::Offset(0), "refuse this\n");
    assert_eq!(publish(&space, refused, Durability::Soon), Err(Kind::Rejected));
    // The kernel lets go of the first one a moment after its program was told.
    let (node, handle) = open(&space, "a.md", WRITING);
    assert_eq!(space.vfs.read_node(node, 0, 100).unwrap(), "good\n");
    write(&space, handle, WriteAt::End, "better\n");
    let late = space.vfs.write_node(&ann(), refused, WriteAt::End, b"late\n").unwrap_err();
    assert_eq!(late.kind(), Kind::Conflict, "what was refused is not mixed with what others write");
    assert_eq!(publish(&space, refused, Durability::Soon), Err(Kind::Conflict));
    assert_eq!(publish(&space, handle, Durability::Soon), Ok(()));
    space.vfs.release(&ann(), refused).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "good\nbetter\n");
}

#[test]
fn rejected_content_is_dropped_with_its_last_writing_handle() {
    for durability in [Durability::Soon, Durability::Now] {
        let space = TestSpace::new();
        space.put("a.md", "good\n");
        let (node, reader) = open(&space, "a.md", OpenMode::default());
        let (_, handle) = open(&space, "a.md", WRITING);
        write(&space, handle, WriteAt::End, "refuse\n");
        assert_eq!(publish(&space, handle, durability), Err(Kind::Rejected));
        let _ = space.vfs.release(&ann(), handle);
        assert_eq!(space.vfs.read_node(node, 0, 100).unwrap(), "good\n");
        let (_, next) = open(&space, "a.md", WRITING);
        write(&space, next, WriteAt::End, "better\n");
        space.vfs.release(&ann(), reader).unwrap();
        space.vfs.release(&ann(), next).unwrap();
        assert_eq!(space.text("a.md"), "good\nbetter\n");
    }
}

/// Shows: COND-8
#[test]
fn a_conflicting_save_stays_rejected_and_its_text_set_aside() {
    for durability in [Durability::Soon, Durability::Now] {
        let space = TestSpace::new();
        space.put("a.md", "one\n");
        let (node, handle) = open(&space, "a.md", WRITING);
        write(&space, handle, WriteAt::End, "mine\n");
        space.put("a.md", "theirs\n");
        assert_eq!(publish(&space, handle, durability), Err(Kind::Conflict));
        assert_eq!(space.vfs.read_node(node, 0, 100).unwrap(), "theirs\n");
        write(&space, handle, WriteAt::Offset(9), "more\n");
        assert_eq!(publish(&space, handle, durability), Err(Kind::Conflict));
        assert_eq!(publish(&space, handle, Durability::Soon), Err(Kind::Conflict));
        let _ = space.vfs.release(&ann(), handle);
        assert_eq!(space.text("a.md"), "theirs\n");
        assert_eq!(space.text(".svc/rejected/a.md"), "one\nmine\nmore\n");
        // Who empties the file writes all of it.
        let (_, handle) = open(&space, "a.md", WRITING);
        write(&space, handle, WriteAt::End, "mine\n");
        space.put("a.md", "theirs again\n");
        assert_eq!(publish(&space, handle, durability), Err(Kind::Conflict));
        let empty = SetAttributes { size: Some(0), handle: Some(handle), ..SetAttributes::default() };
        space.vfs.set_attributes(&ann(), node, empty).unwrap();
        write(&space, handle, WriteAt::Offset(0), "all mine\n");
        assert_eq!(publish(&space, handle, durability), Ok(()));
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.text("a.md"), "all mine\n");
    }
}

#[test]
fn writes_after_a_partial_disk_error_do_not_reach_the_old_page() {
    let space = TestSpace::new();
    space.put("a.md", "the old page\n");
    let (_, handle) = open(&space, "a.md", EMPTYING);
    write(&space, handle, WriteAt::Offset(0), "one\n");
    *space.vfs.core.write_error.lock() = Some(svcfs_base::Fault::new(Kind::NoSpace, "no space left"));
    assert_eq!(space.vfs.write_node(&ann(), handle, WriteAt::Offset(4), b"two\n").unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(publish(&space, handle, Durability::Soon), Err(Kind::NoSpace));
    *space.vfs.core.write_error.lock() = None;
    write(&space, handle, WriteAt::Offset(4), "two\n");
    assert_eq!(publish(&space, handle, Durability::Soon), Ok(()));
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "one\ntwo\n");
}

fn refuse(space: &TestSpace, path: &str) {
    let (node, _) = space.vfs.lookup_path(&ann(), &at(path)).unwrap();
    let handle = space.vfs.open_node(&ann(), node, EMPTYING).unwrap();
    write(space, handle, WriteAt::Offset(0), "refuse this\n");
    assert_eq!(publish(space, handle, Durability::Soon), Err(Kind::Rejected));
    space.vfs.release(&ann(), handle).unwrap();
}

/// Shows: LINT-5
#[test]
fn rejected_content_is_readable_by_readers_of_its_page() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let space = TestSpace::new();
    let root = space.directory.path();
    let own = std::fs::metadata(root).unwrap().uid();
    let owner = if own == 0 { 12345 } else { own };
    for page in ["a.md", "private.md", "d/e/deep.md"] {
        space.put(page, "good\n");
    }
    space.vfs.wait_applied().unwrap();
    let set = |path: &str, mode| {
        std::fs::set_permissions(root.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
        chown(root.join(path), Some(owner), None).unwrap();
    };
    set("private.md", 0o600);
    set("d", 0o700);
    let of = |path: &str| {
        let there = std::fs::metadata(root.join(".svc/rejected").join(path)).unwrap();
        (there.mode() & 0o7777, there.uid())
    };
    refuse(&space, "a.md");
    refuse(&space, "private.md");
    refuse(&space, "d/e/deep.md");
    assert_eq!(of("a.md").0, 0o644);
    assert_eq!(of("private.md"), (0o600, owner));
    assert_eq!(of("d"), (0o700, owner), "who may not look into the folder does not see the text either");
    // The same after somebody closed the page.
    set("a.md", 0o640);
    refuse(&space, "a.md");
    assert_eq!(of("a.md"), (0o640, owner));
    // A page that is new has the bits that it would have had.
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("new.md"), 0o600).unwrap();
    write(&space, handle, WriteAt::Offset(0), "refuse this\n");
    assert_eq!(publish(&space, handle, Durability::Soon), Err(Kind::Rejected));
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(of("new.md").0, 0o600);
    // There is no page yet that could say why.
    let (kept, _) = space.vfs.lookup_path(&ann(), &at(".svc/rejected/new.md")).unwrap();
    assert_eq!(space.vfs.rejection_reason(kept).as_deref(), Some("bad word"));
}

/// Shows: LINT-5
#[test]
fn rejected_content_can_be_removed_by_removers_of_its_page() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let space = TestSpace::new();
    let root = space.directory.path();
    let of = |path: &str| std::fs::metadata(root.join(path)).map(|there| (there.mode() & 0o7777, there.uid())).unwrap();
    std::fs::create_dir(root.join("all")).unwrap();
    for (directory, mode) in [("", 0o777), ("all", 0o1777)] {
        std::fs::set_permissions(root.join(directory), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    for page in ["a.md", "all/b.md"] {
        space.put(page, "good\n");
        refuse(&space, page);
    }
    assert_eq!((of(".svc/rejected"), of(".svc/rejected/all")), (of(""), of("all")));
    assert_eq!((of("").0, of("all").0), (0o777, 0o1777));
}

#[test]
fn a_save_rejected_on_last_close_leaves_only_its_content() {
    let space = TestSpace::new();
    space.put("a.md", "good\n");
    let (node, handle) = open(&space, "a.md", WRITING);
    write(&space, handle, WriteAt::Offset(0), "refuse");
    assert_eq!(space.vfs.release(&ann(), handle).unwrap_err().kind(), Kind::Rejected);
    assert!(space.vfs.nodes.shared(node).unwrap().lock().detached.is_none());
    assert!(is_kept(&space, "a.md"));
}

/// Shows: LINT-6
#[test]
fn rejected_content_ends_with_the_next_accepted_write_of_a_page() {
    let mut space = TestSpace::new();
    space.put("a.md", "good\n");
    let node = space.vfs.lookup_path(&ann(), &at("a.md")).unwrap().0;
    let other = |text: &str| Change::put(at("a.md"), text.to_owned());
    let writes: [&dyn Fn(&TestSpace); 4] = [
        &|space| drop(space.put("a.md", "of HTTP\n")),
        &|space| drop(space.put("a.md", "of HTTP\n")),
        &|space| drop(space.vfs.apply(&eve(), ChangeSet::from(other("accepted\n")).soon()).unwrap()),
        &|space| {
            space.put("b.md", "another\n");
            space.vfs.apply(&eve(), Change::rename(at("b.md"), at("a.md"))).unwrap();
        },
    ];
    for (number, write) in writes.iter().enumerate() {
        refuse(&space, "a.md");
        assert_eq!(space.vfs.rejection_reason(node).as_deref(), Some("bad word"));
        assert!(space.vfs.rejected_text(&at("a.md")).unwrap().is_some());
        space.vfs.apply(&eve(), other("refuse this, too\n")).unwrap_err();
        assert!(is_kept(&space, "a.md"), "nothing was accepted");
        write(&space);
        assert!(!is_kept(&space, "a.md"), "{number}");
        assert_eq!(space.vfs.rejected_text(&at("a.md")).unwrap(), None);
        assert_eq!(space.vfs.rejection_reason(node), None);
    }
    // Also of a server that was there before.
    refuse(&space, "a.md");
    space.reopen();
    assert!(is_kept(&space, "a.md"));
    space.put("a.md", "of HTTP once more\n");
    assert!(!is_kept(&space, "a.md"));
}

/// Shows: LINT-6, NFS-4
#[test]
fn unclaimed_rejected_content_expires_after_seven_days() {
    let space = TestSpace::new();
    for page in ["d/a.md", "d/b.md"] {
        let path = at(page);
        let saved = space.vfs.save(&ann(), path, "refuse".into(), svcfs_base::Precondition::Any);
        assert_eq!(saved.map(drop).map_err(|fault| fault.kind()), Err(Kind::Rejected));
    }
    let day = std::time::Duration::from_secs(24 * 3600);
    for (page, days) in [("a.md", 8), ("b.md", 6)] {
        let kept = space.directory.path().join(".svc/rejected/d").join(page);
        let file = std::fs::File::options().write(true).open(kept).unwrap();
        file.set_modified(space.vfs.core.file_time() - day * days).unwrap();
    }
    space.vfs.rescan().unwrap();
    assert_eq!(["d/a.md", "d/b.md"].map(|page| is_kept(&space, page)), [false, true]);
}

/// Shows: LINT-7
#[test]
fn a_refused_text_is_nobodys_but_of_those_who_wrote_it() {
    for durability in [Durability::Soon, Durability::Now] {
        let space = TestSpace::new();
        space.put("a.md", "good\n");
        let (_, other) = open(&space, "a.md", WRITING);
        let (_, handle) = open(&space, "a.md", EMPTYING);
        write(&space, handle, WriteAt::Offset(0), "refuse this\n");
        assert_eq!(publish(&space, handle, durability), Err(Kind::Rejected));
        let _ = space.vfs.release(&ann(), handle);
        write(&space, other, WriteAt::End, "a line\n");
        assert_eq!(publish(&space, other, Durability::Soon), Ok(()));
        space.vfs.release(&ann(), other).unwrap();
        assert_eq!(space.text("a.md"), "good\na line\n", "{durability:?}");
    }
}

/// Shows: LINT-7
#[test]
fn a_handle_never_continues_the_rejected_content_of_another() {
    let space = TestSpace::new();
    space.put("a.md", "the old page\n");
    let (node, first) = open(&space, "a.md", WRITING);
    write(&space, first, WriteAt::Offset(0), "refuse");
    assert_eq!(publish(&space, first, Durability::Soon), Err(Kind::Rejected));
    let (_, second) = open(&space, "a.md", EMPTYING);
    write(&space, second, WriteAt::Offset(0), "refuse another text\n");
    assert_eq!(publish(&space, second, Durability::Soon), Err(Kind::Rejected));
    let late = |at| space.vfs.write_node(&ann(), first, at, b"late").map_err(|fault| fault.kind());
    assert_eq!(late(WriteAt::Offset(6)), Err(Kind::Conflict));
    write(&space, second, WriteAt::Offset(0), "accept");
    assert_eq!(publish(&space, second, Durability::Soon), Ok(()));
    space.vfs.release(&ann(), second).unwrap();
    assert_eq!(late(WriteAt::Offset(6)), Err(Kind::Conflict));
    // Who empties the file writes all of it.
    let empty = SetAttributes { size: Some(0), handle: Some(first), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), node, empty).unwrap();
    assert_eq!(late(WriteAt::Offset(0)), Ok(4));
    space.vfs.release(&ann(), first).unwrap();
    assert_eq!(space.text("a.md"), "late");
}

/// Shows: LINT-7
#[test]
fn truncating_after_a_rejected_fsync_continues_with_own_text() {
    // The kernel empties a file that it opens by its name.
    let by_name = |space: &TestSpace| {
        let (node, handle) = open(space, "a.md", WRITING);
        let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
        space.vfs.set_attributes(&ann(), node, empty).unwrap();
        handle
    };
    let ways: [&dyn Fn(&TestSpace) -> HandleId; 2] = [&|space| open(space, "a.md", EMPTYING).1, &by_name];
    for emptied in ways {
        let space = TestSpace::new();
        space.put("a.md", "the old page\n");
        let (_, first) = open(&space, "a.md", WRITING);
        write(&space, first, WriteAt::Offset(0), "refuse");
        assert_eq!(publish(&space, first, Durability::Now), Err(Kind::Rejected));
        let second = emptied(&space);
        write(&space, second, WriteAt::Offset(0), "refuse");
        assert_eq!(publish(&space, second, Durability::Soon), Err(Kind::Rejected));
        // What is written through the first one would land in a text that is none of its.
        assert_eq!(
            space.vfs.write_node(&ann(), first, WriteAt::Offset(6), b"late").unwrap_err().kind(),
            Kind::Conflict
        );
        write(&space, second, WriteAt::Offset(5), "ry\n");
        assert_eq!(publish(&space, second, Durability::Soon), Ok(()));
        space.vfs.release(&ann(), second).unwrap();
        space.vfs.release(&ann(), first).unwrap();
        assert_eq!(space.text("a.md"), "refusry\n");
    }
}

/// Shows: LINT-7
#[test]
fn page_readers_are_unaffected_by_rejected_writes_of_others() {
    for durability in [Durability::Soon, Durability::Now] {
        let space = TestSpace::new();
        space.put("a.md", "good\n");
        let (_, reader) = open(&space, "a.md", OpenMode::default());
        let (_, idle) = open(&space, "a.md", WRITING);
        let (_, handle) = open(&space, "a.md", WRITING);
        write(&space, handle, WriteAt::End, "refuse");
        assert_eq!(publish(&space, handle, durability), Err(Kind::Rejected));
        for other in [reader, idle] {
            assert_eq!(publish(&space, other, Durability::Soon), Ok(()));
            space.vfs.release(&ann(), other).unwrap();
        }
        write(&space, handle, WriteAt::Offset(10), "ry\n");
        assert_eq!(publish(&space, handle, Durability::Soon), Ok(()));
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.text("a.md"), "good\nrefusry\n", "{durability:?}");
    }
}

#[test]
fn writes_after_a_failed_first_write_do_not_reach_the_old_page() {
    let space = TestSpace::new();
    space.put("a.md", "the old page\n");
    let (node, handle) = open(&space, "a.md", WRITING);
    let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
    space.vfs.set_attributes(&ann(), node, empty).unwrap();
    *space.vfs.core.write_error.lock() = Some(svcfs_base::Fault::new(Kind::NoSpace, "no space left"));
    assert_eq!(space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"one\n").unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(publish(&space, handle, Durability::Soon), Err(Kind::NoSpace));
    *space.vfs.core.write_error.lock() = None;
    write(&space, handle, WriteAt::Offset(0), "one\n");
    assert_eq!(publish(&space, handle, Durability::Soon), Ok(()));
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "one\n");
}

#[test]
fn rejected_mmap_content_belongs_to_all_writers_of_the_file() {
    let space = TestSpace::new();
    space.put("a.md", "the old page\n");
    let (_, mapped) = open(&space, "a.md", WRITING);
    let (_, found) = open(&space, "a.md", WRITING);
    // The kernel writes pages of a mapping through whichever open file it finds.
    write(&space, found, WriteAt::Mapped(0), "refuse");
    assert_eq!(publish(&space, mapped, Durability::Now), Err(Kind::Rejected));
    space.vfs.release(&ann(), found).unwrap();
    write(&space, mapped, WriteAt::Mapped(5), "ry");
    assert_eq!(publish(&space, mapped, Durability::Soon), Ok(()));
    space.vfs.release(&ann(), mapped).unwrap();
    assert_eq!(space.text("a.md"), "refusry page\n");
}

#[test]
fn an_mmap_page_is_accepted_through_a_handle_with_rejected_save() {
    let space = TestSpace::new();
    space.put("a.md", "the old page\n");
    let (node, refused) = open(&space, "a.md", WRITING);
    write(&space, refused, WriteAt::Offset(0), "refuse");
    assert_eq!(publish(&space, refused, Durability::Soon), Err(Kind::Rejected));
    let (_, mapped) = open(&space, "a.md", WRITING);
    write(&space, mapped, WriteAt::Mapped(4), "new");
    write(&space, refused, WriteAt::Mapped(8), "text");
    assert_eq!(publish(&space, mapped, Durability::Soon), Ok(()));
    assert_eq!(space.text("a.md"), "the new text\n");
    space.vfs.release(&ann(), mapped).unwrap();
    // Nobody is left who could have written this but whoever was refused.
    write(&space, refused, WriteAt::Mapped(2), "-");
    assert_eq!(space.vfs.read_node(node, 0, 6).unwrap(), "re-use");
    let outcome = space.vfs.release(&ann(), refused).map_err(|fault| fault.kind());
    assert_eq!(outcome, Err(Kind::Conflict), "the page was saved since");
}
