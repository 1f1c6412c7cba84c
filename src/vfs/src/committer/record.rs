//! Steps 6 and 8a: builds unreferenced commits, then logs the batch with one flush.

use std::collections::HashSet;
use std::time::Instant;

use svcfs_base::{CommitId, Fault, FileKind, Seq, Timestamp, TreePath};
use svcfs_store::{
    CommitAuthor, DiffBase, FileEdit, LogEntry, LogRecord, RecordKind, StoreError, author_email, compare_entries,
    normalize_message,
};
use tracing::error;

use super::window::CommitPolicy;
use super::{Committer, PlannedSet};
use crate::adopt::{adoption_message, adoption_set};
use crate::overlay::OverlayFile;
use crate::precondition::{CurrentState, check_precondition};
use crate::queue::{FileEffect, QueuedSet, StateAfter, StateBefore};
use crate::queue_load::FlushKind;

/// Up to this size the log also has the contents of adopted edits: an edit that its program flushed
/// must survive a power cut after svcfs overwrites it. Larger trees are in git, flushed by the next
/// checkpoint.
const MAX_ADOPTED_CONTENT_BYTES: usize = 1 << 20;

/// Parent of the next commit, position of the next record.
#[derive(Clone, Copy)]
pub(super) struct RecordTip {
    pub(super) commit: Option<CommitId>,
    pub(super) seq: Seq,
    /// Sets of the window up to here are in `commit`.
    pub(super) committed: Seq,
}

impl RecordTip {
    /// The tip without the window.
    pub(super) const fn write_tip(self) -> svcfs_store::WriteTip {
        let Self { commit, seq, committed: _ } = self;
        svcfs_store::WriteTip { commit, seq }
    }
}

/// Properties of a record to build.
#[derive(Clone, Copy)]
pub(super) struct RecordForm {
    pub(super) kind: RecordKind,
    pub(super) time: Timestamp,
    /// Whether the log stores the contents.
    pub(super) keeps_content: bool,
}

impl Committer {
    /// Step 6, after building the objects of step 8, with the window's commits if due.
    pub(super) fn log_all(&mut self, sets: Vec<QueuedSet>) -> Result<LoggedBatch, (Vec<QueuedSet>, Fault)> {
        if let Err(error) = self.follow_head() {
            return Err((sets, error.into()));
        }
        let mark = self.window.count();
        self.log_planned(sets).map_err(|(sets, error)| {
            self.window.abort_close();
            self.rollback_to(mark);
            (sets, error.into())
        })
    }

    fn log_planned(&mut self, sets: Vec<QueuedSet>) -> Result<LoggedBatch, (Vec<QueuedSet>, StoreError)> {
        let mut logged = LoggedBatch { planned: Vec::with_capacity(sets.len()), noops: Vec::new() };
        let commit = self.unapplied_tip.map_or(self.head, |tip| tip.commit);
        let mut tip = RecordTip { commit, seq: self.last_seq, committed: Seq(0) };
        let mut sets = sets.into_iter();
        while let Some(set) = sets.next() {
            let failed = match self.plan(set, &mut tip, &mut logged) {
                Ok(()) => continue,
                Err(failed) => failed,
            };
            match *failed {
                (set, PlanError::Store(StoreError::Unrecordable { path, reason })) => {
                    self.reject_unrecordable(&set, StoreError::Unrecordable { path, reason });
                }
                (set, PlanError::PreconditionFailed(fault)) => self.reject(&set, fault),
                (set, PlanError::Store(StoreError::FilterFailed { path, reason })) => {
                    self.reject_unrecordable(&set, StoreError::FilterFailed { path, reason });
                }
                (set, PlanError::Store(error)) => {
                    return Err((logged.into_requested().into_iter().chain([set]).chain(sets).collect(), error));
                }
            }
        }
        if self.is_window_due() {
            match self.plan_window_commits(&mut tip) {
                Ok(commits) => logged.planned.extend(commits),
                Err(error) => return Err((logged.into_requested(), error)),
            }
        }
        let records: Vec<LogRecord> = logged.planned.iter().map(|planned| planned.record.clone()).collect();
        if !records.is_empty()
            && let Err(error) = self.append(&records, &logged.planned)
        {
            return Err((logged.into_requested(), error));
        }
        self.core.versions.mark_logged();
        self.mark_window_logged();
        if records.is_empty() {
            self.mark_window_committed();
            return Ok(logged);
        }
        self.last_seq = tip.seq;
        self.needs_checkpoint = true;
        self.uncheckpointed_bytes += records.iter().flat_map(|record| &record.entries).map(entry_bytes).sum::<usize>();
        Ok(logged)
    }

