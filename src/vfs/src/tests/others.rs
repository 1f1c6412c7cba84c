//! A person's git beside the write path, moment by moment.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::stop::Stop;
use super::*;
use crate::recovery::tests::{crashed, reopened};

/// What a disk says (errno(3)).
const NO_SPACE: i32 = 28;
const ANN: [&str; 4] = ["-c", "user.name=Ann", "-c", "user.email=a@x"];

fn watched() -> TestSpace {
    let directory = tempfile::tempdir().unwrap();
    let vfs = Vfs::open(options(directory.path(), true)).unwrap();
    TestSpace { directory, vfs }
}

/// What git prints with more in its environment.
fn git_with(space: &TestSpace, environment: &[(&str, std::path::PathBuf)], arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    let output =
        git.arg("-C").arg(space.directory.path()).args(arguments).envs(environment.iter().cloned()).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A text that git has, by its hash.
fn hashed(space: &TestSpace, text: &str) -> String {
    let file = space.directory.path().join(".git/hashed");
    fs::write(&file, text).unwrap();
    space.git(&["hash-object", "-w", ".git/hashed"]).trim().to_owned()
}

/// Shows: EDIT-7
#[test]
fn an_external_commit_is_announced_without_any_writer() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.git(&[&ANN[..], &["commit", "-q", "--allow-empty", "-m", "by hand"]].concat());
    space.wait_until("followers hear of it", |space| {
        space.vfs.feed().events_after(Seq(0), 10).unwrap().iter().any(|event| event.message == "by hand")
    });
}

#[test]
fn an_external_commit_in_another_encoding_is_decoded() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.git(&["config", "i18n.commitEncoding", "ISO-8859-1"]);
    fs::write(space.directory.path().join("b.md"), "by hand").unwrap();
    space.git(&["add", "b.md"]);
    let mut commit = Command::new("git");
    let latin = |bytes: &'static [u8]| std::ffi::OsStr::from_bytes(bytes).to_owned();
    commit.arg("-C").arg(space.directory.path()).args(["-c", "user.email=l@x", "-c"]).arg(latin(b"user.name=L\xe9on"));
    assert!(commit.args(["commit", "-q", "-m"]).arg(latin(b"caf\xe9")).status().unwrap().success());
    space.wait_until("it is known", |space| space.vfs.try_newest_version(&at("b.md")).unwrap().is_some());
    let version = space.vfs.versions(&at("b.md")).unwrap().remove(0);
    assert_eq!((version.author.as_str(), version.message.trim()), ("Léon", "café"));
    let blamed = space.vfs.blame(&at("b.md")).unwrap();
    assert_eq!(blamed[0].author.as_str(), "Léon");
}

#[test]
fn the_reason_that_blocks_writes_is_the_current_one() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let head = space.directory.path().join(".git/HEAD");
    let whole = fs::read(&head).unwrap();
    let told = |space: &TestSpace| space.vfs.health().map_or_else(|trouble| trouble.to_string(), |()| String::new());
    fs::remove_file(&head).unwrap();
    space.wait_until("it is missing", |space| told(space).contains("restore `.git`"));
    fs::write(&head, "rubbish").unwrap();
    space.wait_until("it is damaged", |space| told(space).contains("`HEAD` or its branch cannot be read"));
    fs::write(&head, whole).unwrap();
    space.wait_until("it is right", |space| told(space).is_empty());
    space.put("a.md", "two");
}

/// Shows: GIT-8
#[test]
fn a_page_regressed_by_an_old_user_index_is_restored() {
    let space = watched();
    space.put("a.md", "one");
    let old = space.git(&["rev-parse", "HEAD:a.md"]);
    space.put("a.md", "two");
    space.vfs.wait_applied().unwrap();
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    space.git(&["update-index", "--cacheinfo", &format!("100644,{},a.md", old.trim())]);
    space.git(&[&ANN[..], &["commit", "-q", "-m", "by hand"]].concat());
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "one");
    space.wait_until("history has what the tree has", |space| space.git(&["show", "HEAD:a.md"]) == "two");
    assert_eq!(space.text("a.md"), "two");
    space.wait_until("git status is clean", |space| space.git(&["status", "--porcelain"]).is_empty());
}

/// Shows: GIT-6
#[test]
fn the_index_follows_while_there_are_writes() {
    let space = TestSpace::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    for number in 0.. {
        space.put(&format!("{number}.md"), "one");
        if space.git(&["ls-files", "--", "0.md"]) == "0.md\n" {
            break;
        }
        assert!(Instant::now() < deadline, "the index has nothing after {number} writes");
    }
    assert_eq!(space.vfs.core.log.last_checkpoint().unwrap().0, Seq(0), "this was no checkpoint");
}

