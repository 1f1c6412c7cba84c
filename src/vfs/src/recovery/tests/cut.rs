//! Openings that are cut off, or that somebody works beside.

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::*;

/// What a disk says (errno(3)): EIO, ENOSPC.
pub(super) const FAILED: i32 = 5;
pub(super) const NO_SPACE: i32 = 28;

/// A space whose log is settled up to its first commit, and no further however long it rests.
pub(super) fn unsettled_space() -> TestSpace {
    let space = settled_space();
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    space.put("a.md", "one");
    space.put("a.md", "two");
    space
}

/// A copy in which a person, after the crash, committed a page on what ours stood on.
fn with_a_persons_commit(space: &TestSpace) -> TempDir {
    let copy = crashed(space);
    let settled = space.git(&["rev-list", "--max-parents=0", "HEAD"]);
    fs::write(copy.path().join(".git/refs/heads/main"), settled).unwrap();
    fs::write(copy.path().join("by-hand.md"), "by hand").unwrap();
    let commit = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "by hand"];
    for git in [&["read-tree", "HEAD"][..], &["add", "by-hand.md"], &commit] {
        assert!(Command::new("git").arg("-C").arg(copy.path()).args(git).status().unwrap().success());
    }
    copy
}

#[test]
fn an_opening_that_was_cut_off_makes_no_commit_twice() {
    let space = unsettled_space();
    let copy = with_a_persons_commit(&space);
    let points = FailPoints::new(copy.path());
    points.inject_error(FailPoint::OpenRenumber, FAILED);
    assert!(Vfs::open(options(copy.path(), false)).is_err());
    points.clear(FailPoint::OpenRenumber);
    let again = reopened(copy);
    assert_eq!(again.log().len(), space.log().len() + 1, "{:?}", again.log());
    assert_eq!(again.text("a.md"), "two");
}

#[test]
fn an_external_commit_below_is_reported_after_a_cut_opening() {
    let space = unsettled_space();
    let copy = with_a_persons_commit(&space);
    let (killed, root) = (Arc::new(Mutex::new(None)), copy.path().to_owned());
    let points = FailPoints::new(copy.path());
    points.set_callback(FailPoint::OpenCommits, {
        let killed = Arc::clone(&killed);
        move || *killed.lock() = Some(copied(&root))
    });
    let whole = reopened(copy);
    assert_eq!(whole.vfs.versions(&at("by-hand.md")).unwrap().len(), 1);
    let again = reopened(killed.lock().take().unwrap());
    assert_eq!(again.log(), whole.log());
    assert_eq!(again.vfs.versions(&at("by-hand.md")).unwrap().len(), 1);
    assert_eq!(again.vfs.versions(&at("a.md")).unwrap().len(), 2);
}

/// Shows: EDIT-5
#[test]
fn an_edit_made_during_opening_is_preserved_and_recorded() {
    let space = unsettled_space();
    let copy = crashed(&space);
    let root = copy.path().to_owned();
    fs::remove_file(root.join("a.md")).unwrap();
    let points = FailPoints::new(copy.path());
    points.set_callback(FailPoint::OpenRestore, move || fs::write(root.join("a.md"), "by hand").unwrap());
    let again = reopened(copy);
    assert_eq!(again.text("a.md"), "by hand");
    assert_eq!(again.log()[0], "fswatch|fswatch: a.md");
}

/// Shows: EDIT-5
#[test]
fn a_page_reverted_by_a_user_after_a_crash_stays_reverted() {
    let space = unsettled_space();
    space.put("b.md", "kept");
    let copy = crashed(&space);
    fs::remove_file(copy.path().join("b.md")).unwrap();
    let ours = space.git(&["rev-parse", "HEAD~1"]);
    let revert = ["-c", "user.name=Ann", "-c", "user.email=a@x", "revert", "--no-edit", ours.trim()];
    for git in [&["reset", "-q"][..], &revert] {
        assert!(Command::new("git").arg("-C").arg(copy.path()).args(git).output().unwrap().status.success());
    }
    let again = reopened(copy);
    assert_eq!((again.text("a.md").as_str(), again.text("b.md").as_str()), ("one", "kept"));
    assert_eq!(again.log()[1..], space.log());
    assert!(again.log()[0].starts_with("Ann|Revert"), "{:?}", again.log());
    assert_eq!(again.vfs.versions(&at("a.md")).unwrap().len(), 3);
}
