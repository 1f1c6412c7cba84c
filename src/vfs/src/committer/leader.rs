//! Election of the commit leader: the committer thread, or a lone writer (inline leader).
//!
//! Invariant: only the holder of this lock takes and applies batches, so that there is one order.
//! An inline leader saves the two thread wake-ups that a lone writer would wait for, a tenth of its
//! time. A writer that finds the lock taken leaves its set to the thread, which takes all sets that
//! came meanwhile as one batch.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Instant;

use super::{CommitPolicy, Committer, MAX_UNCHECKPOINTED_BYTES};
use crate::core::VfsCore;
use crate::queue::CommitterCommand;

/// Number of inline batches after which the thread is woken to unpin their packs.
const MAX_PACKS_PENDING_UNPIN: usize = 8;

/// The committer behind the leader lock.
///
/// The lock is poisoned by a panic on purpose: no other thread continues work that is half done.
pub(crate) struct CommitLeader(Mutex<Committer>);

impl CommitLeader {
    pub(crate) const fn new(committer: Committer) -> Self {
        Self(Mutex::new(committer))
    }

    /// Runs the committer thread until the queue is closed and empty.
    ///
    /// # Panics
    /// When an inline leader panicked: the write path has stopped then.
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

    /// Runs the next batch on a synchronous writer's thread, or wakes the committer thread.
    pub(crate) fn lead_or_wake(&self, core: &VfsCore) {
        match self.0.try_lock() {
            Ok(mut committer) if committer.can_run_inline() => {
                committer.run_inline();
                let needs_thread = committer.needs_thread();
                drop(committer);
                if needs_thread {
                    core.queue.wake_idle();
                } else if !core.queue.is_empty() {
                    core.queue.wake();
                }
            }
            Ok(_) | Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => core.queue.wake(),
        }
    }

    #[expect(
        clippy::unwrap_used,
        reason = "the committer thread ends after a panic of an inline leader, and health reports it"
    )]
    fn lock(&self) -> MutexGuard<'_, Committer> {
        self.0.lock().unwrap()
    }
}

impl Committer {
    /// The next time at which the thread has work, unless it is woken.
    fn schedule_wakeup(&mut self) -> Option<Instant> {
        self.next_wakeup = self.next_deadline();
        self.next_wakeup
    }

    /// Whether a writer may run the batch: writers come one at a time, and there is no other work.
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

    /// Runs one batch on a writer's thread, without retries.
    fn run_inline(&mut self) {
        self.is_inline = true;
        self.run_batch();
        self.is_inline = false;
        self.report_uncheckpointed();
    }

    /// Whether the thread has work, or must wake up earlier than it planned.
    fn needs_thread(&self) -> bool {
        self.handoff.is_some()
            || self.packs_pending_unpin >= MAX_PACKS_PENDING_UNPIN
            || self.next_deadline() < self.next_wakeup
    }

    fn resume(&mut self) {
        match self.handoff.take() {
            Some((planned, count)) => self.apply_logged(planned, count),
            None => self.unpin_packs(),
        }
    }
}
