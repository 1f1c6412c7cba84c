//! Refused by the disk at each point: told as what it is, nothing half done, and over by itself
//! when the cause is gone.

use std::sync::mpsc;

use svcfs_store::FailPointKind;

use super::*;
use crate::tests::stop::Stop;

/// What the disk says, and how a caller and whoever watches over the server read it.
pub(super) const REFUSALS: [(i32, Kind, &str); 3] = [
    (28, Kind::NoSpace, "no space left"),
    (5, Kind::DiskFailed, "input/output error"),
    (30, Kind::ReadOnly, "read-only"),
];

/// The first deed that comes by each point.
pub(super) fn deeds_by_point(strategy: VersionStrategy) -> &'static BTreeMap<FailPoint, usize> {
    static DEEDS_BY_POINT: Once<BTreeMap<FailPoint, usize>> = Once::new();
    DEEDS_BY_POINT.get(strategy, || {
        let space = new_space(strategy);
        let points = FailPoints::new(space.directory.path());
        let now = Arc::new(AtomicUsize::new(0));
        let seen: Arc<Mutex<BTreeMap<FailPoint, usize>>> = Arc::default();
        for point in FailPoint::ALL {
            let (now, seen) = (Arc::clone(&now), Arc::clone(&seen));
            points.set_callback(*point, move || {
                seen.lock().entry(*point).or_insert_with(|| now.load(Ordering::SeqCst));
            });
        }
        for (number, deed) in DEEDS.iter().enumerate() {
            now.store(number, Ordering::SeqCst);
            (deed.go)(&space).unwrap();
        }
        FailPoint::ALL.iter().for_each(|point| points.clear(*point));
        std::mem::take(&mut *seen.lock())
    })
}

/// Does a deed while the disk refuses at a point, and once more when it does not any more; what its
/// writer heard at first.
fn refused(space: &TestSpace, point: FailPoint, (errno, kind, reason): (i32, Kind, &str), deed: &Deed) {
    let points = FailPoints::new(space.directory.path());
    let when = format!("{} while the disk says {errno} at `{}`", deed.what, point.name());
    points.inject_error(point, errno);
    std::thread::scope(|scope| {
        let (sender, done) = mpsc::channel();
        scope.spawn(move || sender.send((deed.go)(space)).unwrap());
        let mut outcome = None;
        space.wait_until(&when, |space| {
            outcome = done.try_recv().ok();
            outcome.is_some() || space.vfs.health().is_err()
        });
        // Recorded, and waiting to be completed; or refused in this moment.
        let trouble = space.vfs.health().err();
        if let Some(trouble) = &trouble {
            assert!(trouble.message().contains(reason), "{when}: {trouble:?}");
        }
        let outcome = outcome.or_else(|| done.recv_timeout(Duration::from_millis(300)).ok());
        let is_over = match outcome {
            Some(Err(fault)) => {
                assert_eq!(fault.kind(), kind, "{when}: {fault:?}");
                assert!(fault.message().contains(reason), "{when}: {fault:?}");
                false
            }
            Some(Ok(())) => {
                assert_eq!(point.kind(), FailPointKind::Housekeeping, "{when}: told that all is well");
                true
            }
            None => {
                assert!(trouble.is_some(), "{when}: somebody waits, and the server says that it is well");
                points.clear(point);
                done.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_or_else(|fault| panic!("{when}: {fault:?}"));
                true
            }
        };
        points.clear(point);
        space.wait_until(&format!("the server is well again: {when}"), |space| space.vfs.health().is_ok());
        if !is_over {
            (deed.go)(space).unwrap_or_else(|fault| panic!("again, {when}: {fault:?}"));
        }
    });
}

fn assert_recovers_from(refusal: (i32, Kind, &str)) {
    STRATEGIES.into_iter().for_each(|strategy| assert_recovers_with(strategy, refusal));
}

