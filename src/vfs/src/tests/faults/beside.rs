//! A disk that takes its time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::story::{is_settled, packs};
use super::*;

/// Much longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

/// A thread that comes to a point says so and stays there until told to go on.
fn held_up(points: &FailPoints, thread: &'static str, point: FailPoint) -> (Receiver<()>, Sender<()>) {
    let ((come, came), (go, gone)) = (channel(), channel::<()>());
    let gone = Mutex::new(gone);
    points.set_callback(point, move || {
        if std::thread::current().name() != Some(thread) {
            return;
        }
        // Nobody asks about a second time.
        let _ = come.send(());
        let _ = gone.lock().recv();
    });
    (came, go)
}

/// Shows: DUR-7
#[test]
fn writers_do_not_wait_while_a_checkpoint_is_flushed() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    let (came, go) = held_up(&points, "checkpoint", FailPoint::CheckpointFlush);
    space.put("a.md", "before\n");
    came.recv_timeout(LIMIT).expect("a checkpoint begins when nobody writes");
    space.put("b.md", "meanwhile\n");
    space.put("a.md", "meanwhile\n");
    drop(go);
    points.clear(FailPoint::CheckpointFlush);
    space.vfs.close().unwrap();
    assert_eq!((space.text("a.md").as_str(), space.text("b.md").as_str()), ("meanwhile\n", "meanwhile\n"));
    assert_eq!(space.log().len(), 3);
    let (settled, last) = (space.vfs.core.log.last_checkpoint().unwrap().0, space.vfs.core.log.last_seq());
    assert_eq!(settled, last, "the end settles what the checkpoint on its way did not have");
}

/// Packs that a checkpoint flushed, and then so many more that they are due to become one.
fn packs_that_are_due(space: &TestSpace) -> Vec<std::path::PathBuf> {
    for n in 0..5 {
        space.put(&format!("flushed-{n}.md"), "flushed\n");
    }
    space.wait_until("a checkpoint is made", is_settled);
    let flushed = packs(space.directory.path());
    // Too few to be merged among themselves.
    for n in 0..3 {
        space.put(&format!("fresh-{n}.md"), "fresh\n");
    }
    flushed
}

/// Shows: DUR-7
#[test]
fn writers_do_not_wait_while_packs_are_merged() {
    for point in FailPoint::ALL.iter().copied().filter(|point| point.name().starts_with("merge.")) {
        let space = TestSpace::new();
        let points = FailPoints::new(space.directory.path());
        let (came, go) = held_up(&points, "helpers", point);
        packs_that_are_due(&space);
        came.recv_timeout(LIMIT).expect("packs are merged");
        for n in 0..40 {
            space.put(&format!("meanwhile-{n}.md"), "meanwhile\n");
        }
        assert_eq!(space.log().len(), 48, "held up at `{}`", point.name());
        drop(go);
        points.clear(point);
        space.wait_until("packs are merged", |space| packs(space.directory.path()).len() < 12);
        space.vfs.close().unwrap();
        space.git(&["fsck", "--strict", "--full"]);
    }
}

/// Shows: DUR-6
#[test]
fn flushed_packs_stay_until_their_merged_pack_is_flushed() {
    let space = TestSpace::new();
    let points = FailPoints::new(space.directory.path());
    let (came, go) = held_up(&points, "helpers", FailPoint::PackFlush);
    let flushed = packs_that_are_due(&space);
    came.recv_timeout(LIMIT).expect("packs are merged");
    // The power goes: of what was made since the checkpoint nothing reached the disk, and what was
    // removed is gone.
    let copy = copied(space.directory.path());
    for file in packs(copy.path()) {
        let is_flushed = flushed.iter().any(|flushed| flushed.file_name() == file.file_name());
        if !is_flushed {
            fs::remove_file(&file).unwrap();
            fs::remove_file(file.with_extension("idx")).unwrap();
        }
    }
    drop(go);
    points.clear(FailPoint::PackFlush);
    assert!(!flushed.is_empty());
    let again = opened(copy, VersionStrategy::Git);
    assert_eq!(again.log().len(), 8);
    again.vfs.close().unwrap();
    again.git(&["fsck", "--strict", "--no-dangling"]);
    space.wait_until("the flushed ones are merged", |_| flushed.iter().all(|file| !file.exists()));
}
