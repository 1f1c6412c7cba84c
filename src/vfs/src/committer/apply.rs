//! Steps 7 to 9: the tree, what remembers it (the branch), the feed and the answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use svcfs_base::{CommitId, ETag, Fault, LargeFile, Precondition, TreePath};
use svcfs_store::{
    CommitAuthor, ExpectedFile, FailPoint, History, InstallResult, RecordKind, SnapshotStore, StoreError, VersionStore,
    WriteTip,
};
use tracing::{debug, error, warn};

use super::external_commits::{POLL_INTERVAL, WAIT_TIMEOUT, external_records, missing_branch};
use super::record::file_edit;
use super::{ApplyOutcome, Committer, PlannedSet, RETRY_INTERVAL};
use crate::core::{is_disk_error, tolerate_type_conflict};
use crate::feed::FeedEvent;
use crate::queue::{FileEffect, QueuedSet, SetReceipt, StateAfter};

impl Committer {
    /// Steps 7 to 9, tried until they are done: what is logged will happen.
    pub(super) fn apply(&mut self, planned: Vec<PlannedSet>) -> ApplyOutcome {
        if planned.is_empty() {
            return ApplyOutcome::Applied;
        }
        let ending = self.apply_with_retries(planned);
        *self.core.stalled_since.lock() = None;
        ending
    }

    fn apply_with_retries(&mut self, mut planned: Vec<PlannedSet>) -> ApplyOutcome {
        if self.unapplied_tip.is_some() {
            // Nothing overtakes what is left.
            self.defer_to_recovery(&planned);
            return ApplyOutcome::DeferredToRecovery;
        }
        let mut is_closing = false;
        let patient_until = Instant::now() + WAIT_TIMEOUT;
        let core = Arc::clone(&self.core);
        let mut hurry;
        loop {
            self.wait_for_external_git();
            hurry = Some(core.tree.defer_unlinks());
            match self.try_apply(&mut planned) {
                Ok(()) => break,
                Err(error) if self.is_inline => {
                    debug!(%error, "logged changes are not in place yet; the committer's thread goes on with them");
                    return ApplyOutcome::HandedOff(planned);
                }
                // A person's git moves the branch in this moment, or did since it was looked at.
                Err(error)
                    if (error.is_locked() || error.is_branch_moved())
                        && Instant::now() < patient_until
                        && !is_closing =>
                {
                    is_closing = self.core.queue.pause(POLL_INTERVAL);
                }
                Err(error) if is_closing => {
                    // The log has it; the next opening completes it.
                    error!(%error, "logged changes are not in place yet; they will be when the space is opened again");
                    self.defer_to_recovery(&planned);
                    return ApplyOutcome::DeferredToRecovery;
                }
                Err(error) => {
                    // Said once: it may last for hours, five times a second.
                    if self.core.write_error.lock().is_none() {
                        warn!(%error, "logged changes are not in place yet; trying again until they are");
                    }
                    self.report_stall(&planned, error.into());
                    is_closing = self.core.queue.pause(RETRY_INTERVAL);
                }
            }
        }
        self.mark_window_committed();
        self.core.feed.publish(planned.iter().map(|PlannedSet { set: prepared, record, .. }| FeedEvent {
            origin_id: prepared.origin_id,
            ..FeedEvent::from(record.clone())
        }));
        for PlannedSet { set: prepared, record, .. } in &planned {
            self.clear_overlay(prepared);
            if let Some(answer) = &prepared.answer {
                // The writer may have given up waiting.
                let _ = answer.send(Ok(SetReceipt { seq: record.seq, commit: record.commit }));
            }
        }
        drop(hurry);
        self.core.fail_points.hit(FailPoint::FeedAnswered);
        self.packs_pending_unpin += 1;
        if !self.is_inline {
            self.unpin_packs();
        }
        self.last_work = Instant::now();
        ApplyOutcome::Applied
    }

    /// Ends sets that came to nothing, now that what they stand on is in place.
    pub(super) fn ack_noops(&self, sets: &[QueuedSet]) {
        for prepared in sets {
            let removed = prepared.consumed_scratch.iter().try_for_each(|path| self.remove(path, None).map(drop));
            self.clear_overlay(prepared);
            if let Some(answer) = &prepared.answer {
                let receipt = removed.map(|()| SetReceipt { seq: self.last_seq, commit: None }).map_err(Fault::from);
                // Whoever asked may have given up waiting.
                let _ = answer.send(receipt);
            }
        }
    }

