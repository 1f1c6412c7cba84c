//! Steps 6 to 9 of the write path; one thread for each space.
//!
//! Invariant: the order is log, tree, versions (git), feed. A set is logged with the id of its
//! commit, which depends only on parent, content, author and time, so that replay after a crash
//! gives the same commits. Before a set is logged, only unreferenced objects of it exist. Once it
//! is logged it will be applied. With coalesced commits a set is logged without one, and its commit
//! is logged later: see `window`.

mod apply;
mod checkpoint;
mod coalesce;
mod external_commits;
mod index;
mod leader;
mod overlap;
mod parallel_stage;
mod record;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use svcfs_base::{CommitId, Fault, Seq, TreePath};
use svcfs_store::{ExternalGit, LogRecord, PathState, StoreError, WriteTip};
use tracing::{error, info, warn};

pub(crate) use external_commits::{assign_seqs, diverged_records, external_record};
pub(crate) use leader::CommitLeader;
use overlap::FlushOverlap;
use parallel_stage::ParallelStager;
use record::LoggedBatch;
pub use window::CommitPolicy;
pub(crate) use window::CommitWindow;

use crate::adopt::adoption_set;
use crate::core::{PendingRemoval, VfsCore};
use crate::queue::{FileEffect, QueuedSet, StateAfter, StateBefore};

/// A checkpoint starts after this idle time, or at this size of logged contents.
const CHECKPOINT_IDLE_DELAY: Duration = Duration::from_secs(1);
const MAX_UNCHECKPOINTED_BYTES: usize = 64 << 20;
/// Delay between retries after a disk error.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Committer {
    pub(crate) core: Arc<VfsCore>,
    /// The newest commit that the log knows.
    pub(crate) head: Option<CommitId>,
    /// The newest position of the log.
    pub(crate) last_seq: Seq,
    /// The newest record that is not an edit found by a scan of the tree.
    pub(crate) last_non_scan_seq: Seq,
    pub(crate) git_index: index::GitIndex,
    /// External git commands that the committer stopped waiting for.
    pub(crate) ignored_git: Option<ExternalGit>,
    pub(crate) uncheckpointed_bytes: usize,
    pub(crate) needs_checkpoint: bool,
    pub(crate) running_checkpoint: Option<checkpoint::RunningCheckpoint>,
    /// Accepted asynchronous sets that the log could not take yet.
    pub(crate) retry_queue: Vec<QueuedSet>,
    pub(crate) window: CommitWindow,
    /// The newest logged set that could not be applied before shutdown; recovery replays it.
    pub(crate) unapplied_tip: Option<WriteTip>,
    /// Paths whose external edits prevented an install, and are not recorded yet.
    pub(crate) conflicting_edits: BTreeSet<TreePath>,
    /// External commits that are ancestors of svcfs's own, not logged yet.
    pub(crate) pending_external_records: Vec<LogRecord>,
    /// The branch was moved externally; the logged sets' new commits are on no branch yet.
    pub(crate) is_rebuilding: bool,
    pub(crate) last_work: Instant,
    /// Writes packs while the log is flushed.
    flush_overlap: FlushOverlap,
    /// Stages the files of a large set on a second thread.
    parallel_stager: ParallelStager,
    /// Whether the last batch had exactly one set.
    is_uncontended: bool,
    /// Whether the batch runs on a writer's thread, which must not block on retries.
    is_inline: bool,
    /// A logged batch that an inline leader could not apply, with the number of its sets.
    handoff: Option<(LoggedBatch, usize)>,
    /// Applied batches whose packs are not unpinned yet.
    packs_pending_unpin: usize,
    /// The committer thread's next wake-up.
    next_wakeup: Option<Instant>,
}

/// Outcome of the apply step.
enum ApplyOutcome {
    /// Installed, committed and announced.
    Applied,
    /// Recovery applies them at the next start.
    DeferredToRecovery,
    /// An inline leader met an error; the committer thread retries.
    HandedOff(Vec<PlannedSet>),
}

