//! Openings that are cut off, or that somebody works beside.

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::*;

/// What a disk says (errno(3)): EIO, ENOSPC.
const FAILED: i32 = 5;
const NO_SPACE: i32 = 28;

/// A space whose log is settled up to its first commit, and no further however long it rests.
fn unsettled_space() -> TestSpace {
    let space = settled_space();
    FailPoints::of(space.directory.path()).refuse(FailPoint::CheckpointSettle, NO_SPACE);
    space.put("a.md", "one");
    space.put("a.md", "two");
    space
}

/// Takes from a copy what git wrote one by one and nobody flushed: its loose objects.
fn remove_loose_objects(root: &Path) {
    for folder in fs::read_dir(root.join(".git/objects")).unwrap().map(|entry| entry.unwrap().path()) {
        if folder.file_name().is_some_and(|name| name.len() == 2) {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// Takes away the bytes of those that a person wrote last, and leaves their names.
fn empty_loose_objects(root: &Path) {
    let found =
        Command::new("find").arg(root.join(".git/objects")).args(["-path", "*/??/*", "-type", "f"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(!found.is_empty());
    for object in found.lines() {
        fs::remove_file(object).unwrap();
        fs::write(object, "").unwrap();
    }
}

fn commit_by_hand(root: &Path) {
    fs::write(root.join("by-hand.md"), "by hand").unwrap();
    let commit = ["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "by hand"];
    for git in [&["add", "by-hand.md"][..], &commit] {
        assert!(Command::new("git").arg("-C").arg(root).args(git).status().unwrap().success());
    }
}

#[test]
fn a_persons_commit_that_was_lost_with_the_power_before_anybody_knew_it_does_not_keep_a_space_from_opening() {
    for lose in [remove_loose_objects, empty_loose_objects] {
        for space in [settled_space(), unsettled_space()] {
            let copy = crashed(&space);
            commit_by_hand(copy.path());
            lose(copy.path());
            let again = reopened(copy);
            assert_eq!(again.text("by-hand.md"), "by hand");
            assert_eq!(again.log()[0], "fswatch|fswatch: by-hand.md");
            assert_eq!(again.log()[1..], space.log());
            again.git(&["fsck", "--strict"]);
        }
    }
}

#[test]
fn a_persons_commit_is_flushed_before_anything_is_built_on_it() {
    let space = unsettled_space();
    let points = FailPoints::of(space.directory.path());
    points.refuse(FailPoint::AdoptFlush, FAILED);
    commit_by_hand(space.directory.path());
    let refused = space.vfs.apply(&eve(), Change::put(at("b.md"), "on top")).unwrap_err();
    assert_eq!(refused.kind(), svcfs_base::Kind::DiskFailed, "{refused:?}");
    points.clear(FailPoint::AdoptFlush);
    space.wait_until("the disk takes writes again", |space| space.vfs.health().is_ok());
    space.put("b.md", "on top");
    assert_eq!(space.log()[..2], ["eve|eve: b.md", "Ann|by hand"]);
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
    let points = FailPoints::of(copy.path());
    points.refuse(FailPoint::OpenRenumber, FAILED);
    assert!(Vfs::open(options(copy.path(), false)).is_err());
    points.clear(FailPoint::OpenRenumber);
    let again = reopened(copy);
    assert_eq!(again.log().len(), space.log().len() + 1, "{:?}", again.log());
    assert_eq!(again.text("a.md"), "two");
}

#[test]
fn a_persons_commit_below_ours_is_told_though_the_opening_was_cut_off_before_it_was() {
    let space = unsettled_space();
    let copy = with_a_persons_commit(&space);
    let (killed, root) = (Arc::new(Mutex::new(None)), copy.path().to_owned());
    let points = FailPoints::of(copy.path());
    points.call(FailPoint::OpenCommits, {
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

#[test]
fn an_edit_made_while_a_space_is_opened_is_kept_and_recorded() {
    let space = unsettled_space();
    let copy = crashed(&space);
    let root = copy.path().to_owned();
    fs::remove_file(root.join("a.md")).unwrap();
    let points = FailPoints::of(copy.path());
    points.call(FailPoint::OpenRestore, move || fs::write(root.join("a.md"), "by hand").unwrap());
    let again = reopened(copy);
    assert_eq!(again.text("a.md"), "by hand");
    assert_eq!(again.log()[0], "fswatch|fswatch: a.md");
}

#[test]
fn what_a_person_takes_back_with_a_commit_after_a_crash_stays_back() {
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

#[test]
fn a_branch_that_a_person_switched_to_after_a_crash_is_left_as_they_found_it() {
    let space = settled_space();
    space.put("o.md", "of both");
    space.git(&["branch", "other"]);
    FailPoints::of(space.directory.path()).refuse(FailPoint::CheckpointSettle, NO_SPACE);
    space.put("a.md", "one");
    space.put("a.md", "two");
    space.vfs.apply(&eve(), Change::rename(at("o.md"), at("d/o.md"))).unwrap();
    for (switch, expected) in
        [(&["switch", "-q", "other"][..], "other"), (&["reset", "-q", "--hard", "HEAD~3"], "main")]
    {
        let copy = crashed(&space);
        for git in [&["reset", "-q"][..], switch] {
            assert!(Command::new("git").arg("-C").arg(copy.path()).args(git).status().unwrap().success());
        }
        let again = reopened(copy);
        assert_eq!(again.git(&["branch", "--show-current"]).trim(), expected);
        assert_eq!(again.log(), space.log()[3..]);
        assert_eq!(again.text("o.md"), "of both");
        assert!(again.vfs.read(Door::Http, &at("a.md")).is_err());
        let told = again.vfs.feed().after(Seq(0), usize::MAX).unwrap();
        let is_told = |event: &Arc<crate::Event>| event.message.starts_with("fswatch: the branch is at ");
        assert_eq!(told.iter().filter(|event| is_told(event)).count(), 1, "{told:?}");
        again.put("a.md", "here");
        let (log, again) = (again.log(), reopened(crashed(&again)));
        assert_eq!((again.log(), again.text("a.md").as_str()), (log, "here"));
    }
}
