use super::*;

/// A byte more than can be recorded.
const LARGE: u64 = svcfs_base::MAX_FILE_BYTES as u64 + 1;

fn lengthen(space: &TestSpace, node: NodeId, size: u64) {
    let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
    assert_eq!(space.vfs.set_attributes(&ann(), node, set).unwrap().size, size);
}

/// As large as they are; what else is there are files made in advance.
fn drafts(space: &TestSpace) -> usize {
    let files = std::fs::read_dir(space.directory.path().join(".svc/state/tmp")).unwrap();
    files.filter(|draft| draft.as_ref().unwrap().metadata().is_ok_and(|file| file.is_file() && file.len() > 0)).count()
}

#[test]
fn unpublished_data_is_in_memory_within_a_budget_else_on_disk() {
    let space = TestSpace::new();
    let counted = || space.vfs.core.dirty_bytes.get().unwrap().bytes();
    space.put("old.md", "old text\n");
    let (_, handle) = open(&space, "old.md", WRITING);
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"O").unwrap();
    assert_eq!(counted(), 9, "what is changed in part is there as a whole");
    let file = |number: u64| {
        let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name(&format!("{number}.bin")), 0o644).unwrap();
        lengthen(&space, node, LARGE - 1);
        (node, handle)
    };
    let files: Vec<(NodeId, HandleId)> = (0..6).map(file).collect();
    assert_eq!(drafts(&space), 3);
    assert_eq!(counted(), 9 + 3 * (LARGE - 1));
    let (node, last) = files[5];
    space.vfs.write_node(&ann(), last, WriteAt::Offset(0), b"text\n").unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 6).unwrap(), "text\n\0");
    lengthen(&space, node, 5);
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    assert_eq!(space.text("5.bin"), "text\n");
    for number in 0..5 {
        space.vfs.unlink(&ann(), NodeId::ROOT, &name(&format!("{number}.bin"))).unwrap();
    }
    for handle in files.iter().map(|(_, handle)| *handle).chain([handle]) {
        space.vfs.release(&ann(), handle).unwrap();
    }
    files.iter().for_each(|(node, _)| space.vfs.forget(*node, 1));
    assert_eq!((counted(), drafts(&space)), (0, 0));
    assert_eq!(space.text("old.md"), "Old text\n");
}

#[test]
fn unpublished_data_of_all_spaces_shares_one_memory_budget() {
    let unpublished = std::sync::Arc::<crate::DirtyBytes>::default();
    let spaces = [TestSpace::new(), TestSpace::new()];
    for space in &spaces {
        space.vfs.share_dirty_bytes(&unpublished);
        for number in 0..3 {
            let file = name(&format!("{number}.bin"));
            let (node, _, _) = space.vfs.create(&ann(), NodeId::ROOT, &file, 0o644).unwrap();
            lengthen(space, node, LARGE - 1);
        }
    }
    assert_eq!(spaces.each_ref().map(drafts), [0, 2], "four of the longest files, of whatever space");
    assert_eq!(unpublished.bytes(), 4 * (LARGE - 1));
    drop(spaces);
    assert_eq!(unpublished.bytes(), 0);
}

#[test]
fn a_truncated_large_file_spills_to_disk_or_to_memory_if_full() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.txt"), 0o644).unwrap();
    lengthen(&space, node, LARGE);
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(drafts(&space), 0);
    let counted = || space.vfs.core.dirty_bytes.get().map_or(0, |unpublished| unpublished.bytes());
    let (node, handle) = open(&space, "a.txt", EMPTYING);
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"begin").unwrap();
    assert_eq!((drafts(&space), counted()), (1, 0), "though nobody knows yet how long it gets");
    let folder = space.directory.path().join(".svc/state/tmp");
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap());
    let draft = files.filter(|file| file.metadata().unwrap().len() == 5).map(|file| file.path()).next().unwrap();
    // A file that its disk takes nothing of, where the disk can be told so.
    let chattr = |flag: &str| {
        let told = std::process::Command::new("chattr").arg(flag).arg(&draft).output();
        told.is_ok_and(|output| output.status.success())
    };
    let takes_no_more = chattr("+i");
    space.vfs.write_node(&ann(), handle, WriteAt::End, b" and end\n").unwrap();
    if takes_no_more {
        assert!(chattr("-i"));
        assert_eq!(counted(), 14);
    }
    assert_eq!(space.vfs.read_node(node, 0, 100).unwrap(), "begin and end\n");
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.text("a.txt"), "begin and end\n");
    assert_eq!(counted(), 0);
}

