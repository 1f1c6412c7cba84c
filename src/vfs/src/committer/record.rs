//! Steps 6 and 8a: a commit for each set, made and unreferenced, then all sets of the batch in the log with one flush.

use std::collections::HashSet;
use std::time::Instant;

use svcfs_base::{CommitId, Fault, FileKind, Seq, Timestamp, TreePath};
use svcfs_store::{
    CommitAuthor, DiffBase, FileEdit, LogEntry, LogRecord, RecordKind, StoreError, compare_entries, normalize_message,
};
use tracing::error;

use super::window::CommitPolicy;
use super::{Committer, PlannedSet};
use crate::adopt::{adopted, adoption_message};
use crate::overlay::OverlayFile;
use crate::precondition::{CurrentState, check};
use crate::queue::{FileEffect, QueuedSet, StateAfter, StateBefore};
use crate::queue_load::FlushKind;

/// Up to here the log has the contents of edits behind us, too: whoever flushed theirs is not to lose it to a power cut after somebody covered it.
/// A whole tree that was put there is in git, which is flushed with the next checkpoint.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// Where the next commit and the next record go.
#[derive(Clone, Copy)]
pub(super) struct RecordTip {
    pub(super) commit: Option<CommitId>,
    pub(super) seq: Seq,
    /// Sets of the window up to here are in `commit`.
    pub(super) committed: Seq,
}

impl RecordTip {
    /// The same without the window.
    pub(super) const fn recorded(self) -> svcfs_store::WriteTip {
        let Self { commit, seq, committed: _ } = self;
        svcfs_store::WriteTip { commit, seq }
    }
}

/// What a record is made as.
#[derive(Clone, Copy)]
pub(super) struct RecordForm {
    pub(super) role: RecordKind,
    pub(super) time: Timestamp,
    /// Whether the log keeps the contents.
    pub(super) is_kept: bool,
}

impl Committer {
    /// Step 6, with the objects of step 8 made first. With the window's commits, when it is their time.
    pub(super) fn log_all(&mut self, sets: Vec<QueuedSet>) -> Result<LoggedBatch, (Vec<QueuedSet>, Fault)> {
        if let Err(error) = self.follow_head() {
            return Err((sets, error.into()));
        }
        let mark = self.window.count();
        self.log_planned(sets).map_err(|(sets, error)| {
            self.window.keep_open();
            self.take_back(mark);
            (sets, error.into())
        })
    }

    fn log_planned(&mut self, sets: Vec<QueuedSet>) -> Result<LoggedBatch, (Vec<QueuedSet>, StoreError)> {
        let mut logged = LoggedBatch { planned: Vec::with_capacity(sets.len()), void: Vec::new() };
        let commit = self.left.map_or(self.head, |left| left.commit);
        let mut tip = RecordTip { commit, seq: self.last, committed: Seq(0) };
        let mut sets = sets.into_iter();
        while let Some(prepared) = sets.next() {
            let refused = match self.plan(prepared, &mut tip, &mut logged) {
                Ok(()) => continue,
                Err(refused) => refused,
            };
            match *refused {
                (prepared, PlanError::Store(StoreError::Unrecordable { path, reason })) => {
                    self.refuse_name(&prepared, path, reason);
                }
                (prepared, PlanError::Premise(fault)) => self.turn_away(&prepared, fault),
                (prepared, PlanError::Store(error)) => {
                    return Err((logged.asked().into_iter().chain([prepared]).chain(sets).collect(), error));
                }
            }
        }
        if self.is_window_due() {
            match self.close(&mut tip) {
                Ok(commits) => logged.planned.extend(commits),
                Err(error) => return Err((logged.asked(), error)),
            }
        }
        let records: Vec<LogRecord> = logged.planned.iter().map(|planned| planned.record.clone()).collect();
        if !records.is_empty()
            && let Err(error) = self.append(&records, &logged.planned)
        {
            return Err((logged.asked(), error));
        }
        self.core.memory.mark_logged();
        self.window_logged();
        if records.is_empty() {
            self.window_shown();
            return Ok(logged);
        }
        self.last = tip.seq;
        self.is_unsettled = true;
        self.unsettled_bytes += records.iter().flat_map(|record| &record.entries).map(size_of_entry).sum::<usize>();
        Ok(logged)
    }

    /// Step 6, with what the steps behind it need made beside it. Not while the disk refuses: what is not logged then would fill it.
    fn append(&self, records: &[LogRecord], planned: &[PlannedSet]) -> Result<(), StoreError> {
        let append = || {
            let begun = Instant::now();
            self.core.log.append(records)?;
            self.core.flushed(FlushKind::Log, begun);
            Ok(())
        };
        let has_commits = records.iter().any(|record| record.commit.is_some());
        if !has_commits || self.core.trouble.lock().is_some() {
            return append();
        }
        self.ahead.beside(&self.core, planned, append)
    }

