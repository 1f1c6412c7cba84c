//! Sets that are logged, in the tree and answered, and whose commits come later (`async_commit`).
//!
//! One rule: a set without a commit is in the log as [`Role::Deferred`], and its commit is told by a record of its own, which covers
//! every set deferred before it. So rows never change, what a crash leaves without a commit is the log's end behind the last such
//! record, and history is answered from the commits' records alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use svcfs_base::{Seq, TreePath};
use svcfs_store::{LogEntry, LogRecord, RecordKind, StoreError};
use tracing::error;

use super::coalesce::{CommitGroup, gathered};
use super::record::{RecordForm, RecordTip};
use super::{Committer, PlannedSet};
use crate::overlay::OverlayFile;
use crate::queue::{FileEffect, QueuedSet, StateAfter, StateBefore};
use crate::uncommitted::CommittedState;

/// What waits in memory at most; a window that has so much closes before its time.
const MAX_SETS: usize = 4096;
const MAX_BYTES: usize = 32 << 20;

/// When accepted changes become commits (contract 9.1, gaps.md D9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitPolicy {
    /// Each set has its own before its writer is answered.
    PerSet,
    /// Some time after a writer is answered, those of one actor together.
    Coalesced {
        /// How long the first set without a commit waits for it.
        window: Duration,
        /// How many paths a commit has at most; a set of several is not divided.
        max_paths: usize,
    },
}

impl CommitPolicy {
    /// How many paths one commit has at most. Without gathering, what an earlier life of the space deferred is not divided.
    const fn max_paths(self) -> usize {
        match self {
            Self::PerSet => usize::MAX,
            Self::Coalesced { max_paths, .. } => max_paths,
        }
    }
}

/// The sets that have no commit yet, oldest first.
#[derive(Default)]
pub(crate) struct CommitWindow {
    sets: Vec<LogRecord>,
    bytes: usize,
    due: Option<Instant>,
    /// So many of them are in commits that are planned and not logged yet.
    closing: usize,
    /// Sets up to here are in commits that are logged.
    closed: Seq,
}

impl CommitWindow {
    /// What a crash left; it is due at once.
    pub(crate) fn restored(sets: Vec<LogRecord>) -> Self {
        let bytes = sets.iter().map(size).sum();
        Self { due: (!sets.is_empty()).then(Instant::now), sets, bytes, closing: 0, closed: Seq(0) }
    }

    pub(super) const fn is_open(&self) -> bool {
        !self.sets.is_empty()
    }

    /// When its sets should have their commits; none when it is empty.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) const fn count(&self) -> usize {
        self.sets.len()
    }

    /// No plan to close it came to anything.
    pub(super) const fn keep_open(&mut self) {
        self.closing = 0;
    }

    /// Whatever its time: somebody needs the commits now.
    pub(super) fn hurry(&mut self) {
        self.due = self.due.map(|_| Instant::now());
    }

    fn push(&mut self, set: LogRecord, window: Duration) {
        self.bytes += size(&set);
        self.sets.push(set);
        self.due.get_or_insert_with(|| Instant::now() + window);
        if self.sets.len() >= MAX_SETS || self.bytes >= MAX_BYTES {
            self.hurry();
        }
    }
}

fn size(set: &LogRecord) -> usize {
    set.entries.iter().filter_map(|entry| entry.content.as_ref()).map(bytes::Bytes::len).sum()
}

impl Committer {
    /// Whether the sets of the window should have their commits by now.
    pub(super) fn is_window_due(&self) -> bool {
        let is_late = self.window.due.is_some_and(|due| due <= Instant::now());
        is_late || self.window.is_open() && self.core.queue.is_commit_wanted()
    }

    /// Takes a set into the window; its record.
    pub(super) fn defer(
        &mut self,
        prepared: &QueuedSet,
        tip: &mut RecordTip,
        window: Duration,
    ) -> Result<LogRecord, StoreError> {
        self.check_places(prepared, tip)?;
        tip.seq = tip.seq.next();
        let form = RecordForm { role: RecordKind::Uncommitted, time: self.core.clock.now(), is_kept: true };
        let record = self.record_of(prepared, tip.seq, form, None);
        self.core.uncommitted.add(&record);
        self.window.push(record.clone(), window);
        Ok(record)
    }