struct PlannedSet {
    set: QueuedSet,
    record: LogRecord,
    /// Created by the committer, for an external edit that another set would overwrite.
    is_synthetic: bool,
}

impl Committer {
    /// A committer at a log position, with nothing to do.
    pub(crate) fn starting_at(core: Arc<VfsCore>, last: Seq, head: Option<CommitId>) -> Self {
        Self {
            core,
            head,
            last_seq: last,
            last_non_scan_seq: Seq(0),
            git_index: index::GitIndex::default(),
            ignored_git: None,
            uncheckpointed_bytes: 0,
            needs_checkpoint: false,
            running_checkpoint: None,
            retry_queue: Vec::new(),
            window: CommitWindow::default(),
            unapplied_tip: None,
            conflicting_edits: BTreeSet::new(),
            pending_external_records: Vec::new(),
            is_rebuilding: false,
            last_work: Instant::now(),
            flush_overlap: FlushOverlap::default(),
            parallel_stager: ParallelStager::default(),
            is_uncontended: true,
            is_inline: false,
            handoff: None,
            packs_pending_unpin: 0,
            next_wakeup: None,
        }
    }

    /// Processes one batch; does nothing when another leader took it just before.
    fn run_batch(&mut self) {
        let batch = self.core.queue.drain();
        if batch.is_empty() {
            return;
        }
        self.is_uncontended = batch.len() == 1;
        let mut sets = std::mem::take(&mut self.retry_queue);
        sets.extend(batch);
        self.process(sets);
    }

    /// Work between batches: checkpoint, index refresh, metrics.
    fn run_maintenance(&mut self) {
        // When the disk is slower than its writers, they wait here, so that the log stays bounded.
        let is_full = self.uncheckpointed_bytes > MAX_UNCHECKPOINTED_BYTES;
        self.collect_checkpoint(
            is_full && self.running_checkpoint.as_ref().is_some_and(checkpoint::RunningCheckpoint::is_flush),
        );
        if is_full {
            self.checkpoint();
        }
        self.refresh_index_when_due();
        self.report_uncheckpointed();
    }

    fn report_uncheckpointed(&self) {
        self.core.uncheckpointed_bytes.store(self.uncheckpointed_bytes as u64, Ordering::Relaxed);
    }

    fn next_deadline(&self) -> Option<Instant> {
        let removal = self.core.pending_removals.lock().values().map(|pending| pending.due).min();
        let is_checkpoint_near = self.needs_checkpoint && self.running_checkpoint.is_none() && !self.window.is_open();
        let checkpoint = is_checkpoint_near.then(|| self.last_work + CHECKPOINT_IDLE_DELAY);
        let needs_retry = !self.retry_queue.is_empty() || self.core.write_error.lock().is_some();
        let retry = needs_retry.then(|| Instant::now() + RETRY_INTERVAL);
        let index = self.git_index.due().filter(|_| self.running_checkpoint.is_none());
        // Pending removals do not wake this thread: it polls within their grace period.
        let poll = Instant::now() + CHECKPOINT_IDLE_DELAY;
        let commits = self.window.due().map(|due| retry.unwrap_or(due));
        [removal, commits, checkpoint, retry, index, Some(poll)].into_iter().flatten().min()
    }

    fn run_idle_work(&mut self) {
        if !self.retry_queue.is_empty() || self.is_window_due() {
            let retried = std::mem::take(&mut self.retry_queue);
            self.process(retried);
        } else if self.core.write_error.lock().is_some() {
            self.recheck_write_error();
        } else {
            self.check_branch();
        }
        self.check_index();
        self.record_due_removals(Instant::now());
        let is_idle =
            self.needs_checkpoint && self.last_work.elapsed() >= CHECKPOINT_IDLE_DELAY && !self.window.is_open();
        if is_idle {
            self.checkpoint();
        }
    }

