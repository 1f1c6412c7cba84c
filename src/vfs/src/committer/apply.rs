//! Steps 7 to 9: the tree, the branch, the feed and the answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use svcfs_base::{CommitId, ETag, Fault, LargeFile, Precondition, TreePath};
use svcfs_store::{
    ExpectedFile, FailPoint, History, InstallResult, RecordKind, SnapshotStore, StoreError, VersionStore, WriteTip,
};
use tracing::{debug, error, warn};

use super::external_commits::{POLL_INTERVAL, WAIT_TIMEOUT, external_records, missing_branch};
use super::record::file_edit;
use super::{ApplyOutcome, Committer, PlannedSet, RETRY_INTERVAL};
use crate::core::{is_disk_error, tolerate_type_conflict};
use crate::feed::FeedEvent;
use crate::queue::{FileEffect, QueuedSet, SetReceipt, StateAfter};

impl Committer {
    /// Steps 7 to 9, retried until done: a logged set will be applied.
    pub(super) fn apply(&mut self, planned: Vec<PlannedSet>) -> ApplyOutcome {
        if planned.is_empty() {
            return ApplyOutcome::Applied;
        }
        let outcome = self.apply_with_retries(planned);
        *self.core.stalled_since.lock() = None;
        outcome
    }

    fn apply_with_retries(&mut self, mut planned: Vec<PlannedSet>) -> ApplyOutcome {
        if self.unapplied_tip.is_some() {
            // Later sets must not overtake unapplied ones.
            self.defer_to_recovery(&planned);
            return ApplyOutcome::DeferredToRecovery;
        }
        let mut is_closing = false;
        let git_deadline = Instant::now() + WAIT_TIMEOUT;
        let core = Arc::clone(&self.core);
        let mut unlink_guard;
        loop {
            self.wait_for_external_git();
            unlink_guard = Some(core.tree.defer_unlinks());
            match self.try_apply(&mut planned) {
                Ok(()) => break,
                Err(error) if self.is_inline => {
                    debug!(%error, "logged changes are not applied yet; the committer thread retries");
                    return ApplyOutcome::HandedOff(planned);
                }
                // An external git command moves the branch now, or has moved it since it was read.
                Err(error)
                    if (error.is_locked() || error.is_branch_moved())
                        && Instant::now() < git_deadline
                        && !is_closing =>
                {
                    is_closing = self.core.queue.pause(POLL_INTERVAL);
                }
                Err(error) if is_closing => {
                    // The log has it; recovery applies it.
                    error!(%error, "logged changes are not applied yet; the next start applies them");
                    self.defer_to_recovery(&planned);
                    return ApplyOutcome::DeferredToRecovery;
                }
                Err(error) => {
                    // Logged once: the error may last for hours, with five retries a second.
                    if self.core.write_error.lock().is_none() {
                        warn!(%error, "logged changes are not applied yet; retrying");
                    }
                    self.report_stall(&planned, error.into());
                    is_closing = self.core.queue.pause(RETRY_INTERVAL);
                }
            }
        }
        self.mark_window_committed();
        self.core.feed.publish(planned.iter().map(|PlannedSet { set, record, .. }| FeedEvent {
            origin_id: set.origin_id,
            ..FeedEvent::from(record.clone())
        }));
        for PlannedSet { set, record, .. } in &planned {
            self.clear_overlay(set);
            if let Some(answer) = &set.answer {
                // The writer may have stopped waiting.
                let _ = answer.send(Ok(SetReceipt { seq: record.seq, commit: record.commit }));
            }
        }
        drop(unlink_guard);
        self.core.fail_points.hit(FailPoint::FeedAnswered);
        self.packs_pending_unpin += 1;
        if !self.is_inline {
            self.unpin_packs();
        }
        self.last_work = Instant::now();
        ApplyOutcome::Applied
    }

    /// Answers no-op sets, after the sets that they depend on are applied.
    pub(super) fn ack_noops(&self, sets: &[QueuedSet]) {
        for set in sets {
            let removed = set.consumed_scratch.iter().try_for_each(|path| self.remove(path, None).map(drop));
            self.clear_overlay(set);
            if let Some(answer) = &set.answer {
                let receipt = removed.map(|()| SetReceipt { seq: self.last_seq, commit: None }).map_err(Fault::from);
                let _ = answer.send(receipt);
            }
        }
    }

    /// Allows compaction of packs that the branch refers to; asynchronous, as it may take a moment.
    pub(super) fn unpin_packs(&mut self) {
        if std::mem::take(&mut self.packs_pending_unpin) > 0
            && let Some(history) = self.core.versions.git()
        {
            history.unpin_packs();
        }
    }

