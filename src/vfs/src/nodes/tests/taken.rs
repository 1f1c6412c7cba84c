//! Refused texts that a door takes out of their file.

use super::*;

fn write(space: &TestSpace, handle: HandleId, at: WriteAt, text: &str) {
    space.vfs.write_node(&ann(), handle, at, text.as_bytes()).unwrap();
}

fn taken(space: &TestSpace, handle: HandleId, durability: Durability) -> RejectedText {
    match space.vfs.publish_or_detach(&ann(), handle, durability) {
        Err((fault, Some(RejectedBuffer::Detached(text)))) if fault.kind() == Kind::Rejected => text,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn extracted_rejected_content_leaves_the_page_and_continues() {
    for durability in [Durability::Soon, Durability::Now] {
        let space = TestSpace::new();
        space.put("a.md", "good\n");
        let (node, handle) = open(&space, "a.md", WRITING);
        write(&space, handle, WriteAt::Offset(0), "refuse");
        let text = taken(&space, handle, durability);
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!((text.length(), text.read(1, 100).unwrap()), (6, "efuse".into()));
        assert_eq!(space.vfs.read_node(node, 0, 100).unwrap(), "good\n");
        let (_, handle) = open(&space, "a.md", WRITING);
        assert!(space.vfs.reattach(handle, text).unwrap().is_some(), "it began from the page");
        write(&space, handle, WriteAt::Offset(5), "ry of sugar\n");
        space.vfs.publish_or_detach(&ann(), handle, durability).unwrap();
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.text("a.md"), "refusry of sugar\n", "{durability:?}");
    }
}

#[test]
fn extracted_content_does_not_overwrite_a_later_foreign_write() {
    let space = TestSpace::new();
    space.put("a.md", "good\n");
    let (_, handle) = open(&space, "a.md", WRITING);
    write(&space, handle, WriteAt::Offset(0), "refuse");
    let text = taken(&space, handle, Durability::Soon);
    space.vfs.release(&ann(), handle).unwrap();
    space.put("a.md", "theirs\n");
    let (_, handle) = open(&space, "a.md", WRITING);
    space.vfs.reattach(handle, text).unwrap();
    write(&space, handle, WriteAt::Offset(0), "accept");
    let (fault, _left) = space.vfs.publish_or_detach(&ann(), handle, Durability::Now).unwrap_err();
    assert_eq!(fault.kind(), Kind::Conflict);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!([space.text("a.md"), space.text(".svc/rejected/a.md")], ["theirs\n", "accept"]);
}

#[test]
fn rejected_content_of_two_handles_is_extracted_for_one_only() {
    let space = TestSpace::new();
    space.put("a.md", "good\n");
    let (_, one) = open(&space, "a.md", EMPTYING);
    let (_, other) = open(&space, "a.md", WRITING);
    write(&space, one, WriteAt::End, "ref");
    write(&space, other, WriteAt::End, "use\n");
    let text = taken(&space, other, Durability::Soon);
    assert_eq!(text.read(0, 100).unwrap(), "refuse\n");
    space.vfs.release(&ann(), other).unwrap();
    write(&space, one, WriteAt::Offset(0), "accept");
    let (_, third) = open(&space, "a.md", WRITING);
    let (fault, text) = space.vfs.reattach(third, text).unwrap_err();
    assert_eq!((fault.kind(), text.length()), (Kind::Conflict, 7), "somebody writes the file");
    space.vfs.publish_handle(&ann(), one, Durability::Soon).unwrap();
    [one, third].into_iter().for_each(|handle| space.vfs.release(&ann(), handle).unwrap());
    assert_eq!(space.text("a.md"), "accept\n");
}

#[test]
fn rejected_content_of_a_never_saved_file_stays_in_place() {
    for durability in [Durability::Soon, Durability::Now] {
        let space = TestSpace::new();
        let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.md"), 0o644).unwrap();
        write(&space, handle, WriteAt::Offset(0), "refuse\n");
        let refused = space.vfs.publish_or_detach(&ann(), handle, durability).unwrap_err();
        assert!(matches!(refused.1, Some(RejectedBuffer::InPlace)), "{refused:?}");
        assert_eq!(space.vfs.attributes(node).unwrap().size, 7, "{durability:?}");
        space.vfs.release(&ann(), handle).unwrap();
        assert!(space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.md")).is_err());
    }
}
