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

pub(crate) use external_commits::{foreign_record, jump_records, numbered};
pub(crate) use leader::CommitLeader;
use overlap::FlushOverlap;
use parallel_stage::ParallelStager;
use record::LoggedBatch;
pub use window::CommitPolicy;
pub(crate) use window::CommitWindow;

use crate::adopt::adopted;
use crate::core::{PendingRemoval, VfsCore};
use crate::queue::{FileEffect, QueuedSet, StateAfter, StateBefore};

/// A checkpoint comes after this long without writes, or when this much waits in the log.
const IDLE: Duration = Duration::from_secs(1);
const MAX_UNSETTLED_BYTES: usize = 64 << 20;
/// How long the disk is left alone after it refused.
const RETRY: Duration = Duration::from_millis(200);

pub(crate) struct Committer {
    pub(crate) core: Arc<VfsCore>,
    /// The newest commit that the log knows.
    pub(crate) head: Option<CommitId>,
    /// The newest position of the log.
    pub(crate) last: Seq,
    /// The newest record that is no edit found by a look at the tree.
    pub(crate) told: Seq,
    /// What is known of `.git/index`.
    pub(crate) index: index::GitIndex,
    /// git commands that are not waited for any more.
    pub(crate) passed: Option<ExternalGit>,
    pub(crate) unsettled_bytes: usize,
    pub(crate) is_unsettled: bool,
    pub(crate) underway: Option<checkpoint::RunningCheckpoint>,
    /// Sets that nobody waits for and that the log could not take yet.
    pub(crate) held: Vec<QueuedSet>,
    /// Sets that have no commit yet.
    pub(crate) window: CommitWindow,
    /// The newest of what is logged and not remembered: the disk refused until the end, and the next opening goes on.
    pub(crate) left: Option<WriteTip>,
    /// Paths that somebody edited before an accepted change was in place: the edits are yet to be recorded.
    pub(crate) edited: BTreeSet<TreePath>,
    /// Commits of others that lie below ours and are yet to be recorded.
    pub(crate) theirs: Vec<LogRecord>,
    /// What is logged was built on a branch that somebody moved, and it is not on any branch yet.
    pub(crate) is_rebuilding: bool,
    pub(crate) last_work: Instant,
    /// Writes packs while the log is flushed, once this runs.
    ahead: FlushOverlap,
    /// Writes the pages of a set of many.
    early: ParallelStager,
    /// Whether writers come one at a time, by the newest batch.
    is_calm: bool,
    /// Whether a writer is at work here, who has no time for a disk that refuses.
    is_guest: bool,
    /// What a guest could not bring to its end: logged sets, and how many sets they were made of.
    unfinished: Option<(LoggedBatch, usize)>,
    /// Batches that guests settled and whose packs are not released yet.
    unreleased: usize,
    /// Until when the thread rests, as it last said.
    rests_until: Option<Instant>,
}

/// How the settling of logged sets ended.
enum ApplyOutcome {
    /// They are in place, remembered and announced.
    Settled,
    /// They are left to the next opening.
    Left,
    /// The disk refused, and whoever was at work had no time to wait for it.
    Unfinished(Vec<PlannedSet>),
}

/// A set with its record.
struct PlannedSet {
    prepared: QueuedSet,
    record: LogRecord,
    /// Made here for an edit behind us that another set covers.
    is_extra: bool,
}

impl Committer {
    /// A committer that stands at a position and has nothing to do.
    pub(crate) fn at(core: Arc<VfsCore>, last: Seq, head: Option<CommitId>) -> Self {
        Self {
            core,
            head,
            last,
            told: Seq(0),
            index: index::GitIndex::default(),
            passed: None,
            unsettled_bytes: 0,
            is_unsettled: false,
            underway: None,
            held: Vec::new(),
            window: CommitWindow::default(),
            left: None,
            edited: BTreeSet::new(),
            theirs: Vec::new(),
            is_rebuilding: false,
            last_work: Instant::now(),
            ahead: FlushOverlap::default(),
            early: ParallelStager::default(),
            is_calm: true,
            is_guest: false,
            unfinished: None,
            unreleased: 0,
            rests_until: None,
        }
    }

    /// One batch; none when another was at work on it in the moment before.
    fn work(&mut self) {
        let batch = self.core.queue.drain();
        if batch.is_empty() {
            return;
        }
        self.is_calm = batch.len() == 1;
        let mut sets = std::mem::take(&mut self.held);
        sets.extend(batch);
        self.process(sets);
    }

