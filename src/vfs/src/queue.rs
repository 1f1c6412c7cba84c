//! Accepted change sets on their way to the committer.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use svcfs_base::{
    Actor, CommitId, Durability, ETag, EventAnnouncement, Fault, FileKind, LargeFile, OriginId, Precondition, Protocol,
    RequestMark, Seq, TreePath,
};

use crate::overlay::OverlayFile;

/// Limits of one batch: bound how long its first set waits for its last.
const MAX_BATCH_SETS: usize = 512;
const MAX_BATCH_BYTES: usize = 32 << 20;
/// Limits of the queue; when it is full, writers wait.
const MAX_QUEUED_SETS: usize = 4096;
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// Limit for asynchronous writers: how far they run ahead of the disk, and so how long others wait.
const MAX_QUEUED_SOON: usize = 256;
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);
/// When a refused writer may retry.
const RETRY_AFTER_SECS: u64 = 5;
/// How long an asynchronous change may stay unflushed.
const MAX_FLUSH_DELAY: Duration = Duration::from_millis(50);

pub(crate) struct QueuedSet {
    pub(crate) actor: Actor,
    pub(crate) protocol: Protocol,
    pub(crate) origin_id: Option<OriginId>,
    pub(crate) provenance: Option<String>,
    /// The request that asked for it, if its client may send it again.
    pub(crate) request: Option<RequestMark>,
    pub(crate) announcement: EventAnnouncement,
    pub(crate) message: String,
    pub(crate) durability: Durability,
    /// Identifies its overlay entries.
    pub(crate) ticket: u64,
    /// Directory renames, applied before the effects.
    pub(crate) moves: Vec<(TreePath, TreePath)>,
    pub(crate) effects: Vec<FileEffect>,
    /// Scratch files that were renamed over a page, removed once the page is installed.
    pub(crate) consumed_scratch: Vec<TreePath>,
    /// True when the tree has it already: an external edit.
    pub(crate) is_adopted: bool,
    /// For an external edit: the newest log record when the scan that found it started.
    pub(crate) scanned_at: Option<Seq>,
    pub(crate) answer: Option<SyncSender<Result<SetReceipt, Fault>>>,
}

pub(crate) struct FileEffect {
    pub(crate) path: TreePath,
    pub(crate) before: Option<StateBefore>,
    pub(crate) after: Option<StateAfter>,
    /// A precondition to check again at commit time: it was met by a pending change, which may be
    /// refused in between.
    pub(crate) recheck: Option<Precondition>,
    /// The unversioned large file that this write replaces; it stays in the tree until then.
    pub(crate) replaces_large: Option<LargeFile>,
    /// Hash on disk at accept time, if history has another since: an external commit does not write
    /// the file.
    pub(crate) observed_etag: Option<ETag>,
}

impl FileEffect {
    /// An effect based on committed state only.
    pub(crate) const fn new(path: TreePath, before: Option<StateBefore>, after: Option<StateAfter>) -> Self {
        Self { path, before, after, recheck: None, replaces_large: None, observed_etag: None }
    }

