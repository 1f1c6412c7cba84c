//! A disk that takes its time.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

/// Much longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn writers_do_not_wait_while_a_checkpoint_is_flushed() {
    let space = TestSpace::new();
    let points = FailPoints::of(space.directory.path());
    let ((come, came), (go, gone)) = (channel(), channel::<()>());
    let gone = Mutex::new(gone);
    points.call(FailPoint::CheckpointFlush, move || {
        // Nobody asks about a second time.
        let _ = come.send(());
        let _ = gone.lock().recv();
    });
    space.put("a.md", "before\n");
    came.recv_timeout(LIMIT).expect("a checkpoint begins when nobody writes");
    space.put("b.md", "meanwhile\n");
    space.put("a.md", "meanwhile\n");
    drop(go);
    points.clear(FailPoint::CheckpointFlush);
    space.vfs.close().unwrap();
    assert_eq!((space.text("a.md").as_str(), space.text("b.md").as_str()), ("meanwhile\n", "meanwhile\n"));
    assert_eq!(space.log().len(), 3);
    let (settled, last) = (space.vfs.core.log.settled().unwrap().0, space.vfs.core.log.last().unwrap());
    assert_eq!(settled, last, "the end settles what the checkpoint on its way did not have");
}
