use super::*;

#[test]
fn a_node_follows_its_file_through_file_and_directory_renames() {
    let space = TestSpace::new();
    space.put("d/a.md", "one\n");
    let (directory, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("d")).unwrap();
    let (node, _) = space.vfs.lookup(&ann(), directory, &name("a.md")).unwrap();
    space.vfs.rename_node(&ann(), (directory, &name("a.md")), (directory, &name("b.md")), true).unwrap();
    assert_eq!(space.vfs.path_of(node).unwrap(), at("d/b.md"));
    space.vfs.rename_node(&ann(), (NodeId::ROOT, &name("d")), (NodeId::ROOT, &name("e")), true).unwrap();
    assert_eq!(space.vfs.path_of(node).unwrap(), at("e/b.md"));
    assert_eq!(space.vfs.read_node(node, 0, 10).unwrap(), "one\n");
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log()[..2], ["ann|ann: rename dir d → e", "ann|ann: rename d/a.md → d/b.md"]);
}

#[test]
fn a_listed_node_is_found_only_by_its_current_name() {
    let space = TestSpace::new();
    space.put("d/a.md", "one\n");
    let (directory, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name("d")).unwrap();
    let (node, _) = space.vfs.lookup(&ann(), directory, &name("a.md")).unwrap();
    let found = |directory, name| space.vfs.add_lookup(node, (directory, name));
    assert!(found(directory, "a.md") && !found(directory, "b.md") && !found(NodeId::ROOT, "a.md"));
    space.vfs.rename_node(&ann(), (directory, &name("a.md")), (directory, &name("b.md")), true).unwrap();
    assert!(!found(directory, "a.md") && found(directory, "b.md"));
    space.vfs.unlink(&ann(), directory, &name("b.md")).unwrap();
    assert!(!found(directory, "b.md"), "the kernel may still know it, and nobody by that name");
}

/// Shows: MNT-34
#[test]
fn unsaved_data_in_a_renamed_directory_is_saved_for_its_writer() {
    let space = TestSpace::new();
    let bob = Caller::new(Protocol::Fuse).with_actor(svcfs_base::Actor::new("bob"));
    let (directory, _) = space.vfs.make_directory(&ann(), NodeId::ROOT, &name("d"), 0o755).unwrap();
    space.put("d/b.md", "old\n");
    let (_, _, made) = space.vfs.create(&ann(), directory, &name("a.md"), 0o644).unwrap();
    space.vfs.write_node(&ann(), made, WriteAt::Offset(0), b"text\n").unwrap();
    let (node, _) = space.vfs.lookup_path(&bob, &at("d/b.md")).unwrap();
    let opened = space.vfs.open_node(&bob, node, WRITING).unwrap();
    space.vfs.write_node(&bob, opened, WriteAt::Offset(0), b"new\n").unwrap();
    let root = NodeId::ROOT;
    space.vfs.rename_node(&eve(), (root, &name("d")), (root, &name("e")), true).unwrap();
    space.vfs.wait_applied().unwrap();
    let log = space.log();
    assert_eq!(log[0].split('|').next(), Some("eve"), "the rename is hers: {log:?}");
    assert!(log.iter().any(|line| line.starts_with("ann|") && line.ends_with("d/a.md")), "{log:?}");
    assert!(log.iter().any(|line| line.starts_with("bob|") && line.ends_with("d/b.md")), "{log:?}");
    for handle in [made, opened] {
        space.vfs.release(&ann(), handle).unwrap();
    }
    assert_eq!((space.text("e/a.md"), space.text("e/b.md")), ("text\n".to_owned(), "new\n".to_owned()));
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

/// Shows: MNT-31
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

/// Shows: MNT-11
#[test]
fn an_unlinked_file_lives_on_for_its_handles() {
    let space = TestSpace::new();
    space.put("a.md", "kept\n");
    let (node, handle) = open(&space, "a.md", WRITING);
    space.vfs.unlink(&ann(), NodeId::ROOT, &name("a.md")).unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 10).unwrap(), "kept\n");
    space.vfs.write_node(&ann(), handle, WriteAt::End, b"more\n").unwrap();
    assert_eq!(space.vfs.attributes(node).unwrap().size, 10);
    space.vfs.publish(&ann(), node, Durability::Now).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.vfs.read(Protocol::Http, &at("a.md")).unwrap_err().kind(), Kind::NotFound);
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log()[0], "ann|delete: a.md");
}

