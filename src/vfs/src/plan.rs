//! Planning: from requested changes to an effect on each file.
//!
//! Invariant: planning writes nothing. Preconditions and gates are checked here: all or nothing.

mod checks;
mod forms;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use svcfs_base::{
    Caller, Change, DiskAttributes, ETag, Fault, FileKind, Kind, LargeFile, MAX_FILE_BYTES, Precondition, TreePath,
    WriteResult,
};
use svcfs_store::strip_setid;

use crate::core::{DEFAULT_FILE_MODE, EffectiveState, PendingRemoval, VfsCore};
use crate::gate::{ProposedFile, WriteGate};
use crate::overlay::OverlayFile;
use crate::precondition::{CurrentState, check_precondition};
use crate::queue::{FileEffect, StateAfter, StateBefore};
use crate::versioned::is_definition;

/// A change applied to the tree directly, because it creates no version.
pub(crate) enum DirectChange {
    /// Install a scratch file, or a page that history already has.
    Install(TreePath, OverlayFile),
    /// Replace a page by a file with the same bytes and other attributes.
    Replace(TreePath, OverlayFile),
    Remove(TreePath),
    Rename(TreePath, TreePath),
    MakeDirectory(TreePath),
    RemoveDirectory(TreePath),
}

pub(crate) struct ChangePlan<'a> {
    core: &'a VfsCore,
    gates: &'a [Box<dyn WriteGate>],
    caller: &'a Caller,
    /// The tree is locked exclusively and nothing is pending.
    is_exclusive: bool,
    /// Planned states of this set's paths, for its later changes.
    planned: BTreeMap<TreePath, Option<OverlayFile>>,
    effect_index: HashMap<TreePath, usize>,
    pub(crate) effects: Vec<FileEffect>,
    pub(crate) directs: Vec<DirectChange>,
    pub(crate) consumed_scratch: Vec<TreePath>,
    /// Unversioned large files that effects replace.
    replaced_large: BTreeMap<TreePath, LargeFile>,
    pub(crate) moves: Vec<(TreePath, TreePath)>,
    pub(crate) pending_removals: Vec<(TreePath, PendingRemoval)>,
    /// Pending removals that this set cancels, restored if it is refused.
    cancelled_removals: Vec<(TreePath, PendingRemoval)>,
    pub(crate) files: Vec<WriteResult>,
}

