use super::*;

fn publish(space: &TestSpace, handle: HandleId, durability: Durability) -> Result<(), Kind> {
    space.vfs.publish_opened(&ann(), handle, durability).map_err(|fault| fault.kind())
}

fn write(space: &TestSpace, handle: HandleId, at: WriteAt, text: &str) {
    space.vfs.write_node(handle, at, text.as_bytes()).unwrap();
}

fn is_kept(space: &TestSpace, path: &str) -> bool {
    space.vfs.read(Door::Fuse, &at(&format!(".svc/rejected/{path}"))).is_ok()
}

#[test]
fn a_save_that_goes_on_after_it_was_refused_goes_on_where_it_was() {
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
        assert_eq!(space.vfs.refusal(node), None);
        assert!(!is_kept(&space, "a.md"), "it was accepted");
    }
}

#[test]
fn a_new_page_that_goes_on_after_it_was_refused_is_saved_whole() {
    let space = TestSpace::new();
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o640).unwrap();
    write(&space, handle, WriteAt::Offset(0), "refuse");
    assert_eq!(publish(&space, handle, Durability::Soon), Err(Kind::Rejected));
    let set = SetAttributes { size: Some(4), through: Some(handle), ..SetAttributes::default() };
    let (node, set) = (space.vfs.nodes.handle(handle).unwrap().node, set);
    space.vfs.set_attributes(&ann(), node, set).unwrap();
    write(&space, handle, WriteAt::End, "rence\n");
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "refurence\n");
}

#[test]
fn whoever_opens_a_page_after_a_refused_close_has_the_page() {
    let space = TestSpace::new();
    space.put("a.md", "good\n");
    let (_, refused) = open(&space, "a.md", EMPTYING);
    write(&space, refused, WriteAt::Offset(0), "refuse this\n");
    assert_eq!(publish(&space, refused, Durability::Soon), Err(Kind::Rejected));
    // The kernel lets go of the first one a moment after its program was told.
    let (node, handle) = open(&space, "a.md", WRITING);
    assert_eq!(space.vfs.read_node(node, 0, 100).unwrap(), "good\n");
    write(&space, handle, WriteAt::End, "better\n");
    let late = space.vfs.write_node(refused, WriteAt::End, b"late\n").unwrap_err();
    assert_eq!(late.kind(), Kind::Conflict, "what was refused is not mixed with what others write");
    assert_eq!(publish(&space, refused, Durability::Soon), Err(Kind::Conflict));
    assert_eq!(publish(&space, handle, Durability::Soon), Ok(()));
    space.vfs.release(&ann(), refused).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "good\nbetter\n");
}

#[test]
fn a_refused_text_is_let_go_with_the_last_that_wrote_it_though_others_read_on() {
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

#[test]
fn a_save_that_lost_a_race_stays_lost_and_its_text_kept_whatever_is_written_after() {
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
        let empty = SetAttributes { size: Some(0), through: Some(handle), ..SetAttributes::default() };
        space.vfs.set_attributes(&ann(), node, empty).unwrap();
        write(&space, handle, WriteAt::Offset(0), "all mine\n");
        assert_eq!(publish(&space, handle, durability), Ok(()));
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.text("a.md"), "all mine\n");
    }
}

#[test]
fn what_is_written_after_the_disk_refused_a_part_does_not_land_in_the_old_page() {
    let space = TestSpace::new();
    space.put("a.md", "the old page\n");
    let (_, handle) = open(&space, "a.md", EMPTYING);
    write(&space, handle, WriteAt::Offset(0), "one\n");
    *space.vfs.core.trouble.lock() = Some(svcfs_base::Fault::new(Kind::NoSpace, "no space left"));
    assert_eq!(space.vfs.write_node(handle, WriteAt::Offset(4), b"two\n").unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(publish(&space, handle, Durability::Soon), Err(Kind::NoSpace));
    *space.vfs.core.trouble.lock() = None;
    write(&space, handle, WriteAt::Offset(4), "two\n");
    assert_eq!(publish(&space, handle, Durability::Soon), Ok(()));
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "one\ntwo\n");
}