/// Shows: MNT-14
#[test]
fn a_removed_directory_stays_as_an_empty_one_for_its_users() {
    let space = TestSpace::new();
    space.vfs.apply(&ann(), Change::MakeDir { path: at("away") }).unwrap();
    for path in ["gone", "over", "away"] {
        if path != "away" {
            space.vfs.make_directory(&ann(), NodeId::ROOT, &name(path), 0o750).unwrap();
        }
        let (node, before) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(path)).unwrap();
        match path {
            "gone" => space.vfs.remove_directory(&ann(), NodeId::ROOT, &name(path)).unwrap(),
            "over" => {
                space.vfs.make_directory(&ann(), NodeId::ROOT, &name("new"), 0o755).unwrap();
                let (from, to) = ((NodeId::ROOT, &name("new")), (NodeId::ROOT, &name(path)));
                space.vfs.rename_node(&ann(), from, to, true).unwrap();
            }
            _ => drop(space.vfs.apply(&eve(), Change::RemoveDir { path: at(path) }).unwrap()),
        }
        let now = space.vfs.attributes(node).unwrap();
        assert_eq!((now.links, now.kind, now.mode), (0, EntryKind::Directory, before.mode), "{path}");
        assert!(space.vfs.entries(&ann(), node).unwrap().is_empty());
        let private = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
        assert_eq!(space.vfs.set_attributes(&ann(), node, private).unwrap().mode, 0o700);
        assert_eq!(space.vfs.attributes(node).unwrap().mode, 0o700);
        assert_eq!(space.vfs.lookup(&ann(), node, &name("a.md")).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(space.vfs.create(&ann(), node, &name("a.md"), 0o644).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(space.vfs.make_directory(&ann(), node, &name("d"), 0o755).unwrap_err().kind(), Kind::NotFound);
        if path != "over" {
            space.vfs.make_directory(&ann(), NodeId::ROOT, &name(path), 0o755).unwrap();
        }
        let (other, there) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(path)).unwrap();
        space.vfs.create(&ann(), other, &name("a.md"), 0o644).unwrap();
        assert!(there.links > 0, "{path}");
        if path == "away" {
            // Nobody said to whom it was open that it went: whoever finds its name finds the same
            // number.
            continue;
        }
        // Its name is another's now, and what is in that one is not in it.
        assert_ne!(other, node, "{path}");
        assert!(space.vfs.entries(&ann(), node).unwrap().is_empty(), "{path}");
        assert_eq!(space.vfs.lookup(&ann(), node, &name("a.md")).unwrap_err().kind(), Kind::NotFound);
        assert_eq!(space.vfs.attributes(node).unwrap().links, 0);
    }
}

/// Shows: MNT-13
#[test]
fn a_looked_up_file_is_readable_after_its_name_was_reused() {
    let space = TestSpace::new();
    for (is_settled, page) in [(true, "a.md"), (false, "b.md")] {
        save(&space, page, "old text\n");
        save(&space, "new", "new\n");
        if is_settled {
            space.vfs.wait_applied().unwrap();
        }
        let (found, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(page)).unwrap();
        space.vfs.rename_node(&ann(), (NodeId::ROOT, &name("new")), (NodeId::ROOT, &name(page)), true).unwrap();
        let handle = space.vfs.open_node(&ann(), found, WRITING).unwrap();
        assert_eq!(space.vfs.read_node(found, 4, 100).unwrap(), "text\n");
        assert_eq!((space.vfs.attributes(found).unwrap().size, space.vfs.attributes(found).unwrap().links), (9, 0));
        let (other, there) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(page)).unwrap();
        assert_eq!((other == found, there.size), (false, 4));
        space.vfs.write_node(&ann(), handle, WriteAt::End, b"more\n").unwrap();
        assert_eq!(space.vfs.read_node(found, 0, 100).unwrap(), "old text\nmore\n");
        space.vfs.publish(&ann(), found, Durability::Now).unwrap();
        space.vfs.release(&ann(), handle).unwrap();
        assert_eq!(space.text(page), "new\n", "what has no name is nobody's version");
        space.vfs.forget(found, 2);
        assert_eq!(space.vfs.attributes(found).unwrap_err().kind(), Kind::Stale, "nobody knows it any more");
    }
}

/// A handle of a page that somebody saved a moment ago.
fn opened(space: &TestSpace, page: &str, is_settled: bool) -> (NodeId, HandleId) {
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at(page), "kept\n")).soon()).unwrap();
    if is_settled {
        space.vfs.wait_applied().unwrap();
    }
    let mut found = NodeId::ROOT;
    for part in page.split('/') {
        found = space.vfs.lookup(&ann(), found, &name(part)).unwrap().0;
    }
    (found, space.vfs.open_node(&ann(), found, WRITING).unwrap())
}