/// Shows: GIT-6
#[test]
fn staged_content_stays_staged_while_agents_write_the_page() {
    let space = watched();
    space.put("a.md", "one");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    fs::write(space.directory.path().join(".git/staged"), "staged by hand").unwrap();
    let blob = space.git(&["hash-object", "-w", ".git/staged"]);
    space.git(&["update-index", "--cacheinfo", &format!("100644,{},a.md", blob.trim())]);
    space.put("a.md", "two");
    space.put("b.md", "beside it");
    space.wait_until("the index has what was written beside it", |space| !space.git(&["ls-files", "b.md"]).is_empty());
    assert_eq!(space.git(&["diff", "--cached", "--name-only"]), "a.md\n");
    space.git(&[&ANN[..], &["commit", "-q", "-m", "by hand"]].concat());
    space.wait_until("history has what the tree has", |space| space.git(&["show", "HEAD:a.md"]) == "two");
    let versions = space.git(&["log", "--reverse", "--format=%an", "--", "a.md"]);
    assert_eq!(versions, "eve\neve\nAnn\nfswatch\n");
    space.wait_until("git status is clean", |space| space.git(&["status", "--porcelain"]).is_empty());
}

/// Shows: GIT-6
#[test]
fn content_from_a_git_command_with_a_stale_index_is_updated() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    let index = space.directory.path().join(".git/index");
    let read = fs::read(&index).unwrap();
    space.put("a.md", "two");
    space.put("b.md", "two");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    fs::write(index.with_extension("lock"), read).unwrap();
    fs::rename(index.with_extension("lock"), &index).unwrap();
    space.wait_until("it is again", |space| space.git(&["status", "--porcelain"]).is_empty());
}

/// Shows: GIT-5
#[test]
fn a_lock_that_stays_holds_writers_up_for_a_second_and_once() {
    let space = TestSpace::new();
    fs::write(space.directory.path().join(".git/index.lock"), "").unwrap();
    let took = |page: &str| {
        let begun = Instant::now();
        space.put(page, "one");
        begun.elapsed()
    };
    assert!(took("a.md") >= Duration::from_secs(1));
    let others: Vec<_> = (0..5).map(|number| took(&format!("{number}.md"))).collect();
    assert!(others.iter().any(|took| *took < Duration::from_secs(1)), "{others:?}");
}

/// Shows: GIT-4
#[test]
fn commits_removed_by_a_reset_while_stopped_stay_reachable() {
    let mut space = TestSpace::new();
    space.put("a.md", "one");
    space.put("b.md", "lost");
    let lost = space.git(&["rev-parse", "HEAD"]);
    space.vfs.close().unwrap();
    space.git(&["reset", "-q", "--hard", "HEAD~1"]);
    space.reopen();
    assert_eq!(space.git(&["for-each-ref", "--format=%(objectname)", "refs/svcfs/kept"]), lost);
}

/// Shows: GIT-4
#[test]
fn commits_that_a_reset_takes_off_their_branch_stay_reachable() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.put("b.md", "lost");
    let lost = space.git(&["rev-parse", "HEAD"]);
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    space.git(&["reset", "-q", "--hard", "HEAD~1"]);
    space.put("c.md", "on top");
    assert_eq!(space.log(), ["eve|eve: c.md", "eve|eve: a.md"]);
    assert_eq!(space.git(&["for-each-ref", "--format=%(objectname)", "refs/svcfs/kept"]), lost);
    space.git(&["reflog", "expire", "--expire=now", "--all"]);
    space.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(space.git(&["show", &format!("{}:b.md", lost.trim())]), "lost");
}

/// Shows: GIT-4
#[test]
fn commits_that_a_branch_has_again_are_retained_no_longer() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.git(&["branch", "other"]);
    space.put("b.md", "on main");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    for (branch, page) in [("other", "c.md"), ("main", "d.md")] {
        space.git(&["checkout", "-q", branch]);
        space.put(page, branch);
        space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    }
    let kept = space.git(&["for-each-ref", "--format=%(objectname)", "refs/svcfs/kept"]);
    assert_eq!(kept, space.git(&["rev-parse", "other"]));
}

/// Shows: GIT-2
#[test]
fn a_logged_write_is_rebased_onto_a_branch_switched_by_the_user() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    space.git(&["checkout", "-q", "-b", "other"]);
    fs::write(space.directory.path().join("theirs.md"), "theirs").unwrap();
    fs::write(space.directory.path().join("a.md"), "theirs").unwrap();
    space.git(&["add", "a.md", "theirs.md"]);
    space.git(&[&ANN[..], &["commit", "-q", "-m", "on other"]].concat());
    space.git(&["checkout", "-q", "main"]);
    let seq = space.put("b.md", "two").seq;
    let lock = space.directory.path().join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| space.put("a.md", "ours"));
        space.wait_until("it is logged", |space| space.vfs.core.log.last_seq() > seq);
        space.git(&["symbolic-ref", "HEAD", "refs/heads/other"]);
        fs::remove_file(&lock).unwrap();
        write.join().unwrap();
    });
    assert_eq!(space.log(), ["eve|eve: a.md", "Ann|on other", "eve|eve: a.md"]);
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "ours");
    assert_eq!(space.text("a.md"), "ours");
    assert_eq!(space.git(&["show", "HEAD~1:a.md"]), "theirs");
    assert_eq!(space.git(&["show", "main:b.md"]), "two");
}

