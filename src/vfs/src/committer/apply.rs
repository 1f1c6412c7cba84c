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

use super::external_commits::{LOOK, PATIENCE, foreign_records, no_branch};
use super::record::edit_of;
use super::{ApplyOutcome, Committer, PlannedSet, RETRY};
use crate::core::{is_of_disk, kept_if_in_the_way};
use crate::feed::FeedEvent;
use crate::queue::{FileEffect, QueuedSet, SetReceipt, StateAfter};

impl Committer {
    /// Steps 7 to 9, tried until they are done: what is logged will happen.
    pub(super) fn settle(&mut self, planned: Vec<PlannedSet>) -> ApplyOutcome {
        if planned.is_empty() {
            return ApplyOutcome::Settled;
        }
        let ending = self.settle_in_time(planned);
        *self.core.stuck.lock() = None;
        ending
    }

    fn settle_in_time(&mut self, mut planned: Vec<PlannedSet>) -> ApplyOutcome {
        if self.left.is_some() {
            // Nothing overtakes what is left.
            self.leave(&planned);
            return ApplyOutcome::Left;
        }
        let mut is_closing = false;
        let patient_until = Instant::now() + PATIENCE;
        let core = Arc::clone(&self.core);
        let mut hurry;
        loop {
            self.give_way();
            hurry = Some(core.tree.defer_unlinks());
            match self.try_settle(&mut planned) {
                Ok(()) => break,
                Err(error) if self.is_guest => {
                    debug!(%error, "logged changes are not in place yet; the committer's thread goes on with them");
                    return ApplyOutcome::Unfinished(planned);
                }
                // A person's git moves the branch in this moment, or did since it was looked at.
                Err(error)
                    if (error.is_locked() || error.is_branch_moved())
                        && Instant::now() < patient_until
                        && !is_closing =>
                {
                    is_closing = self.core.queue.pause(LOOK);
                }
                Err(error) if is_closing => {
                    // The log has it; the next opening completes it.
                    error!(%error, "logged changes are not in place yet; they will be when the space is opened again");
                    self.leave(&planned);
                    return ApplyOutcome::Left;
                }
                Err(error) => {
                    // Said once: it may last for hours, five times a second.
                    if self.core.trouble.lock().is_none() {
                        warn!(%error, "logged changes are not in place yet; trying again until they are");
                    }
                    self.hold_up(&planned, error.into());
                    is_closing = self.core.queue.pause(RETRY);
                }
            }
        }
        self.window_shown();
        self.core.feed.publish(planned.iter().map(|PlannedSet { prepared, record, .. }| FeedEvent {
            origin_id: prepared.entrance,
            ..FeedEvent::from(record.clone())
        }));
        for PlannedSet { prepared, record, .. } in &planned {
            self.forget(prepared);
            if let Some(answer) = &prepared.answer {
                // The writer may have given up waiting.
                let _ = answer.send(Ok(SetReceipt { seq: record.seq, commit: record.commit }));
            }
        }
        drop(hurry);
        self.core.fail.hit(FailPoint::FeedAnswered);
        self.unreleased += 1;
        if !self.is_guest {
            self.release();
        }
        self.last_work = Instant::now();
        ApplyOutcome::Settled
    }

    /// Ends sets that came to nothing, now that what they stand on is in place.
    pub(super) fn answer_void(&self, sets: &[QueuedSet]) {
        for prepared in sets {
            let removed = prepared.spent.iter().try_for_each(|path| self.remove(path, None).map(drop));
            self.forget(prepared);
            if let Some(answer) = &prepared.answer {
                let receipt = removed.map(|()| SetReceipt { seq: self.last, commit: None }).map_err(Fault::from);
                // Whoever asked may have given up waiting.
                let _ = answer.send(receipt);
            }
        }
    }