    /// One path that cannot be recorded does not keep the others of its batch from being recorded.
    fn refuse_name(&self, prepared: &QueuedSet, path: TreePath, reason: String) {
        if prepared.answer.is_none() {
            error!(page.path = %path, reason, "this path cannot be recorded; the file is on the disk only");
            for effect in prepared.changing() {
                if let Some(StateAfter::Leaf(leaf)) = &effect.after
                    && let Err(error) = self.core.install(&effect.path, leaf)
                {
                    error!(page.path = %effect.path, %error, "the file could not be kept on the disk");
                }
            }
        }
        self.turn_away(prepared, StoreError::Unrecordable { path, reason }.into());
    }

    /// Refuses one set; the others of its batch go on.
    fn turn_away(&self, prepared: &QueuedSet, fault: Fault) {
        self.forget(prepared);
        if let Some(answer) = &prepared.answer {
            // The writer may have given up waiting.
            let _ = answer.send(Err(fault));
        }
    }

    /// Makes a set's commit, unreferenced, and its record; before them, those of edits behind us that the set would cover. A set
    /// that gets its commit later is put into the window, one that does not comes after those that are in it.
    fn plan(
        &mut self,
        mut prepared: QueuedSet,
        tip: &mut RecordTip,
        logged: &mut LoggedBatch,
    ) -> Result<(), Box<(QueuedSet, PlanError)>> {
        if prepared.is_adopted || self.core.commits == CommitPolicy::PerSet {
            match self.close(tip) {
                Ok(commits) => logged.planned.extend(commits),
                Err(error) => return Err(Box::new((prepared, PlanError::Store(error)))),
            }
        }
        let outcome = if prepared.is_adopted {
            self.plan_adopted(&mut prepared, tip, logged).map(|record| (None, record)).map_err(PlanError::Store)
        } else {
            self.plan_asked(&mut prepared, tip)
        };
        match outcome {
            Ok((unseen, Some(record))) => {
                if prepared.seen.is_none() {
                    self.told = record.seq;
                }
                logged.planned.extend(unseen.into_iter().chain([PlannedSet { prepared, record, is_extra: false }]));
                Ok(())
            }
            Ok((_, None)) => {
                logged.void.push(prepared);
                Ok(())
            }
            Err(setback) => Err(Box::new((prepared, setback))),
        }
    }

    /// A writer's set, and before it what it would cover unseen. No record when nothing is left of it: what it stood on was refused,
    /// and without that it changes nothing.
    fn plan_asked(
        &mut self,
        prepared: &mut QueuedSet,
        tip: &mut RecordTip,
    ) -> Result<(Option<PlannedSet>, Option<LogRecord>), PlanError> {
        let (mark, mut ahead) = (self.window.count(), *tip);
        let outcome = self.asked_and_unseen(prepared, &mut ahead);
        if matches!(outcome, Ok((_, Some(_)))) {
            *tip = ahead;
        } else {
            self.take_back(mark);
        }
        outcome
    }

    fn asked_and_unseen(
        &mut self,
        prepared: &mut QueuedSet,
        tip: &mut RecordTip,
    ) -> Result<(Option<PlannedSet>, Option<LogRecord>), PlanError> {
        let unseen = match self.look_below(prepared, tip)? {
            Some(unseen) => {
                let record = self.made(&unseen, tip)?;
                Some(PlannedSet { prepared: unseen, record, is_extra: true })
            }
            None => None,
        };
        if prepared.changing().next().is_none() {
            return Ok((None, None));
        }
        let record = self.made(prepared, tip)?;
        Ok((unseen, Some(record)))
    }

    /// Makes a set's commit, or puts the set into the window. The log keeps the contents.
    fn made(&mut self, prepared: &QueuedSet, tip: &mut RecordTip) -> Result<LogRecord, StoreError> {
        let form = RecordForm {
            role: RecordKind::Change,
            time: self.core.memory.record_timestamp(self.core.clock.now()),
            is_kept: true,
        };
        match self.core.commits {
            CommitPolicy::PerSet => self.build(prepared, tip, form),
            CommitPolicy::Coalesced { window, .. } => self.defer(prepared, tip, window),
        }
    }

