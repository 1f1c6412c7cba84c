use bytes::Bytes;
use svcfs_base::*;

use super::*;
use crate::tests::space::{TestSpace, at, eve, options};
use crate::{DirectoryEntry, VersionStrategy, VfsOptions};

fn open(space: &TestSpace) -> DraftId {
    space.vfs.open_draft(Actor::new("ann"), 10).unwrap().id
}

fn put(view: &DraftView<'_>, path: &str, text: &str) -> Option<ETag> {
    view.apply(&eve(), Change::put(at(path), text.to_owned())).unwrap()[0].etag
}

fn remove(view: &DraftView<'_>, path: &str) {
    view.apply(&eve(), Change::remove(at(path))).unwrap();
}

fn text(view: &DraftView<'_>, path: &str) -> Result<String, Kind> {
    let read = view.read(Protocol::Http, &at(path)).map_err(|fault| fault.kind())?;
    Ok(String::from_utf8(read.content.to_vec()).unwrap())
}

fn names(entries: Vec<DirectoryEntry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.path.as_str().to_owned()).collect()
}

fn list(view: &DraftView<'_>, path: &str) -> Vec<String> {
    let mut names = names(view.list(Protocol::Http, &at(path)).unwrap());
    names.retain(|name| !name.starts_with('.'));
    names
}

#[test]
fn a_changed_page_is_read_from_the_draft_and_others_from_the_tree() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    space.put("d/b.md", "two\n");
    let view = space.vfs.draft(open(&space)).unwrap();
    put(&view, "a.md", "mine\n");
    put(&view, "new/deep/c.md", "three\n");
    remove(&view, "d/b.md");
    space.put("later.md", "four\n");
    space.put("d/other.md", "five\n");
    assert_eq!(text(&view, "a.md").unwrap(), "mine\n");
    assert_eq!(text(&view, "later.md").unwrap(), "four\n");
    assert_eq!(text(&view, "new/deep/c.md").unwrap(), "three\n");
    assert_eq!(text(&view, "d/b.md").unwrap_err(), Kind::NotFound);
    assert_eq!(text(&view, "new/deep").unwrap_err(), Kind::IsDirectory);
    assert_eq!(list(&view, ""), ["a.md", "d", "later.md", "new"]);
    assert_eq!(list(&view, "d"), ["d/other.md"]);
    assert_eq!(list(&view, "new"), ["new/deep"]);
    remove(&view, "d/other.md");
    assert_eq!(list(&view, ""), ["a.md", "later.md", "new"]);
    let stat = view.stat(Protocol::Http, &at("a.md")).unwrap();
    assert_eq!((stat.size, stat.kind), (5, crate::EntryKind::File));
    assert!(view.stat(Protocol::Http, &at("d/b.md")).is_err());
    assert_eq!(view.stat(Protocol::Http, &at("new")).unwrap().kind, crate::EntryKind::Directory);
    // The tree and its events are unchanged.
    assert_eq!(space.text("a.md"), "one\n");
    assert_eq!(space.text("d/b.md"), "two\n");
    assert!(space.vfs.read(Protocol::Internal, &at("new/deep/c.md")).is_err());
    assert_eq!(space.log().len(), 4);
    // A page with the content of the tree is not changed any more.
    put(&view, "a.md", "one\n");
    remove(&view, "new/deep/c.md");
    put(&view, "d/b.md", "two\n");
    assert_eq!(view.pages().iter().map(|(path, _)| path.as_str().to_owned()).collect::<Vec<_>>(), ["d/other.md"]);
}

