//! The write path.
//!
//! Invariant: nothing else in the workspace changes the tree. The steps are numbered as in
//! ARCHITECTURE.md; 6 to 9 are the committer's. A watcher alone, committing after the fact, could
//! not refuse a write; external edits are recorded by adoption, which never refuses.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use svcfs_base::{ApplyResult, Caller, Change, ChangeSet, Durability, Fault, FileKind, Kind, TreePath, WriteResult};
use svcfs_store::{FailPoint, InstallResult, StatKind, StoreError};

use crate::Vfs;
use crate::claims::WriteOutcome;
use crate::comment_files::touched_comment_files;
use crate::core::{DISK_POLL_INTERVAL, VfsCore};
use crate::nodes::RefusalMark;
use crate::overlay::{OverlayFile, PendingState};
use crate::past::RemovedPaths;
use crate::plan::{ChangePlan, DirectChange};
use crate::queue::{QueuedSet, SetReceipt, StateAfter};

/// How long a writer waits for a disk that does not answer.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How long the writer of a logged change waits while the disk fails. Retries take 200 ms, and a
/// disk that is full or broken stays so for longer than anyone waits.
const MAX_STALL: Duration = Duration::from_secs(1);
const MAX_PATHS_IN_MESSAGE: usize = 100;

impl Vfs {
    /// Applies a set of changes: all of them or none.
    ///
    /// With [`Durability::Now`] it returns after the set is flushed, committed (unless commits are
    /// [coalesced](crate::CommitPolicy::Coalesced)) and announced; with [`Durability::Soon`] once
    /// the set passed the gates and is queued. Either way every reader sees it from then on.
    ///
    /// # Errors
    /// `Invalid` for paths that cannot be written; `Conflict`, `PreconditionFailed` when a
    /// precondition does not hold; `Rejected` by a gate; `NoSpace`, `ReadOnly` when the log cannot
    /// take it: nothing has changed then. `Unavailable` when the disk does not answer.
    pub fn apply(&self, caller: &Caller, set: impl Into<ChangeSet>) -> Result<ApplyResult, Fault> {
        let set = set.into();
        if let Some(proposed) = self.try_propose(caller, &set) {
            return proposed;
        }
        self.check_no_unsaved(&set.changes)?;
        self.preserve_removed(&set.changes)?;
        let xattrs = self.xattrs_of_moved(&set.changes)?;
        let (renames, mut locked_nodes) = self.lock_renamed(&set.changes);
        let applied = self.apply_locked(caller, set)?;
        self.follow_renames(&renames, &mut locked_nodes);
        drop(locked_nodes);
        for (path, xattrs_of_file) in xattrs {
            if let Err(error) = self.move_xattrs(&path, xattrs_of_file) {
                tracing::warn!(page.path = %path, ?error, "a file was renamed without its extended attributes");
            }
        }
        Ok(applied)
    }

    /// As [`Vfs::apply`], for a caller that has locked the nodes of removed paths.
    pub(crate) fn apply_locked(&self, caller: &Caller, set: ChangeSet) -> Result<ApplyResult, Fault> {
        self.check_writes_tree(caller)?;
        self.core.apply_audited(caller, set, |set| self.apply_inner(caller, set))
    }

    fn apply_inner(&self, caller: &Caller, set: ChangeSet) -> Result<ApplyResult, Fault> {
        let set = self.resolve_put_links(caller, set)?;
        self.admit(caller, &set)?; // 1
        let touched = VfsCore::touched_paths(&set.changes);
        let applied = self.accept_and_wait(caller, set)?;
        self.core.follow_rules(touched.iter());
        Ok(applied)
    }