/// Shows: MNT-11
#[test]
fn a_handle_keeps_reading_a_page_removed_or_renamed_elsewhere() {
    let space = TestSpace::new();
    let gone = [Change::remove(at("b.md")), Change::rename(at("b.md"), at("taken.md"))];
    for change in gone {
        for is_settled in [true, false] {
            space.put("taken.md", "taken\n");
            let (found, handle) = opened(&space, "b.md", is_settled);
            space.vfs.apply(&eve(), change.clone()).unwrap();
            assert_eq!(space.vfs.read_node(found, 0, 100).unwrap(), "kept\n", "{change:?}");
            assert_eq!(space.vfs.attributes(found).unwrap().links, 0);
            let listed = space.vfs.entries(&ann(), NodeId::ROOT).unwrap();
            assert!(listed.iter().all(|(_, node, _)| *node != found), "{change:?}");
            // What is written now is no version of a page that is gone, and is not lost either.
            space.vfs.write_node(&ann(), handle, WriteAt::End, b"more\n").unwrap();
            assert_eq!(space.vfs.publish(&ann(), found, Durability::Soon).unwrap_err().kind(), Kind::Conflict);
            space.vfs.release(&ann(), handle).unwrap();
            assert_eq!(space.text(".svc/rejected/b.md"), "kept\nmore\n");
            assert_eq!(space.vfs.attributes(found).unwrap_err().kind(), Kind::NotFound);
        }
    }
}

/// Shows: MNT-12
#[test]
fn a_handle_follows_a_page_renamed_by_another_protocol() {
    let space = TestSpace::new();
    let renames = [("b.md", "b.md", "elsewhere.md"), ("d/page.md", "d", "e")];
    for (page, from, to) in renames {
        for (is_settled, is_written) in [(true, false), (false, false), (true, true), (false, true)] {
            let new = at(page).rebase(&at(from), &at(to)).unwrap();
            let (found, handle) = opened(&space, page, is_settled);
            if is_written {
                space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"K").unwrap();
            }
            space.vfs.apply(&eve(), Change::rename(at(from), at(to))).unwrap();
            assert_eq!(space.vfs.path_of(found).unwrap(), new);
            assert_eq!(space.vfs.attributes(found).unwrap().links, 1);
            assert_eq!(space.vfs.lookup_path(&ann(), &new).unwrap().0, found);
            assert_eq!(space.vfs.lookup_path(&ann(), &at(page)).unwrap_err().kind(), Kind::NotFound);
            space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"K").unwrap();
            space.vfs.write_node(&ann(), handle, WriteAt::End, b"more\n").unwrap();
            space.vfs.publish(&ann(), found, Durability::Soon).unwrap();
            assert_eq!(space.text(new.as_str()), "Kept\nmore\n");
            // Its text is another one by now, where links were rewritten with the rename: to that a
            // part is not added.
            space.vfs.write_node(&ann(), handle, WriteAt::End, b"and more\n").unwrap();
            let back = Change::rename(new.clone(), at(page));
            let rewritten = Change::put(at(page), "rewritten\n");
            space.vfs.apply(&eve(), ChangeSet::new(vec![back, rewritten])).unwrap();
            assert_eq!(space.vfs.publish(&ann(), found, Durability::Soon).unwrap_err().kind(), Kind::Conflict);
            space.vfs.release(&ann(), handle).unwrap();
            assert_eq!(space.text(page), "rewritten\n");
            space.vfs.apply(&eve(), Change::remove(at(page))).unwrap();
            let _ = space.vfs.apply(&eve(), Change::RemoveDir { path: at("e") });
        }
    }
}

#[test]
fn an_unsaved_new_file_is_not_overwritten_by_a_rename_elsewhere() {
    let space = TestSpace::new();
    let (_, renamed) = opened(&space, "a.md", true);
    let (_, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name("b.md"), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), b"mine\n").unwrap();
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("b.md"))).unwrap();
    space.vfs.release(&ann(), renamed).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
    assert_eq!(space.text("b.md"), "mine\n", "the last writer wins, and nothing is lost silently");
}

#[test]
fn readers_of_a_constantly_replaced_name_see_complete_versions() {
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
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.git(&["ls-tree", "HEAD", "l"]).split(' ').next(), Some("120000"));
}

#[test]
fn server_state_is_neither_found_nor_created_through_the_mount() {
    let space = TestSpace::new();
    assert_eq!(space.vfs.lookup(&ann(), NodeId::ROOT, &name(".git")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(space.vfs.create(&ann(), NodeId::ROOT, &name(".git"), 0o644).unwrap_err().kind(), Kind::Forbidden);
    assert_eq!(
        space.vfs.make_directory(&ann(), NodeId::ROOT, &name(".git"), 0o755).unwrap_err().kind(),
        Kind::Forbidden
    );
    let put = svcfs_base::Change::put(at(".svc/config.toml"), "").with_precondition(Precondition::Any);
    space.vfs.apply(&ann(), put).unwrap();
    assert_eq!(space.vfs.read(Protocol::Http, &at(".svc/config.toml")).unwrap_err().kind(), Kind::NotFound);
    assert!(space.vfs.apply(&eve(), svcfs_base::Change::remove(at(".svc/config.toml"))).is_err());
}
