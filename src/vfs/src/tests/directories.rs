//! A directory renamed together with writes: how links are led to its new name in the same commit.

use super::faults::opened;
use super::gathered::NEVER;
use super::*;
use crate::recovery::tests::{crashed, reopened};

fn etag(text: &str) -> Precondition {
    Precondition::OneOf(vec![ETag::from_content(text.as_bytes())])
}

/// Renames `d` to `new/e`, and writes a page in it and one beside it.
fn renamed(space: &TestSpace) -> Result<ApplyResult, Fault> {
    let changes = vec![
        Change::rename(at("d"), at("new/e")).with_precondition(Precondition::Absent),
        Change::put(at("new/e/a.md"), "a, rewritten\n").with_precondition(etag("a\n")),
        Change::put(at("top.md"), "top, rewritten\n").with_precondition(etag("top\n")),
    ];
    space.vfs.apply(&eve(), ChangeSet::new(changes).with_message("eve: rename dir d → new/e"))
}

fn filled(space: TestSpace) -> TestSpace {
    for (path, text) in [("top.md", "top\n"), ("d/a.md", "a\n"), ("d/deep/b.md", "b\n"), ("d/c.txt", "c\n")] {
        space.put(path, text);
    }
    fs::create_dir(space.directory.path().join("d/empty")).unwrap();
    space
}

#[track_caller]
fn assert_renamed(space: &TestSpace) {
    let walked = space.vfs.walk(Protocol::Http, &TreePath::root()).unwrap();
    let paths: Vec<_> = walked.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(paths, ["new/e/a.md", "new/e/c.txt", "new/e/deep/b.md", "top.md"]);
    assert_eq!(space.text("new/e/a.md"), "a, rewritten\n");
    assert_eq!(space.text("new/e/deep/b.md"), "b\n");
    assert_eq!(space.text("top.md"), "top, rewritten\n");
    assert!(space.directory.path().join("new/e/empty").is_dir(), "what history does not have moves along");
    assert!(!space.directory.path().join("d").exists());
}

#[test]
fn a_directory_moves_and_pages_are_written_in_one_commit() {
    let space = filled(TestSpace::new());
    let before = space.log().len();
    let inode =
        |path: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(space.directory.path().join(path)).unwrap());
    let of_file = inode("d/deep/b.md");
    let applied = renamed(&space).unwrap();
    assert_renamed(&space);
    assert_eq!(inode("new/e/deep/b.md"), of_file, "moved, not copied");
    assert_eq!((space.log().len(), space.log()[0].as_str()), (before + 1, "eve|eve: rename dir d → new/e"));
    let rewritten = applied.files.iter().rev().find(|file| file.path.as_str() == "new/e/a.md").unwrap();
    assert_eq!(rewritten.etag, Some(ETag::from_content(b"a, rewritten\n")));
    assert_eq!(space.git(&["show", "HEAD:new/e/a.md"]), "a, rewritten\n");
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD"]).lines().count(), 4);
    space.wait_until("git's index agrees", |space| space.git(&["status", "--porcelain"]).is_empty());
    let commits = space.log().len();
    space.vfs.rescan().unwrap();
    assert_eq!(space.log().len(), commits, "nothing of it is taken for somebody's edit");
}

#[test]
fn directory_renames_work_with_every_version_strategy() {
    for strategy in [VersionStrategy::Snapshots { max_snapshots: None }, VersionStrategy::LogOnly] {
        let space = filled(opened(tempfile::tempdir().unwrap(), strategy));
        renamed(&space).unwrap();
        assert_renamed(&space);
    }
    let space = filled(TestSpace::gathering(NEVER, 50));
    renamed(&space).unwrap();
    assert_renamed(&space);
    space.vfs.wait_committed().unwrap();
    assert_eq!(space.git(&["show", "HEAD:new/e/a.md"]), "a, rewritten\n");
}

#[test]
fn a_refused_page_leaves_the_directory_where_it_is() {
    let space = filled(TestSpace::new());
    let refused = |changes: Vec<Change>| space.vfs.apply(&eve(), ChangeSet::new(changes)).unwrap_err().kind();
    let rename = || Change::rename(at("d"), at("e"));
    assert_eq!(
        refused(vec![rename(), Change::put(at("e/a.md"), "x").with_precondition(etag("other"))]),
        Kind::Conflict
    );
    assert_eq!(refused(vec![rename(), Change::put(at("top.md"), "refuse")]), Kind::Rejected);
    assert_eq!(refused(vec![rename(), Change::put(at("e/fresh.md"), "x")]), Kind::Invalid);
    assert_eq!(refused(vec![rename(), Change::put(at("d/a.md"), "x")]), Kind::Invalid);
    assert_eq!(refused(vec![rename(), Change::remove(at("e/a.md"))]), Kind::Invalid);
    assert_eq!(refused(vec![rename(), Change::rename(at("e"), at("f"))]), Kind::Invalid);
    assert_eq!(refused(vec![rename(), Change::put(at("e"), "x")]), Kind::Invalid);
    assert_eq!(refused(vec![Change::put(at("top.md"), "x"), rename()]), Kind::Invalid);
    assert_eq!((space.text("d/a.md").as_str(), space.text("top.md").as_str()), ("a\n", "top\n"));
    assert_eq!(space.log().len(), 4);
}

#[test]
fn external_edits_are_in_history_before_they_are_overwritten() {
    let space = filled(TestSpace::new());
    let root = space.directory.path();
    fs::write(root.join("top.md"), "edited top\n").unwrap();
    fs::write(root.join("d/a.md"), "edited a\n").unwrap();
    let changes = vec![
        Change::rename(at("d"), at("e")),
        Change::put(at("e/a.md"), "edited a, rewritten\n").with_precondition(etag("edited a\n")),
        Change::put(at("top.md"), "edited top, rewritten\n").with_precondition(etag("edited top\n")),
    ];
    space.vfs.apply(&eve(), ChangeSet::new(changes).with_message("renamed")).unwrap();
    assert_eq!(space.text("e/a.md"), "edited a, rewritten\n");
    assert_eq!(space.text("top.md"), "edited top, rewritten\n");
    assert_eq!(space.log()[0], "eve|renamed");
    assert_eq!(space.git(&["show", "HEAD:top.md"]), "edited top, rewritten\n");
    assert_eq!(space.git(&["show", "HEAD~1:top.md"]), "edited top\n");
    let commits = space.log().len();
    space.vfs.rescan().unwrap();
    assert_eq!(space.log().len(), commits);
}

#[test]
fn after_a_crash_rewritten_pages_are_in_the_renamed_directory() {
    let space = filled(TestSpace::new());
    renamed(&space).unwrap();
    // As if the crash had come between the rename and the pages.
    let directory = crashed(&space);
    fs::write(directory.path().join("new/e/a.md"), "a\n").unwrap();
    fs::write(directory.path().join("top.md"), "top\n").unwrap();
    let space = reopened(directory);
    assert_renamed(&space);
    assert_eq!(space.log()[0], "eve|eve: rename dir d → new/e");
    // As if it had come before.
    let directory = crashed(&space);
    fs::rename(directory.path().join("new/e"), directory.path().join("d")).unwrap();
    fs::write(directory.path().join("d/a.md"), "a\n").unwrap();
    let space = reopened(directory);
    assert_renamed(&space);
}