    /// Records why logged changes wait. A lock held by an external git command is short, and
    /// writers wait for it. A disk error may last for hours, and new writers are refused
    /// immediately.
    fn report_stall(&mut self, planned: &[PlannedSet], fault: Fault) {
        if !is_disk_error(&fault) {
            *self.core.write_error.lock() = Some(self.core.deferred_write_error(&fault));
            return;
        }
        let text = format!("{fault}; accepted changes are queued until space is free");
        let error = Fault::new(fault.kind(), text).with_source(fault);
        *self.core.write_error.lock() = Some(error.duplicate());
        self.core.stalled_since.lock().get_or_insert_with(Instant::now);
        let waiting = self.core.queue.take_all();
        let (count, retries_before) = (waiting.len(), self.retry_queue.len());
        self.reject_or_retry(waiting, &error);
        // A refused set may have replaced the overlay entry of a logged one.
        for PlannedSet { set, .. } in planned.iter().filter(|planned| !planned.set.is_adopted) {
            self.core.show_pending(set);
        }
        self.core.queue.done(count - (self.retry_queue.len() - retries_before), false);
    }

    fn defer_to_recovery(&mut self, planned: &[PlannedSet]) {
        // Recovery compares the tree with history.
        self.conflicting_edits.clear();
        let commit = newest_commit(planned).or(self.unapplied_tip.and_then(|tip| tip.commit)).or(self.head);
        let newest = planned.last().map(|PlannedSet { record, .. }| WriteTip { commit, seq: record.seq });
        self.unapplied_tip = newest.or(self.unapplied_tip);
    }

    fn try_apply(&mut self, planned: &mut [PlannedSet]) -> Result<(), StoreError> {
        self.install(planned)?; // 7
        self.core.fail_points.hit(FailPoint::TreeDone);
        // 8
        let core = Arc::clone(&self.core);
        match &core.versions {
            VersionStore::Git { history, .. } => {
                let entries = planned.iter().flat_map(|planned| &planned.record.entries);
                self.git_index.touch(entries.map(|entry| entry.path.clone()));
                self.advance(history, planned)
            }
            VersionStore::Snapshots { snapshots, .. } => self.save_snapshots(snapshots, planned),
            VersionStore::LogOnly { .. } => Ok(()),
        }
    }

    /// Step 8 with git: moves the branch to the newest commit.
    fn advance(&mut self, history: &History, planned: &mut [PlannedSet]) -> Result<(), StoreError> {
        let Some(target) = newest_commit(planned) else { return Ok(()) };
        if self.is_rebuilding {
            // The branch may have been moved back since.
            return self.rebuild(history, planned);
        }
        if Some(target) != self.head
            && let Err(error) = history.advance(self.head, target)
        {
            if history.head()? == self.head {
                return Err(error);
            }
            debug!(%error, "an external process moved the branch; rebasing onto it");
            return self.rebuild(history, planned);
        }
        self.head = Some(target);
        Ok(())
    }

    /// Step 8 with snapshots: saves each new content.
    fn save_snapshots(&self, snapshots: &SnapshotStore, planned: &[PlannedSet]) -> Result<(), StoreError> {
        for PlannedSet { set, record, .. } in planned {
            for FileEffect { path, after, .. } in set.changing_effects() {
                let content = match after {
                    Some(StateAfter::Leaf(leaf)) => leaf.content.clone(),
                    // Moved here by the rename of its directory.
                    Some(StateAfter::Blob(hash, _)) => match self.core.read_worktree(path)? {
                        Some(leaf) if leaf.etag == *hash => leaf.content,
                        // An external edit just now; it becomes a version of its own.
                        Some(_) | None => continue,
                    },
                    None => continue,
                };
                tolerate_type_conflict(path, snapshots.save(path, record.time, &content))?;
            }
        }
        Ok(())
    }

    fn install(&mut self, planned: &[PlannedSet]) -> Result<(), StoreError> {
        let plans = coalesce_paths(planned);
        let mut edited = Vec::new();
        for (index, PlannedSet { set, .. }) in planned.iter().enumerate().filter(|(_, planned)| !planned.set.is_adopted)
        {
            for (from, to) in &set.moves {
                self.move_directory(from, to)?;
            }
            for effect in set.effects.iter().filter(|effect| set.is_installed_alone(effect)) {
                let plan = &plans[&effect.path];
                if plan.last_writer == index
                    && self.install_effect(effect, plan.expected())? == InstallResult::ConflictingEdit
                {
                    edited.push(effect.path.clone());
                }
                self.parallel_stager.mark_installed();
            }
            for path in &set.consumed_scratch {
                let _ = self.remove(path, None)?;
            }
        }
        self.conflicting_edits.extend(edited);
        Ok(())
    }