    /// Step 6, overlapped with preparation of the next steps. Not while the disk fails: files
    /// prepared for sets that are not logged would fill it.
    fn append(&self, records: &[LogRecord], planned: &[PlannedSet]) -> Result<(), StoreError> {
        let append = || {
            let started = Instant::now();
            self.core.log.append(records)?;
            self.core.report_flush(FlushKind::Log, started);
            Ok(())
        };
        let has_commits = records.iter().any(|record| record.commit.is_some());
        if !has_commits || self.core.write_error.lock().is_some() {
            return append();
        }
        self.flush_overlap.during(&self.core, planned, append)
    }

    /// Refuses a set with a path that cannot be recorded; the rest of the batch is logged.
    fn reject_unrecordable(&self, set: &QueuedSet, reason: StoreError) {
        if set.answer.is_none() {
            error!(error = %reason, "a save cannot be recorded; the file is on the disk only");
            for effect in set.changing_effects() {
                if let Some(StateAfter::Leaf(leaf)) = &effect.after
                    && let Err(error) = self.core.install(&effect.path, leaf)
                {
                    error!(page.path = %effect.path, %error, "cannot write the file to the disk");
                }
            }
        }
        self.reject(set, reason.into());
    }

    fn reject(&self, set: &QueuedSet, fault: Fault) {
        self.clear_overlay(set);
        if let Some(answer) = &set.answer {
            let _ = answer.send(Err(fault));
        }
    }

    /// Builds a set's unreferenced commit and its record, and before them those of external edits
    /// that the set would overwrite. A set to be coalesced is put into the window; any other set
    /// closes the window first.
    fn plan(
        &mut self,
        mut set: QueuedSet,
        tip: &mut RecordTip,
        logged: &mut LoggedBatch,
    ) -> Result<(), Box<(QueuedSet, PlanError)>> {
        if set.is_adopted || self.core.commit_policy == CommitPolicy::PerSet {
            match self.plan_window_commits(tip) {
                Ok(commits) => logged.planned.extend(commits),
                Err(error) => return Err(Box::new((set, PlanError::Store(error)))),
            }
        }
        let outcome = if set.is_adopted {
            self.plan_adopted(&mut set, tip, logged).map(|record| (None, record)).map_err(PlanError::Store)
        } else {
            self.plan_requested(&mut set, tip)
        };
        match outcome {
            Ok((external, Some(record))) => {
                if set.scanned_at.is_none() {
                    self.last_non_scan_seq = record.seq;
                }
                logged.planned.extend(external.into_iter().chain([PlannedSet { set, record, is_synthetic: false }]));
                Ok(())
            }
            Ok((_, None)) => {
                logged.noops.push(set);
                Ok(())
            }
            Err(error) => Err(Box::new((set, error))),
        }
    }

    /// Plans a writer's set, and before it the external edits that it would overwrite. No record
    /// when the set is a no-op because a change it depended on was refused.
    fn plan_requested(
        &mut self,
        set: &mut QueuedSet,
        tip: &mut RecordTip,
    ) -> Result<(Option<PlannedSet>, Option<LogRecord>), PlanError> {
        let (mark, mut next_tip) = (self.window.count(), *tip);
        let outcome = self.plan_with_external_edits(set, &mut next_tip);
        if matches!(outcome, Ok((_, Some(_)))) {
            *tip = next_tip;
        } else {
            self.rollback_to(mark);
        }
        outcome
    }

    fn plan_with_external_edits(
        &mut self,
        set: &mut QueuedSet,
        tip: &mut RecordTip,
    ) -> Result<(Option<PlannedSet>, Option<LogRecord>), PlanError> {
        let external = match self.revalidate(set, tip)? {
            Some(external) => {
                let record = self.build_or_defer(&external, tip)?;
                Some(PlannedSet { set: external, record, is_synthetic: true })
            }
            None => None,
        };
        if set.changing_effects().next().is_none() {
            return Ok((None, None));
        }
        let record = self.build_or_defer(set, tip)?;
        Ok((external, Some(record)))
    }

    /// Builds a set's commit, or defers the set to the window. The log stores the contents.
    fn build_or_defer(&mut self, set: &QueuedSet, tip: &mut RecordTip) -> Result<LogRecord, StoreError> {
        let form = RecordForm {
            kind: RecordKind::Change,
            time: self.core.versions.record_timestamp(self.core.clock.now()),
            keeps_content: true,
        };
        match self.core.commit_policy {
            CommitPolicy::PerSet => self.build(set, tip, form),
            CommitPolicy::Coalesced { window, .. } => self.defer(set, tip, window),
        }
    }