    /// Lets packs that the branch shows be merged, which may take a moment: nobody waits for it.
    pub(super) fn unpin_packs(&mut self) {
        if std::mem::take(&mut self.packs_pending_unpin) > 0
            && let Some(history) = self.core.versions.git()
        {
            history.unpin_packs();
        }
    }

    /// Says that logged changes wait. A lock of somebody's git is over in a moment, and others wait behind it; a disk that refuses may
    /// do so for hours, and whoever comes now is told at once that nothing of theirs is taken.
    fn report_stall(&mut self, planned: &[PlannedSet], fault: Fault) {
        if !is_disk_error(&fault) {
            *self.core.write_error.lock() = Some(self.core.deferred_write_error(&fault));
            return;
        }
        let text = format!("{fault}; changes that were taken before wait for it");
        let trouble = Fault::new(fault.kind(), text).with_source(fault);
        *self.core.write_error.lock() = Some(trouble.duplicate());
        self.core.stalled_since.lock().get_or_insert_with(Instant::now);
        let waiting = self.core.queue.take_all();
        let (count, held) = (waiting.len(), self.retry_queue.len());
        self.reject_or_retry(waiting, &trouble);
        // One that was turned away may have covered a logged one.
        for PlannedSet { set: prepared, .. } in planned.iter().filter(|planned| !planned.set.is_adopted) {
            self.core.show_pending(prepared);
        }
        self.core.queue.done(count - (self.retry_queue.len() - held), false);
    }