    fn accept_and_wait(&self, caller: &Caller, set: ChangeSet) -> Result<ApplyResult, Fault> {
        let pending = if self.is_structural(&set) {
            let _tree = self.core.path_locks.lock_tree(); // 2
            // The renamed files are read from history.
            self.core.wait_committed(MAX_WAIT)?;
            let accepted = self.accept(caller, set, true)?;
            // A directory rename is visible only once it is done: the tree stays locked until then.
            return accepted.wait(self, true);
        } else {
            let mut paths = changed_paths(&set);
            paths.extend(touched_comment_files(&set.changes));
            let _held = self.core.path_locks.lock(paths); // 2
            self.accept(caller, set, false)?
        };
        pending.wait(self, false)
    }

    /// Resolves links of written pages; filesystem protocols resolve links themselves.
    pub(crate) fn resolve_put_links(&self, caller: &Caller, mut set: ChangeSet) -> Result<ChangeSet, Fault> {
        if caller.protocol.is_filesystem() {
            return Ok(set);
        }
        for change in &mut set.changes {
            if let Change::Put { path, kind: None, .. } = change {
                *path = self.resolve_final_link(caller.protocol, path)?;
            }
        }
        Ok(set)
    }

    /// Step 1: whether the caller may make these changes, whatever the tree contains.
    pub(crate) fn admit(&self, caller: &Caller, set: &ChangeSet) -> Result<(), Fault> {
        if set.changes.is_empty() {
            return Err(Fault::new(Kind::Invalid, "nothing to change: the list is empty"));
        }
        for change in &set.changes {
            let to_path = match change {
                Change::Move { to, .. } => Some(to),
                Change::Put { .. } | Change::Remove { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => None,
            };
            let (written, kind) = match change {
                Change::Put { path, kind, .. } => (Some(path), Some(kind.unwrap_or(FileKind::Regular))),
                Change::Move { to, .. } => (Some(to), None),
                Change::MakeDir { path } => (Some(path), None),
                Change::Remove { .. } | Change::RemoveDir { .. } => (None, None),
            };
            if let Some(path) = written {
                self.core.check_name(caller.protocol, path, kind)?;
            }
            let is_removal = match change {
                Change::Move { .. } | Change::Remove { .. } | Change::RemoveDir { .. } => true,
                Change::Put { .. } | Change::MakeDir { .. } => false,
            };
            for path in std::iter::once(change.path()).chain(to_path) {
                if is_removal && self.core.path_classes.is_fixed(caller.protocol, path) {
                    let message =
                        format_args!("path denied: `{path}` has the server's own files; it cannot be moved or removed");
                    return Err(Fault::invalid("path", message));
                }
                if path.is_root() {
                    return Err(Fault::invalid(
                        "path",
                        "the knowledge root itself cannot be written, moved or removed",
                    ));
                }
                caller.permissions.check_path(path)?;
                if !self.core.is_visible(caller.protocol, path) {
                    return Err(self.core.denied_path(path));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn is_structural(&self, set: &ChangeSet) -> bool {
        set.changes.iter().any(|change| match change {
            Change::Move { from, .. } => {
                // A directory may have replaced a file whose removal is pending.
                self.core.overlay.get(from).is_none_or(|pending| pending.leaf.is_none())
                    && self.core.tree.stat(from).is_ok_and(|stat| stat.kind == StatKind::Directory)
            }
            Change::RemoveDir { .. } => true,
            Change::Put { .. } | Change::Remove { .. } | Change::MakeDir { .. } => false,
        })
    }

    /// Steps 3 to 5. `is_exclusive` when the whole tree is locked and nothing is pending.
    fn accept(&self, caller: &Caller, set: ChangeSet, is_exclusive: bool) -> Result<PendingAnswer, Fault> {
        self.core.fail_points.hit(FailPoint::AcceptLocked);
        let mut must_answer = self.core.must_await(set.durability)?;
        self.core.check_no_leases(caller, &set.changes)?;
        let notes = self.core.check_claims(caller, &set.changes)?;
        let moved_claims = self.core.claims_moved_by(caller, &set.changes);
        let (message_key, message) = match &set.message {
            Some(message) => (None, message.clone()),
            None => match self.core.messages.find(caller, &set.changes) {
                Some((key, message)) => (Some(key), message),
                None => (None, default_message(caller, &set.changes, &self.core)),
            },
        };
        let written: Vec<TreePath> = set.changes.iter().filter_map(written_path).cloned().collect();
        let removed_paths = RemovedPaths::of(&set.changes);
        let comment_changes = self.core.comment_changes(&set.changes)?;
        let mut plan = ChangePlan::new(&self.core, &self.gates, caller, is_exclusive);
        let planned = set.changes.into_iter().try_for_each(|change| plan.add(change)); // 3, 4
        if let Err(fault) = planned.and_then(|()| plan.add_comment_changes(comment_changes)) {
            plan.restore_cancelled_removals();
            return Err(fault);
        }
        plan.drop_noops();
        self.core.fail_points.hit(FailPoint::AcceptPlanned);
        self.record_tombstones(&removed_paths);
        let ChangePlan { effects, directs, consumed_scratch, moves, pending_removals, files, .. } = plan;
        self.core.pending_removals.lock().extend(pending_removals);
        for direct in directs {
            self.core.apply_direct(direct)?;
        }
        if effects.is_empty() {
            for path in &consumed_scratch {
                self.core.tree.remove(path)?;
            }
            self.core.forget_rejected(written.iter(), self.core.refusals.mark());
            return Ok(PendingAnswer { files, notes, ..PendingAnswer::default() });
        }
        for (_, to) in &moves {
            self.core.make_parents(to)?;
        }
        let mut made = Vec::new();
        let is_renamed = |path: &TreePath| moves.iter().any(|(_, to)| path.is_under(to));
        for effect in effects.iter().filter(|effect| effect.after.is_some() && !is_renamed(&effect.path)) {
            made.extend(self.core.make_parents(&effect.path)?);
        }
        // A logged set must be applicable: one that the tree refuses would block all later ones.
        let removed = consumed_scratch.iter().chain(moves.iter().flat_map(|(from, to)| [from, to]));
        for path in effects.iter().map(|effect| &effect.path).chain(removed) {
            self.core.tree.check_writable(path)?;
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        must_answer |= !moves.is_empty();
        let queued = QueuedSet {
            actor: set.author.unwrap_or_else(|| caller.actor()),
            protocol: caller.protocol,
            origin_id: caller.origin,
            provenance: caller.provenance.as_ref().map(ToString::to_string),
            request: caller.request_mark(),
            announcement: set.announcement,
            message,
            durability: if must_answer { Durability::Now } else { Durability::Soon },
            ticket: self.core.next_ticket(),
            moves,
            effects,
            consumed_scratch,
            is_adopted: false,
            scanned_at: None,
            answer: must_answer.then_some(sender),
        };
        self.core.queue.push(queued, |queued| self.core.show_pending(queued))?;
        let moved_claims = self.core.move_claims(moved_claims);
        // The paths are still locked: rejections caused by this set are recorded later.
        let accepted = self.core.refusals.mark();
        if !must_answer {
            self.core.forget_rejected(written.iter(), accepted);
        }
        if let Some(message_key) = message_key {
            self.core.messages.remove(&message_key);
        }
        self.core.fail_points.hit(FailPoint::AcceptQueued);
        let answer = must_answer.then_some(ApplyReceiver { receiver, written, accepted });
        Ok(PendingAnswer { answer, files, notes, moved_claims, was_queued: true, made_directories: made })
    }
}

#[derive(Default)]
struct PendingAnswer {
    answer: Option<ApplyReceiver>,
    files: Vec<WriteResult>,
    notes: Vec<String>,
    /// The outcome of moving claims with their pages.
    moved_claims: Option<WriteOutcome>,
    was_queued: bool,
    /// Directories created for it, outermost first.
    made_directories: Vec<TreePath>,
}

struct ApplyReceiver {
    receiver: Receiver<Result<SetReceipt, Fault>>,
    /// Files whose earlier rejections are void when it is accepted, and the mark of its acceptance.
    written: Vec<TreePath>,
    accepted: RefusalMark,
}

impl PendingAnswer {
    fn wait(self, vfs: &Vfs, must_wait: bool) -> Result<ApplyResult, Fault> {
        let core = &vfs.core;
        let Some(answer) = self.answer else {
            if must_wait && self.was_queued {
                core.wait_applied(MAX_WAIT)?;
            }
            core.wait_for_moved_claims(self.moved_claims.as_ref());
            return Ok(ApplyResult {
                seq: core.feed.last_seq(),
                commit: None,
                files: self.files,
                notes: self.notes,
                draft: None,
            });
        };
        vfs.commit_leader.lead_or_wake(core);
        let outcome = core.receive_answer(&answer.receiver)?;
        if outcome.is_err() {
            // Refused: removes directories created for it, unless they are in use.
            let _ = self.made_directories.iter().rev().try_for_each(|made| core.tree.remove_directory(made));
        }
        let receipt = outcome?; // 9
        core.forget_rejected(answer.written.iter(), answer.accepted);
        core.wait_for_moved_claims(self.moved_claims.as_ref());
        Ok(ApplyResult { seq: receipt.seq, commit: receipt.commit, files: self.files, notes: self.notes, draft: None })
    }
}

impl VfsCore {
    /// Whether a set is answered only after it is applied, given the state of the disk.
    pub(crate) fn must_await(&self, durability: Durability) -> Result<bool, Fault> {
        let error = self.write_error.lock().as_ref().map(Fault::duplicate);
        match error {
            Some(fault) if self.stalled_since.lock().is_some() => Err(fault),
            // The committer is applying logged sets, and clears the error after that.
            Some(fault) if durability != Durability::Now && fault.kind() == Kind::Unavailable => Err(fault),
            // The disk may work again, but only a completed write is acknowledged.
            error => Ok(durability == Durability::Now || error.is_some()),
        }
    }

    /// The outcome of a set, or why it is unknown: a logged set will be applied, but a writer waits
    /// only a limited time for a failing disk.
    fn receive_answer(&self, answer: &Receiver<Result<SetReceipt, Fault>>) -> Result<Result<SetReceipt, Fault>, Fault> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let remaining = deadline.saturating_duration_since(Instant::now());
            match answer.recv_timeout(remaining.min(DISK_POLL_INTERVAL)) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Fault::unavailable("the write path has stopped")),
            }
            let is_stalled = self.stalled_since.lock().is_some_and(|since| since.elapsed() >= MAX_STALL);
            let error = self.write_error.lock().as_ref().map(Fault::duplicate);
            match error {
                Some(fault) if is_stalled => return Err(self.deferred_write_error(&fault)),
                error if remaining.is_zero() => {
                    let no_answer = || Fault::unavailable("the disk does not answer; the write may still complete");
                    return Err(error.unwrap_or_else(no_answer));
                }
                Some(_) | None => {}
            }
        }
    }

    /// Adds a set to the overlay, at its position in the queue's order.
    pub(crate) fn show_pending(&self, queued: &QueuedSet) {
        if !queued.moves.is_empty() {
            return;
        }
        let accepted = self.file_time();
        for effect in &queued.effects {
            let leaf = match &effect.after {
                Some(StateAfter::Leaf(leaf)) => Some(leaf.clone()),
                Some(StateAfter::Blob(..)) => continue,
                None => None,
            };
            let pending = PendingState { ticket: queued.ticket, leaf, replaces_large: effect.replaces_large, accepted };
            self.overlay.put(effect.path.clone(), pending);
        }
        for path in &queued.consumed_scratch {
            self.overlay
                .put(path.clone(), PendingState { ticket: queued.ticket, leaf: None, replaces_large: None, accepted });
        }
    }

    /// Creates and returns missing parents. A file in their place may have a pending removal.
    fn make_parents(&self, path: &TreePath) -> Result<Vec<TreePath>, Fault> {
        match self.tree.make_parents(path) {
            Err(StoreError::Disk { source, .. })
                if source.kind() == ErrorKind::NotADirectory && !self.overlay.is_empty() =>
            {
                self.wait_applied(MAX_WAIT)?;
                Ok(self.tree.make_parents(path)?)
            }
            outcome => Ok(outcome?),
        }
    }

    fn apply_direct(&self, direct: DirectChange) -> Result<(), Fault> {
        match direct {
            DirectChange::Install(path, leaf) => {
                self.wait_for_pending(&path)?;
                self.make_parents(&path)?;
                self.install(&path, &leaf)?;
            }
            DirectChange::Replace(path, leaf) => {
                self.wait_for_pending(&path)?;
                self.replace_same(&path, &leaf)?;
            }
            DirectChange::Remove(path) => {
                self.wait_for_pending(&path)?;
                self.tree.remove(&path)?;
            }
            DirectChange::Rename(from, to) => {
                if !self.overlay.is_empty() {
                    self.wait_applied(MAX_WAIT)?;
                }
                self.tree.make_parents(&to)?;
                self.tree.rename(&from, &to, true)?;
            }
            DirectChange::MakeDirectory(path) => {
                self.wait_for_pending(&path)?;
                self.make_parents(&path)?;
                self.tree.make_directory(&path, 0o755)?;
            }
            DirectChange::RemoveDirectory(path) => self.tree.remove_directory(&path)?,
        }
        Ok(())
    }

    /// Replaces a file by one with the same bytes. An external edit stays, and is recorded.
    pub(crate) fn replace_same(&self, path: &TreePath, leaf: &OverlayFile) -> Result<(), Fault> {
        if self.install_logged(path, leaf, Some([leaf.etag][..].into()))? == InstallResult::ConflictingEdit {
            self.request_rescan(vec![path.clone()]);
        }
        Ok(())
    }

    /// Direct changes follow the accepted ones of the same path.
    fn wait_for_pending(&self, path: &TreePath) -> Result<(), Fault> {
        if self.overlay.get(path).is_some() { self.wait_applied(MAX_WAIT) } else { Ok(()) }
    }
}

const fn written_path(change: &Change) -> Option<&TreePath> {
    match change {
        Change::Put { path, .. } => Some(path),
        Change::Move { to, .. } => Some(to),
        Change::Remove { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => None,
    }
}

pub(crate) fn changed_paths(set: &ChangeSet) -> BTreeSet<TreePath> {
    let mut paths = BTreeSet::new();
    for change in &set.changes {
        paths.insert(change.path().clone());
        if let Change::Move { to, .. } = change {
            paths.insert(to.clone());
        }
    }
    paths
}

pub(crate) fn default_message(caller: &Caller, changes: &[Change], core: &VfsCore) -> String {
    let actor = caller.actor();
    match changes {
        [Change::Put { path, kind, .. }] => match kind {
            Some(FileKind::Symlink) => format!("{actor}: link {path}"),
            Some(FileKind::Regular | FileKind::Executable) | None => format!("{actor}: {path}"),
        },
        [Change::Remove { path, .. } | Change::RemoveDir { path }] => format!("delete: {path}"),
        [Change::Move { from, to, .. }] if core.tree.stat(from).is_ok_and(|stat| stat.kind == StatKind::Directory) => {
            format!("{actor}: rename dir {from} → {to}")
        }
        // A scratch file renamed to a page is a write of that page.
        [Change::Move { from, to, .. }] if !core.is_versioned(from) => format!("{actor}: {to}"),
        [Change::Move { from, to, .. }] => format!("{actor}: rename {from} → {to}"),
        _ => many_message(&format!("{actor}: {} files", changes.len()), changes.iter().map(Change::path)),
    }
}

/// A subject and up to 100 paths.
pub(crate) fn many_message<'a>(subject: &str, paths: impl Iterator<Item = &'a TreePath>) -> String {
    let mut text = format!("{subject}\n");
    for (count, path) in paths.enumerate() {
        if count == MAX_PATHS_IN_MESSAGE {
            text.push_str("\n…");
            break;
        }
        text.push('\n');
        text.push_str(path.as_str());
    }
    text
}