fn assert_recovers_with(strategy: VersionStrategy, refusal: (i32, Kind, &str)) {
    for (point, number) in deeds_by_point(strategy).iter().filter(|(point, _)| point.kind() == FailPointKind::Syscall) {
        let space = new_space(strategy);
        for deed in &DEEDS[..*number] {
            (deed.go)(&space).unwrap();
        }
        refused(&space, *point, refusal, &DEEDS[*number]);
        let when = format!("refused with {} at `{}`", refusal.0, point.name());
        assert_whole((&space, strategy), number + 1..=number + 1, &when);
        drop(space.vfs);
        let again = opened(space.directory, strategy);
        assert_whole((&again, strategy), number + 1..=number + 1, &format!("{when}, reopened"));
    }
}

/// Shows: FAIL-7
#[test]
fn a_full_disk_at_any_point_loses_nothing_and_is_recovered() {
    assert_recovers_from(REFUSALS[0]);
}

/// Shows: FAIL-7
#[test]
fn io_errors_at_any_point_lose_nothing_and_are_recovered() {
    assert_recovers_from(REFUSALS[1]);
}

#[test]
fn a_read_only_disk_at_any_point_loses_nothing_and_is_recovered() {
    assert_recovers_from(REFUSALS[2]);
}

/// What an opening comes by, and every deed's housekeeping.
///
/// Shows: FAIL-7
#[test]
fn an_opening_failed_by_disk_says_why_and_the_next_one_works() {
    let walked: usize = STRATEGIES.into_iter().map(walk_an_opening).sum();
    assert!(walked >= 9 * REFUSALS.len(), "the points of the opening have other names now");
}

/// How many refusals an opening was met with.
fn walk_an_opening(strategy: VersionStrategy) -> usize {
    let is_of_opening =
        |point: &&FailPoint| point.name().starts_with("open.") && point.kind() == FailPointKind::Syscall;
    let is_of_git =
        |point: &FailPoint| matches!(point, FailPoint::OpenHistory | FailPoint::OpenSweep | FailPoint::OpenRenumber);
    let space = new_space(strategy);
    // What is not settled makes an opening come by more points.
    let held = FailPoints::new(space.directory.path());
    held.pause(FailPoint::CheckpointFlush);
    for deed in &DEEDS[..7] {
        (deed.go)(&space).unwrap();
    }
    let unsettled = crashed(&space);
    held.clear(FailPoint::CheckpointFlush);
    let mut walked = 0;
    let points = FailPoint::ALL.iter().filter(is_of_opening);
    for point in points.filter(|point| strategy == VersionStrategy::Git || !is_of_git(point)) {
        for (errno, kind, reason) in REFUSALS {
            let copy = copied(unsettled.path());
            let when =
                format!("an opening with `{}` while the disk says {errno} at `{}`", strategy.name(), point.name());
            let points = FailPoints::new(copy.path());
            points.inject_error(*point, errno);
            let fault = match Vfs::open(VfsOptions { strategy, ..options(copy.path(), false) }) {
                Ok(_) => panic!("{when}: it opened"),
                Err(fault) => fault,
            };
            points.clear(*point);
            assert_eq!(fault.kind(), kind, "{when}: {fault:?}");
            assert!(fault.message().contains(reason), "{when}: {fault:?}");
            assert_whole((&opened(copy, strategy), strategy), 7..=7, &when);
            walked += 1;
        }
    }
    walked
}

#[test]
fn a_call_of_the_disk_that_no_story_comes_by_is_a_gap() {
    let missed: Vec<_> = FailPoint::ALL
        .iter()
        .filter(|point| point.kind() == FailPointKind::Syscall && !point.name().starts_with("open."))
        .filter(|point| !is_of_others(point))
        .filter(|point| !STRATEGIES.iter().any(|strategy| deeds_by_point(*strategy).contains_key(point)))
        .collect();
    assert!(missed.is_empty(), "no deed of the story comes by {missed:?}: add one that does");
}

