//! Who does the committer's work.

use std::sync::mpsc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use svcfs_store::{FailPoint, FailPoints};

use super::*;

/// Who flushes the log from here on.
fn flushers(space: &TestSpace) -> Arc<Mutex<Vec<ThreadId>>> {
    let seen: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    let told = Arc::clone(&seen);
    space.vfs.on_flush(Box::new(move |what, _| {
        if what == FlushKind::Log {
            told.lock().push(thread::current().id());
        }
    }));
    seen
}

#[test]
fn a_lone_waiting_writer_runs_only_its_own_batch_inline() {
    let space = TestSpace::new();
    let (flushers, mut puts) = (flushers(&space), 0);
    // The thread may be at maintenance after the opening, or after a batch of its own.
    space.wait_until("two writes one after another are run by their writer", |space| {
        let before = flushers.lock().len();
        for _ in 0..2 {
            puts += 1;
            space.put("a.md", &format!("{puts}\n"));
        }
        flushers.lock()[before..] == [thread::current().id(); 2]
    });
    let before = flushers.lock().len();
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("b.md"), "soon\n")).soon()).unwrap();
    space.vfs.wait_applied().unwrap();
    let all = flushers.lock().clone();
    assert_ne!(all[before..], [] as [ThreadId; 0]);
    assert!(!all[before..].contains(&thread::current().id()), "who does not wait does not work either");
    assert_eq!(space.log().len(), puts + 1);
}

#[test]
fn work_an_inline_writer_cannot_finish_is_done_by_the_thread() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let points = FailPoints::new(space.directory.path());
    for point in [FailPoint::TreeWrite, FailPoint::TreeRename, FailPoint::PackRename, FailPoint::BranchRename] {
        points.inject_error(point, 5);
        thread::scope(|scope| {
            let (sender, done) = mpsc::channel();
            let vfs = &space.vfs;
            scope.spawn(move || sender.send(vfs.apply(&eve(), Change::put(at("a.md"), point.name()))).unwrap());
            space.wait_until("the disk is said to refuse", |space| space.vfs.health().is_err());
            points.clear(point);
            done.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        });
        assert_eq!(space.text("a.md"), point.name());
        space.wait_until("the trouble is over", |space| space.vfs.health().is_ok());
        assert_eq!(space.git(&["show", "HEAD:a.md"]), point.name());
    }
    assert_eq!(space.log().len(), 5);
}

#[test]
fn git_status_is_clean_shortly_after_the_last_write() {
    let space = TestSpace::new();
    for number in 0..20 {
        space.put("a.md", &format!("{number}\n"));
    }
    let last = Instant::now();
    space.wait_until("git's index has it", |space| space.git(&["status", "--porcelain"]).is_empty());
    assert!(last.elapsed() < Duration::from_millis(900), "{:?}", last.elapsed());
}

#[test]
fn a_page_edited_during_a_speculative_write_is_not_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let path = space.directory.path().join("a.md");
    let points = FailPoints::new(space.directory.path());
    let changed = path.clone();
    // The log has it: what was written ahead is there, too.
    points.set_callback(FailPoint::LogFlushed, move || {
        fs::set_permissions(&changed, fs::Permissions::from_mode(0o600)).unwrap();
    });
    space.put("a.md", "two\n");
    points.clear(FailPoint::LogFlushed);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let edited = path.clone();
    points.set_callback(FailPoint::LogFlushed, move || fs::write(&edited, "by hand\n").unwrap());
    space.put("a.md", "three\n");
    points.clear(FailPoint::LogFlushed);
    assert_eq!(fs::read_to_string(&path).unwrap(), "by hand\n");
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.git(&["log", "--format=%s", "-2"]).lines().count(), 2);
    assert_eq!(space.git(&["show", "HEAD:a.md"]), "by hand\n");
    assert_eq!(space.git(&["show", "HEAD~:a.md"]), "three\n");
}