    /// Installs an effect, unless the path was edited externally since the set was accepted.
    fn install_effect(&self, effect: &FileEffect, known: ExpectedFile<'_>) -> Result<InstallResult, StoreError> {
        let try_install = |known: ExpectedFile<'_>| match &effect.after {
            Some(StateAfter::Leaf(leaf)) => self.core.install_logged(&effect.path, leaf, Some(known)),
            Some(StateAfter::Blob(..)) => Ok(InstallResult::Done),
            None => self.remove(&effect.path, Some(known)),
        };
        if try_install(known)? == InstallResult::Done {
            return Ok(InstallResult::Done);
        }
        // Content written by an external commit is in history; the set's content replaces it.
        let states = self.core.versions.current_states(&[&effect.path])?;
        if let Some((external, _)) = states.into_iter().flatten().next()
            && try_install([external][..].into())? == InstallResult::Done
        {
            return Ok(InstallResult::Done);
        }
        warn!(page.path = %effect.path, "an external edit came before an accepted change was installed; the edit is kept and recorded after it");
        Ok(InstallResult::ConflictingEdit)
    }

    fn move_directory(&self, from: &TreePath, to: &TreePath) -> Result<(), StoreError> {
        match self.core.tree.stat(from) {
            Ok(_) => {
                let moved = self.core.tree.make_parents(to).and_then(|_| self.core.tree.rename(from, to, true));
                tolerate_type_conflict(to, moved)
            }
            // A former attempt has moved it.
            Err(error) if error.is_missing() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, path: &TreePath, known: Option<ExpectedFile<'_>>) -> Result<InstallResult, StoreError> {
        let removed = match known {
            Some(known) => self.core.tree.remove_expected(path, known),
            None => self.core.tree.remove(path).map(|()| InstallResult::Done),
        };
        match removed {
            Err(error) if error.is_missing() => Ok(InstallResult::Done),
            Ok(outcome) => Ok(outcome),
            Err(error) => tolerate_type_conflict(path, Err(error)).map(|()| InstallResult::Done),
        }
    }

    /// The branch moved after the commits were built: builds them again onto its new head.
    fn rebuild(&mut self, history: &History, planned: &mut [PlannedSet]) -> Result<(), StoreError> {
        let Some(head) = history.head()? else {
            return Err(missing_branch());
        };
        self.is_rebuilding = true;
        let mut parent = head;
        for PlannedSet { set, record, .. } in planned.iter_mut().filter(|planned| planned.record.commit.is_some()) {
            let edits: Vec<_> = set.changing_effects().map(file_edit).collect();
            match history.stage(Some(parent), &edits, &record.author()) {
                Ok(staged) => parent = staged.commit,
                Err(StoreError::Unrecordable { path, reason } | StoreError::FilterFailed { path, reason }) => {
                    error!(page.path = %path, reason, "a logged change conflicts with an external commit; that commit was kept");
                }
                Err(error) => return Err(error),
            }
            record.commit = Some(parent);
        }
        let commits: Vec<_> =
            planned.iter().filter_map(|planned| Some((planned.record.seq, planned.record.commit?))).collect();
        self.core.log.set_commits(&commits)?;
        let below = external_records(&self.core, self.head, head)?;
        history.advance(Some(head), parent)?;
        self.head = Some(parent);
        self.is_rebuilding = false;
        // Logged later, as these sets are not announced yet: the feed keeps the log's order.
        self.pending_external_records.extend(below);
        Ok(())
    }
}

/// What a batch does to one path.
#[derive(Default)]
struct PathPlan {
    /// Index of the last set that changes it.
    last_writer: usize,
    /// On-disk contents that are no external edits: in history, or in this batch.
    acceptable_contents: Vec<ETag>,
    /// The unversioned large file that the first set replaces.
    acceptable_large: Option<LargeFile>,
    /// A set of the batch removes it: a later file there is a new one.
    is_removed: bool,
}

impl PathPlan {
    fn expected(&self) -> ExpectedFile<'_> {
        ExpectedFile { contents: &self.acceptable_contents, large: self.acceptable_large, is_removed: self.is_removed }
    }
}

fn coalesce_paths(planned: &[PlannedSet]) -> HashMap<&TreePath, PathPlan> {
    let mut plans: HashMap<_, PathPlan> = HashMap::new();
    // Coalesced commits contain sets that were installed before.
    let is_installed = |set: &PlannedSet| set.record.kind != RecordKind::Commit;
    for (index, PlannedSet { set, .. }) in planned.iter().enumerate().filter(|(_, set)| is_installed(set)) {
        for effect in set.effects.iter().filter(|effect| set.is_installed_alone(effect)) {
            let plan = plans.entry(&effect.path).or_default();
            plan.last_writer = index;
            plan.is_removed |= effect.after.is_none();
            plan.acceptable_contents.extend(effect.before.as_ref().map(|before| before.etag));
            plan.acceptable_contents.extend(effect.after.as_ref().map(StateAfter::etag));
            plan.acceptable_contents.extend(effect.observed_etag);
            if let Some(Precondition::OneOf(etags)) = &effect.recheck {
                plan.acceptable_contents.extend(etags);
            }
            plan.acceptable_large = plan.acceptable_large.or(effect.replaces_large);
        }
    }
    plans
}

/// The newest commit of a batch; none when all its commits are deferred.
fn newest_commit(planned: &[PlannedSet]) -> Option<CommitId> {
    planned.iter().rev().find_map(|planned| planned.record.commit)
}