/// Git's index and merging are tried again or left; a flush or a settling that fails is told.
#[test]
fn failed_housekeeping_blocks_no_writer_and_is_retried() {
    let points = FailPoint::ALL.iter().filter(|point| point.kind() == FailPointKind::Housekeeping);
    for (point, (errno, ..)) in points.flat_map(|point| REFUSALS.map(|refusal| (point, refusal))) {
        let comes_by = |strategy| strategy == VersionStrategy::Git || deeds_by_point(strategy).contains_key(point);
        for strategy in STRATEGIES.into_iter().filter(|strategy| comes_by(*strategy)) {
            let space = new_space(strategy);
            let points = FailPoints::new(space.directory.path());
            points.inject_error(*point, errno);
            for deed in DEEDS.iter().filter(|deed| deed.commits > 0) {
                (deed.go)(&space).unwrap_or_else(|fault| panic!("{} at `{}`: {fault:?}", deed.what, point.name()));
            }
            points.clear(*point);
            let when = format!("after {errno} at `{}`", point.name());
            assert_whole((&space, strategy), DEEDS.len()..=DEEDS.len(), &when);
            drop(space.vfs);
            let again = opened(space.directory, strategy);
            assert_whole((&again, strategy), DEEDS.len()..=DEEDS.len(), &format!("{when}, reopened"));
        }
    }
}

#[test]
fn a_failed_checkpoint_makes_the_server_unready_with_a_reason() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    for point in [FailPoint::CheckpointFlush, FailPoint::CheckpointRelease] {
        for (errno, kind, reason) in REFUSALS {
            points.inject_error(point, errno);
            space.put("a.md", &format!("{} {errno}", point.name()));
            space.wait_until("the checkpoint is refused", |space| space.vfs.health().is_err());
            let trouble = space.vfs.health().unwrap_err();
            assert_eq!(trouble.kind(), kind);
            assert!(trouble.message().contains(reason), "{trouble:?}");
            space.put("b.md", &format!("taken all the same {} {errno}", point.name()));
            points.clear(point);
            space.wait_until("a checkpoint is made", |space| space.vfs.health().is_ok());
        }
    }
}

#[test]
fn a_refused_write_leaves_no_directory_that_was_made_for_it() {
    let space = TestSpace::new();
    space.put("kept/a.md", "a");
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::LogWrite, 28);
    for path in ["new/deep/a.md", "kept/new/a.md"] {
        let fault = space.vfs.apply(&eve(), Change::put(at(path), "a")).unwrap_err();
        assert_eq!(fault.kind(), Kind::NoSpace);
    }
    points.clear(FailPoint::LogWrite);
    let below = |path: &str| std::fs::read_dir(space.directory.path().join(path)).unwrap().count();
    assert!(!space.directory.path().join("new").exists());
    assert_eq!(below("kept"), 1);
}

/// Shows: FAIL-9
#[test]
fn saves_that_a_full_disk_refused_until_the_end_are_named() {
    let space = TestSpace::new();
    space.put("a.md", "one");
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::LogFlush, 28);
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("a.md"), "two")).soon()).unwrap();
    space.wait_until("the log has refused it", |space| space.vfs.health().is_err());
    let fault = space.vfs.close().unwrap_err();
    points.clear(FailPoint::LogFlush);
    assert_eq!(fault.kind(), Kind::NoSpace);
    assert!(fault.message().contains("`a.md`") && fault.message().contains("no space left"), "{fault:?}");
}

/// Shows: FAIL-9
#[test]
fn saves_refused_by_disk_until_shutdown_are_named() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::LogFlush, 5);
    points.inject_error(FailPoint::CloseLog, 30);
    space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("a.md"), "one")).soon()).unwrap();
    space.wait_until("the log has refused it", |space| space.vfs.health().is_err());
    let fault = space.vfs.close().unwrap_err();
    points.clear(FailPoint::LogFlush);
    points.clear(FailPoint::CloseLog);
    assert!(fault.message().contains("`a.md`") && fault.message().contains("input/output error"), "{fault:?}");
}

