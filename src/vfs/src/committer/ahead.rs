//! The pack of a batch is written while the disk flushes the log: a writer waits for the longer of the two, not for both.
//!
//! One rule: nothing hangs on it. What is written ahead of the log is unreferenced until the branch shows it, and a crash in between
//! leaves a pack that its `.keep` file tells the next opening to look at. What could not be written is written when the branch moves.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use svcfs_store::History;
use tracing::debug;

use crate::core::Core;

/// A thread that publishes what was staged.
pub(super) struct Ahead {
    /// Gone once the thread is to end.
    call: Option<Sender<()>>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Starts the thread; none where nothing is published, or when the system has no thread to give.
    pub(super) fn start(core: &Arc<Core>) -> Option<Self> {
        core.memory.git()?;
        let (call, called) = channel();
        let (finished, done) = channel();
        let core = Arc::clone(core);
        let work = move || {
            while called.recv().is_ok() {
                if let Some(Err(error)) = core.memory.git().map(History::publish) {
                    debug!(%error, "a pack could not be written ahead; it is when the branch moves");
                }
                if finished.send(()).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("ahead".to_owned()).spawn(work).ok()?;
        Some(Self { call: Some(call), done, thread: Some(thread) })
    }

    /// Does something while what was staged is published; both are over then.
    pub(super) fn beside<T>(&self, deed: impl FnOnce() -> T) -> T {
        let is_called = self.call.as_ref().is_some_and(|call| call.send(()).is_ok());
        let outcome = deed();
        if is_called {
            // Fails when the thread died, which was told by its panic.
            let _ = self.done.recv();
        }
        outcome
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.call = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