    /// Announces external commits, and notices a missing or damaged `.git`, without writes.
    fn check_branch(&mut self) {
        self.wait_for_external_git();
        if let Err(error) = self.follow_head() {
            error!(error = %error, "git cannot be used; writes are refused until it works again");
            *self.core.write_error.lock() = Some(error.into());
        }
    }

    /// Clears the write error once the disk accepts writes, or updates its cause. Probes the
    /// disk, so that no write has to be risked to find out.
    fn recheck_write_error(&mut self) {
        let error = self.follow_head().and_then(|()| self.core.log.probe_disk()).err();
        if error.is_none() {
            info!("the disk accepts writes again");
        }
        *self.core.write_error.lock() = error.map(Fault::from);
    }

    fn finish(&mut self) {
        self.record_due_removals(Instant::now() + crate::core::RENAME_SAVE_GRACE * 2);
        let retried = std::mem::take(&mut self.retry_queue);
        if !retried.is_empty() {
            self.process(retried);
        }
        self.close_window();
        if self.window.is_open() {
            error!(sets = self.window.count(), "logged changes have no commit yet; the next start commits them");
        }
        for set in &self.retry_queue {
            error!(message = %set.message, "an accepted write could not be logged before shutdown and is lost");
            if !set.is_adopted {
                self.core.lost_writes.lock().extend(set.effects.iter().map(|effect| effect.path.clone()));
            }
        }
        // A running checkpoint does not cover the latest changes.
        for _ in 0..2 {
            self.collect_checkpoint(true);
            self.git_index.expedite();
            self.checkpoint();
        }
        self.collect_checkpoint(true);
        self.core.feed.close();
    }

    /// Records the removal of pages that were renamed to a scratch name and did not reappear.
    fn record_due_removals(&mut self, now: Instant) {
        let due: Vec<_> = {
            let mut pending = self.core.pending_removals.lock();
            let paths: Vec<_> =
                pending.iter().filter(|(_, removal)| removal.due <= now).map(|(path, _)| path.clone()).collect();
            paths.into_iter().filter_map(|path| pending.remove(&path).map(|removal| (path, removal))).collect()
        };
        let removals: Vec<_> = due.into_iter().filter_map(|(path, removal)| self.removal_set(path, removal)).collect();
        if !removals.is_empty() {
            self.core.queue.count_accepted(removals.len());
            let mut sets = std::mem::take(&mut self.retry_queue);
            sets.extend(removals);
            self.process(sets);
        }
    }

    /// The removal of a renamed page, or an external edit if a new file is there.
    fn removal_set(&self, path: TreePath, removal: PendingRemoval) -> Option<QueuedSet> {
        if self.core.overlay.get(&path).is_some() {
            return None;
        }
        let after = match self.core.read_worktree(&path) {
            Ok(current) => current.map(StateAfter::Leaf),
            Err(error) => {
                warn!(page.path = %path, %error, "cannot read the current file at the path of a renamed page");
                return None;
            }
        };
        let before = match self.recorded_state(&path) {
            Ok(recorded) => recorded.map(StateBefore::from),
            Err(_) => Some(removal.before),
        };
        let is_back = after.is_some();
        let set = adoption_set(&self.core, vec![FileEffect::new(path, before, after)], None);
        Some(if is_back { set } else { QueuedSet { actor: removal.actor, protocol: removal.protocol, ..set } })
    }

    fn process(&mut self, sets: Vec<QueuedSet>) {
        let count = sets.len();
        self.last_work = Instant::now();
        self.wait_for_external_git();
        self.parallel_stager.start(&self.core, &sets);
        match self.log_all(sets) {
            Ok(logged) => self.apply_logged(logged, count),
            Err((sets, fault)) => {
                self.parallel_stager.finish(&self.core);
                let retries_before = self.retry_queue.len();
                self.fail_batch(sets, &fault);
                // Sets in the retry queue are still pending: they are counted when they are done.
                self.finish_sets(count - (self.retry_queue.len() - retries_before));
            }
        }
        self.parallel_stager.finish(&self.core);
    }

