//! Pipes, sockets and devices. The kernel does what they are for; here they have a name, an owner and permission bits. Names of files
//! that are too large to be recorded are made and unmade in the same way.
//!
//! One rule: a special file is on the disk and nowhere else. No version, no announcement, no door by path knows of it, and none of
//! its changes waits for a flush.

use svcfs_base::{Caller, Fault, Kind, PathComponent, Precondition, Protocol, TreePath};
use svcfs_store::SpecialFile;

use super::NodeId;
use crate::Vfs;
use crate::precondition::{CurrentState, check};
use crate::view::{EntryKind, PathAttributes};

impl Vfs {
    /// Makes a pipe, a socket or a device (found once).
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`; `Forbidden` for a device that this process may not make.
    pub fn make_special(
        &self,
        caller: &Caller,
        (parent, name): (NodeId, &PathComponent),
        special: SpecialFile,
        mode: u32,
    ) -> Result<(NodeId, PathAttributes), Fault> {
        let path = self.writable(caller, parent, name)?;
        self.must_be_free(caller, &path)?;
        self.settle_at(&path)?;
        let _held = self.core.locks.hold([path.clone()].into());
        self.core.tree.make_special(&path, special, mode)?;
        // A name that was taken before may have left a node that still has handles.
        self.nodes.remove(&path);
        let attributes = self.special(&path)?.ok_or_else(|| Fault::file_not_found(&path))?;
        Ok((self.nodes.find(&path, 1), attributes))
    }

    /// Gives a pipe, a socket or a device one more name, in a node of its own (found once); none when the node is anything else: versions
    /// know of one name for each file.
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
        let is_special = |found: &PathAttributes| matches!(found.kind, EntryKind::Special(_));
        if !self.special(&path)?.as_ref().is_some_and(is_special) {
            return Ok(None);
        }
        let other = self.writable(caller, parent, name)?;
        self.must_be_free(caller, &other)?;
        self.settle_at(&other)?;
        let _held = self.core.locks.hold([path.clone(), other.clone()].into());
        self.core.tree.link_special(&path, &other)?;
        self.nodes.remove(&other);
        let attributes = self.special(&other)?.ok_or_else(|| Fault::file_not_found(&other))?;
        Ok(Some((self.nodes.find(&other, 1), attributes)))
    }

    /// What is known of a path when a special or large file stands there and nothing is about to take its place.
    pub(super) fn special(&self, path: &TreePath) -> Result<Option<PathAttributes>, Fault> {
        if self.core.overlay.get(path).is_some_and(|pending| pending.leaf.is_some() || pending.over.is_some()) {
            return Ok(None);
        }
        Ok(self.core.tree.stat_special(path)?.map(PathAttributes::from))
    }

    /// Attributes of a path as the disk and accepted changes have it, special files among them.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn stat_any(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        match self.stat(protocol, path) {
            Err(fault) if fault.kind() == Kind::NotFound && self.core.places.is_visible(protocol, path) => {
                self.special(path)?.ok_or(fault)
            }
            outcome => outcome,
        }
    }

    /// What is accepted for a path reaches the disk before the disk is changed by hand.
    pub(super) fn settle_at(&self, path: &TreePath) -> Result<(), Fault> {
        if self.core.overlay.get(path).is_some() {
            self.wait_applied()?;
        }
        Ok(())
    }

    /// The special files of a directory.
    pub(super) fn specials_in(&self, directory: &TreePath) -> Result<Vec<(TreePath, PathAttributes)>, Fault> {
        let found = self.core.tree.list_special(directory)?;
        Ok(found.into_iter().map(|(name, stat)| (directory.join(&name), stat.into())).collect())
    }

    /// Something in a directory that the caller's door neither sees nor can remove, by its name: what is hidden from it, and what has a name that
    /// no tree has.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn find_hidden_entry(&self, caller: &Caller, directory: &TreePath) -> Result<Option<String>, Fault> {
        let directory = self.led_to(caller.protocol, directory)?;
        if let Some(unnamed) = self.core.tree.find_invalid_name(&directory)? {
            return Ok(Some(unnamed));
        }
        let there = self.core.tree.list(&directory)?.into_iter().map(|(name, _)| directory.join(&name));
        let mut hidden = there.filter(|path| !self.core.places.is_visible(caller.protocol, path));
        Ok(hidden.next().map(|path| path.name().to_owned()))
    }

    /// Removes a special or large file; false when none is there.
    pub(super) fn remove_special(&self, path: &TreePath) -> Result<bool, Fault> {
        if self.special(path)?.is_none() {
            return Ok(false);
        }
        let _held = self.core.locks.hold([path.clone()].into());
        if self.special(path)?.is_none() {
            // Something else took its place meanwhile, and is removed as what it is.
            return Ok(false);
        }
        self.core.tree.remove(path)?;
        self.nodes.remove(path);
        Ok(true)
    }

    /// Removes a pipe, socket or device that something else is about to take the place of, if that is expected there.
    pub(super) fn replace_special(&self, path: &TreePath, expect: &Precondition) -> Result<(), Fault> {
        let _held = self.core.locks.hold([path.clone()].into());
        match self.standing(path)? {
            CurrentState::Special => {}
            CurrentState::Nothing | CurrentState::Content(_) | CurrentState::Large(_) => return Ok(()),
        }
        check(path, CurrentState::Special, expect).map_err(|fault| taken(path, fault))?;
        self.core.tree.remove(path)?;
        self.nodes.remove(path);
        Ok(())
    }

    /// Renames a special or large file; false when none is there. What it replaces is removed first, with a version that says so where it
    /// had versions.
    pub(super) fn rename_special(
        &self,
        caller: &Caller,
        (from, to): (&TreePath, &TreePath),
        expect: &Precondition,
    ) -> Result<bool, Fault> {
        if self.special(from)?.is_none() {
            return Ok(false);
        }
        let mut expect = expect.clone();
        loop {
            let is_recorded = match self.attributes_at(caller, to) {
                Err(fault) if fault.kind() == Kind::NotFound => false,
                Err(fault) => return Err(fault),
                Ok(_) if expect == Precondition::Absent => return Err(Fault::exists(to)),
                Ok(there) if there.kind == EntryKind::Directory => return Err(Fault::is_directory(to)),
                Ok(_) => self.special(to)?.is_none(),
            };
            if is_recorded {
                self.unlink_at(caller, to, expect.clone())?;
                // What was expected is gone, and what comes now is another's.
                if expect != Precondition::Any {
                    expect = Precondition::Absent;
                }
            }
            self.settle_at(to)?;
            let _held = self.core.locks.hold([from.clone(), to.clone()].into());
            let now = self.standing(to)?;
            if matches!(now, CurrentState::Content(_)) && expect == Precondition::Any {
                // Written since it was removed: that gets its version, too.
                continue;
            }
            check(to, now, &expect).map_err(|fault| taken(to, fault))?;
            self.core.tree.rename(from, to, true)?;
            self.nodes.rename(from, to);
            return Ok(true);
        }
    }

    /// What conditions are compared with, of a path that is held.
    fn standing(&self, path: &TreePath) -> Result<CurrentState, Fault> {
        match CurrentState::of(path, &self.core.present(path)?)? {
            CurrentState::Nothing if self.special(path)?.is_some() => Ok(CurrentState::Special),
            standing => Ok(standing),
        }
    }
}

/// A name that was to be free, in the words of whoever gives names.
fn taken(path: &TreePath, fault: Fault) -> Fault {
    if fault.kind() == Kind::PreconditionFailed { Fault::exists(path) } else { fault }
}