    /// Refuses to its writer what git would refuse when the commit is made: nothing is promised yet.
    fn check_places(&self, prepared: &QueuedSet, tip: &RecordTip) -> Result<(), StoreError> {
        let made: Vec<_> = prepared.changing().filter(|effect| effect.after.is_some()).collect();
        let known = self.known(&made.iter().map(|effect| &effect.path).collect::<Vec<_>>(), tip)?;
        for (effect, _) in made.iter().zip(known).filter(|(_, known)| known.is_none()) {
            let path = &effect.path;
            let refused = |reason: &str| StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() };
            if !self.core.memory.can_record(path)? {
                return Err(refused("git refuses the name"));
            }
            let is_going = |other: &TreePath| {
                let own = prepared.effects.iter().find(|effect| effect.path == *other);
                let recorded = own.map(|effect| effect.after.is_none());
                recorded.unwrap_or_else(|| self.core.uncommitted.get(other, tip.committed) == Some(None))
            };
            let recorded = self.core.git()?.type_conflicts(tip.commit, path)?;
            let above = path
                .ancestors()
                .filter(|above| matches!(self.core.uncommitted.get(above, tip.committed), Some(Some(_))));
            let below = self.core.uncommitted.below(path, tip.committed).into_iter();
            let below = below.filter(|(_, recorded)| recorded.is_some()).map(|(below, _)| below);
            if let Some(other) = recorded.into_iter().chain(above).chain(below).find(|other| !is_going(other)) {
                let is_above = path.is_under(&other);
                return Err(refused(if is_above {
                    "a file stands where a directory must be"
                } else {
                    "a directory stands where the file must be"
                }));
            }
        }
        Ok(())
    }

    /// What history has of these paths, or will have once the window is closed.
    pub(super) fn known(&self, paths: &[&TreePath], tip: &RecordTip) -> Result<Vec<CommittedState>, StoreError> {
        let mut known = self.core.memory.staged_states(tip.recorded(), paths)?;
        for (path, known) in paths.iter().zip(&mut known) {
            if let Some(recorded) = self.core.uncommitted.get(path, tip.committed) {
                *known = recorded;
            }
        }
        Ok(known)
    }

    /// Makes the commits of the window, unreferenced, and their records. Nothing when it is empty.
    pub(super) fn close(&mut self, tip: &mut RecordTip) -> Result<Vec<PlannedSet>, StoreError> {
        let open = &self.window.sets[self.window.closing..];
        let Some(newest) = open.last() else { return Ok(Vec::new()) };
        let (mut ahead, mut planned) = (*tip, Vec::new());
        for gathering in gathered(open, self.core.commits.max_paths()) {
            match self.gathered(&gathering, &mut ahead) {
                Err(StoreError::Unrecordable { .. }) => {
                    // One that has no place beside another's commit does not take the others with it.
                    for set in gathering.sets {
                        match self.gathered(&CommitGroup::of(set), &mut ahead) {
                            Err(StoreError::Unrecordable { path, reason }) => {
                                error!(page.path = %path, reason, "a logged change has no place beside another's commit; theirs stands");
                            }
                            outcome => planned.extend(outcome?),
                        }
                    }
                }
                outcome => planned.extend(outcome?),
            }
        }
        if planned.is_empty() {
            // They came to nothing. The log says so, or the next life would gather them once more, with what came after them.
            ahead.seq = ahead.seq.next();
            let closed = closing((newest, &[]), self.core.stamp(), newest.message.clone(), Vec::new());
            let prepared = QueuedSet { moves: Vec::new(), ..closed };
            let form = RecordForm { role: RecordKind::Commit, time: newest.time, is_kept: false };
            let record = self.record_of(&prepared, ahead.seq, form, ahead.commit);
            planned.push(PlannedSet { prepared, record, is_extra: true });
        }
        let committed = newest.seq;
        self.window.closing = self.window.sets.len();
        *tip = RecordTip { committed, ..ahead };
        Ok(planned)
    }

    /// Makes one commit; none when the tree is as it would leave it.
    fn gathered(&self, gathering: &CommitGroup<'_>, tip: &mut RecordTip) -> Result<Option<PlannedSet>, StoreError> {
        let Some(last) = gathering.sets.last() else { return Ok(None) };
        let entries: BTreeMap<&TreePath, &LogEntry> =
            gathering.sets.iter().flat_map(|set| &set.entries).map(|entry| (&entry.path, entry)).collect();
        let known = self.core.memory.staged_states(tip.recorded(), &entries.keys().copied().collect::<Vec<_>>())?;
        let effects = entries.into_values().zip(known).filter_map(|(entry, known)| {
            let after = entry.new.map(|blob| (blob, entry.kind));
            (known != after).then(|| FileEffect::new(entry.path.clone(), known.map(StateBefore::from), after_of(entry)))
        });
        let message = gathering.message(&last.actor);
        let prepared = closing((last, &gathering.sets), self.core.stamp(), message, effects.collect());
        if prepared.effects.is_empty() {
            return Ok(None);
        }
        let record =
            self.build(&prepared, tip, RecordForm { role: RecordKind::Commit, time: last.time, is_kept: false })?;
        Ok(Some(PlannedSet { prepared, record, is_extra: true }))
    }

    /// Makes the commits that are not made yet, whatever their time. The window stays open when the disk refuses.
    pub(super) fn close_window(&mut self) {
        if self.window.is_open() {
            self.window.hurry();
            let held = std::mem::take(&mut self.held);
            self.process(held);
        }
    }

    /// The log has the commits that were planned: their sets need not be kept in mind any more.
    pub(super) fn window_logged(&mut self) {
        let CommitWindow { sets, bytes, due, closing, closed } = &mut self.window;
        if *closing == 0 {
            return;
        }
        for set in sets.drain(..std::mem::take(closing)) {
            *closed = set.seq;
            *bytes -= size(&set);
        }
        *due = match (sets.is_empty(), self.core.commits) {
            (false, CommitPolicy::Coalesced { window, .. }) => Some(Instant::now() + window),
            (true, _) | (false, CommitPolicy::PerSet) => None,
        };
    }

    /// The branch shows the commits that were logged.
    pub(super) fn window_shown(&self) {
        self.core.uncommitted.forget(self.window.closed);
    }

    /// Forgets all but the first sets: what came since was not logged.
    pub(super) fn take_back(&mut self, count: usize) {
        let window = &mut self.window;
        if window.sets.len() == count {
            return;
        }
        window.sets.truncate(count);
        window.bytes = window.sets.iter().map(size).sum();
        if window.sets.is_empty() {
            window.due = None;
        }
        self.core.uncommitted.replace(window.sets.iter());
    }
}

/// What closes a window, or a part of it: in the name of the newest of its sets.
fn closing(
    (newest, all): (&LogRecord, &[&LogRecord]),
    stamp: u64,
    message: String,
    effects: Vec<FileEffect>,
) -> QueuedSet {
    QueuedSet {
        actor: newest.actor.clone(),
        protocol: newest.protocol,
        entrance: None,
        provenance: newest.provenance.clone().filter(|_| all.iter().all(|set| set.provenance == newest.provenance)),
        announcement: newest.announcement,
        message,
        durability: svcfs_base::Durability::Soon,
        stamp,
        moves: newest.moves.clone(),
        effects,
        spent: Vec::new(),
        is_adopted: true,
        seen: None,
        answer: None,
    }
}

/// What an entry of a set leaves behind.
fn after_of(entry: &LogEntry) -> Option<StateAfter> {
    let blob = entry.new?;
    Some(match &entry.content {
        Some(content) => StateAfter::Leaf(OverlayFile {
            content: content.clone(),
            etag: blob,
            kind: entry.kind,
            disk: entry.attributes,
        }),
        None => StateAfter::Blob(blob, entry.kind),
    })
}