    /// A set of edits behind us, without those that were recorded since they were seen, and without what cannot be recorded:
    /// that is on the disk only. None when nothing is left. A path that was changed since is looked at again, also when history has
    /// of it what it had: a page that came and went meanwhile is there for whoever looked in between.
    fn plan_adopted(
        &self,
        prepared: &mut QueuedSet,
        tip: &mut RecordTip,
        logged: &LoggedBatch,
    ) -> Result<Option<LogRecord>, StoreError> {
        let paths: Vec<_> = prepared.effects.iter().map(|effect| &effect.path).collect();
        let known = self.core.memory.staged_states(tip.recorded(), &paths)?;
        let (mut fresh, mut again) = (Vec::with_capacity(prepared.effects.len()), Vec::new());
        let since = match prepared.seen.filter(|seen| *seen < self.told) {
            Some(seen) => {
                let mut since = self.core.log.changed_paths(seen)?;
                since.extend(logged.changed().cloned());
                since
            }
            None => HashSet::new(),
        };
        for (effect, known) in prepared.effects.drain(..).zip(known) {
            let before = effect.before.as_ref().map(|before| (before.etag, before.kind));
            let after = effect.after.as_ref().map(|after| (after.etag(), after.kind()));
            if known != before || known == after {
                continue;
            }
            if since.contains(&effect.path) {
                again.push(effect.path);
            } else {
                fresh.push(effect);
            }
        }
        if !again.is_empty() {
            self.core.doubt(again);
        }
        prepared.effects = fresh;
        while !prepared.effects.is_empty() {
            prepared.message = adoption_message(&prepared.actor, &prepared.effects);
            let content = |effect: &FileEffect| {
                if let Some(StateAfter::Leaf(leaf)) = &effect.after { leaf.content.len() } else { 0 }
            };
            let is_kept = prepared.effects.iter().map(content).sum::<usize>() <= MAX_KEPT_BYTES;
            let form = RecordForm {
                role: RecordKind::Change,
                time: self.core.memory.record_timestamp(self.core.clock.now()),
                is_kept,
            };
            match self.build(prepared, tip, form) {
                Err(StoreError::Unrecordable { path, reason })
                    if prepared.effects.iter().any(|effect| effect.path == path) =>
                {
                    let mut kept = Vec::with_capacity(prepared.effects.len());
                    // All that have such a name at once: a tree made elsewhere may have many.
                    for effect in prepared.effects.drain(..) {
                        if effect.path != path && self.core.memory.can_record(&effect.path)? {
                            kept.push(effect);
                        } else {
                            error!(page.path = %effect.path, reason, "this path cannot be recorded; the file is on the disk only");
                        }
                    }
                    prepared.effects = kept;
                }
                outcome => return outcome.map(Some),
            }
        }
        Ok(None)
    }

    /// Makes a commit and its record.
    pub(super) fn build(
        &self,
        prepared: &QueuedSet,
        tip: &mut RecordTip,
        form: RecordForm,
    ) -> Result<LogRecord, StoreError> {
        let message = normalize_message(&prepared.message);
        let author = CommitAuthor { actor: &prepared.actor, time: form.time, message: &message };
        let edits: Vec<_> = prepared.changing().map(edit_of).collect();
        let staged = self.core.memory.stage(tip.recorded(), &edits, &author).map_err(|error| {
            let content =
                |edit: &FileEdit<'_>| if let FileEdit::Write { content, .. } = edit { content.len() } else { 0 };
            self.core.log.diagnose_error(error, edits.iter().map(content).sum())
        })?;
        *tip = RecordTip { commit: staged.commit, seq: staged.seq, ..*tip };
        Ok(self.record_of(prepared, tip.seq, form, tip.commit))
    }

    /// The record of a set.
    pub(super) fn record_of(
        &self,
        prepared: &QueuedSet,
        seq: Seq,
        form: RecordForm,
        commit: Option<CommitId>,
    ) -> LogRecord {
        let entry = |effect: &FileEffect| {
            let leaf = match &effect.after {
                Some(StateAfter::Leaf(leaf)) => Some(leaf),
                Some(StateAfter::Blob(..)) | None => None,
            };
            let kind = effect.after.as_ref().map(StateAfter::kind).or(effect.before.as_ref().map(|before| before.kind));
            LogEntry {
                path: effect.path.clone(),
                old: effect.before.as_ref().map(|before| before.etag),
                new: effect.after.as_ref().map(StateAfter::etag),
                kind: kind.unwrap_or(FileKind::Regular),
                content: leaf.filter(|_| form.is_kept).map(|leaf| leaf.content.clone()),
                attributes: leaf.map(|leaf| leaf.disk).unwrap_or_default(),
                replaces_large: effect.over,
            }
        };
        let mut entries: Vec<LogEntry> = prepared.changing().map(entry).collect();
        entries.sort_by(|one, other| compare_entries((one.new, &one.path), (other.new, &other.path)));
        LogRecord {
            seq,
            time: form.time,
            actor: prepared.actor.clone(),
            protocol: prepared.protocol,
            message: normalize_message(&prepared.message),
            provenance: prepared.provenance.clone(),
            announcement: prepared.announcement,
            kind: form.role,
            diff_base: DiffBase::Parent,
            commit,
            moves: prepared.moves.clone(),
            entries,
        }
    }

