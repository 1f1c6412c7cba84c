//! Accepted change sets on their way to the committer.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use svcfs_base::{
    Actor, CommitId, Durability, ETag, EventAnnouncement, Fault, FileKind, LargeFile, OriginId, Precondition, Protocol,
    Seq, TreePath,
};

use crate::overlay::OverlayFile;

/// Sets taken at once: bounds how long the first of them waits for the last.
const MAX_BATCH_SETS: usize = 512;
const MAX_BATCH_BYTES: usize = 32 << 20;
/// Bounds of the queue; a writer waits for room (architecture.md 8).
const MAX_QUEUED_SETS: usize = 4096;
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// Bound for writers who do not wait for the disk: how far they may run ahead of it, and so how long others wait behind them.
const MAX_QUEUED_SOON: usize = 256;
const MAX_WAIT_FOR_ROOM: Duration = Duration::from_secs(10);
/// When somebody who found no room may come again, in seconds.
const COME_AGAIN: u64 = 5;
/// How long a change that nobody waits for may stay unflushed (architecture.md 3).
const SOON: Duration = Duration::from_millis(50);

/// A change set that passed every gate.
pub(crate) struct QueuedSet {
    pub(crate) actor: Actor,
    pub(crate) protocol: Protocol,
    pub(crate) entrance: Option<OriginId>,
    pub(crate) provenance: Option<String>,
    pub(crate) announcement: EventAnnouncement,
    pub(crate) message: String,
    pub(crate) durability: Durability,
    /// Tells its overlay entries from others'.
    pub(crate) stamp: u64,
    /// Directory renames, done before the effects.
    pub(crate) moves: Vec<(TreePath, TreePath)>,
    pub(crate) effects: Vec<FileEffect>,
    /// Scratch files whose content became a page, to be removed once it is in place.
    pub(crate) spent: Vec<TreePath>,
    /// True when the tree has it already: an edit made behind the server.
    pub(crate) is_adopted: bool,
    /// Of an edit behind the server that was seen before its turn comes: the newest record of the log when the look began.
    pub(crate) seen: Option<Seq>,
    pub(crate) answer: Option<SyncSender<Result<SetReceipt, Fault>>>,
}

/// What a change set does to one file.
pub(crate) struct FileEffect {
    pub(crate) path: TreePath,
    pub(crate) before: Option<StateBefore>,
    pub(crate) after: Option<StateAfter>,
    /// What must be true once more when the set's turn comes: it was held against a change that was itself only accepted, and may
    /// be refused in between.
    pub(crate) premise: Option<Precondition>,
    /// The file too large for any version that gives way to it. It stays where it is until then.
    pub(crate) over: Option<LargeFile>,
    /// What stood there when it was accepted, where history has something else since: another's commit puts nothing on the disk.
    pub(crate) stood: Option<ETag>,
}

impl FileEffect {
    /// One that stands on nothing but what history has.
    pub(crate) const fn new(path: TreePath, before: Option<StateBefore>, after: Option<StateAfter>) -> Self {
        Self { path, before, after, premise: None, over: None, stood: None }
    }

