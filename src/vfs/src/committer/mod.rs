//! Steps 6 to 9 of the write path, one thread for each space.
//!
//! One rule: log, tree, memory (git), feed, in this order. A set is logged with the commit it will get (commits are a function of
//! parent, content, author and time), so that after a crash the same sets give the same commits. Until the log has a set,
//! nothing of it is visible but unreferenced objects; from then on it will happen, whatever breaks. Where commits are gathered, a
//! set is logged without one, and its commit is logged in the same way later: see `window`.

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

pub(crate) use external_commits::{external_record, diverged_records, assign_seqs};
pub(crate) use leader::CommitLeader;
use overlap::FlushOverlap;
use parallel_stage::ParallelStager;
use record::LoggedBatch;
pub use window::CommitPolicy;
pub(crate) use window::CommitWindow;

use crate::adopt::adoption_set;
use crate::core::{PendingRemoval, VfsCore};
use crate::queue::{FileEffect, QueuedSet, StateAfter, StateBefore};

/// A checkpoint comes after this long without writes, or when this much waits in the log.
const CHECKPOINT_IDLE_DELAY: Duration = Duration::from_secs(1);
const MAX_UNCHECKPOINTED_BYTES: usize = 64 << 20;
/// How long the disk is left alone after it refused.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Committer {
    pub(crate) core: Arc<VfsCore>,
    /// The newest commit that the log knows.
    pub(crate) head: Option<CommitId>,
    /// The newest position of the log.
    pub(crate) last_seq: Seq,
    /// The newest record that is no edit found by a look at the tree.
    pub(crate) last_non_scan_seq: Seq,
    /// What is known of `.git/index`.
    pub(crate) git_index: index::GitIndex,
    /// git commands that are not waited for any more.
    pub(crate) ignored_git: Option<ExternalGit>,
    pub(crate) uncheckpointed_bytes: usize,
    pub(crate) needs_checkpoint: bool,
    pub(crate) running_checkpoint: Option<checkpoint::RunningCheckpoint>,
    /// Sets that nobody waits for and that the log could not take yet.
    pub(crate) retry_queue: Vec<QueuedSet>,
    /// Sets that have no commit yet.
    pub(crate) window: CommitWindow,
    /// The newest of what is logged and not remembered: the disk refused until the end, and the next opening goes on.
    pub(crate) unapplied_tip: Option<WriteTip>,
    /// Paths that somebody edited before an accepted change was in place: the edits are yet to be recorded.
    pub(crate) conflicting_edits: BTreeSet<TreePath>,
    /// Commits of others that lie below ours and are yet to be recorded.
    pub(crate) pending_external_records: Vec<LogRecord>,
    /// What is logged was built on a branch that somebody moved, and it is not on any branch yet.
    pub(crate) is_rebuilding: bool,
    pub(crate) last_work: Instant,
    /// Writes packs while the log is flushed, once this runs.
    flush_overlap: FlushOverlap,
    /// Writes the pages of a set of many.
    parallel_stager: ParallelStager,
    /// Whether writers come one at a time, by the newest batch.
    is_uncontended: bool,
    /// Whether a writer is at work here, who has no time for a disk that refuses.
    is_inline: bool,
    /// What a guest could not bring to its end: logged sets, and how many sets they were made of.
    handoff: Option<(LoggedBatch, usize)>,
    /// Batches that guests settled and whose packs are not released yet.
    packs_pending_unpin: usize,
    /// Until when the thread rests, as it last said.
    next_wakeup: Option<Instant>,
}

/// How the settling of logged sets ended.
enum ApplyOutcome {
    /// They are in place, remembered and announced.
    Applied,
    /// They are left to the next opening.
    DeferredToRecovery,
    /// The disk refused, and whoever was at work had no time to wait for it.
    HandedOff(Vec<PlannedSet>),
}

/// A set with its record.
struct PlannedSet {
    set: QueuedSet,
    record: LogRecord,
    /// Made here for an edit behind us that another set covers.
    is_synthetic: bool,
}

impl Committer {
    /// A committer that stands at a position and has nothing to do.
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

    /// One batch; none when another was at work on it in the moment before.
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

