//! Pipes, sockets and devices: the kernel implements them; svcfs has their names, owners and
//! permission bits. Names of large unversioned files are handled in the same way.
//!
//! Invariant: a special file is only on disk. It has no versions and no events, protocols that work
//! by path do not see it, and its changes wait for no flush.

use svcfs_base::{Caller, Fault, Kind, PathComponent, Precondition, Protocol, TreePath};
use svcfs_store::SpecialFile;

use super::NodeId;
use crate::Vfs;
use crate::precondition::{CurrentState, check_precondition};
use crate::view::{EntryKind, PathAttributes};

impl Vfs {
    /// Creates a pipe, socket or device (one lookup).
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`; `Forbidden` for a device, without permission.
    pub fn make_special(
        &self,
        caller: &Caller,
        (parent, name): (NodeId, &PathComponent),
        special: SpecialFile,
        mode: u32,
    ) -> Result<(NodeId, PathAttributes), Fault> {
        let path = self.writable_path(caller, parent, name)?;
        self.check_name_free(caller, &path)?;
        self.wait_applied_at(&path)?;
        let _locked = self.core.path_locks.lock([path.clone()].into());
        self.core.tree.make_special(&path, special, mode)?;
        // A former file of this name may have open handles.
        self.nodes.remove(&path);
        let attributes = self.special(&path)?.ok_or_else(|| Fault::file_not_found(&path))?;
        Ok((self.nodes.find(&path, 1), attributes))
    }

    /// Links a pipe, socket or device to another name, with a node of its own (one lookup); none
    /// for other files: versioned files have one name.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `Stale`.
    pub fn link_special(
        &self,
        caller: &Caller,
        node: NodeId,
        (parent, name): (NodeId, &PathComponent),
    ) -> Result<Option<(NodeId, PathAttributes)>, Fault> {
        let path = self.nodes.path_of(node)?;
        let is_special_file = |entries: &PathAttributes| matches!(entries.kind, EntryKind::Special(_));
        if !self.special(&path)?.as_ref().is_some_and(is_special_file) {
            return Ok(None);
        }
        let new_path = self.writable_path(caller, parent, name)?;
        self.check_name_free(caller, &new_path)?;
        self.wait_applied_at(&new_path)?;
        let _locked = self.core.path_locks.lock([path.clone(), new_path.clone()].into());
        self.core.tree.link_special(&path, &new_path)?;
        self.nodes.remove(&new_path);
        let attributes = self.special(&new_path)?.ok_or_else(|| Fault::file_not_found(&new_path))?;
        Ok(Some((self.nodes.find(&new_path, 1), attributes)))
    }

    /// Attributes of a special or large file at a path, if no pending change replaces it.
    pub(super) fn special(&self, path: &TreePath) -> Result<Option<PathAttributes>, Fault> {
        if self.core.overlay.get(path).is_some_and(|pending| pending.leaf.is_some() || pending.replaces_large.is_some())
        {
            return Ok(None);
        }
        Ok(self.core.tree.stat_special(path)?.map(PathAttributes::from))
    }

    /// Attributes of a path on disk or pending, special files included.
    pub(crate) fn stat_any(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        match self.stat(protocol, path) {
            Err(fault) if fault.kind() == Kind::NotFound && self.core.is_visible(protocol, path) => {
                self.special(path)?.ok_or(fault)
            }
            outcome => outcome,
        }
    }

    /// Waits for the pending changes of a path before the disk is changed directly.
    pub(super) fn wait_applied_at(&self, path: &TreePath) -> Result<(), Fault> {
        if self.core.overlay.get(path).is_some() {
            self.wait_applied()?;
        }
        Ok(())
    }

    pub(super) fn specials_in(&self, directory: &TreePath) -> Result<Vec<(TreePath, PathAttributes)>, Fault> {
        let entries = self.core.tree.list_special(directory)?;
        Ok(entries.into_iter().map(|(name, stat)| (directory.join(&name), stat.into())).collect())
    }

    /// Name of an entry that the protocol cannot see: hidden, or with an invalid name.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn find_hidden_entry(&self, caller: &Caller, directory: &TreePath) -> Result<Option<String>, Fault> {
        let directory = self.resolve_directories(caller.protocol, directory)?;
        if let Some(name) = self.core.tree.find_invalid_name(&directory)? {
            return Ok(Some(name));
        }
        let entry = self.core.tree.list(&directory)?.into_iter().map(|(name, _)| directory.join(&name));
        let mut hidden = entry.filter(|path| !self.core.is_visible(caller.protocol, path));
        Ok(hidden.next().map(|path| path.name().to_owned()))
    }

    /// Removes a special or large file; false when none is there.
    pub(super) fn remove_special(&self, path: &TreePath) -> Result<bool, Fault> {
        if self.special(path)?.is_none() {
            return Ok(false);
        }
        let _locked = self.core.path_locks.lock([path.clone()].into());
        if self.special(path)?.is_none() {
            // Another file took the name meanwhile; the caller removes that.
            return Ok(false);
        }
        self.core.tree.remove(path)?;
        self.nodes.remove(path);
        Ok(true)
    }

    /// Removes a special file that is about to be replaced, if the precondition holds.
    pub(super) fn replace_special(&self, path: &TreePath, precondition: &Precondition) -> Result<(), Fault> {
        let _locked = self.core.path_locks.lock([path.clone()].into());
        match self.current_state(path)? {
            CurrentState::Special => {}
            CurrentState::Nothing | CurrentState::Content(_) | CurrentState::Large(_) => return Ok(()),
        }
        check_precondition(path, CurrentState::Special, precondition).map_err(|fault| exists_fault(path, fault))?;
        self.core.tree.remove(path)?;
        self.nodes.remove(path);
        Ok(())
    }

    /// Renames a special or large file; false when there is none. Removes a versioned target first.
    pub(super) fn rename_special(
        &self,
        caller: &Caller,
        (from, to): (&TreePath, &TreePath),
        precondition: &Precondition,
    ) -> Result<bool, Fault> {
        if self.special(from)?.is_none() {
            return Ok(false);
        }
        let mut precondition = precondition.clone();
        loop {
            let is_recorded = match self.attributes_at(caller, to) {
                Err(fault) if fault.kind() == Kind::NotFound => false,
                Err(fault) => return Err(fault),
                Ok(_) if precondition == Precondition::Absent => return Err(Fault::exists(to)),
                Ok(entry) if entry.kind == EntryKind::Directory => return Err(Fault::is_directory(to)),
                Ok(_) => self.special(to)?.is_none(),
            };
            if is_recorded {
                self.unlink_at(caller, to, precondition.clone())?;
                // The expected file is removed; a new one is another caller's.
                if precondition != Precondition::Any {
                    precondition = Precondition::Absent;
                }
            }
            self.wait_applied_at(to)?;
            let _locked = self.core.path_locks.lock([from.clone(), to.clone()].into());
            let current = self.current_state(to)?;
            if matches!(current, CurrentState::Content(_)) && precondition == Precondition::Any {
                // Written since the removal: it gets its version, too.
                continue;
            }
            check_precondition(to, current, &precondition).map_err(|fault| exists_fault(to, fault))?;
            self.core.tree.rename(from, to, true)?;
            self.nodes.rename(from, to);
            return Ok(true);
        }
    }

    /// The state for preconditions, of a locked path.
    fn current_state(&self, path: &TreePath) -> Result<CurrentState, Fault> {
        match CurrentState::of(path, &self.core.effective_state(path)?)? {
            CurrentState::Nothing if self.special(path)?.is_some() => Ok(CurrentState::Special),
            state => Ok(state),
        }
    }
}

/// A failed precondition on a name that must be free is `Exists`.
fn exists_fault(path: &TreePath, fault: Fault) -> Fault {
    if fault.kind() == Kind::PreconditionFailed { Fault::exists(path) } else { fault }
}