    /// Looks once more at what a set stands on, now that all before it are recorded or refused.
    ///
    /// What the tree had when it was accepted and history has not is an edit behind us that the set is about to cover: a set of its
    /// own, to come before. What was accepted before it and refused since never was: a writer who wanted just that is refused, too;
    /// one who was told that the write is accepted, or wanted it in any case, has it on top of what is there.
    fn look_below(&self, prepared: &mut QueuedSet, tip: &RecordTip) -> Result<Option<QueuedSet>, PlanError> {
        // The files of a renamed directory are those that history has, and nothing was pending.
        let (mut of_rename, mut effects): (Vec<_>, Vec<_>) =
            std::mem::take(&mut prepared.effects).into_iter().partition(|effect| prepared.is_of_rename(effect));
        let outcome = self.look_below_each(prepared, &mut effects, tip);
        of_rename.append(&mut effects);
        prepared.effects = of_rename;
        outcome
    }

    fn look_below_each(
        &self,
        prepared: &QueuedSet,
        effects: &mut [FileEffect],
        tip: &RecordTip,
    ) -> Result<Option<QueuedSet>, PlanError> {
        let paths: Vec<_> = effects.iter().map(|effect| &effect.path).collect();
        let recorded = self.known(&paths, tip)?;
        let mut unseen = Vec::new();
        for (effect, known) in effects.iter_mut().zip(recorded) {
            if effect.before.as_ref().map(|before| (before.etag, before.kind)) == known {
                continue;
            }
            let edit = match (&effect.before, &effect.premise) {
                (Some(StateBefore { kind, seen: Some(content), .. }), _) => {
                    Some(StateAfter::Leaf(OverlayFile::new(content.clone(), *kind)))
                }
                (None, None) => None,
                (Some(_), _) | (None, Some(_)) => {
                    if let Some(premise) = effect.premise.as_ref().filter(|_| prepared.answer.is_some()) {
                        let now = known.map_or(CurrentState::Nothing, |(etag, _)| CurrentState::Content(etag));
                        check(&effect.path, now, premise).map_err(PlanError::Premise)?;
                    }
                    effect.stood = effect.stood.or(effect.before.as_ref().map(|before| before.etag));
                    effect.before = known.map(StateBefore::from);
                    continue;
                }
            };
            let (path, before) = (effect.path.clone(), known.map(StateBefore::from));
            unseen.push(FileEffect::new(path, before, edit));
        }
        Ok((!unseen.is_empty()).then(|| adopted(&self.core, unseen, None)))
    }
}

/// Why a set is not recorded.
enum PlanError {
    /// What it stands on was refused: it alone is.
    Premise(Fault),
    /// The disk or git.
    Store(StoreError),
}

impl From<StoreError> for PlanError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What became of the sets of a batch.
pub(super) struct LoggedBatch {
    /// Those that the log has.
    pub(super) planned: Vec<PlannedSet>,
    /// Those that came to nothing: what they ask for is so already, or will be once those before them are in place. Till then they are
    /// neither answered nor forgotten.
    pub(super) void: Vec<QueuedSet>,
}

impl LoggedBatch {
    /// The paths that sets among them change.
    fn changed(&self) -> impl Iterator<Item = &TreePath> {
        self.planned.iter().flat_map(|planned| &planned.record.entries).map(|entry| &entry.path)
    }

    /// The sets that were asked for, in their order; those made for edits behind us are made again when their time comes.
    fn asked(self) -> Vec<QueuedSet> {
        let planned = self.planned.into_iter().filter(|planned| !planned.is_extra).map(|planned| planned.prepared);
        let mut sets: Vec<_> = planned.chain(self.void).collect();
        sets.sort_by_key(|set| set.stamp);
        sets
    }
}

pub(super) fn edit_of(effect: &FileEffect) -> FileEdit<'_> {
    let path = &effect.path;
    match &effect.after {
        Some(StateAfter::Leaf(leaf)) => FileEdit::Write { path, kind: leaf.kind, content: &leaf.content },
        Some(StateAfter::Blob(blob, kind)) => FileEdit::Reuse { path, kind: *kind, blob: *blob },
        None => FileEdit::Remove { path },
    }
}

fn size_of_entry(entry: &LogEntry) -> usize {
    entry.content.as_ref().map_or(0, bytes::Bytes::len) + 128
}