#[test]
fn writes_pass_the_checks_of_any_write() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    space.put("d/b.md", "two\n");
    std::os::unix::fs::symlink("a.md", space.directory.path().join("link.md")).unwrap();
    space.vfs.rescan().unwrap();
    let view = space.vfs.draft(open(&space)).unwrap();
    let stamped = put(&view, "new.md", "stamp\n");
    assert_eq!(
        (text(&view, "new.md").unwrap(), stamped),
        ("stamped\n".to_owned(), Some(ETag::from_content(b"stamped\n")))
    );
    put(&view, "link.md", "through\n");
    assert_eq!((text(&view, "a.md"), text(&view, "link.md")), (Ok("through\n".to_owned()), Ok("through\n".to_owned())));
    let old = ETag::from_content(b"one\n");
    let large = Bytes::from(vec![b'x'; MAX_FILE_BYTES + 1]);
    let change = |path: &str, text: &str| Change::put(at(path), text.to_owned());
    for (change, kind) in [
        (change("b.md", "refuse"), Kind::Rejected),
        (change("a.md/b.md", "x"), Kind::NotDirectory),
        (change("new.md/b.md", "x"), Kind::NotDirectory),
        (change("d", "x"), Kind::IsDirectory),
        (change(".hidden/a.md", "x"), Kind::Invalid),
        (change(".svc/state/a.md", "x"), Kind::Invalid),
        (change("a.md", "x").with_precondition(Precondition::OneOf(vec![old])), Kind::Conflict),
        (change("new.md", "x").with_precondition(Precondition::Absent), Kind::PreconditionFailed),
        (Change::put(at("large.bin"), large), Kind::TooLarge),
        (Change::remove(at("missing.md")), Kind::NotFound),
        (Change::remove(at("d")), Kind::IsDirectory),
        (Change::symlink(at("l"), "a.md"), Kind::Invalid),
        (Change::MakeDir { path: at("d") }, Kind::Exists),
        (Change::MakeDir { path: at("a.md/e") }, Kind::NotDirectory),
        (Change::RemoveDir { path: at("d") }, Kind::NotEmpty),
        (Change::rename(at("d"), at("d/e")), Kind::Invalid),
    ] {
        let fault = view.apply(&eve(), change.clone()).unwrap_err();
        assert_eq!(fault.kind(), kind, "{change:?}: {fault}");
    }
    let folder = Caller { permissions: Permissions { folder: Some(at("d")), ..Permissions::FULL }, ..eve() };
    assert_eq!(view.apply(&folder, change("a.md", "x")).unwrap_err().kind(), Kind::Forbidden);
    // All or none.
    let set = ChangeSet::new(vec![change("c.md", "x"), change("b.md", "refuse")]);
    assert!(view.apply(&eve(), set).is_err());
    assert_eq!(text(&view, "c.md").unwrap_err(), Kind::NotFound);
    view.apply(&eve(), Change::rename(at("d"), at("e/f"))).unwrap();
    view.apply(&eve(), Change::rename(at("new.md"), at("a.md"))).unwrap();
    assert_eq!(
        (list(&view, ""), list(&view, "e/f")),
        (vec!["a.md".to_owned(), "e".to_owned(), "link.md".to_owned()], vec!["e/f/b.md".to_owned()])
    );
    assert_eq!(text(&view, "a.md").unwrap(), "stamped\n");
}

#[test]
fn directories_exist_without_files_until_they_are_removed() {
    let mut space = TestSpace::new();
    space.put("d/b.md", "one\n");
    let id = open(&space);
    let fuse = Caller { protocol: Protocol::Fuse, ..eve() };
    let names_now = |space: &TestSpace, path: &str| {
        let mut names = names(space.vfs.draft(id).unwrap().list(Protocol::Fuse, &at(path)).unwrap());
        names.retain(|name| !name.starts_with('.'));
        names.join(" ")
    };
    let make = |path: &str| Change::MakeDir { path: at(path) };
    let remove_dir = |path: &str| Change::RemoveDir { path: at(path) };
    let steps: [(Change, Result<(), Kind>, &str); 14] = [
        (make("e"), Ok(()), "d e"),
        (make("e/f"), Ok(()), "d e"),
        (make("e"), Err(Kind::Exists), "d e"),
        (remove_dir("e"), Err(Kind::NotEmpty), "d e"),
        (Change::rename(at("e"), at("g")), Ok(()), "d g"),
        (remove_dir("g/f"), Ok(()), "d g"),
        (Change::put(at("g/a.md"), "x\n"), Ok(()), "d g"),
        (Change::remove(at("g/a.md")), Ok(()), "d g"),
        (remove_dir("g"), Ok(()), "d"),
        (Change::remove(at("d/b.md")), Ok(()), "d"),
        (remove_dir("d"), Ok(()), ""),
        (remove_dir("d"), Err(Kind::NotFound), ""),
        (make("d"), Ok(()), "d"),
        (make("new"), Ok(()), "d new"),
    ];
    for (change, expected, listed) in steps {
        let outcome = space.vfs.draft(id).unwrap().apply(&fuse, change.clone());
        assert_eq!(outcome.map(drop).map_err(|fault| fault.kind()), expected, "{change:?}");
        assert_eq!(names_now(&space, ""), listed, "{change:?}");
    }
    space.reopen();
    assert_eq!(names_now(&space, ""), "d new");
    assert_eq!(space.text("d/b.md"), "one\n");
}

