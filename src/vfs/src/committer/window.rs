//! Sets that are logged, installed and answered before their commits are made (`async_commit`).
//!
//! Invariant: a set without a commit is in the log as [`RecordKind::Uncommitted`]; its commit is a
//! later record, which covers every uncommitted set before it. So rows never change, the
//! uncommitted sets are those after the last such record, and history is answered from the records
//! of commits alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use svcfs_base::{Seq, TreePath};
use svcfs_store::{LogEntry, LogRecord, RecordKind, StoreError};
use tracing::error;

use super::coalesce::{CommitGroup, coalesce};
use super::record::{RecordForm, RecordTip};
use super::{Committer, PlannedSet};
use crate::overlay::OverlayFile;
use crate::queue::{FileEffect, QueuedSet, StateAfter, StateBefore};
use crate::uncommitted::CommittedState;

/// Limits of the window in memory; a window that reaches one closes immediately.
const MAX_SETS: usize = 4096;
const MAX_BYTES: usize = 32 << 20;

/// When accepted changes become commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitPolicy {
    /// Each set gets its own commit before its writer is answered.
    PerSet,
    /// After the writer is answered; sets of one actor share a commit.
    Coalesced {
        /// How long the oldest set without a commit waits.
        window: Duration,
        /// Maximum number of paths in a commit; a set of several paths is not divided.
        max_paths: usize,
    },
}

impl CommitPolicy {
    /// Maximum number of paths in a commit. Without coalescing, the window has only sets of an
    /// earlier process, which have no limit.
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
    /// How many of them are in commits that are planned and not logged yet.
    closing_count: usize,
    /// Sets up to here are in commits that are logged.
    closed_seq: Seq,
}

impl CommitWindow {
    /// The sets that a crash left without commits; due immediately.
    pub(crate) fn restored(sets: Vec<LogRecord>) -> Self {
        let bytes = sets.iter().map(content_bytes).sum();
        Self { due: (!sets.is_empty()).then(Instant::now), sets, bytes, closing_count: 0, closed_seq: Seq(0) }
    }

    pub(super) const fn is_open(&self) -> bool {
        !self.sets.is_empty()
    }

    /// When its sets should be committed; none when it is empty.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) const fn count(&self) -> usize {
        self.sets.len()
    }

    pub(super) const fn abort_close(&mut self) {
        self.closing_count = 0;
    }

    pub(super) fn expedite(&mut self) {
        self.due = self.due.map(|_| Instant::now());
    }

    fn push(&mut self, set: LogRecord, window: Duration) {
        self.bytes += content_bytes(&set);
        self.sets.push(set);
        self.due.get_or_insert_with(|| Instant::now() + window);
        if self.sets.len() >= MAX_SETS || self.bytes >= MAX_BYTES {
            self.expedite();
        }
    }
}

fn content_bytes(set: &LogRecord) -> usize {
    set.entries.iter().filter_map(|entry| entry.content.as_ref()).map(bytes::Bytes::len).sum()
}

impl Committer {
    pub(super) fn is_window_due(&self) -> bool {
        let is_late = self.window.due.is_some_and(|due| due <= Instant::now());
        is_late || self.window.is_open() && self.core.queue.is_commit_wanted()
    }

    /// Adds a set to the window and returns its record.
    pub(super) fn defer(
        &mut self,
        set: &QueuedSet,
        tip: &mut RecordTip,
        window: Duration,
    ) -> Result<LogRecord, StoreError> {
        self.check_type_conflicts(set, tip)?;
        tip.seq = tip.seq.next();
        let form = RecordForm { kind: RecordKind::Uncommitted, time: self.core.clock.now(), keeps_content: true };
        let record = self.record_of(set, tip.seq, form, None);
        self.core.uncommitted.add(&record);
        self.window.push(record.clone(), window);
        Ok(record)
    }

