//! The write path.
//!
//! One rule: nothing else in the workspace changes the tree. The steps are numbered as in ARCHITECTURE.md; 6 to 9 are the
//! committer's. Why not let a watcher commit after the fact? Because a refusal must reach the writer, and a watcher cannot
//! say no; edits made behind us come in through adoption, which records and never refuses.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use svcfs_base::{ApplyResult, Caller, Change, ChangeSet, Durability, Fault, FileKind, Kind, TreePath, WriteResult};
use svcfs_store::{FailPoint, InstallResult, StatKind, StoreError};

use crate::Vfs;
use crate::core::{LOOK, VfsCore};
use crate::nodes::RefusalMark;
use crate::overlay::{OverlayFile, PendingState};
use crate::past::RemovedPaths;
use crate::plan::{ChangePlan, DirectChange};
use crate::queue::{QueuedSet, SetReceipt, StateAfter};

/// How long a writer waits for a disk that does not answer before it is told so.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How long one waits whose change is logged while the disk refuses to take more of it.
const MAX_STUCK: Duration = Duration::from_secs(5);
const MAX_PATHS_IN_MESSAGE: usize = 100;

impl Vfs {
    /// Applies a set of changes: all of them or none.
    ///
    /// With [`Durability::Now`] the answer comes after the set is flushed, committed (unless commits are
    /// [gathered](crate::Commits::Gathered)) and announced; with
    /// [`Durability::Soon`] once it passed the gates and stands in the queue. Either way every reader sees it from then on.
    ///
    /// # Errors
    /// `Invalid` for places nobody may write; `Conflict`, `PreconditionFailed` when a condition does not hold; `Rejected` by a
    /// gate; `NoSpace`, `ReadOnly` when the log cannot take it: nothing has changed then. `Unavailable` when the disk does
    /// not answer.
    pub fn apply(&self, caller: &Caller, set: impl Into<ChangeSet>) -> Result<ApplyResult, Fault> {
        let set = set.into();
        self.check_no_unsaved(&set.changes)?;
        self.keep_what_goes(&set.changes)?;
        let taken_along = self.extended_of_moved(&set.changes)?;
        let (renames, mut held) = self.hold_renamed(&set.changes);
        let applied = self.apply_held(caller, set)?;
        self.follow_renames(&renames, &mut held);
        drop(held);
        for (path, extended) in taken_along {
            if let Err(error) = self.move_extended(&path, extended) {
                tracing::warn!(page.path = %path, ?error, "a file was renamed without the attributes that programs gave it");
            }
        }
        Ok(applied)
    }

    /// The same for whoever holds the nodes of what it takes away.
    pub(crate) fn apply_held(&self, caller: &Caller, set: ChangeSet) -> Result<ApplyResult, Fault> {
        self.core.telling(caller, set, |set| self.apply_untold(caller, set))
    }

    fn apply_untold(&self, caller: &Caller, set: ChangeSet) -> Result<ApplyResult, Fault> {
        let set = self.through_links(caller, set)?;
        self.admit(caller, &set)?; // 1
        let waiting = if self.is_structural(&set) {
            let _tree = self.core.locks.hold_tree(); // 2
            // What is renamed is asked of history.
            self.core.wait_committed(MAX_WAIT)?;
            let accepted = self.accept(caller, set, true)?;
            // A directory rename shows in the tree only once it is done: nobody may look in between.
            return accepted.wait(self, true);
        } else {
            let _held = self.core.locks.hold(paths_of(&set)); // 2
            self.accept(caller, set, false)?
        };
        waiting.wait(self, false)
    }

    /// Who reads a page through a link writes it through the link, too; doors of file protocols follow links themselves.
    fn through_links(&self, caller: &Caller, mut set: ChangeSet) -> Result<ChangeSet, Fault> {
        if caller.protocol.is_filesystem() {
            return Ok(set);
        }
        for change in &mut set.changes {
            if let Change::Put { path, kind: None, .. } = change {
                *path = self.end_of_links(caller.protocol, path)?;
            }
        }
        Ok(set)
    }

