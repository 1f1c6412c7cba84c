//! Edits behind the server that meet writes of its own.
#![expect(clippy::disallowed_methods, reason = "edits behind the server are made as a person makes them")]

use std::fs;

use svcfs_base::Change;

use super::sets::submit;
use crate::queue::FileEffect;
use crate::tests::{TestSpace, at, eve};

/// What adoption would record of `a.md` now.
fn seen(space: &TestSpace) -> FileEffect {
    let known = space.vfs.core.versions.current_states(&[&at("a.md")]).unwrap()[0];
    space.vfs.difference(&at("a.md"), known).unwrap().unwrap()
}

#[test]
fn an_overwritten_external_edit_is_recorded_once_and_below() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    fs::write(space.directory.path().join("a.md"), "behind").unwrap();
    let (seen, at_look) = (seen(&space), space.vfs.core.log.last_seq());
    space.put("a.md", "two");
    let answer = submit(&space.vfs.core, vec![seen], at_look).unwrap();
    answer.recv().unwrap().unwrap();
    assert_eq!(space.log(), ["eve|eve: a.md", "fswatch|fswatch: a.md", "eve|eve: a.md"]);
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "two");
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 3);
}

/// Shows: EDIT-11
#[test]
fn that_the_server_looks_at_a_file_is_no_access_of_anybodys() {
    let space = TestSpace::new();
    let file = space.directory.path().join("a.md");
    fs::write(&file, "behind").unwrap();
    // So long ago that any reading would be noted (mount(8), relatime).
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(100_000_000);
    fs::File::options().write(true).open(&file).unwrap().set_times(fs::FileTimes::new().set_accessed(then)).unwrap();
    assert_eq!(space.vfs.adopt(&[at("a.md")]).unwrap(), 1);
    assert_eq!(fs::metadata(&file).unwrap().accessed().unwrap(), then);
}

#[test]
fn a_page_created_and_removed_during_a_scan_is_no_external_edit() {
    let space = TestSpace::new();
    let at_look = space.vfs.core.log.last_seq();
    let before = space.vfs.core.versions.current_states(&[&at("a.md")]).unwrap()[0];
    space.put("a.md", "one");
    let seen = space.vfs.difference(&at("a.md"), before).unwrap().unwrap();
    space.vfs.apply(&eve(), Change::rename(at("a.md"), at("b.md"))).unwrap();
    submit(&space.vfs.core, vec![seen], at_look).unwrap().recv().unwrap().unwrap();
    assert_eq!(space.log(), ["eve|eve: rename a.md → b.md", "eve|eve: a.md"]);
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD"]).lines().last(), Some("b.md"));
}

#[test]
fn an_edit_that_was_noticed_twice_is_one_version() {
    let space = TestSpace::new();
    fs::write(space.directory.path().join("a.md"), "behind").unwrap();
    let at_look = space.vfs.core.log.last_seq();
    let both = [(), ()].map(|()| seen(&space)).into_iter();
    let answers: Vec<_> = both.map(|seen| submit(&space.vfs.core, vec![seen], at_look).unwrap()).collect();
    for answer in answers {
        answer.recv().unwrap().unwrap();
    }
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 1);
    assert_eq!(space.vfs.feed().events_after(svcfs_base::Seq(0), 10).unwrap().len(), 1);
}

#[test]
fn an_external_removal_undone_by_a_write_is_not_recorded() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    fs::remove_file(space.directory.path().join("a.md")).unwrap();
    let (seen, at_look) = (seen(&space), space.vfs.core.log.last_seq());
    space.vfs.apply(&eve(), Change::put(at("a.md"), "two")).unwrap();
    submit(&space.vfs.core, vec![seen], at_look).unwrap().recv().unwrap().unwrap();
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "two");
}

#[test]
fn an_index_blocked_by_a_lock_is_updated_by_the_next_opening() {
    let mut space = TestSpace::new();
    space.put("a.md", "one");
    space.reopen();
    fs::write(space.directory.path().join("staged by hand.md"), "mine").unwrap();
    space.git(&["add", "staged by hand.md"]);
    let lock = space.directory.path().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    space.put("a.md", "two");
    space.vfs.close().unwrap();
    fs::remove_file(&lock).unwrap();
    assert!(space.git(&["status", "--porcelain"]).contains("a.md"), "the lock kept it behind");
    space.reopen();
    space.vfs.close().unwrap();
    assert_eq!(space.git(&["status", "--porcelain"]), "");
}

#[test]
fn gitignored_files_are_versioned_only_when_tracked() {
    let space = TestSpace::new();
    space.put("written.log", "one\n");
    space.put(".gitignore", "*.log\n");
    fs::write(space.directory.path().join("behind.log"), "edited\n").unwrap();
    assert_eq!(space.vfs.rescan().unwrap(), 0);
    fs::write(space.directory.path().join("written.log"), "two\n").unwrap();
    assert_eq!(space.vfs.rescan().unwrap(), 1, "what history has is followed");
    assert_eq!(space.git(&["ls-tree", "-r", "--name-only", "HEAD"]), ".gitignore\nwritten.log\n");
    assert_eq!(space.git(&["show", "HEAD:written.log"]), "two\n");
}