    /// Steps 7 to 9 for a logged batch of `count` sets.
    fn apply_logged(&mut self, logged: LoggedBatch, count: usize) {
        let LoggedBatch { planned, noops } = logged;
        let is_any = !planned.is_empty();
        match self.apply(planned) {
            // A batch that wrote nothing says nothing about the disk.
            ApplyOutcome::Applied if is_any => *self.core.write_error.lock() = None,
            ApplyOutcome::Applied => {}
            ApplyOutcome::DeferredToRecovery => return self.finish_sets(count),
            ApplyOutcome::HandedOff(planned) => {
                self.handoff = Some((LoggedBatch { planned, noops }, count));
                return;
            }
        }
        self.ack_noops(&noops);
        self.finish_sets(count);
    }

    fn finish_sets(&mut self, count: usize) {
        // Counted before the sets, so that a barrier waits for the edits, too.
        if let Some(edits) = self.take_conflicting_edits() {
            self.core.queue.count_accepted(1);
            self.process(vec![edits]);
        }
        self.core.queue.done(count, !self.window.is_open());
    }

    /// State of a path in history, or after the window is closed.
    fn recorded_state(&self, path: &TreePath) -> Result<PathState, StoreError> {
        if let Some(recorded) = self.core.uncommitted.get(path, Seq(0)) {
            return Ok(recorded);
        }
        let states = self.core.versions.staged_states(WriteTip { commit: self.head, seq: self.last_seq }, &[path])?;
        Ok(states.into_iter().flatten().next())
    }

    /// A set with the edits that conflicted with accepted changes, to be committed after those.
    fn take_conflicting_edits(&mut self) -> Option<QueuedSet> {
        let mut effects = Vec::new();
        for path in std::mem::take(&mut self.conflicting_edits) {
            if self.core.overlay.get(&path).is_some() {
                // A later accepted change of this path finds the edit itself.
                continue;
            }
            let recorded = self.recorded_state(&path);
            match recorded.and_then(|recorded| Ok((recorded, self.core.read_worktree(&path)?))) {
                Ok((recorded, current)) => {
                    let (before, after) = (recorded.map(StateBefore::from), current.map(StateAfter::Leaf));
                    effects.push(FileEffect::new(path, before, after));
                }
                Err(error) => warn!(page.path = %path, %error, "an external edit cannot be recorded"),
            }
        }
        effects.retain(|effect| !effect.is_noop());
        (!effects.is_empty()).then(|| adoption_set(&self.core, effects, None))
    }

    /// Nothing was logged: synchronous writers get the fault. Asynchronous sets were
    /// acknowledged, and are retried.
    fn fail_batch(&mut self, sets: Vec<QueuedSet>, fault: &Fault) {
        error!(error = ?fault, sets = sets.len(), "changes could not be logged");
        *self.core.write_error.lock() = Some(fault.duplicate());
        // Unapplied sets are logged, and later commits are based on them.
        if self.unapplied_tip.is_none() {
            self.core.versions.discard();
        }
        self.reject_or_retry(sets, fault);
    }

    /// Refuses the sets of synchronous writers; queues asynchronous sets for a retry.
    fn reject_or_retry(&mut self, sets: Vec<QueuedSet>, fault: &Fault) {
        for mut set in sets {
            match set.answer.take() {
                Some(answer) => {
                    self.clear_overlay(&set);
                    // The writer may have stopped waiting.
                    let _ = answer.send(Err(fault.duplicate()));
                }
                None => self.retry_queue.push(set),
            }
        }
        // A refused change may have replaced the overlay entry of a retried one.
        for set in self.retry_queue.iter().filter(|set| !set.is_adopted) {
            self.core.show_pending(set);
        }
    }

    fn clear_overlay(&self, set: &QueuedSet) {
        for effect in &set.effects {
            self.core.overlay.clear(&effect.path, set.ticket);
        }
        for path in &set.consumed_scratch {
            self.core.overlay.clear(path, set.ticket);
        }
    }
}