    /// What is looked after between batches.
    fn look_after(&mut self) {
        // A disk that is slower than its writers stops them before the log grows without end.
        let is_full = self.unsettled_bytes > MAX_UNSETTLED_BYTES;
        self.end_checkpoint(is_full && self.underway.as_ref().is_some_and(checkpoint::RunningCheckpoint::is_flush));
        if is_full {
            self.checkpoint();
        }
        self.refresh_index_when_due();
        self.tell_unsettled();
    }

    fn tell_unsettled(&self) {
        self.core.unsettled_bytes.store(self.unsettled_bytes as u64, Ordering::Relaxed);
    }

    fn deadline(&self) -> Option<Instant> {
        let departure = self.core.departures.lock().values().map(|departure| departure.due).min();
        let is_checkpoint_near = self.is_unsettled && self.underway.is_none() && !self.window.is_open();
        let checkpoint = is_checkpoint_near.then(|| self.last_work + IDLE);
        let is_troubled = !self.held.is_empty() || self.core.trouble.lock().is_some();
        let retry = is_troubled.then(|| Instant::now() + RETRY);
        let index = self.index.due().filter(|_| self.underway.is_none());
        // Departures are entered without waking this thread: it looks often enough for their two seconds.
        let look = Instant::now() + IDLE;
        let commits = self.window.due().map(|due| retry.unwrap_or(due));
        [departure, commits, checkpoint, retry, index, Some(look)].into_iter().flatten().min()
    }

    fn idle(&mut self) {
        if !self.held.is_empty() || self.is_window_due() {
            let held = std::mem::take(&mut self.held);
            self.process(held);
        } else if self.core.trouble.lock().is_some() {
            self.look_again();
        } else {
            self.look_at_branch();
        }
        self.look_at_index();
        self.record_departures(Instant::now());
        let is_idle = self.is_unsettled && self.last_work.elapsed() >= IDLE && !self.window.is_open();
        if is_idle {
            self.checkpoint();
        }
    }

    /// Followers hear of a person's commit although nobody writes, and whoever watches over the server learns that `.git` is gone or
    /// broken before a writer does.
    fn look_at_branch(&mut self) {
        self.give_way();
        if let Err(trouble) = self.follow_head() {
            error!(error = %trouble, "git cannot be used; writes are refused until it can");
            *self.core.trouble.lock() = Some(trouble.into());
        }
    }

    /// The trouble is over once the disk takes writes again: nobody need dare one to find out. What it is may change meanwhile.
    fn look_again(&mut self) {
        let trouble = self.follow_head().and_then(|()| self.core.log.probe_disk()).err();
        if trouble.is_none() {
            info!("the disk takes writes again");
        }
        *self.core.trouble.lock() = trouble.map(Fault::from);
    }

    fn finish(&mut self) {
        self.record_departures(Instant::now() + crate::core::DEPARTURE * 2);
        let held = std::mem::take(&mut self.held);
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
        for prepared in &self.held {
            error!(message = %prepared.message, "an accepted write could not be logged before the end");
            if !prepared.is_adopted {
                self.core.lost.lock().extend(prepared.effects.iter().map(|effect| effect.path.clone()));
            }
        }
        // One that is on its way does not have what came since.
        for _ in 0..2 {
            self.end_checkpoint(true);
            self.index.hurry();
            self.checkpoint();
        }
        self.end_checkpoint(true);
        self.core.feed.close();
    }

    /// Pages that left under a scratch name and did not come back are removed from history.
    fn record_departures(&mut self, now: Instant) {
        let due: Vec<_> = {
            let mut departures = self.core.departures.lock();
            let paths: Vec<_> =
                departures.iter().filter(|(_, gone)| gone.due <= now).map(|(path, _)| path.clone()).collect();
            paths.into_iter().filter_map(|path| departures.remove(&path).map(|gone| (path, gone))).collect()
        };
        let departed: Vec<_> = due.into_iter().filter_map(|(path, gone)| self.departed(path, gone)).collect();
        if !departed.is_empty() {
            self.core.queue.count(departed.len());
            let mut sets = std::mem::take(&mut self.held);
            sets.extend(departed);
            self.process(sets);
        }
    }

    /// The removal of a page that departed; what a person put in its place meanwhile is kept as an edit of theirs.
    fn departed(&self, path: TreePath, gone: PendingRemoval) -> Option<QueuedSet> {
        if self.core.overlay.get(&path).is_some() {
            return None;
        }
        let after = match self.core.standing(&path) {
            Ok(standing) => standing.map(StateAfter::Leaf),
            Err(error) => {
                warn!(page.path = %path, %error, "what stands where a page left cannot be read");
                return None;
            }
        };
        let before = match self.recorded(&path) {
            Ok(recorded) => recorded.map(StateBefore::from),
            Err(_) => Some(gone.before),
        };
        let is_back = after.is_some();
        let set = adopted(&self.core, vec![FileEffect::new(path, before, after)], None);
        Some(if is_back { set } else { QueuedSet { actor: gone.actor, protocol: gone.protocol, ..set } })
    }