/// Shows: FAIL-9
#[test]
fn a_log_that_cannot_be_closed_has_every_acked_write() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    space.put("a.md", "one");
    points.inject_error(FailPoint::CloseLog, 30);
    let fault = space.vfs.close().unwrap_err();
    points.clear(FailPoint::CloseLog);
    assert_eq!(fault.kind(), Kind::ReadOnly);
    assert!(fault.message().contains("it has every acknowledged write"), "{fault:?}");
}

/// The log has room of its own, which it keeps between writes: it may take a change that the tree
/// then has no room for.
///
/// Shows: FAIL-2
#[test]
fn a_full_disk_with_logged_changes_rejects_new_ones_quickly() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    points.inject_error(FailPoint::TreeWrite, 28);
    let put = |path: &str| space.vfs.apply(&eve(), Change::put(at(path), "text")).map(|_| ());
    std::thread::scope(|scope| {
        let began = Instant::now();
        let held = scope.spawn(|| put("held.md"));
        space.wait_until("the disk refuses", |space| space.vfs.health().is_err());
        for _ in 0..3 {
            let fault = put("new.md").unwrap_err();
            assert_eq!(fault.kind(), Kind::NoSpace, "{fault:?}");
            assert!(fault.message().contains("no space left") && !fault.message().contains("recorded"), "{fault:?}");
            let soon = ChangeSet::from(Change::put(at("soon.md"), "text")).soon();
            assert_eq!(space.vfs.apply(&eve(), soon).unwrap_err().kind(), Kind::NoSpace);
        }
        assert!(!held.is_finished() || began.elapsed() > Duration::from_millis(500), "nobody waits for the others");
        let fault = held.join().unwrap().unwrap_err();
        assert_eq!(fault.kind(), Kind::NoSpace, "{fault:?}");
        assert!(fault.message().contains("recorded and will be completed"), "{fault:?}");
        assert!(fault.message().starts_with("disk full: no space left for `held.md`"), "{fault:?}");
        // Two seconds are promised; the machine of a test may be busy.
        assert!(began.elapsed() < Duration::from_secs(4), "told after {:?}", began.elapsed());
    });
    points.clear(FailPoint::TreeWrite);
    space.wait_until("the disk takes writes again", |space| space.vfs.health().is_ok());
    assert_eq!(space.text("held.md"), "text");
    put("new.md").unwrap();
    assert_eq!(space.log(), ["eve|eve: new.md", "eve|eve: held.md"]);
}

/// What came before the disk was known to refuse.
///
/// Shows: FAIL-2
#[test]
fn writers_behind_a_full_disk_get_retry_and_saves_are_retained() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    let stop = Stop::at(&points, FailPoint::LogFlushed);
    std::thread::scope(|scope| {
        let put = |path: &str| space.vfs.apply(&eve(), Change::put(at(path), "text")).map(|_| ());
        let held = scope.spawn(move || put("held.md"));
        stop.wait();
        points.inject_error(FailPoint::TreeWrite, 28);
        let behind = scope.spawn(move || put("behind.md"));
        space.vfs.apply(&eve(), ChangeSet::from(Change::put(at("soon.md"), "text")).soon()).unwrap();
        space.wait_until("both are accepted", |space| {
            ["behind.md", "soon.md"].iter().all(|path| space.vfs.core.overlay.get(&at(path)).is_some())
        });
        points.clear(FailPoint::LogFlushed);
        stop.go_on();
        assert_eq!(behind.join().unwrap().unwrap_err().kind(), Kind::NoSpace);
        points.clear(FailPoint::TreeWrite);
        held.join().unwrap().unwrap();
    });
    space.vfs.wait_applied().unwrap();
    assert_eq!(space.log(), ["eve|eve: soon.md", "eve|eve: held.md"]);
    assert_eq!(space.text("soon.md"), "text");
    assert!(space.vfs.read(Protocol::Http, &at("behind.md")).is_err());
}
