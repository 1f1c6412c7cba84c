//! What a crash may leave behind, made by copying a running root and taking things away.
#![expect(clippy::disallowed_methods, reason = "a crash is imitated by damaging a copy")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use svcfs_base::{Change, ChangeSet, Door, ETag};
use tempfile::TempDir;

use crate::Vfs;
use crate::tests::{TestSpace, at, eve, options};

/// A copy of the root as a crash would leave it: the log is flushed, nothing was closed.
fn crashed(space: &TestSpace) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let from = format!("{}/.", space.directory.path().display());
    assert!(Command::new("cp").args(["-a", &from]).arg(copy.path()).status().unwrap().success());
    copy
}

fn reopened(directory: TempDir) -> TestSpace {
    let vfs: Arc<Vfs> = Vfs::open(options(directory.path(), false)).unwrap();
    TestSpace { directory, vfs }
}

fn busy_space() -> TestSpace {
    let space = TestSpace::new();
    space.put("kept.md", "settled");
    space.vfs.close().unwrap();
    let TestSpace { directory, vfs } = space;
    drop(vfs);
    let space = reopened(directory);
    space.put("a.md", "one");
    space.put("a.md", "two");
    space.put("d/b.md", "b");
    space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
    space.vfs.apply(&eve(), Change::remove(at("kept.md"))).unwrap();
    let big = "x".repeat(3 << 20);
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("big.txt"), big))).unwrap();
    space
}

fn assert_whole(space: &TestSpace, log: &[String]) {
    assert_eq!(space.text("a.md"), "two");
    assert_eq!(space.text("e/b.md"), "b");
    assert_eq!(space.text("big.txt").len(), 3 << 20);
    assert!(space.vfs.read(Door::Http, &at("kept.md")).is_err());
    assert!(space.vfs.read(Door::Http, &at("d/b.md")).is_err());
    assert_eq!(space.log(), log);
    assert_eq!(space.vfs.versions(&at("a.md")).unwrap().len(), 2);
    assert_eq!(space.vfs.recorded(&at("e/b.md")).unwrap(), Some(ETag::of(b"b")));
    space.git(&["fsck", "--strict"]);
}

fn remove_tree(root: &Path) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match name.as_str() {
            ".git" | ".svc" => {}
            _ if path.is_dir() => fs::remove_dir_all(path).unwrap(),
            _ => fs::remove_file(path).unwrap(),
        }
    }
}

fn remove_loose_objects(root: &Path) {
    for entry in fs::read_dir(root.join(".git/objects")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().len() == 2 {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

#[test]
fn a_crash_after_the_answer_loses_nothing() {
    let space = busy_space();
    assert_whole(&reopened(crashed(&space)), &space.log());
}

#[test]
fn files_that_never_reached_the_disk_are_installed_from_the_log() {
    let space = busy_space();
    let copy = crashed(&space);
    remove_tree(copy.path());
    // `kept.md` was settled before and removed since; the others exist in the log only.
    assert_whole(&reopened(copy), &space.log());
}

#[test]
fn objects_and_a_branch_that_never_reached_the_disk_are_made_again() {
    let space = busy_space();
    let copy = crashed(&space);
    let settled = space.git(&["rev-list", "--max-parents=0", "HEAD"]);
    fs::write(copy.path().join(".git/refs/heads/main"), settled).unwrap();
    remove_loose_objects(copy.path());
    assert_whole(&reopened(copy), &space.log());
}

#[test]
fn an_edit_made_after_the_crash_is_kept_and_recorded() {
    let space = busy_space();
    let copy = crashed(&space);
    fs::write(copy.path().join("a.md"), "by hand").unwrap();
    let again = reopened(copy);
    assert_eq!(again.text("a.md"), "by hand");
    assert_eq!(again.log()[0], "fswatch|fswatch: a.md");
    assert_eq!(again.vfs.versions(&at("a.md")).unwrap().len(), 3);
}

#[test]
fn a_persons_commit_after_the_crash_stays_and_ours_come_on_top() {
    let space = busy_space();
    let copy = crashed(&space);
    let settled = space.git(&["rev-list", "--max-parents=0", "HEAD"]);
    fs::write(copy.path().join(".git/refs/heads/main"), settled).unwrap();
    let git = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "by hand"];
    assert!(Command::new("git").arg("-C").arg(copy.path()).args(git).status().unwrap().success());
    let again = reopened(copy);
    let log = again.log();
    assert_eq!(log.len(), space.log().len() + 1);
    assert_eq!(log[log.len() - 2], "Ann|by hand");
    assert_eq!(again.text("a.md"), "two");
    again.git(&["fsck", "--strict"]);
}

#[test]
fn opening_twice_after_a_crash_changes_nothing_more() {
    let space = busy_space();
    let again = reopened(crashed(&space));
    let twice = reopened(crashed(&again));
    assert_whole(&twice, &space.log());
}