#[test]
fn a_draft_survives_a_restart_and_has_a_branch() {
    let mut space = TestSpace::new();
    space.put("a.md", "one\n");
    space.put("b.md", "two\n");
    let (id, empty) = (open(&space), open(&space));
    let view = space.vfs.draft(id).unwrap();
    put(&view, "a.md", "mine\n");
    put(&view, "d/c.md", "new\n");
    remove(&view, "b.md");
    put(&view, "a.md~", "scratch\n");
    space.put("later.md", "x\n");
    let (head, branch) = (space.git(&["rev-parse", "HEAD"]), id.branch());
    let difference = |space: &TestSpace| space.git(&["diff", "--name-status", &format!("HEAD...{branch}")]);
    let expected = "M\ta.md\nD\tb.md\nA\td/c.md\n";
    assert_eq!(difference(&space), expected);
    let authors = space.git(&["log", "--format=%an", &format!("HEAD..{branch}")]);
    assert_eq!(authors, "eve\neve\neve\n");
    for damage in ["delete", "rewrite", "nothing"] {
        match damage {
            "delete" => drop(space.git(&["branch", "-D", &branch])),
            "rewrite" => drop(space.git(&["branch", "-f", &branch, "HEAD~1"])),
            _ => {}
        }
        space.reopen();
        assert_eq!(difference(&space), expected, "{damage}");
        let view = space.vfs.draft(id).unwrap();
        assert_eq!(
            (text(&view, "a.md").unwrap(), text(&view, "a.md~").unwrap()),
            ("mine\n".into(), "scratch\n".into())
        );
        assert_eq!(view.pages().len(), 3, "scratch files are no pages");
    }
    // A branch that git deletes is made again with the next write.
    space.git(&["branch", "-D", &branch]);
    put(&space.vfs.draft(id).unwrap(), "d/c.md", "newer\n");
    assert_eq!(difference(&space), expected);
    assert_eq!(space.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(space.git(&["status", "--porcelain"]), "");
    space.vfs.discard_draft(empty).unwrap();
    assert_eq!(space.vfs.discard_draft(empty).unwrap_err().message(), "draft not found");
    // A branch of a person that has such a name stays, also at a commit of the server.
    space.git(&["branch", "draft/00000000"]);
    space.reopen();
    let branches = space.git(&["branch", "--list", "--format=%(refname:short)", "draft/*"]);
    assert_eq!(branches, format!("draft/00000000\n{branch}\n"));
    space.git(&["fsck", "--strict"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a person removes the file behind the server")]
fn branches_stay_when_the_file_of_drafts_is_lost() {
    let mut space = TestSpace::new();
    space.put("a.md", "one\n");
    let id = open(&space);
    put(&space.vfs.draft(id).unwrap(), "a.md", "mine\n");
    let state = space.directory.path().join(".svc/state");
    for name in ["drafts.db", "drafts.db-wal", "drafts.db-shm"] {
        let _may_be_absent = std::fs::remove_file(state.join(name));
    }
    space.reopen();
    assert!(space.vfs.drafts().is_empty());
    assert_eq!(space.git(&["show", &format!("lost-draft/{id}:a.md")]), "mine\n");
    assert_eq!(space.git(&["branch", "--list", "draft/*"]), "");
}

#[test]
fn a_checked_out_branch_is_not_moved() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let id = open(&space);
    space.git(&["symbolic-ref", "HEAD", &format!("refs/heads/{}", id.branch())]);
    let head = space.git(&["rev-parse", "HEAD"]);
    let view = space.vfs.draft(id).unwrap();
    put(&view, "a.md", "mine\n");
    assert_eq!(space.git(&["rev-parse", "HEAD"]), head);
    space.vfs.discard_draft(id).unwrap();
    assert_eq!(space.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn a_draft_outlives_its_base_commit() {
    let mut space = TestSpace::new();
    space.put("a.md", "one\n");
    space.put("b.md", "two\n");
    let id = open(&space);
    put(&space.vfs.draft(id).unwrap(), "a.md", "mine\n");
    // History is rewritten without the commits.
    space.vfs.close().unwrap();
    space.git(&["branch", "-D", &id.branch()]);
    space.git(&["checkout", "-q", "--orphan", "fresh"]);
    space.git(&["-c", "user.name=ann", "-c", "user.email=a@x", "commit", "-qm", "fresh"]);
    let others = space.git(&["for-each-ref", "--format=%(refname)"]);
    for name in others.lines().filter(|name| *name != "refs/heads/fresh") {
        space.git(&["update-ref", "-d", name]);
    }
    space.git(&["reflog", "expire", "--expire=now", "--all"]);
    space.git(&["gc", "-q", "--prune=now"]);
    space.reopen();
    let view = space.vfs.draft(id).unwrap();
    assert_eq!(text(&view, "a.md").unwrap(), "mine\n");
    assert_eq!(view.contents(&at("a.md")).unwrap().base.unwrap(), "one\n");
    put(&view, "b.md", "mine, too\n");
    assert_eq!(space.git(&["show", &format!("{}:b.md", id.branch())]), "mine, too\n");
}

#[test]
fn drafts_are_refused_without_git_a_commit_or_room() {
    let space = TestSpace::new();
    let open = |limit| space.vfs.open_draft(Actor::new("ann"), limit).map_err(|fault| fault.kind()).map(drop);
    assert_eq!(open(1), Err(Kind::Conflict), "no commit");
    space.put("a.md", "one\n");
    assert_eq!((open(2), open(2), open(2)), (Ok(()), Ok(()), Err(Kind::Conflict)));
    assert_eq!(space.vfs.drafts().len(), 2);
    let directory = tempfile::tempdir().unwrap();
    let vfs = crate::Vfs::open(VfsOptions { strategy: VersionStrategy::LogOnly, ..options(directory.path(), false) });
    let fault = vfs.unwrap().open_draft(Actor::new("ann"), 1).unwrap_err();
    assert_eq!(fault.kind(), Kind::Disabled);
}

#[test]
fn accepted_pages_leave_the_draft() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let view = space.vfs.draft(open(&space)).unwrap();
    put(&view, "a.md", "one\ntwo\nthree\n");
    put(&view, "b.md", "new\n");
    put(&view, "c.md~", "scratch\n");
    let accepted =
        |path: &str, base: Option<&'static str>| AcceptedPage { path: at(path), new_base: base.map(Bytes::from) };
    let merge = view.lock_for_merge().unwrap();
    assert!(!merge.accept(vec![accepted("a.md", Some("one\ntwo\n")), accepted("b.md", None)]).unwrap());
    let pages = view.pages();
    assert_eq!((pages.len(), pages[0].1.base), (1, Some(ETag::from_content(b"one\ntwo\n"))));
    assert_eq!(view.contents(&at("a.md")).unwrap().content.unwrap(), "one\ntwo\nthree\n");
    let merge = view.lock_for_merge().unwrap();
    assert!(merge.accept(vec![accepted("a.md", None)]).unwrap());
    assert!(space.vfs.drafts().is_empty());
    assert!(view.lock_for_merge().is_err());
    assert_eq!(view.apply(&eve(), Change::put(at("a.md"), "x")).unwrap_err().kind(), Kind::NotFound);
    assert!(space.vfs.discard_old_drafts(Timestamp::MAX).unwrap().is_empty());
    let id = open(&space);
    assert!(space.vfs.discard_old_drafts(Timestamp::UNIX_EPOCH).unwrap().is_empty());
    assert_eq!(space.vfs.discard_old_drafts(Timestamp::MAX).unwrap(), [id]);
}

/// As after a kill between the commit of a merge and the end of the draft.
#[test]
fn a_page_that_the_tree_has_already_starts_again_from_the_tree() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    space.put("gone.md", "one\n");
    let view = space.vfs.draft(open(&space)).unwrap();
    put(&view, "a.md", "two\n");
    put(&view, "new.md", "two\n");
    remove(&view, "gone.md");
    space.put("a.md", "two\n");
    space.put("new.md", "two\n");
    space.vfs.apply(&eve(), Change::remove(at("gone.md"))).unwrap();
    for name in ["a.md", "new.md", "gone.md"] {
        put(&view, name, "three\n");
    }
    let bases: Vec<_> = view.pages().into_iter().map(|(path, page)| (path.as_str().to_owned(), page.base)).collect();
    let two = Some(ETag::from_content(b"two\n"));
    assert_eq!(bases, [("a.md".to_owned(), two), ("gone.md".to_owned(), None), ("new.md".to_owned(), two)]);
}

/// A set removes directories with what is in them, and may use their names again.
#[test]
fn a_set_removes_a_directory_after_its_files() {
    let space = TestSpace::new();
    space.put("d/e/a.md", "one\n");
    space.put("d/b.md", "two\n");
    let view = space.vfs.draft(open(&space)).unwrap();
    put(&view, "n/c.md", "three\n");
    let dav = Caller::new(Protocol::WebDav);
    let remove_dir = |path: &str| Change::RemoveDir { path: at(path) };
    let is_not_empty = |changes: Vec<Change>| {
        assert_eq!(view.apply(&dav, ChangeSet::new(changes)).unwrap_err().kind(), Kind::NotEmpty);
    };
    is_not_empty(vec![remove_dir("d")]);
    is_not_empty(vec![Change::remove(at("d/b.md")), remove_dir("d")]);
    is_not_empty(vec![Change::remove(at("n/c.md")), Change::put(at("n/d.md"), "x"), remove_dir("n")]);
    let files = ["d/b.md", "d/e/a.md", "n/c.md"].map(|path| Change::remove(at(path)));
    let all = files.into_iter().chain([remove_dir("d/e"), remove_dir("d"), remove_dir("n"), Change::put(at("n"), "x")]);
    view.apply(&dav, ChangeSet::new(all.collect())).unwrap();
    assert_eq!(list(&view, ""), ["n"]);
    assert_eq!(text(&view, "n").unwrap(), "x");
}

/// A write in a draft that names a fence is refused when the claim was lost.
#[test]
fn a_fence_is_honoured_in_a_draft() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let view = space.vfs.draft(open(&space)).unwrap();
    let ann = eve().with_actor(Actor::new("ann"));
    let crate::ClaimAttempt::Started(started) =
        space.vfs.start_claim(&Actor::new("ann"), &at("a.md"), std::time::Duration::from_secs(60)).unwrap()
    else {
        panic!("no one has claimed it");
    };
    let fence = started.confirm().unwrap().fence;
    for (name, claim_fence, path, is_refused) in [
        ("ann", Some(fence), "a.md", false),
        ("ann", Some(fence + 1), "a.md", true),
        ("ann", Some(fence), "b.md", true),
        ("bob", Some(fence), "a.md", true),
        ("bob", None, "a.md", false),
    ] {
        let caller = Caller { claim_fence, actor: Some(Actor::new(name)), ..ann.clone() };
        let written = view.apply(&caller, Change::put(at(path), format!("{name} {claim_fence:?}\n")));
        assert_eq!(written.is_err(), is_refused, "{name} {claim_fence:?} {path}");
    }
}

/// The limit of a draft in pages and bytes; a write that makes it smaller is accepted.
#[test]
fn a_draft_has_a_limited_size() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let view = space.vfs.draft(open(&space)).unwrap();
    let page = |size| DraftPage {
        base: None,
        etag: Some(ETag::from_content(b"x")),
        size,
        author: Actor::new("ann"),
        changed_at: Timestamp::UNIX_EPOCH,
    };
    let fill = |count: usize, size: u64| {
        view.draft.set_pages((0..count).map(|n| (at(&format!("n/{n}.bin")), Some(page(size)))).collect());
    };
    let write = |path: &str, text: &str| view.apply(&eve(), Change::put(at(path), text.to_owned()));
    fill(1023, 1 << 20);
    write("a.md", "some\n").unwrap();
    fill(1024, 1 << 20);
    let refused = write("b.md", "more\n").unwrap_err();
    assert!(refused.kind() == Kind::TooLarge && refused.message().contains("1024 MiB"), "{refused}");
    write("a.md", "1\n").unwrap();
    fill(10_000, 1);
    let refused = write("b.md", "more\n").unwrap_err();
    assert!(refused.kind() == Kind::TooLarge && refused.message().contains("10000 changed pages"), "{refused}");
    write("a.md", "again\n").unwrap();
}