    pub(crate) fn is_noop(&self) -> bool {
        match (&self.before, &self.after) {
            (None, None) => true,
            (Some(before), Some(after)) => before.etag == after.etag() && before.kind == after.kind(),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// State of a path when its change was accepted.
#[derive(Clone)]
pub(crate) struct StateBefore {
    pub(crate) etag: ETag,
    pub(crate) kind: FileKind,
    /// The content, when it was read from the tree: history may not have it.
    pub(crate) disk_content: Option<Bytes>,
}

impl From<(ETag, FileKind)> for StateBefore {
    fn from((etag, kind): (ETag, FileKind)) -> Self {
        Self { etag, kind, disk_content: None }
    }
}

pub(crate) enum StateAfter {
    Leaf(OverlayFile),
    /// Content that git has and that a directory rename moves here.
    Blob(ETag, FileKind),
}

impl StateAfter {
    pub(crate) const fn etag(&self) -> ETag {
        match self {
            Self::Leaf(leaf) => leaf.etag,
            Self::Blob(etag, _) => *etag,
        }
    }
    pub(crate) const fn kind(&self) -> FileKind {
        match self {
            Self::Leaf(leaf) => leaf.kind,
            Self::Blob(_, kind) => *kind,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SetReceipt {
    pub(crate) seq: Seq,
    pub(crate) commit: Option<CommitId>,
}

impl QueuedSet {
    /// The effects that are not no-ops. No-ops stay in the set until it is applied: the change they
    /// depend on may be refused, and readers see the path through their overlay entries.
    pub(crate) fn changing_effects(&self) -> impl Iterator<Item = &FileEffect> {
        self.effects.iter().filter(|effect| !effect.is_noop())
    }
    /// Whether this effect writes or removes a file itself, not by the rename of its directory.
    pub(crate) fn is_installed_alone(&self, effect: &FileEffect) -> bool {
        let is_alone = match effect.after {
            Some(StateAfter::Leaf(_)) => true,
            Some(StateAfter::Blob(..)) => self.moves.is_empty(),
            None => !self.is_in_renamed_directory(effect),
        };
        is_alone && !effect.is_noop()
    }
    /// Whether the path is below a directory that this set renames, under its old or new name.
    pub(crate) fn is_in_renamed_directory(&self, effect: &FileEffect) -> bool {
        self.moves.iter().any(|(from, to)| effect.path.is_under(from) || effect.path.is_under(to))
    }
    fn size(&self) -> usize {
        let content = |effect: &FileEffect| match &effect.after {
            Some(StateAfter::Leaf(leaf)) => leaf.content.len(),
            Some(StateAfter::Blob(..)) | None => 0,
        };
        self.effects.iter().map(|effect| content(effect) + 256).sum()
    }
}

/// The committer's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitterCommand {
    Batch,
    /// The deadline passed, or idle work was requested.
    Idle,
    Closed,
}

pub(crate) struct CommitQueue {
    state: Mutex<QueueState>,
    /// Wakes the committer: a set was queued, or work is urgent.
    work_available: Condvar,
    /// Wakes writers: sets were processed.
    work_done: Condvar,
    /// How long a writer waits while the queue is full.
    admission_timeout: Duration,
}

impl Default for CommitQueue {
    fn default() -> Self {
        let (state, work_available, work_done) = Default::default();
        Self { state, work_available, work_done, admission_timeout: ADMISSION_TIMEOUT }
    }
}

fn queue_full() -> Fault {
    let text = "too many writes are waiting for the disk; try again in a few seconds";
    Fault::unavailable(text).with_detail("retry_after", RETRY_AFTER_SECS)
}

/// How long a writer waits while the queue is full.
struct AdmissionDeadline {
    timeout: Duration,
    deadline: Instant,
    /// Sets done when the deadline was last extended; none for protocols whose clients can retry.
    done: Option<u64>,
}

impl AdmissionDeadline {
    fn new(protocol: Protocol, limit: Duration, done: u64) -> Self {
        Self { timeout: limit, deadline: Instant::now() + limit, done: (protocol == Protocol::Fuse).then_some(done) }
    }

    /// The current deadline. Writers on a mount cannot retry: they wait while sets complete.
    fn extend_on_progress(&mut self, now: Instant, done: u64) -> Instant {
        if self.done.is_some_and(|before| before != done) {
            (self.done, self.deadline) = (Some(done), now + self.timeout);
        }
        self.deadline
    }
}

/// How far all sets accepted so far must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteBarrier {
    /// Durable, in the tree and announced, or refused.
    Applied,
    /// Also committed.
    Committed,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<(Instant, QueuedSet)>,
    bytes: usize,
    /// Sets accepted; of those, applied or refused; of those, in need of no commit.
    accepted: u64,
    done: u64,
    committed: u64,
    /// A waiter needs this many sets committed.
    commit_target: u64,
    is_urgent: bool,
    is_idle_requested: bool,
    is_closed: bool,
    /// A writer was refused, and no set was taken out since.
    is_saturated: bool,
}

impl CommitQueue {
    /// Appends a set, and calls `accepted` while its position is fixed. Wakes the committer thread
    /// for an asynchronous set; a synchronous writer calls `CommitLeader::lead_or_wake` itself.
    pub(crate) fn push(&self, set: QueuedSet, accepted: impl FnOnce(&QueuedSet)) -> Result<(), Fault> {
        let size = set.size();
        let limit = if set.durability == Durability::Now { MAX_QUEUED_SETS } else { MAX_QUEUED_SOON };
        let mut state = self.state.lock();
        let mut deadline = AdmissionDeadline::new(set.protocol, self.admission_timeout, state.done);
        while !state.is_closed && (state.waiting.len() >= limit || state.bytes >= MAX_QUEUED_BYTES) {
            // A writer that waits makes the queued sets urgent.
            state.is_urgent = true;
            self.work_available.notify_one();
            let until = deadline.extend_on_progress(Instant::now(), state.done);
            if self.work_done.wait_until(&mut state, until).timed_out() {
                state.is_saturated = true;
                return Err(queue_full());
            }
        }
        if state.is_closed {
            return Err(Fault::unavailable("the server is stopping"));
        }
        accepted(&set);
        state.is_urgent |= set.durability == Durability::Now;
        state.bytes += size;
        state.accepted += 1;
        let is_awaited = set.answer.is_some();
        state.waiting.push_back((Instant::now(), set));
        drop(state);
        if !is_awaited {
            self.wake();
        }
        Ok(())
    }

    /// Wakes the committer thread, which checks for work.
    pub(crate) fn wake(&self) {
        self.work_available.notify_one();
    }

    /// Waits for a batch: urgent sets immediately, others when the oldest is 50 ms old.
    pub(crate) fn next_command(&self, deadline: Option<Instant>) -> CommitterCommand {
        let mut state = self.state.lock();
        loop {
            let due = state.waiting.front().map(|(since, _)| *since + MAX_FLUSH_DELAY);
            let is_full = state.waiting.len() >= MAX_BATCH_SETS || state.bytes >= MAX_BATCH_BYTES;
            let is_ready =
                state.is_urgent || state.is_closed || is_full || due.is_some_and(|due| due <= Instant::now());
            if !state.waiting.is_empty() && is_ready {
                return CommitterCommand::Batch;
            }
            if state.is_closed {
                return CommitterCommand::Closed;
            }
            if std::mem::take(&mut state.is_idle_requested) {
                return CommitterCommand::Idle;
            }
            let until = [due, deadline].into_iter().flatten().min();
            match until {
                Some(until) if until <= Instant::now() => return CommitterCommand::Idle,
                Some(until) => {
                    self.work_available.wait_until(&mut state, until);
                }
                None => self.work_available.wait(&mut state),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// Queued sets, queued bytes, and sets accepted but not yet applied or refused.
    pub(crate) fn depth(&self) -> (usize, usize, u64) {
        let state = self.state.lock();
        (state.waiting.len(), state.bytes, state.accepted.saturating_sub(state.done))
    }

    /// Whether writers are refused.
    ///
    /// # Errors
    /// The fault they get, from the first refusal until a set is taken out.
    pub(crate) fn health(&self) -> Result<(), Fault> {
        if self.state.lock().is_saturated { Err(queue_full()) } else { Ok(()) }
    }

    /// Makes [`CommitQueue::next_command`] return `Idle`.
    pub(crate) fn wake_idle(&self) {
        self.state.lock().is_idle_requested = true;
        self.work_available.notify_one();
    }

    /// Takes all queued sets, without the batch limit.
    pub(crate) fn take_all(&self) -> Vec<QueuedSet> {
        let mut state = self.state.lock();
        state.bytes = 0;
        (state.is_urgent, state.is_saturated) = (false, false);
        state.waiting.drain(..).map(|(_, set)| set).collect()
    }

    /// The next batch; empty when nothing is queued. Only for the commit leader: sets are applied
    /// in order.
    pub(crate) fn drain(&self) -> Vec<QueuedSet> {
        let mut state = self.state.lock();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < MAX_BATCH_SETS && bytes < MAX_BATCH_BYTES {
            let Some((_, set)) = state.waiting.pop_front() else {
                break;
            };
            bytes += set.size();
            batch.push(set);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        state.is_saturated &= batch.is_empty();
        if state.waiting.is_empty() {
            state.is_urgent = false;
        }
        batch
    }

    /// Counts accepted sets that do not come through the queue.
    pub(crate) fn count_accepted(&self, count: usize) {
        self.state.lock().accepted += count as u64;
    }

    /// Counts applied or refused sets and wakes waiters; `is_committed`: every set counted so far
    /// has its commit.
    pub(crate) fn done(&self, count: usize, is_committed: bool) {
        let mut state = self.state.lock();
        state.done += count as u64;
        if is_committed {
            state.committed = state.done;
        }
        drop(state);
        self.work_done.notify_all();
    }

    /// Whether a waiter needs commits that are not made yet.
    pub(crate) fn is_commit_wanted(&self) -> bool {
        let state = self.state.lock();
        state.commit_target > state.committed
    }

    /// Waits until all accepted sets have passed the barrier; false on timeout.
    pub(crate) fn wait_for(&self, barrier: WriteBarrier, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        let target = state.accepted;
        let is_reached = |state: &QueueState| match barrier {
            WriteBarrier::Applied => state.done >= target,
            WriteBarrier::Committed => state.committed >= target,
        };
        if is_reached(&state) {
            return true;
        }
        state.is_urgent = !state.waiting.is_empty() || state.is_urgent;
        if barrier == WriteBarrier::Committed {
            state.commit_target = state.commit_target.max(target);
            state.is_idle_requested = true;
        }
        self.work_available.notify_one();
        while !is_reached(&state) {
            if self.work_done.wait_until(&mut state, deadline).timed_out() {
                return is_reached(&state);
            }
        }
        true
    }

    /// Accepts no more sets; queued ones are still taken.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.work_available.notify_all();
        self.work_done.notify_all();
    }

    /// Sleeps for `timeout`, or until the queue is closed; true when it is closed.
    pub(crate) fn pause(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        while !state.is_closed {
            if self.work_done.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.is_closed
    }
}

#[cfg(test)]
mod tests;