/// Shows: MNT-23
#[test]
fn a_file_too_large_to_record_is_only_on_disk_from_the_start() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o640).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"begin").unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(LARGE), b"end").unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::End, b"!").unwrap();
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
    space.vfs.write_node(&ann(), other, WriteAt::Offset(0), b"BEGIN").unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 5).unwrap(), "BEGIN");
    lengthen(&space, node, LARGE + 2);
    assert_eq!(space.vfs.seek_node(node, 1 << 20, true).unwrap(), Some(1 << 20));
    assert!(space.vfs.seek_node(node, 1 << 20, false).unwrap().is_some_and(|data| data > 1 << 20));
    assert_eq!(space.vfs.seek_node(node, LARGE + 2, false).unwrap(), None);
    for handle in [handle, other] {
        space.vfs.release(&ann(), handle).unwrap();
    }
    assert_eq!(space.vfs.read_node(node, LARGE, 100).unwrap(), "en");
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.vfs.last_seq(), svcfs_base::Seq(0), "history has not heard of it");
}

/// Shows: MNT-25
#[test]
fn an_oversized_page_leaves_history_and_returns_when_truncated() {
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
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"new\n").unwrap();
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("a.md"), "new\n");
    assert_eq!(space.log().len(), 5, "{:?}", space.log());
}

#[test]
fn a_large_file_is_rewritten_over_itself() {
    let space = TestSpace::new();
    for content in ["first", "again", "third"] {
        let (node, handle) = match content {
            "first" => {
                space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o640).map(|made| (made.0, made.2)).unwrap()
            }
            _ => open(&space, "a.bin", EMPTYING),
        };
        space.vfs.write_node(&ann(), handle, WriteAt::Offset(LARGE), content.as_bytes()).unwrap();
        space.vfs.publish(&ann(), node, Durability::Now).unwrap();
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.vfs.read_node(node, LARGE - 1, 100).unwrap(), format!("\0{content}"));
        assert_eq!(space.vfs.attributes(node).unwrap().mode & 0o777, 0o640);
    }
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.vfs.last_seq(), svcfs_base::Seq(0), "history has not heard of it");
}

/// Shows: MNT-24
#[test]
fn a_large_file_is_renamed_replaced_and_removed_like_any_other() {
    let space = TestSpace::new();
    space.put("page.md", "text\n");
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o644).unwrap();
    lengthen(&space, node, LARGE);
    let rename = |from: &str, to: &str| {
        let (from, to) = (name(from), name(to));
        space.vfs.rename_node(&ann(), (NodeId::ROOT, &from), (NodeId::ROOT, &to), true)
    };
    assert_eq!(space.vfs.read(Protocol::Http, &at("page.md")).unwrap().content, "text\n");
    rename("a.bin", "page.md").unwrap();
    assert_eq!(space.vfs.read(Protocol::Http, &at("page.md")).unwrap_err().kind(), Kind::TooLarge);
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name("page.md")).unwrap().1.size, LARGE);
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name("a.bin")).unwrap_err().kind(), Kind::NotFound);
    space.put("small.md", "small\n");
    rename("small.md", "page.md").unwrap();
    assert_eq!(space.text("page.md"), "small\n");
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"alive").unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 5).unwrap(), "alive");
    assert_eq!(space.vfs.attributes(node).unwrap().links, 0);
    space.vfs.release(&ann(), handle).unwrap();
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("b.bin"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(LARGE), b"end").unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.unlink(&ann(), NodeId::ROOT, &name("b.bin")).unwrap();
    assert!(!space.directory.path().join("b.bin").exists());
    assert_eq!(drafts(&space), 0, "drafts are taken away");
}

