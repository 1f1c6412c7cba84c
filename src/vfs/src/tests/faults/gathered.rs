//! Broken off at each point where commits are gathered: what was acknowledged and had no commit
//! gets it, once.

use std::ops::RangeInclusive;

use super::killed::{Image, Recorder, assert_all_whole, images_of_an_opening};
use super::refused::REFUSALS;
use super::story::{assert_sound, sets};
use super::*;
use crate::tests::gathered::{NEVER, gathering};

const MAX_PATHS: usize = 2;

/// Does a deed; what waits for history to be complete would wait for ever otherwise.
fn go(space: &TestSpace, deed: &Deed) -> Result<(), Fault> {
    if deed.commits == 0 {
        space.vfs.wait_committed()?;
    }
    (deed.go)(space)
}

/// Author, subject and tree of each commit after so many deeds of one window, oldest first.
fn commits_after(deeds: usize) -> &'static [String] {
    static KNOWN: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    let after = |deeds: usize| {
        let space = TestSpace::gathering(NEVER, MAX_PATHS);
        for deed in &DEEDS[..deeds] {
            go(&space, deed).unwrap();
        }
        space.vfs.wait_committed().unwrap();
        sets(&space)
    };
    &KNOWN.get_or_init(|| (0..=DEEDS.len()).map(after).collect())[deeds]
}

fn assert_gathered(directory: TempDir, deeds: RangeInclusive<usize>, when: &str) {
    let space = TestSpace::open(directory, gathering(NEVER, MAX_PATHS));
    let found = sets(&space);
    let is_known = deeds.clone().any(|deeds| found == commits_after(deeds));
    assert!(is_known, "{when}: {found:#?}, not one of {:#?}", deeds.map(commits_after).collect::<Vec<_>>());
    assert_sound((&space, VersionStrategy::Git), when);
}

/// Images of a whole life of one window, from the first opening to the end.
fn images_of_a_life() -> Vec<Image> {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::watch(directory.path(), 0..=0);
    let space = TestSpace::open(directory, gathering(NEVER, MAX_PATHS));
    for deed in DEEDS {
        recorder.begun.fetch_add(1, Ordering::SeqCst);
        recorder.stage.fetch_add(1, Ordering::SeqCst);
        go(&space, deed).unwrap_or_else(|fault| panic!("{}: {fault:?}", deed.what));
        recorder.safe.fetch_add(1, Ordering::SeqCst);
    }
    recorder.stage.fetch_add(1, Ordering::SeqCst);
    space.vfs.wait_committed().unwrap();
    space.vfs.close().unwrap();
    recorder.finish()
}

/// Shows: ASYNC-7
#[test]
fn a_crash_at_any_point_loses_no_acked_gathered_write() {
    let images = images_of_a_life();
    // Sets without a commit, and the commits of sets that no branch shows yet.
    let logged = |deeds: usize| {
        let is_meant = |image: &&Image| image.point == FailPoint::LogFlushed && image.deeds == (deeds..=deeds.max(5));
        images.iter().find(is_meant).unwrap_or_else(|| panic!("no image of the log after {deeds} deeds"))
    };
    let again: Vec<_> = [4, DEEDS.len()]
        .into_iter()
        .flat_map(|deeds| images_of_an_opening(logged(deeds), VersionStrategy::Git))
        .collect();
    assert_all_whole(images, "killed, commits gathered", assert_gathered);
    assert_all_whole(again, "killed while opened, commits gathered", assert_gathered);
}

/// Which deed comes by a point first, or the question about history after it.
fn deeds_by_point() -> BTreeMap<FailPoint, usize> {
    let space = TestSpace::gathering(NEVER, MAX_PATHS);
    let points = FailPoints::new(space.directory.path());
    let seen: Arc<Mutex<BTreeMap<FailPoint, usize>>> = Arc::default();
    for (number, deed) in DEEDS.iter().enumerate() {
        for point in FailPoint::ALL.iter().filter(|point| point.kind() == svcfs_store::FailPointKind::Syscall) {
            let seen = Arc::clone(&seen);
            points.set_callback(*point, move || {
                seen.lock().entry(*point).or_insert(number);
            });
        }
        go(&space, deed).unwrap();
        space.vfs.wait_committed().unwrap();
    }
    FailPoint::ALL.iter().for_each(|point| points.clear(*point));
    std::mem::take(&mut *seen.lock())
}

/// Shows: ASYNC-9
#[test]
fn disk_errors_at_any_point_lose_no_acked_gathered_write() {
    for (point, number) in deeds_by_point() {
        let (errno, _, reason) = REFUSALS[number % REFUSALS.len()];
        let deed = &DEEDS[number];
        let when = format!("{} while the disk says {errno} at `{}`, commits gathered", deed.what, point.name());
        let space = TestSpace::gathering(NEVER, MAX_PATHS);
        for deed in &DEEDS[..number] {
            go(&space, deed).unwrap();
            space.vfs.wait_committed().unwrap();
        }
        let points = FailPoints::new(space.directory.path());
        points.inject_error(point, errno);
        std::thread::scope(|scope| {
            let (sender, done) = std::sync::mpsc::channel();
            let space = &space;
            scope.spawn(move || {
                let outcome = go(space, deed);
                let asked = space.vfs.wait_committed();
                sender.send((outcome, asked)).unwrap();
            });
            let mut outcome = None;
            space.wait_until(&when, |space| {
                outcome = outcome.take().or_else(|| done.try_recv().ok());
                outcome.is_some() || space.vfs.health().is_err()
            });
            if let Err(trouble) = space.vfs.health() {
                assert!(trouble.message().contains(reason), "{when}: {trouble:?}");
            }
            points.clear(point);
            let (outcome, asked) = outcome.unwrap_or_else(|| {
                done.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{when}: hangs"))
            });
            for fault in [outcome.as_ref().err(), asked.as_ref().err()].into_iter().flatten() {
                assert!(fault.message().contains(reason), "{when}: {fault:?}");
            }
            space.wait_until(&format!("the server is well again: {when}"), |space| space.vfs.health().is_ok());
            if outcome.is_err() {
                go(space, deed).unwrap_or_else(|fault| panic!("again, {when}: {fault:?}"));
            }
            space.vfs.wait_committed().unwrap_or_else(|fault| panic!("{when}: {fault:?}"));
        });
        assert_whole((&space, VersionStrategy::Git), number + 1..=number + 1, &when);
    }
}