    /// What is looked after between batches.
    fn run_maintenance(&mut self) {
        // A disk that is slower than its writers stops them before the log grows without end.
        let is_full = self.uncheckpointed_bytes > MAX_UNCHECKPOINTED_BYTES;
        self.collect_checkpoint(is_full && self.running_checkpoint.as_ref().is_some_and(checkpoint::RunningCheckpoint::is_flush));
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
        let departure = self.core.pending_removals.lock().values().map(|departure| departure.due).min();
        let is_checkpoint_near = self.needs_checkpoint && self.running_checkpoint.is_none() && !self.window.is_open();
        let checkpoint = is_checkpoint_near.then(|| self.last_work + CHECKPOINT_IDLE_DELAY);
        let is_troubled = !self.retry_queue.is_empty() || self.core.write_error.lock().is_some();
        let retry = is_troubled.then(|| Instant::now() + RETRY_INTERVAL);
        let index = self.git_index.due().filter(|_| self.running_checkpoint.is_none());
        // Departures are entered without waking this thread: it looks often enough for their two seconds.
        let look = Instant::now() + CHECKPOINT_IDLE_DELAY;
        let commits = self.window.due().map(|due| retry.unwrap_or(due));
        [departure, commits, checkpoint, retry, index, Some(look)].into_iter().flatten().min()
    }

    fn run_idle_work(&mut self) {
        if !self.retry_queue.is_empty() || self.is_window_due() {
            let held = std::mem::take(&mut self.retry_queue);
            self.process(held);
        } else if self.core.write_error.lock().is_some() {
            self.recheck_write_error();
        } else {
            self.check_branch();
        }
        self.check_index();
        self.record_due_removals(Instant::now());
        let is_idle = self.needs_checkpoint && self.last_work.elapsed() >= CHECKPOINT_IDLE_DELAY && !self.window.is_open();
        if is_idle {
            self.checkpoint();
        }
    }

    /// Followers hear of a person's commit although nobody writes, and whoever watches over the server learns that `.git` is gone or
    /// broken before a writer does.
    fn check_branch(&mut self) {
        self.wait_for_external_git();
        if let Err(trouble) = self.follow_head() {
            error!(error = %trouble, "git cannot be used; writes are refused until it can");
            *self.core.write_error.lock() = Some(trouble.into());
        }
    }

    /// The trouble is over once the disk takes writes again: nobody need dare one to find out. What it is may change meanwhile.
    fn recheck_write_error(&mut self) {
        let trouble = self.follow_head().and_then(|()| self.core.log.probe_disk()).err();
        if trouble.is_none() {
            info!("the disk takes writes again");
        }
        *self.core.write_error.lock() = trouble.map(Fault::from);
    }

    fn finish(&mut self) {
        self.record_due_removals(Instant::now() + crate::core::RENAME_SAVE_GRACE * 2);
        let held = std::mem::take(&mut self.retry_queue);
        if !held.is_empty() {
            self.process(held);
        }
        self.close_window();
        if self.window.is_open() {
            error!(
                sets = self.window.count(),
                "logged changes have no commit yet; they will when the space is opened again"
            );
        }
        for prepared in &self.retry_queue {
            error!(message = %prepared.message, "an accepted write could not be logged before the end");
            if !prepared.is_adopted {
                self.core.lost_writes.lock().extend(prepared.effects.iter().map(|effect| effect.path.clone()));
            }
        }
        // One that is on its way does not have what came since.
        for _ in 0..2 {
            self.collect_checkpoint(true);
            self.git_index.expedite();
            self.checkpoint();
        }
        self.collect_checkpoint(true);
        self.core.feed.close();
    }

    /// Pages that left under a scratch name and did not come back are removed from history.
    fn record_due_removals(&mut self, now: Instant) {
        let due: Vec<_> = {
            let mut departures = self.core.pending_removals.lock();
            let paths: Vec<_> =
                departures.iter().filter(|(_, gone)| gone.due <= now).map(|(path, _)| path.clone()).collect();
            paths.into_iter().filter_map(|path| departures.remove(&path).map(|gone| (path, gone))).collect()
        };
        let departed: Vec<_> = due.into_iter().filter_map(|(path, gone)| self.removal_set(path, gone)).collect();
        if !departed.is_empty() {
            self.core.queue.count_accepted(departed.len());
            let mut sets = std::mem::take(&mut self.retry_queue);
            sets.extend(departed);
            self.process(sets);
        }
    }