    /// Refuses what git would refuse later, while the writer can still get the error.
    fn check_type_conflicts(&self, set: &QueuedSet, tip: &RecordTip) -> Result<(), StoreError> {
        let written: Vec<_> = set.changing_effects().filter(|effect| effect.after.is_some()).collect();
        let states = self.known_states(&written.iter().map(|effect| &effect.path).collect::<Vec<_>>(), tip)?;
        for (effect, _) in written.iter().zip(states).filter(|(_, recorded)| recorded.is_none()) {
            let path = &effect.path;
            let refused = |reason: &str| StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() };
            if !self.core.versions.can_record(path) {
                return Err(refused("git refuses the name"));
            }
            let is_being_removed = |occupant: &TreePath| {
                let in_set = set.effects.iter().find(|effect| effect.path == *occupant);
                in_set
                    .map(|effect| effect.after.is_none())
                    .unwrap_or_else(|| self.core.uncommitted.get(occupant, tip.committed) == Some(None))
            };
            let committed = self.core.git()?.type_conflicts(tip.commit, path)?;
            let above = path
                .ancestors()
                .filter(|above| matches!(self.core.uncommitted.get(above, tip.committed), Some(Some(_))));
            let below = self.core.uncommitted.below(path, tip.committed).into_iter();
            let below = below.filter(|(_, recorded)| recorded.is_some()).map(|(below, _)| below);
            if let Some(occupant) =
                committed.into_iter().chain(above).chain(below).find(|occupant| !is_being_removed(occupant))
            {
                let is_above = path.is_under(&occupant);
                return Err(refused(if is_above {
                    "a file stands where a directory must be"
                } else {
                    "a directory stands where the file must be"
                }));
            }
        }
        Ok(())
    }

    /// State of these paths in history, or after the window is closed.
    pub(super) fn known_states(&self, paths: &[&TreePath], tip: &RecordTip) -> Result<Vec<CommittedState>, StoreError> {
        let mut states = self.core.versions.staged_states(tip.write_tip(), paths)?;
        for (path, state) in paths.iter().zip(&mut states) {
            if let Some(recorded) = self.core.uncommitted.get(path, tip.committed) {
                *state = recorded;
            }
        }
        Ok(states)
    }

    /// Builds the window's unreferenced commits and their records; nothing when it is empty.
    pub(super) fn plan_window_commits(&mut self, tip: &mut RecordTip) -> Result<Vec<PlannedSet>, StoreError> {
        let pending = &self.window.sets[self.window.closing_count..];
        let Some(newest) = pending.last() else { return Ok(Vec::new()) };
        let (mut next_tip, mut planned) = (*tip, Vec::new());
        for group in coalesce(pending, self.core.commit_policy.max_paths()) {
            match self.plan_group(&group, &mut next_tip) {
                Err(StoreError::Unrecordable { .. } | StoreError::FilterFailed { .. }) => {
                    // A conflicting set does not affect the others of its group.
                    for set in group.sets {
                        match self.plan_group(&CommitGroup::standalone(set), &mut next_tip) {
                            Err(
                                StoreError::Unrecordable { path, reason } | StoreError::FilterFailed { path, reason },
                            ) => {
                                error!(page.path = %path, reason, "a logged change conflicts with an external commit; that commit was kept");
                            }
                            outcome => planned.extend(outcome?),
                        }
                    }
                }
                outcome => planned.extend(outcome?),
            }
        }
        if planned.is_empty() {
            // All were no-ops or conflicts. Logged, or the next process would coalesce them again,
            // together with later sets.
            next_tip.seq = next_tip.seq.next();
            let closed = closing_set((newest, &[]), self.core.next_ticket(), newest.message.clone(), Vec::new());
            let set = QueuedSet { moves: Vec::new(), ..closed };
            let form = RecordForm { kind: RecordKind::Commit, time: newest.time, keeps_content: false };
            let record = self.record_of(&set, next_tip.seq, form, next_tip.commit);
            planned.push(PlannedSet { set, record, is_synthetic: true });
        }
        let committed = newest.seq;
        self.window.closing_count = self.window.sets.len();
        *tip = RecordTip { committed, ..next_tip };
        Ok(planned)
    }

    /// Builds one commit; none when it would change nothing.
    fn plan_group(&self, group: &CommitGroup<'_>, tip: &mut RecordTip) -> Result<Option<PlannedSet>, StoreError> {
        let Some(last) = group.sets.last() else { return Ok(None) };
        let entries: BTreeMap<&TreePath, &LogEntry> =
            group.sets.iter().flat_map(|set| &set.entries).map(|entry| (&entry.path, entry)).collect();
        let states = self.core.versions.staged_states(tip.write_tip(), &entries.keys().copied().collect::<Vec<_>>())?;
        let effects = entries.into_values().zip(states).filter_map(|(entry, recorded)| {
            let after = entry.new.map(|blob| (blob, entry.kind));
            (recorded != after)
                .then(|| FileEffect::new(entry.path.clone(), recorded.map(StateBefore::from), state_after(entry)))
        });
        let message = group.message(&last.actor);
        let set = closing_set((last, &group.sets), self.core.next_ticket(), message, effects.collect());
        if set.effects.is_empty() {
            return Ok(None);
        }
        let record =
            self.build(&set, tip, RecordForm { kind: RecordKind::Commit, time: last.time, keeps_content: false })?;
        Ok(Some(PlannedSet { set, record, is_synthetic: true }))
    }

    /// Makes the pending commits now. The window stays open on a disk error.
    pub(super) fn close_window(&mut self) {
        if self.window.is_open() {
            self.window.expedite();
            let retried = std::mem::take(&mut self.retry_queue);
            self.process(retried);
        }
    }

    /// The planned commits are logged: drops their sets.
    pub(super) fn mark_window_logged(&mut self) {
        let CommitWindow { sets, bytes, due, closing_count: closing, closed_seq: closed } = &mut self.window;
        if *closing == 0 {
            return;
        }
        for set in sets.drain(..std::mem::take(closing)) {
            *closed = set.seq;
            *bytes -= content_bytes(&set);
        }
        *due = match (sets.is_empty(), self.core.commit_policy) {
            (false, CommitPolicy::Coalesced { window, .. }) => Some(Instant::now() + window),
            (true, _) | (false, CommitPolicy::PerSet) => None,
        };
    }

    /// The branch has the logged commits.
    pub(super) fn mark_window_committed(&self) {
        self.core.uncommitted.forget_up_to(self.window.closed_seq);
    }

    /// Drops all but the first `count` sets: later ones were not logged.
    pub(super) fn rollback_to(&mut self, count: usize) {
        let window = &mut self.window;
        if window.sets.len() == count {
            return;
        }
        window.sets.truncate(count);
        window.bytes = window.sets.iter().map(content_bytes).sum();
        if window.sets.is_empty() {
            window.due = None;
        }
        self.core.uncommitted.replace(window.sets.iter());
    }
}

/// A set that closes the window or a part of it, with the newest set's author.
fn closing_set(
    (newest, all): (&LogRecord, &[&LogRecord]),
    stamp: u64,
    message: String,
    effects: Vec<FileEffect>,
) -> QueuedSet {
    QueuedSet {
        actor: newest.actor.clone(),
        protocol: newest.protocol,
        origin_id: None,
        provenance: newest.provenance.clone().filter(|_| all.iter().all(|set| set.provenance == newest.provenance)),
        request: None,
        announcement: newest.announcement,
        message,
        durability: svcfs_base::Durability::Soon,
        ticket: stamp,
        moves: newest.moves.clone(),
        effects,
        consumed_scratch: Vec::new(),
        is_adopted: true,
        scanned_at: None,
        answer: None,
    }
}

fn state_after(entry: &LogEntry) -> Option<StateAfter> {
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