    fn defer_to_recovery(&mut self, planned: &[PlannedSet]) {
        // The next opening compares the tree with history.
        self.conflicting_edits.clear();
        let commit = newest_commit(planned).or(self.unapplied_tip.and_then(|left| left.commit)).or(self.head);
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

    /// Step 8 with git: the branch moves to the newest commit.
    fn advance(&mut self, history: &History, planned: &mut [PlannedSet]) -> Result<(), StoreError> {
        let Some(target) = newest_commit(planned) else { return Ok(()) };
        if self.is_rebuilding {
            // They may have moved it back since.
            return self.rebuild(history, planned);
        }
        if Some(target) != self.head
            && let Err(error) = history.advance(self.head, target)
        {
            if history.head()? == self.head {
                return Err(error);
            }
            debug!(%error, "the branch was moved by somebody else; building on it");
            return self.rebuild(history, planned);
        }
        self.head = Some(target);
        Ok(())
    }

    /// Step 8 with snapshots: one of each new content.
    fn save_snapshots(&self, snapshots: &SnapshotStore, planned: &[PlannedSet]) -> Result<(), StoreError> {
        for PlannedSet { set: prepared, record, .. } in planned {
            for FileEffect { path, after, .. } in prepared.changing_effects() {
                let content = match after {
                    Some(StateAfter::Leaf(leaf)) => leaf.content.clone(),
                    // The rename of its directory brought it.
                    Some(StateAfter::Blob(hash, _)) => match self.core.read_worktree(path)? {
                        Some(leaf) if leaf.etag == *hash => leaf.content,
                        // Edited behind us in this moment; that will be a version, too.
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
        let fates = coalesce_paths(planned);
        let mut edited = Vec::new();
        for (at, PlannedSet { set: prepared, .. }) in
            planned.iter().enumerate().filter(|(_, planned)| !planned.set.is_adopted)
        {
            for (from, to) in &prepared.moves {
                self.move_directory(from, to)?;
            }
            for effect in prepared.effects.iter().filter(|effect| prepared.is_installed_alone(effect)) {
                let fate = &fates[&effect.path];
                if fate.last_writer == at && self.install_effect(effect, fate.expected())? == InstallResult::ConflictingEdit {
                    edited.push(effect.path.clone());
                }
                self.parallel_stager.mark_installed();
            }
            for path in &prepared.consumed_scratch {
                let _ = self.remove(path, None)?;
            }
        }
        self.conflicting_edits.extend(edited);
        Ok(())
    }

    /// Makes a path what a set says, unless somebody edited it since the set was accepted.
    fn install_effect(&self, effect: &FileEffect, known: ExpectedFile<'_>) -> Result<InstallResult, StoreError> {
        let put = |known: ExpectedFile<'_>| match &effect.after {
            Some(StateAfter::Leaf(leaf)) => self.core.install_logged(&effect.path, leaf, Some(known)),
            Some(StateAfter::Blob(..)) => Ok(InstallResult::Done),
            None => self.remove(&effect.path, Some(known)),
        };
        if put(known)? == InstallResult::Done {
            return Ok(InstallResult::Done);
        }
        // What somebody else's commit put there a moment ago is in history, and ours comes on top of it.
        let theirs = self.core.versions.current_states(&[&effect.path])?;
        if let Some((theirs, _)) = theirs.into_iter().flatten().next()
            && put([theirs][..].into())? == InstallResult::Done
        {
            return Ok(InstallResult::Done);
        }
        warn!(page.path = %effect.path, "edited behind the server before an accepted change was in place; the edit is kept on top of it");
        Ok(InstallResult::ConflictingEdit)
    }

    fn move_directory(&self, from: &TreePath, to: &TreePath) -> Result<(), StoreError> {
        match self.core.tree.stat(from) {
            Ok(_) => {
                let moved = self.core.tree.make_parents(to).and_then(|_| self.core.tree.rename(from, to, true));
                tolerate_type_conflict(to, moved)
            }
            // Done in an earlier attempt.
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
            Ok(placed) => Ok(placed),
            Err(error) => tolerate_type_conflict(path, Err(error)).map(|()| InstallResult::Done),
        }
    }

    /// The branch moved between staging and advancing: the logged sets get new commits on top of what is there.
    fn rebuild(&mut self, history: &History, planned: &mut [PlannedSet]) -> Result<(), StoreError> {
        let Some(theirs) = history.head()? else {
            return Err(missing_branch());
        };
        self.is_rebuilding = true;
        let mut parent = theirs;
        for PlannedSet { set: prepared, record, .. } in planned.iter_mut().filter(|planned| planned.record.commit.is_some())
        {
            let edits: Vec<_> = prepared.changing_effects().map(file_edit).collect();
            let author = CommitAuthor { actor: &record.actor, time: record.time, message: &record.message };
            match history.stage(Some(parent), &edits, &author) {
                Ok(staged) => parent = staged.commit,
                Err(StoreError::Unrecordable { path, reason }) => {
                    error!(page.path = %path, reason, "a logged change has no place beside another's commit; theirs stands");
                }
                Err(error) => return Err(error),
            }
            record.commit = Some(parent);
        }
        let commits: Vec<_> =
            planned.iter().filter_map(|planned| Some((planned.record.seq, planned.record.commit?))).collect();
        self.core.log.set_commits(&commits)?;
        let below = external_records(&self.core, self.head, theirs)?;
        history.advance(Some(theirs), parent)?;
        self.head = Some(parent);
        self.is_rebuilding = false;
        // Recorded after ours, which are in the log and not announced yet: the feed keeps the log's order.
        self.pending_external_records.extend(below);
        Ok(())
    }
}

/// What becomes of a path in a batch.
#[derive(Default)]
struct PathPlan {
    /// Which set has the last word.
    last_writer: usize,
    /// What may stand there without anybody having edited it: contents that history has or gets with this batch.
    acceptable_contents: Vec<ETag>,
    /// The same of a file too large for any version, which the first of them was told to take the place of.
    acceptable_large: Option<LargeFile>,
    /// A set of the batch removes it: what is put there afterwards is another file.
    is_removed: bool,
}

impl PathPlan {
    fn expected(&self) -> ExpectedFile<'_> {
        ExpectedFile { contents: &self.acceptable_contents, large: self.acceptable_large, is_removed: self.is_removed }
    }
}

fn coalesce_paths(planned: &[PlannedSet]) -> HashMap<&TreePath, PathPlan> {
    let mut fates: HashMap<_, PathPlan> = HashMap::new();
    // What is gathered from earlier sets they put in place themselves.
    let is_meant = |set: &PlannedSet| set.record.kind != RecordKind::Commit;
    for (at, PlannedSet { set: prepared, .. }) in planned.iter().enumerate().filter(|(_, set)| is_meant(set)) {
        for effect in prepared.effects.iter().filter(|effect| prepared.is_installed_alone(effect)) {
            let fate = fates.entry(&effect.path).or_default();
            fate.last_writer = at;
            fate.is_removed |= effect.after.is_none();
            fate.acceptable_contents.extend(effect.before.as_ref().map(|before| before.etag));
            fate.acceptable_contents.extend(effect.after.as_ref().map(StateAfter::etag));
            fate.acceptable_contents.extend(effect.observed_etag);
            if let Some(Precondition::OneOf(etags)) = &effect.recheck {
                fate.acceptable_contents.extend(etags);
            }
            fate.acceptable_large = fate.acceptable_large.or(effect.replaces_large);
        }
    }
    fates
}

/// The newest commit of a batch; none when all of it gets its commits later.
fn newest_commit(planned: &[PlannedSet]) -> Option<CommitId> {
    planned.iter().rev().find_map(|planned| planned.record.commit)
}