    /// Lets packs that the branch shows be merged, which may take a moment: nobody waits for it.
    pub(super) fn release(&mut self) {
        if std::mem::take(&mut self.unreleased) > 0
            && let Some(history) = self.core.memory.git()
        {
            history.unpin_packs();
        }
    }

    /// Says that logged changes wait. A lock of somebody's git is over in a moment, and others wait behind it; a disk that refuses may
    /// do so for hours, and whoever comes now is told at once that nothing of theirs is taken.
    fn hold_up(&mut self, planned: &[PlannedSet], fault: Fault) {
        if !is_of_disk(&fault) {
            *self.core.trouble.lock() = Some(self.core.recorded_only(&fault));
            return;
        }
        let text = format!("{fault}; changes that were taken before wait for it");
        let trouble = Fault::new(fault.kind(), text).with_source(fault);
        *self.core.trouble.lock() = Some(trouble.duplicate());
        self.core.stuck.lock().get_or_insert_with(Instant::now);
        let waiting = self.core.queue.take_all();
        let (count, held) = (waiting.len(), self.held.len());
        self.turn_away_or_hold(waiting, &trouble);
        // One that was turned away may have covered a logged one.
        for PlannedSet { prepared, .. } in planned.iter().filter(|planned| !planned.prepared.is_adopted) {
            self.core.show(prepared);
        }
        self.core.queue.done(count - (self.held.len() - held), false);
    }

    fn leave(&mut self, planned: &[PlannedSet]) {
        // The next opening compares the tree with history.
        self.edited.clear();
        let commit = newest_commit(planned).or(self.left.and_then(|left| left.commit)).or(self.head);
        let newest = planned.last().map(|PlannedSet { record, .. }| WriteTip { commit, seq: record.seq });
        self.left = newest.or(self.left);
    }

    fn try_settle(&mut self, planned: &mut [PlannedSet]) -> Result<(), StoreError> {
        self.install(planned)?; // 7
        self.core.fail.hit(FailPoint::TreeDone);
        // 8
        let core = Arc::clone(&self.core);
        match &core.memory {
            VersionStore::Git { history, .. } => {
                let entries = planned.iter().flat_map(|planned| &planned.record.entries);
                self.index.touch(entries.map(|entry| entry.path.clone()));
                self.advance(history, planned)
            }
            VersionStore::Snapshots { snapshots, .. } => self.keep(snapshots, planned),
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
    fn keep(&self, snapshots: &SnapshotStore, planned: &[PlannedSet]) -> Result<(), StoreError> {
        for PlannedSet { prepared, record, .. } in planned {
            for FileEffect { path, after, .. } in prepared.changing() {
                let content = match after {
                    Some(StateAfter::Leaf(leaf)) => leaf.content.clone(),
                    // The rename of its directory brought it.
                    Some(StateAfter::Blob(hash, _)) => match self.core.standing(path)? {
                        Some(leaf) if leaf.etag == *hash => leaf.content,
                        // Edited behind us in this moment; that will be a version, too.
                        Some(_) | None => continue,
                    },
                    None => continue,
                };
                kept_if_in_the_way(path, snapshots.save(path, record.time, &content))?;
            }
        }
        Ok(())
    }

    fn install(&mut self, planned: &[PlannedSet]) -> Result<(), StoreError> {
        let fates = fates(planned);
        let mut edited = Vec::new();
        for (at, PlannedSet { prepared, .. }) in
            planned.iter().enumerate().filter(|(_, planned)| !planned.prepared.is_adopted)
        {
            for (from, to) in &prepared.moves {
                self.move_directory(from, to)?;
            }
            for effect in prepared.effects.iter().filter(|effect| prepared.is_put_in_place(effect)) {
                let fate = &fates[&effect.path];
                if fate.newest == at && self.put_in_place(effect, fate.known())? == InstallResult::ConflictingEdit {
                    edited.push(effect.path.clone());
                }
                self.early.pass();
            }
            for path in &prepared.spent {
                let _ = self.remove(path, None)?;
            }
        }
        self.edited.extend(edited);
        Ok(())
    }

    /// Makes a path what a set says, unless somebody edited it since the set was accepted.
    fn put_in_place(&self, effect: &FileEffect, known: ExpectedFile<'_>) -> Result<InstallResult, StoreError> {
        let put = |known: ExpectedFile<'_>| match &effect.after {
            Some(StateAfter::Leaf(leaf)) => self.core.put_in_place(&effect.path, leaf, Some(known)),
            Some(StateAfter::Blob(..)) => Ok(InstallResult::Done),
            None => self.remove(&effect.path, Some(known)),
        };
        if put(known)? == InstallResult::Done {
            return Ok(InstallResult::Done);
        }
        // What somebody else's commit put there a moment ago is in history, and ours comes on top of it.
        let theirs = self.core.memory.current_states(&[&effect.path])?;
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
                kept_if_in_the_way(to, moved)
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
            Err(error) => kept_if_in_the_way(path, Err(error)).map(|()| InstallResult::Done),
        }
    }

