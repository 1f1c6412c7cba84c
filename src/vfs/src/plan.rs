//! From what a writer asks for to what will happen to each file.
//!
//! One rule: a plan writes nothing. Every condition and every gate is passed here, so that a set is refused whole.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use bytes::Bytes;
use svcfs_base::{
    Caller, Change, DiskAttributes, ETag, Fault, FileKind, Kind, LargeFile, MAX_FILE_BYTES, Precondition, TreePath,
    WriteResult,
};
use svcfs_store::{StatKind, strip_setid};

use crate::core::{EffectiveState, NEW_MODE, PendingRemoval, VfsCore};
use crate::gate::{ProposedFile, WriteGate};
use crate::overlay::{OverlayFile, PendingState};
use crate::path_class::PathClass;
use crate::precondition::{CurrentState, check};
use crate::queue::{FileEffect, StateAfter, StateBefore};

/// Something done to the tree directly, because history does not hear of it.
pub(crate) enum DirectChange {
    /// Put a scratch file, or a page that history has already, in place.
    Install(TreePath, OverlayFile),
    /// Replace a page by a file with the same bytes, which has attributes of its own.
    Replace(TreePath, OverlayFile),
    /// Remove a scratch file.
    Remove(TreePath),
    /// Rename a file or directory on the disk.
    Rename(TreePath, TreePath),
    MakeDirectory(TreePath),
    RemoveDirectory(TreePath),
}

