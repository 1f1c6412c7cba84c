//! Branches that others moved where the server was killed or the power went.

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::cut::{FAILED, NO_SPACE, unsettled_space};
use super::*;

fn git(root: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(["-c", "user.name=Ann", "-c", "user.email=ann@x"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Takes from a copy what git wrote one by one and nobody flushed: its loose objects.
fn remove_loose_objects(root: &Path) {
    for folder in fs::read_dir(root.join(".git/objects")).unwrap().map(|entry| entry.unwrap().path()) {
        if folder.file_name().is_some_and(|name| name.len() == 2) {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// Takes from a copy the loose objects that are directories.
fn remove_trees(root: &Path) {
    for object in git(root, &["cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"]).lines() {
        if let Some(name) = object.strip_prefix("tree ") {
            let (folder, file) = name.split_at(2);
            let _is_packed = fs::remove_file(root.join(".git/objects").join(folder).join(file));
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

/// Shows: EDIT-8
#[test]
fn an_unseen_external_commit_lost_by_power_blocks_no_opening() {
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

/// Shows: EDIT-8
#[test]
fn a_persons_commit_is_flushed_before_anything_is_built_on_it() {
    let space = unsettled_space();
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::AdoptFlush, FAILED);
    commit_by_hand(space.directory.path());
    let refused = space.vfs.apply(&eve(), Change::put(at("b.md"), "on top")).unwrap_err();
    assert_eq!(refused.kind(), svcfs_base::Kind::DiskFailed, "{refused:?}");
    points.clear(FailPoint::AdoptFlush);
    space.wait_until("the disk takes writes again", |space| space.vfs.health().is_ok());
    space.put("b.md", "on top");
    assert_eq!(space.log()[..2], ["eve|eve: b.md", "Ann|by hand"]);
}

/// Shows: EDIT-6
#[test]
fn a_branch_switched_by_a_user_after_a_crash_is_not_changed() {
    let space = settled_space();
    space.put("o.md", "of both");
    space.git(&["branch", "other"]);
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
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
        assert!(again.vfs.read(Protocol::Http, &at("a.md")).is_err());
        let told = again.vfs.feed().events_after(Seq(0), usize::MAX).unwrap();
        let is_told = |event: &Arc<crate::FeedEvent>| event.message.starts_with("fswatch: the branch is at ");
        assert_eq!(told.iter().filter(|event| is_told(event)).count(), 1, "{told:?}");
        again.put("a.md", "here");
        let (log, again) = (again.log(), reopened(crashed(&again)));
        assert_eq!((again.log(), again.text("a.md").as_str()), (log, "here"));
    }
}

/// Takes from a copy a commit that a person made, of which nobody knows whether it was flushed.
fn remove_commit(root: &Path, commit: &str) {
    fs::remove_file(root.join(".git/objects").join(&commit[..2]).join(&commit[2..])).unwrap();
}

/// Shows: EDIT-8
#[test]
fn only_external_commits_lost_by_power_leave_their_branch() {
    for branch in ["main", "other"] {
        for space in [settled_space(), unsettled_space()] {
            let copy = crashed(&space);
            let root = copy.path();
            git(root, &["reset", "-q"]);
            if branch == "other" {
                git(root, &["switch", "-q", "-c", "other", "HEAD~0"]);
            }
            let kept = commit(root, "kept.md");
            let lost = commit(root, "lost.md");
            remove_commit(root, &lost);
            let again = reopened(copy);
            assert_eq!(again.git(&["branch", "--show-current"]).trim(), branch);
            assert_eq!(again.git(&["rev-parse", "HEAD~1"]).trim(), kept);
            assert_eq!(again.log()[..2], ["fswatch|fswatch: lost.md", "Ann|kept.md"]);
            assert_eq!(again.log()[2..], space.log());
            again.git(&["fsck", "--strict"]);
        }
    }
}

fn commit(root: &Path, page: &str) -> String {
    fs::write(root.join(page), page).unwrap();
    git(root, &["add", page]);
    git(root, &["commit", "-q", "-m", page]);
    git(root, &["rev-parse", "HEAD"])
}

/// Shows: EDIT-8
#[test]
fn a_replaced_repository_retains_its_branch_and_gets_replay() {
    for (space, unsettled) in [(settled_space(), 0), (unsettled_space(), 2)] {
        let copy = crashed(&space);
        let root = copy.path();
        fs::remove_dir_all(root.join(".git")).unwrap();
        git(root, &["init", "-q", "-b", "main"]);
        let theirs = commit(root, "theirs.md");
        let again = reopened(copy);
        let log = again.log();
        assert_eq!(log[log.len() - 1], "Ann|theirs.md");
        assert_eq!(log.iter().filter(|line| *line == "eve|eve: a.md").count(), unsettled, "{log:?}");
        assert_eq!(again.git(&["rev-list", "--max-parents=0", "HEAD"]).trim(), theirs);
        assert_eq!(again.text("theirs.md"), "theirs.md");
        again.put("b.md", "goes on");
        again.git(&["fsck", "--strict"]);
    }
}

/// A copy as a power cut leaves it that took the last moves of the branch: it stands at a commit
/// that it stood at before.
fn without_last_moves(space: &TestSpace, stands: &str) -> TempDir {
    let copy = crashed(space);
    let root = copy.path();
    fs::write(root.join(".git/refs/heads/main"), format!("{stands}\n")).unwrap();
    for log in ["HEAD", "refs/heads/main"] {
        let file = root.join(".git/logs").join(log);
        let text = fs::read_to_string(&file).unwrap();
        let moves: Vec<_> = text.lines().take_while(|line| line.split(' ').next() != Some(stands)).collect();
        fs::write(file, moves.join("\n") + "\n").unwrap();
    }
    git(root, &["reset", "-q"]);
    copy
}

/// Shows: EDIT-6
#[test]
fn changes_of_a_deselected_branch_survive_a_cut_opening() {
    let space = settled_space();
    space.git(&["branch", "other"]);
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    space.put("a.md", "of the branch");
    let reached = space.git(&["rev-parse", "HEAD"]);
    space.put("b.md", "late");
    for has_page in [false, true] {
        let copy = without_last_moves(&space, reached.trim());
        let root = copy.path().to_owned();
        fs::remove_file(root.join("b.md")).unwrap();
        git(&root, &["switch", "-q", "other"]);
        let below = if has_page { vec![commit(&root, "b.md")] } else { Vec::new() };
        let killed = Arc::new(Mutex::new(None));
        FailPoints::new(&root).set_callback(FailPoint::OpenCommits, {
            let killed = Arc::clone(&killed);
            move || *killed.lock() = Some(copied(&root))
        });
        let whole = reopened(copy);
        let again = reopened(killed.lock().take().unwrap());
        for space in [&whole, &again] {
            assert_eq!(space.text("b.md"), "late");
            assert!(space.vfs.read(Protocol::Http, &at("a.md")).is_err());
            assert_eq!(space.log()[0], "eve|eve: b.md");
            assert_eq!(space.log().len(), 2 + below.len(), "{:?}", space.log());
            assert_eq!(space.vfs.versions(&at("b.md")).unwrap().len(), 1 + below.len());
            assert_eq!(space.git(&["status", "--porcelain"]), "");
        }
    }
}

/// Shows: EDIT-6
#[test]
fn a_deselected_branch_reset_by_power_loss_stays_deselected() {
    let mut space = settled_space();
    space.git(&["branch", "older"]);
    space.put("second.md", "of the branch");
    space.reopen();
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    let settled = space.git(&["rev-parse", "HEAD"]);
    space.put("a.md", "late");
    let copy = without_last_moves(&space, settled.trim());
    fs::remove_file(copy.path().join("a.md")).unwrap();
    git(copy.path(), &["switch", "-q", "older"]);
    let again = reopened(copy);
    assert_eq!(again.log(), ["eve|eve: a.md", "eve|eve: first.md"]);
    assert_eq!(again.text("a.md"), "late");
    assert!(again.vfs.read(Protocol::Http, &at("second.md")).is_err());
    assert_eq!(again.git(&["rev-parse", "main"]), settled);
    assert!(again.vfs.versions(&at("second.md")).unwrap().is_empty(), "it is of another branch");
}

/// Shows: EDIT-6
#[test]
fn changes_on_a_deselected_branch_stay_there_after_a_switch() {
    let space = settled_space();
    space.git(&["branch", "other"]);
    space.git(&["branch", "third"]);
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    space.put("a.md", "of the first");
    let root = space.directory.path();
    git(root, &["reset", "-q"]);
    git(root, &["switch", "-q", "other"]);
    space.put("b.md", "of the other");
    assert!(space.vfs.read(Protocol::Http, &at("a.md")).is_err());
    let copy = crashed(&space);
    git(copy.path(), &["reset", "-q"]);
    git(copy.path(), &["switch", "-q", "third"]);
    let again = reopened(copy);
    assert_eq!(again.log(), ["eve|eve: first.md"]);
    for page in ["a.md", "b.md"] {
        assert!(again.vfs.read(Protocol::Http, &at(page)).is_err(), "{page}");
    }
    // Opened once more, on the branch they left last.
    let unmoved = reopened(crashed(&space));
    assert_eq!(unmoved.log(), ["eve|eve: b.md", "eve|eve: first.md"]);
    assert!(unmoved.vfs.read(Protocol::Http, &at("a.md")).is_err());
}

#[test]
fn batched_external_commits_are_found_below_and_above_own_ones() {
    let space = settled_space();
    let root = space.directory.path().to_owned();
    let points = FailPoints::new(&root);
    points.inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    space.put("a.md", "one");
    for (point, page) in [(FailPoint::BranchMove, "below.md"), (FailPoint::BranchMoved, "above.md")] {
        let (root, is_done) = (root.clone(), Mutex::new(false));
        points.set_callback(point, move || {
            if !std::mem::replace(&mut *is_done.lock(), true) {
                commit(&root, page);
            }
        });
    }
    space.put("b.md", "between");
    space.wait_until("the person's commits are told", |space| {
        let told = space.vfs.feed().events_after(Seq(0), usize::MAX).unwrap();
        told.iter().any(|event| event.message == "above.md")
    });
    assert_eq!(space.log()[..4], ["Ann|above.md", "eve|eve: b.md", "Ann|below.md", "eve|eve: a.md"]);
    let copy = crashed(&space);
    remove_new_objects(&space, copy.path());
    let again = reopened(copy);
    // Their index had neither page of ours yet: both stand, and are told once more on top of what
    // takes them away.
    assert_eq!((again.text("a.md").as_str(), again.text("b.md").as_str()), ("one", "between"));
    assert_eq!((again.log()[0].as_str(), &again.log()[1..]), ("fswatch|fswatch: 2 files", &space.log()[..]));
}

/// Shows: EDIT-6
#[test]
fn a_branch_restored_after_power_loss_is_not_taken_for_switched() {
    let space = unsettled_space();
    let copy = crashed(&space);
    fs::write(copy.path().join(".git/refs/heads/main"), "").unwrap();
    fs::remove_file(copy.path().join("a.md")).unwrap();
    remove_new_objects(&space, copy.path());
    let again = reopened(copy);
    assert_eq!(again.log(), space.log());
    assert_eq!(again.text("a.md"), "two");
}

#[test]
fn an_external_commit_lost_with_its_branch_is_not_in_the_reflog() {
    for lose in [remove_loose_objects, empty_loose_objects, remove_trees] {
        let space = unsettled_space();
        let copy = crashed(&space);
        commit_by_hand(copy.path());
        lose(copy.path());
        fs::write(copy.path().join(".git/refs/heads/main"), "").unwrap();
        let again = reopened(copy);
        assert_eq!(again.log()[0], "fswatch|fswatch: by-hand.md");
        assert_eq!(again.log()[1..], space.log());
        again.git(&["fsck", "--strict"]);
    }
}

/// Shows: GIT-6
#[test]
fn a_staged_blob_lost_by_power_does_not_block_commits() {
    let space = settled_space();
    let copy = crashed(&space);
    fs::write(copy.path().join("by-hand.md"), "lost").unwrap();
    git(copy.path(), &["add", "by-hand.md"]);
    remove_loose_objects(copy.path());
    fs::write(copy.path().join("by-hand.md"), "").unwrap();
    let again = reopened(copy);
    again.wait_until("the index is up to date", |again| again.git(&["status", "--porcelain"]).is_empty());
    commit_by_hand(again.directory.path());
    again.git(&["fsck", "--strict"]);
}