impl<'a> ChangePlan<'a> {
    pub(crate) fn new(
        core: &'a VfsCore,
        gates: &'a [Box<dyn WriteGate>],
        caller: &'a Caller,
        is_exclusive: bool,
    ) -> Self {
        Self {
            core,
            gates,
            caller,
            is_exclusive,
            planned: BTreeMap::new(),
            effect_index: HashMap::new(),
            effects: Vec::new(),
            directs: Vec::new(),
            consumed_scratch: Vec::new(),
            replaced_large: BTreeMap::new(),
            moves: Vec::new(),
            pending_removals: Vec::new(),
            cancelled_removals: Vec::new(),
            files: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, change: Change) -> Result<(), Fault> {
        self.check_allowed_with_rename(&change)?;
        self.add_unchecked(change)
    }

    /// Adds changes of comment files, which the caller did not request: not among the results.
    pub(crate) fn add_comment_changes(&mut self, changes: Vec<Change>) -> Result<(), Fault> {
        let results = self.files.len();
        changes.into_iter().try_for_each(|change| self.add_unchecked(change))?;
        self.files.truncate(results);
        Ok(())
    }

    fn add_unchecked(&mut self, change: Change) -> Result<(), Fault> {
        match change {
            Change::Put { path, content, precondition, kind, attributes: disk } => {
                self.check_parents(&path)?;
                self.check_children(&path)?;
                let is_pending = self.is_pending(&path);
                let before = self.replaced_file(&path, &precondition)?;
                let inherited = before.as_ref().map(|(leaf, _)| leaf.kind).filter(|kind| *kind != FileKind::Symlink);
                let kind = kind.or(inherited).unwrap_or(FileKind::Regular);
                if content.len() > MAX_FILE_BYTES {
                    return Err(Fault::too_large("file", MAX_FILE_BYTES));
                }
                let content = self.run_gates(&path, content, kind, before.as_ref())?;
                if let Some((renamed, _)) = &before
                    && let Some(index) = self.effect_index.get(&path).filter(|_| self.is_in_renamed_directory(&path))
                {
                    // It overwrites the file that the directory rename moves here.
                    self.effects[*index].recheck = Some(Precondition::OneOf(vec![renamed.etag]));
                }
                let disk = self.disk_attributes(&path, disk, before.as_ref())?;
                self.put(
                    path,
                    OverlayFile { disk, ..OverlayFile::new(content, kind) },
                    before,
                    is_pending.then_some(precondition),
                )
            }
            Change::Remove { path, precondition } => {
                let is_pending = self.is_pending(&path);
                let present = self.effective_state(&path)?;
                check_precondition(&path, CurrentState::of(&path, &present)?, &precondition)?;
                let (leaf, is_on_disk) = match present {
                    EffectiveState::Leaf(leaf, is_on_disk) => (leaf, is_on_disk),
                    EffectiveState::Large(_) => {
                        self.files.push(WriteResult { path: path.clone(), etag: None });
                        self.directs.push(DirectChange::Remove(path.clone()));
                        self.planned.insert(path, None);
                        return Ok(());
                    }
                    EffectiveState::Absent | EffectiveState::Directory => return Err(Fault::file_not_found(&path)),
                };
                self.check_removal(&path, &leaf)?;
                let recheck = if precondition == Precondition::Any { Precondition::Present } else { precondition };
                self.remove(path, (leaf, is_on_disk), is_pending.then_some(recheck));
                Ok(())
            }
            Change::Move { from, to, precondition } => {
                let is_pending = self.is_pending(&from);
                match self.effective_state(&from)? {
                    EffectiveState::Absent => Err(Fault::file_not_found(&from)),
                    // Created after the check of the set: its files may be pending.
                    EffectiveState::Directory if !self.is_exclusive => Err(Fault::file_not_found(&from)),
                    EffectiveState::Directory => self.move_directory(from, to, &precondition),
                    EffectiveState::Large(_) => Err(Fault::too_large("file", MAX_FILE_BYTES)),
                    EffectiveState::Leaf(leaf, is_on_disk) => {
                        self.check_parents(&to)?;
                        self.check_children(&to)?;
                        let recheck = is_pending.then(|| Precondition::OneOf(vec![leaf.etag]));
                        self.move_file((from, recheck), to, (leaf, is_on_disk), precondition)
                    }
                }
            }
            Change::MakeDir { path } => match self.effective_state(&path)? {
                EffectiveState::Absent => {
                    self.check_parents(&path)?;
                    self.directs.push(DirectChange::MakeDirectory(path));
                    Ok(())
                }
                EffectiveState::Directory | EffectiveState::Leaf(..) | EffectiveState::Large(_) => {
                    Err(Fault::exists(&path))
                }
            },
            Change::RemoveDir { path } => match self.effective_state(&path)? {
                EffectiveState::Absent => Err(Fault::file_not_found(&path)),
                EffectiveState::Leaf(..) | EffectiveState::Large(_) => Err(Fault::not_directory(&path)),
                EffectiveState::Directory => {
                    self.directs.push(DirectChange::RemoveDirectory(path));
                    Ok(())
                }
            },
        }
    }

    /// Attributes of a written file. Those that are not requested are inherited from the replaced
    /// file: at install time when that is on disk, here when it is pending or moved by this set. A
    /// file whose removal is pending is still on disk, and nothing is inherited from it.
    fn disk_attributes(
        &self,
        path: &TreePath,
        requested: DiskAttributes,
        replaced: Option<&(OverlayFile, bool)>,
    ) -> Result<DiskAttributes, Fault> {
        let inherited = match replaced {
            Some((leaf, false)) if leaf.kind != FileKind::Symlink => leaf.disk,
            None if self.is_pending(path) => DiskAttributes {
                mode: Some(DEFAULT_FILE_MODE),
                owner: self.core.new_file_owner(path)?,
                ..DiskAttributes::default()
            },
            Some(_) | None => DiskAttributes::default(),
        };
        Ok(DiskAttributes {
            mode: requested.mode.or(inherited.mode.map(strip_setid)),
            owner: requested.owner.or(inherited.owner),
            // Recovery identifies files with recycled blocks by this time (`recovery::redo`).
            modified: requested.modified.or_else(|| Some(self.core.file_time())),
            accessed: requested.accessed,
        })
    }

    /// Whether a path may have a pending change. Read before the state: a change leaves the overlay
    /// at any time, and none is added while the path is locked.
    fn is_pending(&self, path: &TreePath) -> bool {
        self.core.overlay.get(path).is_some()
    }

    fn effective_state(&self, path: &TreePath) -> Result<EffectiveState, Fault> {
        match self.planned.get(path) {
            Some(Some(leaf)) => Ok(EffectiveState::Leaf(leaf.clone(), false)),
            Some(None) => Ok(EffectiveState::Absent),
            // The directory that this set renames still has its old name.
            None => match self.moves.first() {
                Some((from, to)) => match path.rebase(to, from) {
                    Some(now) => self.core.effective_state(&now),
                    None if path.is_under(from) => Ok(EffectiveState::Absent),
                    None => self.core.effective_state(path),
                },
                None => self.core.effective_state(path),
            },
        }
    }

    /// The file that a change replaces, if its precondition holds. Notes a large file.
    fn replaced_file(
        &mut self,
        path: &TreePath,
        precondition: &Precondition,
    ) -> Result<Option<(OverlayFile, bool)>, Fault> {
        let present = self.effective_state(path)?;
        check_precondition(path, CurrentState::of(path, &present)?, precondition)?;
        match present {
            EffectiveState::Absent | EffectiveState::Directory => Ok(None),
            EffectiveState::Leaf(leaf, is_on_disk) => Ok(Some((leaf, is_on_disk))),
            EffectiveState::Large(large) => {
                self.replaced_large.insert(path.clone(), large);
                Ok(None)
            }
        }
    }

    /// Whether the path is below the new name of the directory that this set renames.
    fn is_in_renamed_directory(&self, path: &TreePath) -> bool {
        self.moves.first().is_some_and(|(_, to)| path.is_under(to))
    }

    fn run_gates(
        &self,
        path: &TreePath,
        content: Bytes,
        kind: FileKind,
        before: Option<&(OverlayFile, bool)>,
    ) -> Result<Bytes, Fault> {
        if kind == FileKind::Symlink || !self.core.is_gated(path) {
            before.map_or(Ok(()), |(replaced, _)| self.check_removal(path, replaced))?;
            return Ok(content);
        }
        let before = before.filter(|(leaf, _)| leaf.kind != FileKind::Symlink).map(|(leaf, _)| leaf.content.clone());
        let mut proposal = ProposedFile { path: path.clone(), content, old_content: before };
        for gate in self.gates {
            gate.check(self.caller, &mut proposal)?;
        }
        Ok(proposal.content)
    }

    fn check_removal(&self, path: &TreePath, leaf: &OverlayFile) -> Result<(), Fault> {
        if leaf.kind == FileKind::Symlink || !self.core.is_gated(path) {
            return Ok(());
        }
        self.gates.iter().try_for_each(|gate| gate.check_removal(self.caller, path, &leaf.content))
    }

    fn put(
        &mut self,
        path: TreePath,
        leaf: OverlayFile,
        before: Option<(OverlayFile, bool)>,
        recheck: Option<Precondition>,
    ) -> Result<(), Fault> {
        self.files.push(WriteResult { path: path.clone(), etag: Some(leaf.etag) });
        if !self.core.is_versioned(&path) {
            self.directs.push(DirectChange::Install(path.clone(), leaf.clone()));
            self.planned.insert(path, Some(leaf));
            return Ok(());
        }
        let is_same = |etag: ETag, kind: FileKind| etag == leaf.etag && kind == leaf.kind;
        if self.core.versions.is_converted(&path) && self.is_recorded_alike(&path, before.as_ref(), &leaf)? {
            self.directs.push(DirectChange::Install(path.clone(), leaf.clone()));
            self.planned.insert(path, Some(leaf));
            return Ok(());
        }
        match before {
            // A pending change may be refused yet: the set waits for its outcome.
            Some((old, _)) if is_same(old.etag, old.kind) && recheck.is_none() => Ok(()),
            Some((old, is_on_disk)) => {
                self.add_effect(path, Some(state_before(old, is_on_disk)), Some(leaf), recheck);
                Ok(())
            }
            None => {
                match self.cancel_removal(&path) {
                    Some(removed) if is_same(removed.etag, removed.kind) => {
                        self.directs.push(DirectChange::Install(path.clone(), leaf.clone()));
                        self.planned.insert(path, Some(leaf));
                    }
                    Some(removed) => self.add_effect(path, Some(removed), Some(leaf), recheck),
                    None => self.add_effect(path, None, Some(leaf), recheck),
                }
                Ok(())
            }
        }
    }

    /// Cancels the pending removal of a path; returns the state before it.
    fn cancel_removal(&mut self, path: &TreePath) -> Option<StateBefore> {
        if let Some(index) = self.pending_removals.iter().position(|(pending, _)| pending == path) {
            return Some(self.pending_removals.swap_remove(index).1.before);
        }
        let removed = self.core.pending_removals.lock().remove(path)?;
        let before = removed.before.clone();
        self.cancelled_removals.push((path.clone(), removed));
        Some(before)
    }

    pub(crate) fn restore_cancelled_removals(&mut self) {
        self.core.pending_removals.lock().extend(self.cancelled_removals.drain(..));
    }

    fn remove(&mut self, path: TreePath, (leaf, is_on_disk): (OverlayFile, bool), recheck: Option<Precondition>) {
        self.files.push(WriteResult { path: path.clone(), etag: None });
        // A file whose name git refuses was made outside, and has no versions.
        if self.core.is_versioned(&path) && self.core.versions.can_record(&path) {
            self.add_effect(path, Some(state_before(leaf, is_on_disk)), None, recheck);
        } else {
            self.directs.push(DirectChange::Remove(path.clone()));
            self.planned.insert(path, None);
        }
    }

    fn move_file(
        &mut self,
        (from, recheck): (TreePath, Option<Precondition>),
        to: TreePath,
        (leaf, is_on_disk): (OverlayFile, bool),
        precondition: Precondition,
    ) -> Result<(), Fault> {
        if from == to {
            self.files.push(WriteResult { path: to, etag: Some(leaf.etag) });
            return Ok(());
        }
        self.check_removal(&from, &leaf)?;
        let is_pending = self.is_pending(&to);
        let target = self.replaced_file(&to, &precondition)?;
        let target_recheck = is_pending.then_some(precondition);
        let (is_from_versioned, is_to_versioned) = (self.core.is_versioned(&from), self.core.is_versioned(&to));
        let mut moved = leaf.clone();
        if !is_on_disk {
            // Attributes inherited at the old name; the replaced file has its own.
            moved.disk = self.core.resulting_attributes(&from, moved.disk)?;
        }
        let becomes_gated = (to.is_page() && !from.is_page()) || is_definition(&to);
        if let Some((replaced, _)) = target.as_ref().filter(|_| is_from_versioned && !becomes_gated) {
            self.check_removal(&to, replaced)?;
        }
        if is_to_versioned && (!is_from_versioned || becomes_gated) {
            let content = self.run_gates(&to, leaf.content.clone(), leaf.kind, target.as_ref())?;
            moved = OverlayFile { disk: moved.disk, ..OverlayFile::new(content, leaf.kind) };
        }
        if is_to_versioned && target.as_ref().is_some_and(|(old, _)| (old.etag, old.kind) == (moved.etag, moved.kind)) {
            // Same content: no version, but another file.
            self.directs.push(DirectChange::Replace(to.clone(), moved.clone()));
        }
        match (is_from_versioned, is_to_versioned) {
            (false, false) => {
                self.files.push(WriteResult { path: to.clone(), etag: Some(leaf.etag) });
                self.rename(from, to, leaf);
                Ok(())
            }
            (true, false) => {
                // A backup by an editor: see [`crate::core::RENAME_SAVE_GRACE`].
                self.files.push(WriteResult { path: to.clone(), etag: Some(leaf.etag) });
                let before = state_before(leaf.clone(), is_on_disk);
                let (actor, protocol) = (self.caller.actor(), self.caller.protocol);
                let due = std::time::Instant::now() + crate::core::RENAME_SAVE_GRACE;
                self.pending_removals.push((from.clone(), PendingRemoval { before, actor, protocol, due }));
                self.rename(from, to, leaf);
                Ok(())
            }
            (false, true) => {
                self.consumed_scratch.push(from.clone());
                self.planned.insert(from, None);
                self.put(to, moved, target, target_recheck)
            }
            (true, true) => {
                self.add_effect(from, Some(state_before(leaf, is_on_disk)), None, recheck);
                self.put(to, moved, target, target_recheck)
            }
        }
    }

    fn rename(&mut self, from: TreePath, to: TreePath, leaf: OverlayFile) {
        self.planned.insert(from.clone(), None);
        self.planned.insert(to.clone(), Some(leaf));
        self.directs.push(DirectChange::Rename(from, to));
    }

    /// Nothing is pending here (`is_exclusive`), so history has every versioned file.
    fn move_directory(&mut self, from: TreePath, to: TreePath, precondition: &Precondition) -> Result<(), Fault> {
        if from == to {
            return Ok(());
        }
        if !self.effects.is_empty() || !self.directs.is_empty() {
            return Err(Fault::new(
                Kind::Invalid,
                format!("the rename of the directory `{from}` must be the first change of its set"),
            ));
        }
        if from.is_root() || to.is_under(&from) {
            return Err(Fault::invalid("to", format_args!("`{from}` cannot be moved below itself")));
        }
        self.core.check_no_submodule(&from)?;
        let read = |path: &TreePath| match self.core.effective_state(path)? {
            EffectiveState::Leaf(leaf, _) => Ok(Some(leaf.content)),
            EffectiveState::Absent | EffectiveState::Directory | EffectiveState::Large(_) => Ok(None),
        };
        self.gates.iter().try_for_each(|gate| gate.check_directory(self.caller, &from, &read))?;
        match self.effective_state(&to)? {
            EffectiveState::Absent => {}
            EffectiveState::Leaf(..) | EffectiveState::Large(_) => return Err(Fault::not_directory(&to)),
            EffectiveState::Directory if *precondition == Precondition::Absent => return Err(Fault::exists(&to)),
            EffectiveState::Directory if !self.core.tree.list(&to)?.is_empty() => {
                return Err(Fault::new(Kind::NotEmpty, format!("directory `{to}` is not empty")));
            }
            // The disk decides whether it is empty: a listing omits invalid names.
            EffectiveState::Directory => self.directs.push(DirectChange::RemoveDirectory(to.clone())),
        }
        let is_scratch = |path: &TreePath| !self.core.is_versioned(path);
        if !self.core.path_classes.classify(&from).is_versioned() && !is_scratch(&to) {
            return Err(Fault::invalid(
                "from",
                format_args!("`{from}` is a scratch directory; copy its files to `{to}` instead"),
            ));
        }
        for (path, blob, kind) in self.core.versions.list_states(&from)? {
            let Some(target) = path.rebase(&from, &to) else { continue };
            let before = Some(StateBefore { etag: blob, kind, disk_content: None });
            let is_pending_removal = self.cancel_removal(&path).is_some();
            let after = self.renamed_state((&path, &target), (blob, kind))?;
            self.effects.push(FileEffect::new(path, before, None));
            if !is_scratch(&target) && !is_pending_removal {
                self.files.push(WriteResult { path: target.clone(), etag: Some(blob) });
                self.effect_index.insert(target.clone(), self.effects.len());
                self.effects.push(FileEffect::new(target, None, Some(after)));
            }
        }
        if self.effects.is_empty() {
            self.directs.push(DirectChange::Rename(from, to));
        } else {
            self.moves.push((from, to));
        }
        Ok(())
    }

    /// Adds an effect, or merges it into the set's effect on the path.
    fn add_effect(
        &mut self,
        path: TreePath,
        before: Option<StateBefore>,
        after: Option<OverlayFile>,
        recheck: Option<Precondition>,
    ) {
        self.planned.insert(path.clone(), after.clone());
        let after = after.map(StateAfter::Leaf);
        match self.effect_index.get(&path) {
            Some(index) => self.effects[*index].after = after,
            None => {
                self.effect_index.insert(path.clone(), self.effects.len());
                // A large file may be in the tree still, below a pending change.
                let large = self.replaced_large.remove(&path).or_else(|| self.core.overlay.get(&path)?.replaces_large);
                self.effects.push(FileEffect {
                    recheck,
                    replaces_large: large,
                    ..FileEffect::new(path, before, after)
                });
            }
        }
    }

    /// Drops effects that cancelled out, except those that depend on pending changes.
    pub(crate) fn drop_noops(&mut self) {
        self.effects.retain(|effect| effect.recheck.is_some() || !effect.is_noop());
    }
}

fn state_before(leaf: OverlayFile, is_on_disk: bool) -> StateBefore {
    StateBefore { etag: leaf.etag, kind: leaf.kind, disk_content: is_on_disk.then_some(leaf.content) }
}
