//! Who does the committer's work: its thread, or a writer who is alone.
//!
//! One rule: batches are taken and settled by whoever holds the seat, so that there is one order. Why does not the thread do all of
//! it? Because a lone writer would wait for two wake-ups of another thread besides the flush, which is a tenth of its time. A writer
//! who comes while somebody else is at work leaves its set to the thread, which takes all that came meanwhile at once.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Instant;

use super::{CommitPolicy, Committer, MAX_UNCHECKPOINTED_BYTES};
use crate::core::VfsCore;
use crate::queue::CommitterCommand;

/// So many batches of guests may be settled before the thread is woken to see after their packs.
const MAX_PACKS_PENDING_UNPIN: usize = 8;

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
        let core = Arc::clone(&self.lock().core);
        loop {
            let deadline = self.lock().schedule_wakeup();
            let next = core.queue.next_command(deadline);
            let mut committer = self.lock();
            committer.resume();
            match next {
                CommitterCommand::Batch => committer.run_batch(),
                CommitterCommand::Idle => committer.run_idle_work(),
                CommitterCommand::Closed => return committer.finish(),
            }
            committer.run_maintenance();
        }
    }

    /// Has somebody work at what is queued: the caller, who waits for a set of its own, when nobody else does; else the thread.
    pub(crate) fn lead_or_wake(&self, core: &VfsCore) {
        match self.0.try_lock() {
            Ok(mut committer) if committer.can_run_inline() => {
                committer.run_inline();
                let is_thread_needed = committer.needs_thread();
                drop(committer);
                if is_thread_needed {
                    core.queue.wake_idle();
                } else if !core.queue.is_empty() {
                    core.queue.wake();
                }
            }
            Ok(_) | Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => core.queue.wake(),
        }
    }

    #[expect(clippy::unwrap_used, reason = "the thread ends with whoever panicked in its place, and health says so")]
    fn lock(&self) -> MutexGuard<'_, Committer> {
        self.0.lock().unwrap()
    }
}

impl Committer {
    /// Until when the thread has nothing to do unless something comes.
    fn schedule_wakeup(&mut self) -> Option<Instant> {
        self.next_wakeup = self.next_deadline();
        self.next_wakeup
    }

    /// Whether a writer may do the work: writers come one at a time, and there is nothing but a batch to see to.
    fn can_run_inline(&self) -> bool {
        self.is_uncontended
            && self.core.commit_policy == CommitPolicy::PerSet
            && !self.window.is_open()
            && self.handoff.is_none()
            && self.retry_queue.is_empty()
            && self.unapplied_tip.is_none()
            && self.uncheckpointed_bytes <= MAX_UNCHECKPOINTED_BYTES
            && self.core.write_error.lock().is_none()
    }

    /// Works as a guest: one batch, without waiting for a disk that refuses.
    fn run_inline(&mut self) {
        self.is_inline = true;
        self.run_batch();
        self.is_inline = false;
        self.report_uncheckpointed();
    }

    /// Whether the thread has something to do, or earlier than it thought.
    fn needs_thread(&self) -> bool {
        self.handoff.is_some() || self.packs_pending_unpin >= MAX_PACKS_PENDING_UNPIN || self.next_deadline() < self.next_wakeup
    }

    /// Goes on with what guests left.
    fn resume(&mut self) {
        match self.handoff.take() {
            Some((planned, count)) => self.apply_logged(planned, count),
            None => self.unpin_packs(),
        }
    }
}