/// Shows: GIT-2
#[test]
fn changes_after_an_external_commit_survive_a_crash() {
    let space = TestSpace::new();
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    space.put("a.md", "one");
    space.git(&["reset", "-q"]);
    let lock = space.directory.path().join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    let seq = space.vfs.core.log.last_seq();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| space.put("a.md", "ours"));
        space.wait_until("it is logged", |space| space.vfs.core.log.last_seq() > seq);
        let theirs = space.git(&["rev-parse", "HEAD"]);
        let blob = hashed(&space, "theirs");
        let index = [("GIT_INDEX_FILE", space.directory.path().join(".git/another"))];
        let by_hand = |arguments: &[&str]| git_with(&space, &index, &[&ANN[..], arguments].concat());
        by_hand(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},a.md")]);
        let tree = by_hand(&["write-tree"]);
        let commit = by_hand(&["commit-tree", &tree, "-p", theirs.trim(), "-m", "by hand"]);
        fs::write(space.directory.path().join(".git/refs/heads/main"), format!("{commit}\n")).unwrap();
        fs::remove_file(&lock).unwrap();
        write.join().unwrap();
    });
    assert_eq!(space.log()[..2], ["eve|eve: a.md", "Ann|by hand"]);
    space.wait_until("theirs is told", |space| {
        space.vfs.feed().events_after(Seq(0), 10).unwrap().iter().any(|event| event.message == "by hand")
    });
    let again = reopened(crashed(&space));
    assert_eq!((again.text("a.md").as_str(), again.log()), ("ours", space.log()));
}

/// Shows: GIT-8
#[test]
fn after_a_crash_a_stale_index_commit_overwrites_no_page() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let old = space.git(&["rev-parse", "HEAD:a.md"]);
    space.put("a.md", "two");
    space.put("gone.md", "of no use");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    space.vfs.apply(&eve(), Change::remove(at("gone.md"))).unwrap();
    space.vfs.wait_applied().unwrap();
    space.git(&["update-index", "--cacheinfo", &format!("100644,{},a.md", old.trim())]);
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    space.git(&[&ANN[..], &["commit", "-q", "-m", "by hand"]].concat());
    space.wait_until("it is told", |space| {
        space.vfs.feed().events_after(Seq(0), 10).unwrap().iter().any(|event| event.message == "by hand")
    });
    let again = reopened(crashed(&space));
    assert_eq!(again.text("a.md"), "two");
    assert!(again.vfs.read(Protocol::Http, &at("gone.md")).is_err());
    assert_eq!(again.git(&["show", "HEAD:a.md"]), "two");
    again.git(&["fsck", "--strict"]);
    // After a power cut nobody can say whether they put it in place.
    let copy = crashed(&space);
    fs::remove_file(copy.path().join(".svc/state/boot")).unwrap();
    assert_eq!(reopened(copy).text("a.md"), "one");
}

/// Shows: GIT-8
#[test]
fn external_changes_lost_by_power_or_disk_are_installed_again() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    FailPoints::new(space.directory.path()).inject_error(FailPoint::CheckpointRelease, NO_SPACE);
    for page in ["theirs.md", "also.md"] {
        fs::write(space.directory.path().join(page), page).unwrap();
        space.git(&["add", page]);
    }
    space.git(&[&ANN[..], &["commit", "-q", "-m", "by hand"]].concat());
    space.put("b.md", "on top");
    let power_cut = |state: &Path| fs::remove_file(state.join("boot"));
    // A disk that went away takes as much, and the machine runs on.
    let failed_flush = |state: &Path| fs::write(state.join("unflushed"), "");
    for lose in [&power_cut as &dyn Fn(&Path) -> io::Result<()>, &failed_flush] {
        let copy = crashed(&space);
        lose(&copy.path().join(".svc/state")).unwrap();
        for page in ["theirs.md", "also.md"] {
            fs::remove_file(copy.path().join(page)).unwrap();
        }
        let again = reopened(copy);
        assert_eq!((again.text("theirs.md").as_str(), again.text("also.md").as_str()), ("theirs.md", "also.md"));
        assert_eq!(again.log(), space.log());
    }
}

