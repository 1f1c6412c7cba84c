use super::*;

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
    let left = drafts
        .filter(|draft| draft.as_ref().unwrap().metadata().is_ok_and(|file| file.is_file() && file.len() > 0))
        .count();
    assert_eq!(left, 0, "drafts are taken away");
}

#[test]
fn a_reader_has_a_large_file_at_once_where_it_is_in_memory_and_keeps_it_when_another_takes_its_place() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o644).unwrap();
    space.vfs.write_node(handle, WriteAt::Offset(LARGE), b"end").unwrap();
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.make_link(&ann(), NodeId::ROOT, &name("link"), "a.bin").unwrap();
    let (reader, attributes) = Reader::at(&space.vfs, &ann(), &at("link")).unwrap();
    assert_eq!(attributes.size, LARGE + 3);
    assert_eq!(reader.read(LARGE, 100).unwrap(), "end");
    // Where a disk cannot tell what is in memory, one waits.
    if let Some(at_once) = reader.read_now(LARGE, 100) {
        assert_eq!(at_once, "end");
        assert_eq!(reader.read_now(LARGE + 3, 100), None, "the end is told by who waits");
    }
    space.put("b.md", "text\n");
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &name("b.md")), (NodeId::ROOT, &name("a.bin")), true).unwrap();
    assert_eq!(reader.read(LARGE, 100).unwrap(), "end");
    drop(reader);
    let (reader, _) = Reader::at(&space.vfs, &ann(), &at("a.bin")).unwrap();
    assert_eq!((reader.read_now(0, 5), reader.read(0, 5).unwrap()), (None, "text\n".into()));
    assert_eq!(Reader::at(&space.vfs, &ann(), &at("none")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(Reader::at(&space.vfs, &ann(), &at(".svc")).unwrap_err().kind(), Kind::IsDirectory);
}