/// What a change set comes to.
pub(crate) struct ChangePlan<'a> {
    core: &'a VfsCore,
    gates: &'a [Box<dyn WriteGate>],
    caller: &'a Caller,
    /// The tree is held exclusively and nothing is pending.
    is_exclusive: bool,
    /// The paths of this set as they will stand, for the changes that follow in it.
    ahead: BTreeMap<TreePath, Option<OverlayFile>>,
    at: HashMap<TreePath, usize>,
    pub(crate) effects: Vec<FileEffect>,
    pub(crate) directs: Vec<DirectChange>,
    pub(crate) spent: Vec<TreePath>,
    /// Files too large for any version that others take the place of.
    larges: BTreeMap<TreePath, LargeFile>,
    pub(crate) moves: Vec<(TreePath, TreePath)>,
    pub(crate) departures: Vec<(TreePath, PendingRemoval)>,
    /// Departures that this set ends, to be given back if it is refused.
    ended: Vec<(TreePath, PendingRemoval)>,
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
            ahead: BTreeMap::new(),
            at: HashMap::new(),
            effects: Vec::new(),
            directs: Vec::new(),
            spent: Vec::new(),
            larges: BTreeMap::new(),
            moves: Vec::new(),
            departures: Vec::new(),
            ended: Vec::new(),
            files: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, change: Change) -> Result<(), Fault> {
        self.check_beside_rename(&change)?;
        match change {
            Change::Put { path, content, precondition: expect, kind, attributes: disk } => {
                self.check_above(&path)?;
                self.check_below(&path)?;
                let is_pending = self.is_pending(&path);
                let before = self.giving_way(&path, &expect)?;
                let kept = before.as_ref().map(|(leaf, _)| leaf.kind).filter(|kind| *kind != FileKind::Symlink);
                let kind = kind.or(kept).unwrap_or(FileKind::Regular);
                if content.len() > MAX_FILE_BYTES {
                    return Err(Fault::too_large("file", MAX_FILE_BYTES));
                }
                let content = self.gated(&path, content, kind, before.as_ref())?;
                if let Some((brought, _)) = &before
                    && let Some(at) = self.at.get(&path).filter(|_| self.is_brought(&path))
                {
                    // It is written over what the rename of its directory brings.
                    self.effects[*at].premise = Some(Precondition::OneOf(vec![brought.etag]));
                }
                let disk = self.on_disk(&path, disk, before.as_ref())?;
                self.put(
                    path,
                    OverlayFile { disk, ..OverlayFile::new(content, kind) },
                    before,
                    is_pending.then_some(expect),
                )
            }
            Change::Remove { path, precondition: expect } => {
                let is_pending = self.is_pending(&path);
                let present = self.present(&path)?;
                check(&path, CurrentState::of(&path, &present)?, &expect)?;
                let (leaf, seen) = match present {
                    EffectiveState::Leaf(leaf, seen) => (leaf, seen),
                    EffectiveState::Large(_) => {
                        self.files.push(WriteResult { path: path.clone(), etag: None });
                        self.directs.push(DirectChange::Remove(path.clone()));
                        self.ahead.insert(path, None);
                        return Ok(());
                    }
                    EffectiveState::Absent | EffectiveState::Directory => return Err(Fault::file_not_found(&path)),
                };
                let premise = if expect == Precondition::Any { Precondition::Present } else { expect };
                self.remove(path, (leaf, seen), is_pending.then_some(premise));
                Ok(())
            }
            Change::Move { from, to, precondition: expect } => {
                let is_pending = self.is_pending(&from);
                match self.present(&from)? {
                    EffectiveState::Absent => Err(Fault::file_not_found(&from)),
                    // It came after this set was looked at, and what is in it may be pending; before, nothing was there.
                    EffectiveState::Directory if !self.is_exclusive => Err(Fault::file_not_found(&from)),
                    EffectiveState::Directory => self.move_directory(from, to, &expect),
                    EffectiveState::Large(_) => Err(Fault::too_large("file", MAX_FILE_BYTES)),
                    EffectiveState::Leaf(leaf, seen) => {
                        self.check_above(&to)?;
                        self.check_below(&to)?;
                        // It takes its text along.
                        let premise = is_pending.then(|| Precondition::OneOf(vec![leaf.etag]));
                        self.move_file((from, premise), to, (leaf, seen), expect)
                    }
                }
            }
            Change::MakeDir { path } => match self.present(&path)? {
                EffectiveState::Absent => {
                    self.check_above(&path)?;
                    self.directs.push(DirectChange::MakeDirectory(path));
                    Ok(())
                }
                EffectiveState::Directory | EffectiveState::Leaf(..) | EffectiveState::Large(_) => {
                    Err(Fault::exists(&path))
                }
            },
            Change::RemoveDir { path } => match self.present(&path)? {
                EffectiveState::Absent => Err(Fault::file_not_found(&path)),
                EffectiveState::Leaf(..) | EffectiveState::Large(_) => Err(Fault::not_directory(&path)),
                EffectiveState::Directory => {
                    self.directs.push(DirectChange::RemoveDirectory(path));
                    Ok(())
                }
            },
        }
    }

    /// What a file that is put will have on the disk. What is not asked for is kept of the file that it replaces: by whoever
    /// installs it where that is on the disk, and here where it is only accepted, or brought here by this set. After a removal
    /// that is accepted, the removed file is still on the disk, and gives nothing to the new one.
    fn on_disk(
        &self,
        path: &TreePath,
        asked: DiskAttributes,
        replaced: Option<&(OverlayFile, bool)>,
    ) -> Result<DiskAttributes, Fault> {
        let kept = match replaced {
            Some((leaf, false)) if leaf.kind != FileKind::Symlink => leaf.disk,
            None if self.is_pending(path) => DiskAttributes {
                mode: Some(NEW_MODE),
                owner: self.core.owner_of_new(path)?,
                ..DiskAttributes::default()
            },
            Some(_) | None => DiskAttributes::default(),
        };
        Ok(DiskAttributes {
            mode: asked.mode.or(kept.mode.map(strip_setid)),
            owner: asked.owner.or(kept.owner),
            // By its time a file is known for ours after a power cut that left other bytes in it (`opening::files`).
            modified: asked.modified.or_else(|| Some(self.core.file_time())),
            accessed: asked.accessed,
        })
    }

    /// Whether what stands at a path may be a change that is only accepted. Asked before what it is: a change leaves the overlay
    /// at any time, and none comes while its path is held.
    fn is_pending(&self, path: &TreePath) -> bool {
        self.core.overlay.get(path).is_some()
    }

    fn present(&self, path: &TreePath) -> Result<EffectiveState, Fault> {
        match self.ahead.get(path) {
            Some(Some(leaf)) => Ok(EffectiveState::Leaf(leaf.clone(), false)),
            Some(None) => Ok(EffectiveState::Absent),
            // The directory of this set still has its old name.
            None => match self.moves.first() {
                Some((from, to)) => match path.rebase(to, from) {
                    Some(now) => self.core.present(&now),
                    None if path.is_under(from) => Ok(EffectiveState::Absent),
                    None => self.core.present(path),
                },
                None => self.core.present(path),
            },
        }
    }

    /// What stands where something else is about to be put, if it is what is expected. A file that no version has is noted to give way.
    fn giving_way(&mut self, path: &TreePath, expect: &Precondition) -> Result<Option<(OverlayFile, bool)>, Fault> {
        let present = self.present(path)?;
        check(path, CurrentState::of(path, &present)?, expect)?;
        match present {
            EffectiveState::Absent | EffectiveState::Directory => Ok(None),
            EffectiveState::Leaf(leaf, seen) => Ok(Some((leaf, seen))),
            EffectiveState::Large(large) => {
                self.larges.insert(path.clone(), large);
                Ok(None)
            }
        }
    }

    /// Whether the rename of this set's directory brings a file here.
    fn is_brought(&self, path: &TreePath) -> bool {
        self.moves.first().is_some_and(|(_, to)| path.is_under(to))
    }

    /// Beside the rename of a directory files are written, and nothing else happens: those that it brings, and those that have
    /// nothing to do with either name.
    fn check_beside_rename(&self, change: &Change) -> Result<(), Fault> {
        let Some((from, to)) = self.moves.first() else { return Ok(()) };
        let path = change.path();
        let is_fit = match change {
            Change::Put { .. } if path.is_under(to) => self.at.contains_key(path),
            Change::Put { .. } => !path.is_under(from) && !to.is_under(path),
            Change::Remove { .. } | Change::Move { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => false,
        };
        if is_fit {
            return Ok(());
        }
        let why = format!("`{path}`: while a directory is renamed, only files that are there already are written");
        Err(Fault::new(Kind::Invalid, why))
    }

    /// Nothing stands below a file, neither below one that is only accepted.
    fn check_above(&self, path: &TreePath) -> Result<(), Fault> {
        for above in path.ancestors().filter(|above| !above.is_root()) {
            if let Some(Some(_)) = self.ahead.get(&above) {
                return Err(Fault::not_directory(&above));
            }
            match self.core.overlay.get(&above) {
                Some(PendingState { leaf: Some(_), .. }) => return Err(Fault::not_directory(&above)),
                // A file that is about to give way.
                Some(PendingState { leaf: None, .. }) => continue,
                None => {}
            }
            match self.core.tree.stat(&above) {
                Ok(stat) if stat.kind == StatKind::Directory => return Ok(()),
                Ok(_) => return Err(Fault::not_directory(&above)),
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// No file stands where an earlier change of this set put something below.
    fn check_below(&self, path: &TreePath) -> Result<(), Fault> {
        let mut after = self
            .ahead
            .range((Bound::Excluded(path), Bound::Unbounded))
            .take_while(|(other, _)| other.as_str().starts_with(path.as_str()));
        if after.any(|(other, leaf)| leaf.is_some() && other.is_under(path)) {
            return Err(Fault::is_directory(path));
        }
        Ok(())
    }

    fn gated(
        &self,
        path: &TreePath,
        content: Bytes,
        kind: FileKind,
        before: Option<&(OverlayFile, bool)>,
    ) -> Result<Bytes, Fault> {
        if kind == FileKind::Symlink || self.core.places.of(path) != PathClass::Content {
            return Ok(content);
        }
        let before = before.filter(|(leaf, _)| leaf.kind != FileKind::Symlink).map(|(leaf, _)| leaf.content.clone());
        let mut proposal = ProposedFile { path: path.clone(), content, old_content: before };
        for gate in self.gates {
            gate.check(self.caller, &mut proposal)?;
        }
        Ok(proposal.content)
    }

    fn put(
        &mut self,
        path: TreePath,
        leaf: OverlayFile,
        before: Option<(OverlayFile, bool)>,
        premise: Option<Precondition>,
    ) -> Result<(), Fault> {
        self.files.push(WriteResult { path: path.clone(), etag: Some(leaf.etag) });
        if !self.core.places.of(&path).is_versioned() {
            self.directs.push(DirectChange::Install(path.clone(), leaf.clone()));
            self.ahead.insert(path, Some(leaf));
            return Ok(());
        }
        let is_same = |etag: ETag, kind: FileKind| etag == leaf.etag && kind == leaf.kind;
        match before {
            // What is only accepted may be refused yet: the set waits for what becomes of that, and its turn tells.
            Some((old, _)) if is_same(old.etag, old.kind) && premise.is_none() => Ok(()),
            Some((old, seen)) => {
                self.effect(path, Some(before_of(old, seen)), Some(leaf), premise);
                Ok(())
            }
            None => {
                match self.end_departure(&path) {
                    Some(gone) if is_same(gone.etag, gone.kind) => {
                        self.directs.push(DirectChange::Install(path.clone(), leaf.clone()));
                        self.ahead.insert(path, Some(leaf));
                    }
                    Some(gone) => self.effect(path, Some(gone), Some(leaf), premise),
                    None => self.effect(path, None, Some(leaf), premise),
                }
                Ok(())
            }
        }
    }

    /// What stood at a path before it left under a scratch name, in this set or a moment ago; it is back now.
    fn end_departure(&mut self, path: &TreePath) -> Option<StateBefore> {
        if let Some(at) = self.departures.iter().position(|(departed, _)| departed == path) {
            return Some(self.departures.swap_remove(at).1.before);
        }
        let gone = self.core.departures.lock().remove(path)?;
        let before = gone.before.clone();
        self.ended.push((path.clone(), gone));
        Some(before)
    }

    /// The set is refused: what had departed before it is departed still.
    pub(crate) fn give_back(&mut self) {
        self.core.departures.lock().extend(self.ended.drain(..));
    }

    fn remove(&mut self, path: TreePath, (leaf, seen): (OverlayFile, bool), premise: Option<Precondition>) {
        self.files.push(WriteResult { path: path.clone(), etag: None });
        if self.core.places.of(&path).is_versioned() {
            self.effect(path, Some(before_of(leaf, seen)), None, premise);
        } else {
            self.directs.push(DirectChange::Remove(path.clone()));
            self.ahead.insert(path, None);
        }
    }

    fn move_file(
        &mut self,
        (from, premise): (TreePath, Option<Precondition>),
        to: TreePath,
        (leaf, seen): (OverlayFile, bool),
        expect: Precondition,
    ) -> Result<(), Fault> {
        if from == to {
            self.files.push(WriteResult { path: to, etag: Some(leaf.etag) });
            return Ok(());
        }
        let is_pending = self.is_pending(&to);
        let target = self.giving_way(&to, &expect)?;
        let premise_of_target = is_pending.then_some(expect);
        let (is_from_versioned, is_to_versioned) =
            (self.core.places.of(&from).is_versioned(), self.core.places.of(&to).is_versioned());
        let mut moved = leaf.clone();
        if !seen {
            // What it keeps of the file under its old name, which what it replaces has, too.
            moved.disk = self.core.attributes_to_be(&from, moved.disk)?;
        }
        if is_to_versioned && (!is_from_versioned || (to.is_page() && !from.is_page())) {
            let content = self.gated(&to, leaf.content.clone(), leaf.kind, target.as_ref())?;
            moved = OverlayFile { disk: moved.disk, ..OverlayFile::new(content, leaf.kind) };
        }
        if is_to_versioned && target.as_ref().is_some_and(|(old, _)| (old.etag, old.kind) == (moved.etag, moved.kind)) {
            // No version, but another file.
            self.directs.push(DirectChange::Replace(to.clone(), moved.clone()));
        }
        match (is_from_versioned, is_to_versioned) {
            (false, false) => {
                self.files.push(WriteResult { path: to.clone(), etag: Some(leaf.etag) });
                self.rename(from, to, leaf);
                Ok(())
            }
            (true, false) => {
                // An editor keeps the old text under a backup name and will write the page anew: see DEPARTURE.
                self.files.push(WriteResult { path: to.clone(), etag: Some(leaf.etag) });
                let before = before_of(leaf.clone(), seen);
                let (actor, protocol) = (self.caller.actor(), self.caller.protocol);
                let due = std::time::Instant::now() + crate::core::DEPARTURE;
                self.departures.push((from.clone(), PendingRemoval { before, actor, protocol, due }));
                self.rename(from, to, leaf);
                Ok(())
            }
            (false, true) => {
                self.spent.push(from.clone());
                self.ahead.insert(from, None);
                self.put(to, moved, target, premise_of_target)
            }
            (true, true) => {
                self.effect(from, Some(before_of(leaf, seen)), None, premise);
                self.put(to, moved, target, premise_of_target)
            }
        }
    }

    fn rename(&mut self, from: TreePath, to: TreePath, leaf: OverlayFile) {
        self.ahead.insert(from.clone(), None);
        self.ahead.insert(to.clone(), Some(leaf));
        self.directs.push(DirectChange::Rename(from, to));
    }

    /// Nothing is pending here (`is_exclusive`), so history has every file that is versioned.
    fn move_directory(&mut self, from: TreePath, to: TreePath, expect: &Precondition) -> Result<(), Fault> {
        if from == to {
            return Ok(());
        }
        if !self.effects.is_empty() || !self.directs.is_empty() {
            return Err(Fault::new(
                Kind::Invalid,
                format!("the rename of the directory `{from}` comes first in its set"),
            ));
        }
        if from.is_root() || to.is_under(&from) {
            return Err(Fault::invalid("to", format_args!("`{from}` cannot be moved below itself")));
        }
        match self.present(&to)? {
            EffectiveState::Absent => {}
            EffectiveState::Leaf(..) | EffectiveState::Large(_) => return Err(Fault::not_directory(&to)),
            EffectiveState::Directory if *expect == Precondition::Absent => return Err(Fault::exists(&to)),
            EffectiveState::Directory if !self.core.tree.list(&to)?.is_empty() => {
                return Err(Fault::new(Kind::NotEmpty, format!("directory `{to}` is not empty")));
            }
            // The disk knows better whether it is empty: a listing leaves out what no tree can hold.
            EffectiveState::Directory => self.directs.push(DirectChange::RemoveDirectory(to.clone())),
        }
        let is_scratch = |path: &TreePath| !self.core.places.of(path).is_versioned();
        if is_scratch(&from) && !is_scratch(&to) {
            return Err(Fault::invalid(
                "from",
                format_args!("`{from}` is a scratch directory; copy its files to `{to}` instead"),
            ));
        }
        for (path, blob, kind) in self.core.memory.list_states(&from)? {
            let Some(target) = path.rebase(&from, &to) else { continue };
            let before = Some(StateBefore { etag: blob, kind, seen: None });
            // A page that left a moment ago under a scratch name is not there to be moved.
            let is_departed = self.end_departure(&path).is_some();
            self.effects.push(FileEffect::new(path, before, None));
            if !is_scratch(&target) && !is_departed {
                self.files.push(WriteResult { path: target.clone(), etag: Some(blob) });
                let after = Some(StateAfter::Blob(blob, kind));
                self.at.insert(target.clone(), self.effects.len());
                self.effects.push(FileEffect::new(target, None, after));
            }
        }
        if self.effects.is_empty() {
            self.directs.push(DirectChange::Rename(from, to));
        } else {
            self.moves.push((from, to));
        }
        Ok(())
    }

    /// Adds an effect, or folds it into the one this set already has on the path.
    fn effect(
        &mut self,
        path: TreePath,
        before: Option<StateBefore>,
        after: Option<OverlayFile>,
        premise: Option<Precondition>,
    ) {
        self.ahead.insert(path.clone(), after.clone());
        let after = after.map(StateAfter::Leaf);
        match self.at.get(&path) {
            Some(at) => self.effects[*at].after = after,
            None => {
                self.at.insert(path.clone(), self.effects.len());
                // Behind what is only accepted a large file may stand in the tree still.
                let over = self.larges.remove(&path).or_else(|| self.core.overlay.get(&path)?.over);
                self.effects.push(FileEffect { premise, over, ..FileEffect::new(path, before, after) });
            }
        }
    }

    /// Drops effects that cancelled out within the set, such as a file made and removed again. Not those that stand on what is only
    /// accepted.
    pub(crate) fn without_noise(&mut self) {
        self.effects.retain(|effect| effect.premise.is_some() || !effect.is_noise());
    }
}

fn before_of(leaf: OverlayFile, seen: bool) -> StateBefore {
    StateBefore { etag: leaf.etag, kind: leaf.kind, seen: seen.then_some(leaf.content) }
}