#[test]
fn a_reader_has_a_cached_large_file_immediately_and_keeps_it() {
    let space = TestSpace::new();
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(LARGE), b"end").unwrap();
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    space.vfs.make_link(&ann(), NodeId::ROOT, &name("link"), "a.bin").unwrap();
    let (reader, attributes) = FileReader::open_path(&space.vfs, &ann(), &at("link")).unwrap();
    assert_eq!(attributes.size, LARGE + 3);
    assert_eq!(reader.read(LARGE, 100).unwrap(), "end");
    // Where a disk cannot tell what is in memory, one waits.
    if let Some(at_once) = reader.try_read_cached(LARGE, 100) {
        assert_eq!(at_once, "end");
        assert_eq!(reader.try_read_cached(LARGE + 3, 100), None, "the end is told by who waits");
    }
    space.put("b.md", "text\n");
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &name("b.md")), (NodeId::ROOT, &name("a.bin")), true).unwrap();
    assert_eq!(reader.read(LARGE, 100).unwrap(), "end");
    drop(reader);
    let (reader, _) = FileReader::open_path(&space.vfs, &ann(), &at("a.bin")).unwrap();
    assert_eq!((reader.try_read_cached(0, 5), reader.read(0, 5).unwrap()), (None, "text\n".into()));
    assert_eq!(FileReader::open_path(&space.vfs, &ann(), &at("none")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(FileReader::open_path(&space.vfs, &ann(), &at(".svc")).unwrap_err().kind(), Kind::IsDirectory);
}

fn stands(space: &TestSpace, path: &str) -> Precondition {
    let (node, attributes) = space.vfs.lookup_path(&ann(), &at(path)).unwrap();
    space.vfs.forget(node, 1);
    Precondition::Large(attributes.large_file().unwrap())
}

/// A large file under a name.
fn large(space: &TestSpace, file: &str, size: u64) {
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name(file), 0o644).unwrap();
    lengthen(space, node, size);
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
}