    /// Whether it leaves the path as it was.
    pub(crate) fn is_noise(&self) -> bool {
        match (&self.before, &self.after) {
            (None, None) => true,
            (Some(before), Some(after)) => before.etag == after.etag() && before.kind == after.kind(),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// What stood at a path when its change was accepted.
#[derive(Clone)]
pub(crate) struct StateBefore {
    pub(crate) etag: ETag,
    pub(crate) kind: FileKind,
    /// The content, when it was read from the tree: history may not have it yet.
    pub(crate) seen: Option<Bytes>,
}

impl From<(ETag, FileKind)> for StateBefore {
    fn from((etag, kind): (ETag, FileKind)) -> Self {
        Self { etag, kind, seen: None }
    }
}

/// What will stand at a path.
pub(crate) enum StateAfter {
    /// New content.
    Leaf(OverlayFile),
    /// Content that git has and that a directory rename brings.
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

/// Where an accepted change set ended up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetReceipt {
    pub(crate) seq: Seq,
    pub(crate) commit: Option<CommitId>,
}

impl QueuedSet {
    /// The effects that change anything. Others stay with the set until it is over: what they stand on may still be refused, and until
    /// that is in place readers see it through them.
    pub(crate) fn changing(&self) -> impl Iterator<Item = &FileEffect> {
        self.effects.iter().filter(|effect| !effect.is_noise())
    }
    /// Whether a file is written or removed for an effect; others come or go with their directory.
    pub(crate) fn is_put_in_place(&self, effect: &FileEffect) -> bool {
        !effect.is_noise() && (self.moves.is_empty() || matches!(effect.after, Some(StateAfter::Leaf(_))))
    }
    /// Whether a file gets what an effect says by the rename of its directory, or is written over what that brings.
    pub(crate) fn is_of_rename(&self, effect: &FileEffect) -> bool {
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

/// What the committer is told to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitterCommand {
    /// Take a batch and settle it.
    Batch,
    /// Nothing came before the deadline.
    Idle,
    /// Nothing is queued and nothing will be.
    Closed,
}

pub(crate) struct CommitQueue {
    state: Mutex<QueueState>,
    /// Something came, or must be done at once.
    arrived: Condvar,
    /// Something left.
    left: Condvar,
    /// How long somebody waits for room.
    patience: Duration,
}

impl Default for CommitQueue {
    fn default() -> Self {
        let (state, arrived, left) = Default::default();
        Self { state, arrived, left, patience: MAX_WAIT_FOR_ROOM }
    }
}

fn no_room() -> Fault {
    let text = "too many writes are waiting for the disk; try again in a few seconds";
    Fault::unavailable(text).with_detail("retry_after", COME_AGAIN)
}

/// For how long somebody goes on waiting for room.
struct AdmissionDeadline {
    most: Duration,
    until: Instant,
    /// How many sets were done when that was settled; none for those who can be told to come again.
    done: Option<u64>,
}

impl AdmissionDeadline {
    fn new(protocol: Protocol, most: Duration, done: u64) -> Self {
        Self { most, until: Instant::now() + most, done: (protocol == Protocol::Fuse).then_some(done) }
    }

    /// Until when, as things are now. Programs that write to a disk do not try again: they wait for as long as it gets on.
    fn until(&mut self, now: Instant, done: u64) -> Instant {
        if self.done.is_some_and(|before| before != done) {
            (self.done, self.until) = (Some(done), now + self.most);
        }
        self.until
    }
}

/// What somebody waits for to have become of every set accepted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteBarrier {
    /// It is durable, in the tree and announced, or refused.
    Settled,
    /// The same, and history has it.
    Committed,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<(Instant, QueuedSet)>,
    bytes: usize,
    /// Sets ever accepted, of those the ones settled or refused, and of those the ones that need no commit any more.
    accepted: u64,
    done: u64,
    committed: u64,
    /// Somebody waits for the commits of so many.
    wanted: u64,
    is_urgent: bool,
    is_nudged: bool,
    is_closed: bool,
    /// Somebody found no room, and nothing was taken out since.
    is_stuck: bool,
}

impl CommitQueue {
    /// Appends a set, and calls `accepted` while its place in the order is certain. The committer's thread hears of one that nobody
    /// waits for; whoever waits sees to it that somebody works (`Seat::attend`).
    pub(crate) fn push(&self, prepared: QueuedSet, accepted: impl FnOnce(&QueuedSet)) -> Result<(), Fault> {
        let size = prepared.size();
        let most = if prepared.durability == Durability::Now { MAX_QUEUED_SETS } else { MAX_QUEUED_SOON };
        let mut state = self.state.lock();
        let mut patience = AdmissionDeadline::new(prepared.protocol, self.patience, state.done);
        while !state.is_closed && (state.waiting.len() >= most || state.bytes >= MAX_QUEUED_BYTES) {
            // Whoever waits for room makes what is queued urgent.
            state.is_urgent = true;
            self.arrived.notify_one();
            let deadline = patience.until(Instant::now(), state.done);
            if self.left.wait_until(&mut state, deadline).timed_out() {
                state.is_stuck = true;
                return Err(no_room());
            }
        }
        if state.is_closed {
            return Err(Fault::unavailable("the server is stopping"));
        }
        accepted(&prepared);
        state.is_urgent |= prepared.durability == Durability::Now;
        state.bytes += size;
        state.accepted += 1;
        let is_awaited = prepared.answer.is_some();
        state.waiting.push_back((Instant::now(), prepared));
        drop(state);
        if !is_awaited {
            self.call();
        }
        Ok(())
    }

    /// Wakes the committer's thread, which looks whether there is anything to do.
    pub(crate) fn call(&self) {
        self.arrived.notify_one();
    }

    /// Waits until there is a batch: at once when somebody waits for it, else when its oldest set is 50 ms old.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> CommitterCommand {
        let mut state = self.state.lock();
        loop {
            let due = state.waiting.front().map(|(since, _)| *since + SOON);
            let is_full = state.waiting.len() >= MAX_BATCH_SETS || state.bytes >= MAX_BATCH_BYTES;
            let is_ready =
                state.is_urgent || state.is_closed || is_full || due.is_some_and(|due| due <= Instant::now());
            if !state.waiting.is_empty() && is_ready {
                return CommitterCommand::Batch;
            }
            if state.is_closed {
                return CommitterCommand::Closed;
            }
            if std::mem::take(&mut state.is_nudged) {
                return CommitterCommand::Idle;
            }
            let until = [due, deadline].into_iter().flatten().min();
            match until {
                Some(until) if until <= Instant::now() => return CommitterCommand::Idle,
                Some(until) => {
                    self.arrived.wait_until(&mut state, until);
                }
                None => self.arrived.wait(&mut state),
            }
        }
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// Sets and bytes that wait, and sets that are accepted and neither settled nor refused.
    pub(crate) fn depth(&self) -> (usize, usize, u64) {
        let state = self.state.lock();
        (state.waiting.len(), state.bytes, state.accepted.saturating_sub(state.done))
    }

    /// Whether writers are sent away.
    ///
    /// # Errors
    /// What they are told, from the first one on until something is taken out.
    pub(crate) fn health(&self) -> Result<(), Fault> {
        if self.state.lock().is_stuck { Err(no_room()) } else { Ok(()) }
    }

    /// Makes whoever waits for a batch look around.
    pub(crate) fn nudge(&self) {
        self.state.lock().is_nudged = true;
        self.arrived.notify_one();
    }

    /// All that is queued, however much it is.
    pub(crate) fn take_all(&self) -> Vec<QueuedSet> {
        let mut state = self.state.lock();
        state.bytes = 0;
        (state.is_urgent, state.is_stuck) = (false, false);
        state.waiting.drain(..).map(|(_, prepared)| prepared).collect()
    }

    /// The next batch; empty when nothing is queued. Only whoever holds the committer's seat may take it: sets are settled in their
    /// order.
    pub(crate) fn drain(&self) -> Vec<QueuedSet> {
        let mut state = self.state.lock();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < MAX_BATCH_SETS && bytes < MAX_BATCH_BYTES {
            let Some((_, prepared)) = state.waiting.pop_front() else {
                break;
            };
            bytes += prepared.size();
            batch.push(prepared);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        state.is_stuck &= batch.is_empty();
        if state.waiting.is_empty() {
            state.is_urgent = false;
        }
        batch
    }

    /// Counts sets as accepted that do not come through the queue.
    pub(crate) fn count(&self, count: usize) {
        self.state.lock().accepted += count as u64;
    }

    /// Counts sets that are settled or refused, and lets those who wait go on; with `is_committed`, none of those counted ever
    /// is without its commit now.
    pub(crate) fn done(&self, count: usize, is_committed: bool) {
        let mut state = self.state.lock();
        state.done += count as u64;
        if is_committed {
            state.committed = state.done;
        }
        drop(state);
        self.left.notify_all();
    }

    /// Whether somebody waits for commits that are not there.
    pub(crate) fn is_commit_wanted(&self) -> bool {
        let state = self.state.lock();
        state.wanted > state.committed
    }

    /// Waits until everything accepted so far is as far as `until` says, or refused; false when `at_most` was not enough.
    pub(crate) fn settle(&self, until: WriteBarrier, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut state = self.state.lock();
        let target = state.accepted;
        let is_reached = |state: &QueueState| match until {
            WriteBarrier::Settled => state.done >= target,
            WriteBarrier::Committed => state.committed >= target,
        };
        if is_reached(&state) {
            return true;
        }
        state.is_urgent = !state.waiting.is_empty() || state.is_urgent;
        if until == WriteBarrier::Committed {
            state.wanted = state.wanted.max(target);
            state.is_nudged = true;
        }
        self.arrived.notify_one();
        while !is_reached(&state) {
            if self.left.wait_until(&mut state, deadline).timed_out() {
                return is_reached(&state);
            }
        }
        true
    }

    /// Accepts nothing any more; what is queued is still taken.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.arrived.notify_all();
        self.left.notify_all();
    }

    /// Waits a moment, or less when the queue is closed meanwhile; true when it is closed.
    pub(crate) fn pause(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut state = self.state.lock();
        while !state.is_closed {
            if self.left.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.is_closed
    }
}

#[cfg(test)]
mod tests;
