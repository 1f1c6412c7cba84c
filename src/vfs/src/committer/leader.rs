//! Who does the committer's work: its thread, or a writer who is alone.
//!
//! One rule: batches are taken and settled by whoever holds the seat, so that there is one order. Why does not the thread do all of
//! it? Because a lone writer would wait for two wake-ups of another thread besides the flush, which is a tenth of its time. A writer
//! who comes while somebody else is at work leaves its set to the thread, which takes all that came meanwhile at once.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Instant;

use super::{CommitPolicy, Committer, MAX_UNSETTLED_BYTES};
use crate::core::VfsCore;
use crate::queue::CommitterCommand;

/// So many batches of guests may be settled before the thread is woken to see after their packs.
const MAX_UNRELEASED: usize = 8;

/// The committer, and the right to work as it.
///
/// A lock that is poisoned on purpose: nobody goes on with what a panic left half done.
pub(crate) struct CommitLeader(Mutex<Committer>);

impl CommitLeader {
    pub(crate) const fn new(committer: Committer) -> Self {
        Self(Mutex::new(committer))
    }

    /// The committer's thread: works until the queue is closed and empty.
    ///
    /// # Panics
    /// When a writer panicked at work here: the write path has stopped then.
    pub(crate) fn run(&self) {
        let core = Arc::clone(&self.hold().core);
        loop {
            let deadline = self.hold().rest();
            let next = core.queue.wait(deadline);
            let mut committer = self.hold();
            committer.go_on();
            match next {
                CommitterCommand::Batch => committer.work(),
                CommitterCommand::Idle => committer.idle(),
                CommitterCommand::Closed => return committer.finish(),
            }
            committer.look_after();
        }
    }

    /// Has somebody work at what is queued: the caller, who waits for a set of its own, when nobody else does; else the thread.
    pub(crate) fn attend(&self, core: &VfsCore) {
        match self.0.try_lock() {
            Ok(mut committer) if committer.welcomes() => {
                committer.receive();
                let is_thread_needed = committer.leaves_work();
                drop(committer);
                if is_thread_needed {
                    core.queue.nudge();
                } else if !core.queue.is_empty() {
                    core.queue.call();
                }
            }
            Ok(_) | Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => core.queue.call(),
        }
    }

    #[expect(clippy::unwrap_used, reason = "the thread ends with whoever panicked in its place, and health says so")]
    fn hold(&self) -> MutexGuard<'_, Committer> {
        self.0.lock().unwrap()
    }
}

impl Committer {
    /// Until when the thread has nothing to do unless something comes.
    fn rest(&mut self) -> Option<Instant> {
        self.rests_until = self.deadline();
        self.rests_until
    }

    /// Whether a writer may do the work: writers come one at a time, and there is nothing but a batch to see to.
    fn welcomes(&self) -> bool {
        self.is_calm
            && self.core.commits == CommitPolicy::PerSet
            && !self.window.is_open()
            && self.unfinished.is_none()
            && self.held.is_empty()
            && self.left.is_none()
            && self.unsettled_bytes <= MAX_UNSETTLED_BYTES
            && self.core.trouble.lock().is_none()
    }

    /// Works as a guest: one batch, without waiting for a disk that refuses.
    fn receive(&mut self) {
        self.is_guest = true;
        self.work();
        self.is_guest = false;
        self.tell_unsettled();
    }

    /// Whether the thread has something to do, or earlier than it thought.
    fn leaves_work(&self) -> bool {
        self.unfinished.is_some() || self.unreleased >= MAX_UNRELEASED || self.deadline() < self.rests_until
    }

    /// Goes on with what guests left.
    fn go_on(&mut self) {
        match self.unfinished.take() {
            Some((planned, count)) => self.bring_about(planned, count),
            None => self.release(),
        }
    }
}