#[test]
fn a_branch_that_is_held_for_a_moment_is_no_trouble() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let lock = space.directory.path().join(".git/refs/heads/main.lock");
    fs::write(&lock, "").unwrap();
    std::thread::scope(|scope| {
        let write = scope.spawn(|| space.put("a.md", "two"));
        space.wait_until("it is in the tree", |_| {
            fs::read_to_string(space.directory.path().join("a.md")).is_ok_and(|text| text == "two")
        });
        assert!(space.vfs.health().is_ok());
        fs::remove_file(&lock).unwrap();
        write.join().unwrap();
    });
    assert!(space.vfs.health().is_ok());
}

#[test]
fn a_branch_that_is_moved_again_and_again_is_no_trouble() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let (points, root) = (FailPoints::new(space.directory.path()), space.directory.path().to_owned());
    let (moved, is_moved) = mpsc::sync_channel(0);
    let (go_on, may_go_on) = mpsc::sync_channel(0);
    let (attempts, may_go_on) = (AtomicUsize::new(0), Mutex::new(may_go_on));
    points.set_callback(FailPoint::BranchMove, move || match attempts.fetch_add(1, Ordering::SeqCst) {
        0..3 => {
            let commit = [&ANN[..], &["commit", "-q", "--allow-empty", "-m", "by hand"]].concat();
            assert!(Command::new("git").arg("-C").arg(&root).args(commit).status().unwrap().success());
        }
        3 => {
            moved.send(()).unwrap();
            may_go_on.lock().recv().unwrap();
        }
        _ => {}
    });
    let soon = |path: &str| {
        space.vfs.apply(&eve(), ChangeSet::from(Change::put(at(path), "soon".to_owned())).soon()).map(drop)
    };
    soon("b.md").unwrap();
    is_moved.recv().unwrap();
    assert!(space.vfs.health().is_ok(), "{:?}", space.vfs.health());
    soon("c.md").unwrap();
    go_on.send(()).unwrap();
    space.vfs.wait_applied().unwrap();
    points.clear(FailPoint::BranchMove);
    assert_eq!((space.text("b.md").as_str(), space.text("c.md").as_str()), ("soon", "soon"));
    assert_eq!(space.log().iter().filter(|line| *line == "Ann|by hand").count(), 3);
}

/// Shows: GIT-6
#[test]
fn a_merge_conflict_stays_in_the_index_until_it_is_resolved() {
    let space = watched();
    space.put("a.md", "one\n");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    space.git(&["checkout", "-q", "-b", "other"]);
    fs::write(space.directory.path().join("a.md"), "theirs\n").unwrap();
    space.git(&[&ANN[..], &["commit", "-q", "-a", "-m", "on other"]].concat());
    space.git(&["checkout", "-q", "main"]);
    space.put("a.md", "ours\n");
    space.wait_until("the index is up to date", |space| space.git(&["status", "--porcelain"]).is_empty());
    let merge = [&["-C", space.directory.path().to_str().unwrap()], &ANN[..], &["merge", "-q", "other"]].concat();
    assert!(!Command::new("git").args(merge).output().unwrap().status.success());
    space.wait_until("the file with its marks is recorded", |space| space.git(&["show", "HEAD:a.md"]).contains("<<<"));
    space.put("b.md", "beside it");
    space.wait_until("the index has what was written beside it", |space| {
        space.git(&["ls-files", "--", "b.md"]).contains("b.md")
    });
    assert!(space.git(&["status", "--porcelain"]).contains("UU a.md"), "{}", space.git(&["status"]));
    fs::write(space.directory.path().join("a.md"), "both\n").unwrap();
    space.git(&["add", "a.md"]);
    space.git(&[&ANN[..], &["commit", "-q", "-m", "merged"]].concat());
    space.wait_until("git status is clean", |space| space.git(&["status", "--porcelain"]).is_empty());
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "both\n");
    assert_eq!(space.text("b.md"), "beside it");
}

/// Shows: GIT-8
#[test]
fn an_accepted_write_survives_an_external_stale_index_commit() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let points = FailPoints::new(space.directory.path());
    let soon = |text: &str| {
        space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("a.md"), text.to_owned())).soon()).unwrap();
    };
    let (logs, answers) = (Stop::at(&points, FailPoint::LogWrite), Stop::at(&points, FailPoint::FeedAnswered));
    soon("two");
    logs.wait();
    // It stands on what is not in the tree yet.
    soon("three");
    points.clear(FailPoint::LogWrite);
    logs.go_on();
    answers.wait();
    space.git(&["read-tree", "HEAD~1"]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=ann@x", "commit", "-qm", "by hand"]);
    points.clear(FailPoint::FeedAnswered);
    answers.go_on();
    space.vfs.wait_applied().unwrap();
    space.vfs.rescan().unwrap();
    assert_eq!(space.text("a.md"), "three");
    let log = space.log();
    assert!(log.iter().any(|line| line == "Ann|by hand") && log.iter().any(|line| line == "eve|eve: a.md"), "{log:?}");
}