    fn process(&mut self, sets: Vec<QueuedSet>) {
        let count = sets.len();
        self.last_work = Instant::now();
        self.give_way();
        self.early.begin(&self.core, &sets);
        match self.log_all(sets) {
            Ok(logged) => self.bring_about(logged, count),
            Err((sets, fault)) => {
                self.early.end(&self.core);
                let held = self.held.len();
                self.refuse(sets, &fault);
                // Held sets are still pending: they are counted when they leave.
                self.done(count - (self.held.len() - held));
            }
        }
        self.early.end(&self.core);
    }

    /// Steps 7 to 9 of what is logged, made of so many sets.
    fn bring_about(&mut self, logged: LoggedBatch, count: usize) {
        let LoggedBatch { planned, void } = logged;
        let is_any = !planned.is_empty();
        match self.settle(planned) {
            // A batch of which nothing was written says nothing about the disk.
            ApplyOutcome::Settled if is_any => *self.core.trouble.lock() = None,
            ApplyOutcome::Settled => {}
            ApplyOutcome::Left => return self.done(count),
            ApplyOutcome::Unfinished(planned) => {
                self.unfinished = Some((LoggedBatch { planned, void }, count));
                return;
            }
        }
        self.answer_void(&void);
        self.done(count);
    }

    /// Counts sets that are settled or refused.
    fn done(&mut self, count: usize) {
        // Before these are: who waits until all is settled waits for the edits on top, too.
        if let Some(edits) = self.edits() {
            self.core.queue.count(1);
            self.process(vec![edits]);
        }
        self.core.queue.done(count, !self.window.is_open());
    }

    /// What is recorded of a path, or will be once the window is closed.
    fn recorded(&self, path: &TreePath) -> Result<PathState, StoreError> {
        if let Some(recorded) = self.core.uncommitted.get(path, Seq(0)) {
            return Ok(recorded);
        }
        let states = self.core.memory.staged_states(WriteTip { commit: self.head, seq: self.last }, &[path])?;
        Ok(states.into_iter().flatten().next())
    }

    /// A set of the edits that were found in the place of accepted changes, to come on top of those.
    fn edits(&mut self) -> Option<QueuedSet> {
        let mut effects = Vec::new();
        for path in std::mem::take(&mut self.edited) {
            if self.core.overlay.get(&path).is_some() {
                // Another change of it is accepted already; its turn brings up what stands there.
                continue;
            }
            let recorded = self.recorded(&path);
            match recorded.and_then(|recorded| Ok((recorded, self.core.standing(&path)?))) {
                Ok((recorded, standing)) => {
                    let (before, after) = (recorded.map(StateBefore::from), standing.map(StateAfter::Leaf));
                    effects.push(FileEffect::new(path, before, after));
                }
                Err(error) => warn!(page.path = %path, %error, "an edit behind the server cannot be recorded"),
            }
        }
        effects.retain(|effect| !effect.is_noise());
        (!effects.is_empty()).then(|| adopted(&self.core, effects, None))
    }

    /// Nothing was logged. Those who wait are told; what nobody waits for was accepted and is tried again.
    fn refuse(&mut self, sets: Vec<QueuedSet>, fault: &Fault) {
        error!(error = ?fault, sets = sets.len(), "changes could not be logged");
        *self.core.trouble.lock() = Some(fault.duplicate());
        // What is left is logged, and what follows is built on it.
        if self.left.is_none() {
            self.core.memory.discard();
        }
        self.turn_away_or_hold(sets, fault);
    }

    /// Tells those who wait that nothing of theirs is taken; what nobody waits for was accepted, and is tried again.
    fn turn_away_or_hold(&mut self, sets: Vec<QueuedSet>, fault: &Fault) {
        for mut prepared in sets {
            match prepared.answer.take() {
                Some(answer) => {
                    self.forget(&prepared);
                    // The writer may have given up waiting.
                    let _ = answer.send(Err(fault.duplicate()));
                }
                None => self.held.push(prepared),
            }
        }
        // A refused change may have covered a held one.
        for prepared in self.held.iter().filter(|prepared| !prepared.is_adopted) {
            self.core.show(prepared);
        }
    }

    fn forget(&self, prepared: &QueuedSet) {
        for effect in &prepared.effects {
            self.core.overlay.clear(&effect.path, prepared.stamp);
        }
        for path in &prepared.spent {
            self.core.overlay.clear(path, prepared.stamp);
        }
    }
}
