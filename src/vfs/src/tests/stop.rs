//! Stopping the committer at a moment of a test's choice.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use svcfs_store::{FailPoint, FailPoints};

/// Much longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

/// Stops the committer wherever it comes by a point, until it is let go on.
pub(super) struct Stop {
    came: Receiver<()>,
    go: Sender<()>,
}

impl Stop {
    pub(super) fn at(points: &FailPoints, point: FailPoint) -> Self {
        let ((come, came), (go, gone)) = (channel(), channel());
        let gone = parking_lot::Mutex::new(gone);
        points.set_callback(point, move || {
            // Nobody asks any more once the test is over.
            let _ = come.send(());
            let _ = gone.lock().recv();
        });
        Self { came, go }
    }
    pub(super) fn wait(&self) {
        self.came.recv_timeout(LIMIT).expect("the committer comes by");
    }
    pub(super) fn go_on(&self) {
        self.go.send(()).unwrap();
    }
}