#[test]
fn a_large_file_is_replaced_or_removed_only_if_unchanged() {
    let space = TestSpace::new();
    let rename = |from: &str, expect: Precondition| {
        let (old, new) = (name(from), name("film.bin"));
        space.vfs.rename_node_expecting(&ann(), (NodeId::ROOT, &old), (NodeId::ROOT, &new), (expect, Durability::Soon))
    };
    let put = |expect: Precondition| {
        space.vfs.apply(&eve(), Change::put(at("film.bin"), "small\n").with_precondition(expect))
    };
    let remove =
        |expect: Precondition| space.vfs.apply(&eve(), Change::remove(at("film.bin")).with_precondition(expect));
    large(&space, "film.bin", LARGE);
    let first = stands(&space, "film.bin");
    large(&space, "next.bin", LARGE + 1);
    assert_eq!(rename("next.bin", Precondition::Absent).unwrap_err().kind(), Kind::Exists);
    rename("next.bin", first.clone()).unwrap();
    let second = stands(&space, "film.bin");
    assert_ne!(first, second);
    // Whoever looked at the first one is late, whatever they do.
    large(&space, "late.bin", LARGE + 2);
    space.put("late.md", "late\n");
    assert_eq!(rename("late.bin", first.clone()).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(rename("late.md", first.clone()).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(put(first.clone()).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(put(Precondition::Absent).unwrap_err().kind(), Kind::PreconditionFailed);
    assert_eq!(
        put(Precondition::OneOf(vec![svcfs_base::ETag::from_content(b"x")])).unwrap_err().kind(),
        Kind::Conflict
    );
    assert_eq!(remove(first).unwrap_err().kind(), Kind::Conflict);
    assert_eq!(stands(&space, "film.bin"), second);
    put(second.clone()).unwrap();
    assert_eq!(space.text("film.bin"), "small\n");
    assert_eq!(rename("late.bin", second.clone()).unwrap_err().kind(), Kind::Conflict, "a page is no large file");
    assert_eq!(space.text("film.bin"), "small\n");
    rename("late.bin", Precondition::OneOf(vec![svcfs_base::ETag::from_content(b"small\n")])).unwrap();
    rename("late.md", stands(&space, "film.bin")).unwrap();
    assert_eq!(space.text("film.bin"), "late\n");
    large(&space, "next.bin", LARGE);
    rename("next.bin", Precondition::Any).unwrap();
    remove(stands(&space, "film.bin")).unwrap();
    assert_eq!(remove(second).unwrap_err().kind(), Kind::Conflict);
    assert!(!space.directory.path().join("film.bin").exists());
}

#[test]
fn a_page_edited_while_a_large_file_replaces_it_is_not_lost() {
    let space = TestSpace::new();
    for round in 0..200 {
        let file = format!("{round}.bin");
        space.put(&file, "before\n");
        let (node, handle) = open(&space, &file, EMPTYING);
        lengthen(&space, node, LARGE);
        std::thread::scope(|scope| {
            scope.spawn(|| space.vfs.publish(&ann(), node, Durability::Soon).unwrap());
            for number in 0..3 {
                space.put(&file, &format!("{number}\n"));
            }
        });
        space.vfs.release(&ann(), handle).unwrap();
        space.vfs.wait_applied().unwrap();
        let is_large = std::fs::metadata(space.directory.path().join(&file)).unwrap().len() == LARGE;
        let last = space.log().into_iter().find(|line| line.contains(&file)).unwrap();
        assert_eq!(is_large, last.contains("delete"), "what stands there is what history ends with: {last}");
    }
}

#[test]
fn a_large_file_that_a_refused_write_was_to_replace_stays() {
    let space = TestSpace::new();
    large(&space, "film.bin", LARGE);
    let before = stands(&space, "film.bin");
    space.vfs.apply(&eve(), Change::put(at("film.bin"), vec![0; svcfs_base::MAX_FILE_BYTES + 1])).unwrap_err();
    assert_eq!(stands(&space, "film.bin"), before);
    space.vfs.apply(&eve(), Change::put(at("film.bin"), "small\n")).unwrap();
    assert_eq!(space.text("film.bin"), "small\n");
}

#[test]
fn one_of_several_protocols_replacing_a_large_file_wins() {
    let space = TestSpace::new();
    large(&space, "film.bin", LARGE);
    let expected = stands(&space, "film.bin");
    (0..4).for_each(|number| large(&space, &format!("{number}.bin"), LARGE + 1 + number));
    let wins = std::thread::scope(|scope| {
        let movers = [0, 1, 2, 3].map(|number| {
            let (space, expected) = (&space, expected.clone());
            scope.spawn(move || {
                let (old, new) = (name(&format!("{number}.bin")), name("film.bin"));
                space
                    .vfs
                    .rename_node_expecting(
                        &ann(),
                        (NodeId::ROOT, &old),
                        (NodeId::ROOT, &new),
                        (expected, Durability::Soon),
                    )
                    .is_ok()
            })
        });
        let putters = [0, 1, 2, 3].map(|number| {
            let (space, expected) = (&space, expected.clone());
            scope.spawn(move || {
                let change = Change::put(at("film.bin"), format!("{number}\n")).with_precondition(expected);
                space.vfs.apply(&eve(), change).is_ok()
            })
        });
        let outcomes = movers.into_iter().chain(putters).map(|writer| writer.join().unwrap());
        outcomes.filter(|is_done| *is_done).count()
    });
    assert_eq!(wins, 1);
}

#[test]
fn a_file_expected_to_be_large_is_on_disk_from_the_first_byte() {
    let space = TestSpace::new();
    let counted = || space.vfs.core.dirty_bytes.get().map_or(0, |unpublished| unpublished.bytes());
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("a.bin"), 0o644).unwrap();
    space.vfs.spill_to_disk(handle).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"begin").unwrap();
    assert_eq!((drafts(&space), counted()), (1, 0));
    // What is there is not thrown away.
    space.vfs.spill_to_disk(handle).unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 10).unwrap(), "begin");
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(LARGE), b"end").unwrap();
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    assert_eq!(std::fs::metadata(space.directory.path().join("a.bin")).unwrap().len(), LARGE + 3);
    space.vfs.release(&ann(), handle).unwrap();
    // One that stays short is a version as any other.
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("b.txt"), 0o644).unwrap();
    space.vfs.spill_to_disk(handle).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"short\n").unwrap();
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!((space.text("b.txt").as_str(), drafts(&space)), ("short\n", 0));
    // A file that has a version is no new one.
    let (node, handle) = open(&space, "b.txt", WRITING);
    space.vfs.spill_to_disk(handle).unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 10).unwrap(), "short\n");
    space.vfs.release(&ann(), handle).unwrap();
}