    /// The branch moved between staging and advancing: the logged sets get new commits on top of what is there.
    fn rebuild(&mut self, history: &History, planned: &mut [PlannedSet]) -> Result<(), StoreError> {
        let Some(theirs) = history.head()? else {
            return Err(no_branch());
        };
        self.is_rebuilding = true;
        let mut parent = theirs;
        for PlannedSet { prepared, record, .. } in planned.iter_mut().filter(|planned| planned.record.commit.is_some())
        {
            let edits: Vec<_> = prepared.changing().map(edit_of).collect();
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
        let below = foreign_records(&self.core, self.head, theirs)?;
        history.advance(Some(theirs), parent)?;
        self.head = Some(parent);
        self.is_rebuilding = false;
        // Recorded after ours, which are in the log and not announced yet: the feed keeps the log's order.
        self.theirs.extend(below);
        Ok(())
    }
}

/// What becomes of a path in a batch.
#[derive(Default)]
struct PathPlan {
    /// Which set has the last word.
    newest: usize,
    /// What may stand there without anybody having edited it: contents that history has or gets with this batch.
    contents: Vec<ETag>,
    /// The same of a file too large for any version, which the first of them was told to take the place of.
    large: Option<LargeFile>,
    /// A set of the batch removes it: what is put there afterwards is another file.
    is_removed: bool,
}

impl PathPlan {
    fn known(&self) -> ExpectedFile<'_> {
        ExpectedFile { contents: &self.contents, large: self.large, is_removed: self.is_removed }
    }
}

fn fates(planned: &[PlannedSet]) -> HashMap<&TreePath, PathPlan> {
    let mut fates: HashMap<_, PathPlan> = HashMap::new();
    // What is gathered from earlier sets they put in place themselves.
    let is_meant = |set: &PlannedSet| set.record.kind != RecordKind::Commit;
    for (at, PlannedSet { prepared, .. }) in planned.iter().enumerate().filter(|(_, set)| is_meant(set)) {
        for effect in prepared.effects.iter().filter(|effect| prepared.is_put_in_place(effect)) {
            let fate = fates.entry(&effect.path).or_default();
            fate.newest = at;
            fate.is_removed |= effect.after.is_none();
            fate.contents.extend(effect.before.as_ref().map(|before| before.etag));
            fate.contents.extend(effect.after.as_ref().map(StateAfter::etag));
            fate.contents.extend(effect.stood);
            if let Some(Precondition::OneOf(etags)) = &effect.premise {
                fate.contents.extend(etags);
            }
            fate.large = fate.large.or(effect.over);
        }
    }
    fates
}

/// The newest commit of a batch; none when all of it gets its commits later.
fn newest_commit(planned: &[PlannedSet]) -> Option<CommitId> {
    planned.iter().rev().find_map(|planned| planned.record.commit)
}