    /// Plans a set of external edits, without those recorded since the scan, and without those that
    /// cannot be recorded and stay on disk only. None when nothing remains. A path that changed
    /// since the scan is scanned again even if history has its former state: a page may have been
    /// created and removed in between.
    fn plan_adopted(
        &self,
        set: &mut QueuedSet,
        tip: &mut RecordTip,
        logged: &LoggedBatch,
    ) -> Result<Option<LogRecord>, StoreError> {
        let paths: Vec<_> = set.effects.iter().map(|effect| &effect.path).collect();
        let states = self.core.versions.staged_states(tip.write_tip(), &paths)?;
        let (mut remaining, mut rescan) = (Vec::with_capacity(set.effects.len()), Vec::new());
        let since = match set.scanned_at.filter(|scanned_at| *scanned_at < self.last_non_scan_seq) {
            Some(scanned_at) => {
                let mut since = self.core.log.changed_paths(scanned_at)?;
                since.extend(logged.changed_paths().cloned());
                since
            }
            None => HashSet::new(),
        };
        for (effect, recorded) in set.effects.drain(..).zip(states) {
            let before = effect.before.as_ref().map(|before| (before.etag, before.kind));
            let after = effect.after.as_ref().map(|after| (after.etag(), after.kind()));
            if recorded != before || recorded == after {
                continue;
            }
            if since.contains(&effect.path) {
                rescan.push(effect.path);
            } else {
                remaining.push(effect);
            }
        }
        if !rescan.is_empty() {
            self.core.request_rescan(rescan);
        }
        set.effects = remaining;
        while !set.effects.is_empty() {
            set.message = adoption_message(&self.core, &set.actor, &set.effects);
            let content = |effect: &FileEffect| {
                if let Some(StateAfter::Leaf(leaf)) = &effect.after { leaf.content.len() } else { 0 }
            };
            let keeps_content = set.effects.iter().map(content).sum::<usize>() <= MAX_ADOPTED_CONTENT_BYTES;
            let form = RecordForm {
                kind: RecordKind::Change,
                time: self.core.versions.record_timestamp(self.core.clock.now()),
                keeps_content,
            };
            match self.build(set, tip, form) {
                Err(StoreError::Unrecordable { path, reason })
                    if set.effects.iter().any(|effect| effect.path == path) =>
                {
                    let mut recordable = Vec::with_capacity(set.effects.len());
                    // Drops all such names together: a tree made elsewhere may have many.
                    for effect in set.effects.drain(..) {
                        if effect.path != path && self.core.versions.can_record(&effect.path) {
                            recordable.push(effect);
                        } else {
                            error!(page.path = %effect.path, reason, "this path cannot be recorded; the file is on the disk only");
                        }
                    }
                    set.effects = recordable;
                }
                // The filter worked when the edit was found.
                Err(StoreError::FilterFailed { path, reason })
                    if set.effects.iter().any(|effect| effect.path == path) =>
                {
                    error!(page.path = %path, reason, "a git filter failed; the file is on the disk only");
                    set.effects.retain(|effect| effect.path != path);
                }
                outcome => return outcome.map(Some),
            }
        }
        Ok(None)
    }

    pub(super) fn build(
        &self,
        set: &QueuedSet,
        tip: &mut RecordTip,
        form: RecordForm,
    ) -> Result<LogRecord, StoreError> {
        let message = normalize_message(&set.message);
        let email = author_email(set.protocol, set.provenance.as_deref());
        let author = CommitAuthor { actor: &set.actor, email, time: form.time, message: &message };
        let edits: Vec<_> = set.changing_effects().map(file_edit).collect();
        let staged = self.core.versions.stage(tip.write_tip(), &edits, &author).map_err(|error| {
            let content =
                |edit: &FileEdit<'_>| if let FileEdit::Write { content, .. } = edit { content.len() } else { 0 };
            self.core.log.diagnose_error(error, edits.iter().map(content).sum())
        })?;
        *tip = RecordTip { commit: staged.commit, seq: staged.seq, ..*tip };
        Ok(self.record_of(set, tip.seq, form, tip.commit))
    }