    /// The removal of a page that departed; what a person put in its place meanwhile is kept as an edit of theirs.
    fn removal_set(&self, path: TreePath, gone: PendingRemoval) -> Option<QueuedSet> {
        if self.core.overlay.get(&path).is_some() {
            return None;
        }
        let after = match self.core.read_worktree(&path) {
            Ok(standing) => standing.map(StateAfter::Leaf),
            Err(error) => {
                warn!(page.path = %path, %error, "what stands where a page left cannot be read");
                return None;
            }
        };
        let before = match self.recorded_state(&path) {
            Ok(recorded) => recorded.map(StateBefore::from),
            Err(_) => Some(gone.before),
        };
        let is_back = after.is_some();
        let set = adoption_set(&self.core, vec![FileEffect::new(path, before, after)], None);
        Some(if is_back { set } else { QueuedSet { actor: gone.actor, protocol: gone.protocol, ..set } })
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
                let held = self.retry_queue.len();
                self.fail_batch(sets, &fault);
                // Held sets are still pending: they are counted when they leave.
                self.finish_sets(count - (self.retry_queue.len() - held));
            }
        }
        self.parallel_stager.finish(&self.core);
    }

    /// Steps 7 to 9 of what is logged, made of so many sets.
    fn apply_logged(&mut self, logged: LoggedBatch, count: usize) {
        let LoggedBatch { planned, noops: void } = logged;
        let is_any = !planned.is_empty();
        match self.apply(planned) {
            // A batch of which nothing was written says nothing about the disk.
            ApplyOutcome::Applied if is_any => *self.core.write_error.lock() = None,
            ApplyOutcome::Applied => {}
            ApplyOutcome::DeferredToRecovery => return self.finish_sets(count),
            ApplyOutcome::HandedOff(planned) => {
                self.handoff = Some((LoggedBatch { planned, noops: void }, count));
                return;
            }
        }
        self.ack_noops(&void);
        self.finish_sets(count);
    }

    /// Counts sets that are settled or refused.
    fn finish_sets(&mut self, count: usize) {
        // Before these are: who waits until all is settled waits for the edits on top, too.
        if let Some(edits) = self.take_conflicting_edits() {
            self.core.queue.count_accepted(1);
            self.process(vec![edits]);
        }
        self.core.queue.done(count, !self.window.is_open());
    }

    /// What is recorded of a path, or will be once the window is closed.
    fn recorded_state(&self, path: &TreePath) -> Result<PathState, StoreError> {
        if let Some(recorded) = self.core.uncommitted.get(path, Seq(0)) {
            return Ok(recorded);
        }
        let states = self.core.versions.staged_states(WriteTip { commit: self.head, seq: self.last_seq }, &[path])?;
        Ok(states.into_iter().flatten().next())
    }

    /// A set of the edits that were found in the place of accepted changes, to come on top of those.
    fn take_conflicting_edits(&mut self) -> Option<QueuedSet> {
        let mut effects = Vec::new();
        for path in std::mem::take(&mut self.conflicting_edits) {
            if self.core.overlay.get(&path).is_some() {
                // Another change of it is accepted already; its turn brings up what stands there.
                continue;
            }
            let recorded = self.recorded_state(&path);
            match recorded.and_then(|recorded| Ok((recorded, self.core.read_worktree(&path)?))) {
                Ok((recorded, standing)) => {
                    let (before, after) = (recorded.map(StateBefore::from), standing.map(StateAfter::Leaf));
                    effects.push(FileEffect::new(path, before, after));
                }
                Err(error) => warn!(page.path = %path, %error, "an edit behind the server cannot be recorded"),
            }
        }
        effects.retain(|effect| !effect.is_noop());
        (!effects.is_empty()).then(|| adoption_set(&self.core, effects, None))
    }

    /// Nothing was logged. Those who wait are told; what nobody waits for was accepted and is tried again.
    fn fail_batch(&mut self, sets: Vec<QueuedSet>, fault: &Fault) {
        error!(error = ?fault, sets = sets.len(), "changes could not be logged");
        *self.core.write_error.lock() = Some(fault.duplicate());
        // What is left is logged, and what follows is built on it.
        if self.unapplied_tip.is_none() {
            self.core.versions.discard();
        }
        self.reject_or_retry(sets, fault);
    }

    /// Tells those who wait that nothing of theirs is taken; what nobody waits for was accepted, and is tried again.
    fn reject_or_retry(&mut self, sets: Vec<QueuedSet>, fault: &Fault) {
        for mut prepared in sets {
            match prepared.answer.take() {
                Some(answer) => {
                    self.clear_overlay(&prepared);
                    // The writer may have given up waiting.
                    let _ = answer.send(Err(fault.duplicate()));
                }
                None => self.retry_queue.push(prepared),
            }
        }
        // A refused change may have covered a held one.
        for prepared in self.retry_queue.iter().filter(|prepared| !prepared.is_adopted) {
            self.core.show_pending(prepared);
        }
    }

    fn clear_overlay(&self, prepared: &QueuedSet) {
        for effect in &prepared.effects {
            self.core.overlay.clear(&effect.path, prepared.ticket);
        }
        for path in &prepared.consumed_scratch {
            self.core.overlay.clear(path, prepared.ticket);
        }
    }
}