    fn admit(&self, caller: &Caller, set: &ChangeSet) -> Result<(), Fault> {
        if set.changes.is_empty() {
            return Err(Fault::new(Kind::Invalid, "nothing to change: the list is empty"));
        }
        for change in &set.changes {
            let other = match change {
                Change::Move { to, .. } => Some(to),
                Change::Put { .. } | Change::Remove { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => None,
            };
            let takes_away = match change {
                Change::Move { .. } | Change::Remove { .. } | Change::RemoveDir { .. } => true,
                Change::Put { .. } | Change::MakeDir { .. } => false,
            };
            for path in std::iter::once(change.path()).chain(other) {
                if takes_away && self.core.places.is_fixed(caller.protocol, path) {
                    let told =
                        format_args!("path denied: `{path}` holds what belongs to the server, and stays where it is");
                    return Err(Fault::invalid("path", told));
                }
                if path.is_root() {
                    return Err(Fault::invalid(
                        "path",
                        "the knowledge root itself cannot be written, moved or removed",
                    ));
                }
                caller.permissions.check_path(path)?;
                if !self.core.places.is_visible(caller.protocol, path) {
                    return Err(Fault::invalid("path", format_args!("path denied: `{path}` belongs to the server")));
                }
            }
        }
        Ok(())
    }

    fn is_structural(&self, set: &ChangeSet) -> bool {
        set.changes.iter().any(|change| match change {
            Change::Move { from, .. } => {
                // A file whose removal is pending may have made room for a directory already.
                self.core.overlay.get(from).is_none_or(|pending| pending.leaf.is_none())
                    && self.core.tree.stat(from).is_ok_and(|stat| stat.kind == StatKind::Directory)
            }
            Change::RemoveDir { .. } => true,
            Change::Put { .. } | Change::Remove { .. } | Change::MakeDir { .. } => false,
        })
    }

    /// Steps 3 to 5, and a place in the queue. `is_exclusive` when the whole tree is held and nothing is pending.
    fn accept(&self, caller: &Caller, set: ChangeSet, is_exclusive: bool) -> Result<PendingAnswer, Fault> {
        self.core.fail.hit(FailPoint::AcceptLocked);
        let mut is_awaited = self.core.must_wait(set.durability)?;
        self.core.none_leased(caller, &set.changes)?;
        let (said, message) = match &set.message {
            Some(message) => (None, message.clone()),
            None => match self.core.messages.of(caller, &set.changes) {
                Some((key, message)) => (Some(key), message),
                None => (None, default_message(caller, &set.changes, &self.core)),
            },
        };
        let written: Vec<TreePath> = set.changes.iter().filter_map(written).cloned().collect();
        let going = RemovedPaths::of(&set.changes);
        let mut plan = ChangePlan::new(&self.core, &self.gates, caller, is_exclusive);
        for change in set.changes {
            if let Err(fault) = plan.add(change) {
                plan.give_back();
                return Err(fault);
            } // 3, 4
        }
        plan.without_noise();
        self.core.fail.hit(FailPoint::AcceptPlanned);
        self.keep_readers(&going);
        let ChangePlan { effects, directs, spent, moves, departures, files, .. } = plan;
        self.core.departures.lock().extend(departures);
        for direct in directs {
            self.core.carry_out(direct)?;
        }
        if effects.is_empty() {
            for path in &spent {
                self.core.tree.remove(path)?;
            }
            self.core.forget_refused(written.iter(), self.core.refusals.now());
            return Ok(PendingAnswer { answer: None, files, was_needed: false, made: Vec::new() });
        }
        for (_, to) in &moves {
            self.core.make_room(to)?;
        }
        let mut made = Vec::new();
        let is_brought = |path: &TreePath| moves.iter().any(|(_, to)| path.is_under(to));
        for effect in effects.iter().filter(|effect| effect.after.is_some() && !is_brought(&effect.path)) {
            made.extend(self.core.make_room(&effect.path)?);
        }
        // Once it is logged it must be possible: a set that the tree can never take would hold up all that come after it.
        let removed = spent.iter().chain(moves.iter().flat_map(|(from, to)| [from, to]));
        for path in effects.iter().map(|effect| &effect.path).chain(removed) {
            self.core.tree.check_writable(path)?;
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        is_awaited |= !moves.is_empty();
        let prepared = QueuedSet {
            actor: caller.actor(),
            protocol: caller.protocol,
            entrance: caller.origin,
            provenance: caller.provenance.as_ref().map(ToString::to_string),
            announcement: set.announcement,
            message,
            durability: if is_awaited { Durability::Now } else { Durability::Soon },
            stamp: self.core.stamp(),
            moves,
            effects,
            spent,
            is_adopted: false,
            seen: None,
            answer: is_awaited.then_some(sender),
        };
        self.core.queue.push(prepared, |prepared| self.core.show(prepared))?;
        // Nobody else writes these paths until we let go of them: what is refused because of this set is noted later.
        let accepted = self.core.refusals.now();
        if !is_awaited {
            self.core.forget_refused(written.iter(), accepted);
        }
        if let Some(said) = said {
            self.core.messages.spent(&said);
        }
        self.core.fail.hit(FailPoint::AcceptQueued);
        let answer = is_awaited.then_some(ApplyReceiver { receiver, written, accepted });
        Ok(PendingAnswer { answer, files, was_needed: true, made })
    }
}

/// A set in the queue, or one that needed none.
struct PendingAnswer {
    answer: Option<ApplyReceiver>,
    files: Vec<WriteResult>,
    was_needed: bool,
    /// Directories that were made for it, outermost first.
    made: Vec<TreePath>,
}

/// What becomes of a set, to be heard once it is settled or refused.
struct ApplyReceiver {
    receiver: Receiver<Result<SetReceipt, Fault>>,
    /// Files of which earlier refusals are void when it is accepted, and since when it stands in the queue.
    written: Vec<TreePath>,
    accepted: RefusalMark,
}

impl PendingAnswer {
    fn wait(self, vfs: &Vfs, must: bool) -> Result<ApplyResult, Fault> {
        let core = &vfs.core;
        let Some(answer) = self.answer else {
            if must && self.was_needed {
                core.wait_settled(MAX_WAIT)?;
            }
            return Ok(ApplyResult { seq: core.feed.last_seq(), commit: None, files: self.files });
        };
        vfs.seat.attend(core);
        let outcome = core.answer(&answer.receiver)?;
        if outcome.is_err() {
            // Refused: what was made for it goes, unless somebody has put something there meanwhile.
            let _ = self.made.iter().rev().try_for_each(|made| core.tree.remove_directory(made));
        }
        let receipt = outcome?; // 9
        core.forget_refused(answer.written.iter(), answer.accepted);
        Ok(ApplyResult { seq: receipt.seq, commit: receipt.commit, files: self.files })
    }
}

impl VfsCore {
    /// Whether a set is to be answered only once it is settled, as things are with the disk.
    fn must_wait(&self, durability: Durability) -> Result<bool, Fault> {
        let trouble = self.trouble.lock().as_ref().map(Fault::duplicate);
        match trouble {
            Some(fault) if self.stuck.lock().is_some() => Err(fault),
            // The committer is busy completing what is logged, and tells when it is not.
            Some(fault) if durability != Durability::Now && fault.kind() == Kind::Unavailable => Err(fault),
            // What the disk refused a moment ago it may take now: nothing is promised before it did.
            trouble => Ok(durability == Durability::Now || trouble.is_some()),
        }
    }

    /// What becomes of a set, or why that is not known in time: it will happen once it is logged, but nobody waits long for a disk
    /// that refuses.
    fn answer(&self, answer: &Receiver<Result<SetReceipt, Fault>>) -> Result<Result<SetReceipt, Fault>, Fault> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match answer.recv_timeout(left.min(LOOK)) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Fault::unavailable("the write path has stopped")),
            }
            let is_stuck = self.stuck.lock().is_some_and(|since| since.elapsed() >= MAX_STUCK);
            let trouble = self.trouble.lock().as_ref().map(Fault::duplicate);
            match trouble {
                Some(fault) if is_stuck => return Err(self.recorded_only(&fault)),
                trouble if left.is_zero() => {
                    let silent = || Fault::unavailable("the disk does not answer; the write may still complete");
                    return Err(trouble.unwrap_or_else(silent));
                }
                Some(_) | None => {}
            }
        }
    }

    /// Shows a set to every reader, from its place in the queue's order on.
    pub(crate) fn show(&self, prepared: &QueuedSet) {
        if !prepared.moves.is_empty() {
            return;
        }
        let accepted = self.file_time();
        for effect in &prepared.effects {
            let leaf = match &effect.after {
                Some(StateAfter::Leaf(leaf)) => Some(leaf.clone()),
                Some(StateAfter::Blob(..)) => continue,
                None => None,
            };
            let pending = PendingState { stamp: prepared.stamp, leaf, over: effect.over, accepted };
            self.overlay.put(effect.path.clone(), pending);
        }
        for path in &prepared.spent {
            self.overlay.put(path.clone(), PendingState { stamp: prepared.stamp, leaf: None, over: None, accepted });
        }
    }

    /// Makes directories above a file to come, and says which. A file in the way may be one whose removal is accepted and not yet done.
    fn make_room(&self, path: &TreePath) -> Result<Vec<TreePath>, Fault> {
        match self.tree.make_parents(path) {
            Err(StoreError::Disk { source, .. })
                if source.kind() == ErrorKind::NotADirectory && !self.overlay.is_empty() =>
            {
                self.wait_settled(MAX_WAIT)?;
                Ok(self.tree.make_parents(path)?)
            }
            outcome => Ok(outcome?),
        }
    }

    fn carry_out(&self, direct: DirectChange) -> Result<(), Fault> {
        match direct {
            DirectChange::Install(path, leaf) => {
                self.wait_for(&path)?;
                self.make_room(&path)?;
                self.install(&path, &leaf)?;
            }
            DirectChange::Replace(path, leaf) => {
                self.wait_for(&path)?;
                self.replace_same(&path, &leaf)?;
            }
            DirectChange::Remove(path) => {
                self.wait_for(&path)?;
                self.tree.remove(&path)?;
            }
            DirectChange::Rename(from, to) => {
                if !self.overlay.is_empty() {
                    self.wait_settled(MAX_WAIT)?;
                }
                self.tree.make_parents(&to)?;
                self.tree.rename(&from, &to, true)?;
            }
            DirectChange::MakeDirectory(path) => {
                self.wait_for(&path)?;
                self.make_room(&path)?;
                self.tree.make_directory(&path, 0o755)?;
            }
            DirectChange::RemoveDirectory(path) => self.tree.remove_directory(&path)?,
        }
        Ok(())
    }

    /// Replaces a file by one with the same bytes. An external edit stays, and is recorded as one.
    pub(crate) fn replace_same(&self, path: &TreePath, leaf: &OverlayFile) -> Result<(), Fault> {
        if self.put_in_place(path, leaf, Some([leaf.etag][..].into()))? == InstallResult::ConflictingEdit {
            self.doubt(vec![path.clone()]);
        }
        Ok(())
    }

    /// What is done to the tree directly comes after what is accepted for the same path.
    fn wait_for(&self, path: &TreePath) -> Result<(), Fault> {
        if self.overlay.get(path).is_some() { self.wait_settled(MAX_WAIT) } else { Ok(()) }
    }
}

/// The path of a file that a change writes.
const fn written(change: &Change) -> Option<&TreePath> {
    match change {
        Change::Put { path, .. } => Some(path),
        Change::Move { to, .. } => Some(to),
        Change::Remove { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => None,
    }
}

fn paths_of(set: &ChangeSet) -> BTreeSet<TreePath> {
    let mut paths = BTreeSet::new();
    for change in &set.changes {
        paths.insert(change.path().clone());
        if let Change::Move { to, .. } = change {
            paths.insert(to.clone());
        }
    }
    paths
}

/// The commit's message where the writer gives none (gaps.md 4.4, commit conventions).
fn default_message(caller: &Caller, changes: &[Change], core: &VfsCore) -> String {
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
        // A scratch file that becomes a page is a write of that page (gaps.md D8).
        [Change::Move { from, to, .. }] if !core.places.of(from).is_versioned() => format!("{actor}: {to}"),
        [Change::Move { from, to, .. }] => format!("{actor}: rename {from} → {to}"),
        _ => many_message(&format!("{actor}: {} files", changes.len()), changes.iter().map(Change::path)),
    }
}

/// A subject, and the paths below it, as many as are still useful to read.
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