    pub(super) fn record_of(&self, set: &QueuedSet, seq: Seq, form: RecordForm, commit: Option<CommitId>) -> LogRecord {
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
                content: leaf.filter(|_| form.keeps_content).map(|leaf| leaf.content.clone()),
                attributes: leaf.map(|leaf| leaf.disk).unwrap_or_default(),
                replaces_large: effect.replaces_large,
            }
        };
        let mut entries: Vec<LogEntry> = set.changing_effects().map(entry).collect();
        entries.sort_by(|a, b| compare_entries((a.new, &a.path), (b.new, &b.path)));
        LogRecord {
            seq,
            time: form.time,
            actor: set.actor.clone(),
            protocol: set.protocol,
            message: normalize_message(&set.message),
            provenance: set.provenance.clone(),
            announcement: set.announcement,
            kind: form.kind,
            diff_base: DiffBase::Parent,
            commit,
            request: set.request,
            moves: set.moves.clone(),
            entries,
        }
    }

    /// Evaluates a set's preconditions again, now that all earlier sets are recorded or refused.
    ///
    /// Content that the tree had at accept time and history has not is an external edit that this
    /// set would overwrite: it becomes a set of its own, committed before. If an earlier accepted
    /// change was refused since, a synchronous writer that required it is refused, too; any other
    /// write is committed onto the current state.
    fn revalidate(&self, set: &mut QueuedSet, tip: &RecordTip) -> Result<Option<QueuedSet>, PlanError> {
        // The files of a renamed directory are in history, and nothing was pending.
        let (mut of_rename, mut effects): (Vec<_>, Vec<_>) =
            std::mem::take(&mut set.effects).into_iter().partition(|effect| set.is_in_renamed_directory(effect));
        let outcome = self.revalidate_effects(set, &mut effects, tip);
        of_rename.append(&mut effects);
        set.effects = of_rename;
        outcome
    }

    fn revalidate_effects(
        &self,
        set: &QueuedSet,
        effects: &mut [FileEffect],
        tip: &RecordTip,
    ) -> Result<Option<QueuedSet>, PlanError> {
        let paths: Vec<_> = effects.iter().map(|effect| &effect.path).collect();
        let states = self.known_states(&paths, tip)?;
        let mut external = Vec::new();
        for (effect, recorded) in effects.iter_mut().zip(states) {
            if effect.before.as_ref().map(|before| (before.etag, before.kind)) == recorded {
                continue;
            }
            let edit = match (&effect.before, &effect.recheck) {
                (Some(StateBefore { kind, disk_content: Some(content), .. }), _) => {
                    Some(StateAfter::Leaf(OverlayFile::new(content.clone(), *kind)))
                }
                (None, None) => None,
                (Some(_), _) | (None, Some(_)) => {
                    if let Some(recheck) = effect.recheck.as_ref().filter(|_| set.answer.is_some()) {
                        let now = recorded.map_or(CurrentState::Nothing, |(etag, _)| CurrentState::Content(etag));
                        check_precondition(&effect.path, now, recheck).map_err(PlanError::PreconditionFailed)?;
                    }
                    effect.observed_etag = effect.observed_etag.or(effect.before.as_ref().map(|before| before.etag));
                    effect.before = recorded.map(StateBefore::from);
                    continue;
                }
            };
            let (path, before) = (effect.path.clone(), recorded.map(StateBefore::from));
            external.push(FileEffect::new(path, before, edit));
        }
        Ok((!external.is_empty()).then(|| adoption_set(&self.core, external, None)))
    }
}

enum PlanError {
    /// A precondition no longer holds: only this set is refused.
    PreconditionFailed(Fault),
    Store(StoreError),
}

impl From<StoreError> for PlanError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The sets of a batch after logging.
pub(super) struct LoggedBatch {
    pub(super) planned: Vec<PlannedSet>,
    /// Sets without changes, answered after the earlier sets they depend on.
    pub(super) noops: Vec<QueuedSet>,
}

impl LoggedBatch {
    fn changed_paths(&self) -> impl Iterator<Item = &TreePath> {
        self.planned.iter().flat_map(|planned| &planned.record.entries).map(|entry| &entry.path)
    }

    /// The requested sets in order. Sets for external edits are planned again on retry.
    fn into_requested(self) -> Vec<QueuedSet> {
        let planned = self.planned.into_iter().filter(|planned| !planned.is_synthetic).map(|planned| planned.set);
        let mut sets: Vec<_> = planned.chain(self.noops).collect();
        sets.sort_by_key(|set| set.ticket);
        sets
    }
}

pub(super) fn file_edit(effect: &FileEffect) -> FileEdit<'_> {
    let path = &effect.path;
    match &effect.after {
        Some(StateAfter::Leaf(leaf)) => FileEdit::Write { path, kind: leaf.kind, content: &leaf.content },
        Some(StateAfter::Blob(blob, kind)) => FileEdit::Reuse { path, kind: *kind, blob: *blob },
        None => FileEdit::Remove { path },
    }
}

fn entry_bytes(entry: &LogEntry) -> usize {
    entry.content.as_ref().map_or(0, bytes::Bytes::len) + 128
}
