//! Renaming nodes, with the links that follow.

use svcfs_base::{Caller, Change, ChangeSet, Durability, Fault, Kind, PathComponent, Precondition, Protocol, TreePath};

use super::NodeId;
use super::table::{DirtyBuffer, LockedNodes, ReportedTimes, SharedNode};
use crate::Vfs;
use crate::view::EntryKind;

/// The fault for a directory with unsaved files, which is neither removed nor replaced.
pub(super) fn holds_unsaved(directory: &TreePath) -> Fault {
    Fault::new(Kind::NotEmpty, format!("directory `{directory}` has files that are being written"))
}

impl Vfs {
    /// Renames a file or directory; without `replace`, refuses when the new name is taken.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `NotEmpty`, `Invalid`; `Rejected` when a scratch file becomes a page
    /// that a gate refuses; `Unavailable` while it is unknown which pages link to a page whose
    /// links follow ([`Vfs::rename_with_links`]).
    pub fn rename_node(
        &self,
        caller: &Caller,
        (old_parent, old_name): (NodeId, &PathComponent),
        (new_parent, new_name): (NodeId, &PathComponent),
        replace: bool,
    ) -> Result<(), Fault> {
        let precondition = if replace { Precondition::Any } else { Precondition::Absent };
        let options = (precondition, Durability::Soon);
        self.rename_node_expecting(caller, (old_parent, old_name), (new_parent, new_name), options)
    }

    /// As [`Vfs::rename_node`], with a precondition on the new name. If a rename that should be
    /// [durable](Durability::Now) fails, it does not happen later.
    ///
    /// # Errors
    /// As [`Vfs::rename_node`]; `Conflict` when the precondition does not hold.
    pub fn rename_node_expecting(
        &self,
        caller: &Caller,
        (old_parent, old_name): (NodeId, &PathComponent),
        (new_parent, new_name): (NodeId, &PathComponent),
        (precondition, durability): (Precondition, Durability),
    ) -> Result<(), Fault> {
        let from = self.writable_path(caller, old_parent, old_name)?;
        let to = self.writable_path(caller, new_parent, new_name)?;
        self.publish_large(caller, &from)?;
        if from == to || self.rename_special(caller, (&from, &to), &precondition)? {
            return Ok(());
        }
        if let Some(target) = self.special(&to)? {
            if self.stat(caller.protocol, &from)?.kind == EntryKind::Directory {
                return Err(Fault::not_directory(&to));
            }
            if target.large_file().is_none() {
                // Before the removal: the rename may still be refused.
                self.await_links(&from, &to)?;
                self.replace_special(&to, &precondition)?;
            }
        }
        // Its links depend on its text.
        if self.resolver_for(&from, &to).is_some() {
            self.publish_all_below(caller, &from, &mut self.nodes.lock_subtrees(&[&from]))?;
        }
        let rename = Change::rename(from.clone(), to.clone()).with_precondition(precondition);
        let apply = |set| self.rename_by(caller, (&from, &to), ChangeSet { durability, ..set });
        self.rename_with_links(caller, &rename, apply).map(|((), _)| ())
    }

    pub(crate) fn is_unsaved(&self, node: NodeId) -> bool {
        let is_dirty =
            |shared: &SharedNode| shared.dirty.as_ref().is_some_and(|dirty| dirty.is_changed || dirty.is_new);
        self.nodes.shared(node).is_ok_and(|shared| is_dirty(&shared.lock()))
    }

    /// Checks for unsaved new files, which are entries of their directories already.
    ///
    /// # Errors
    /// `NotEmpty` in a removed or replaced directory; `Exists`, `NotDirectory` at its new name.
    pub(crate) fn check_no_unsaved(&self, changes: &[Change]) -> Result<(), Fault> {
        let is_directory = |path: &TreePath| {
            self.stat(Protocol::Internal, path).is_ok_and(|target| target.kind == EntryKind::Directory)
        };
        let is_new = |node: NodeId| {
            let is_new = |shared: &SharedNode| shared.dirty.as_ref().is_some_and(|dirty| dirty.is_new);
            self.nodes.shared(node).is_ok_and(|shared| is_new(&shared.lock()))
        };
        let has_unsaved =
            |directory: &TreePath| self.nodes.open_children(directory).into_iter().any(|(_, node)| is_new(node));
        for change in changes {
            match change {
                Change::RemoveDir { path } if has_unsaved(path) => return Err(holds_unsaved(path)),
                Change::MakeDir { path } if self.nodes.at(path).is_some_and(is_new) => return Err(Fault::exists(path)),
                Change::Move { from, to, .. } if self.nodes.at(to).is_some_and(is_new) && is_directory(from) => {
                    return Err(Fault::not_directory(to));
                }
                Change::Move { from, to, .. } if is_directory(to) && is_directory(from) && has_unsaved(to) => {
                    return Err(holds_unsaved(to));
                }
                Change::RemoveDir { .. }
                | Change::MakeDir { .. }
                | Change::Move { .. }
                | Change::Put { .. }
                | Change::Remove { .. } => {}
            }
        }
        Ok(())
    }

    /// Also checks for other unsaved changes, in a directory whose nodes are locked.
    fn check_only_saved_below(&self, directory: &TreePath, locked: &mut LockedNodes<'_>) -> Result<(), Fault> {
        let is_below = |path: TreePath| path != *directory && path.is_under(directory);
        let is_unsaved = |dirty: &DirtyBuffer| dirty.is_changed || dirty.is_new;
        let mut nodes = locked.all();
        let has_unsaved = nodes.any(|(node, shared)| {
            shared.dirty.as_ref().is_some_and(is_unsaved) && self.nodes.path_of(node).is_ok_and(is_below)
        });
        if has_unsaved { Err(holds_unsaved(directory)) } else { Ok(()) }
    }

    fn rename_by(&self, caller: &Caller, (from, to): (&TreePath, &TreePath), set: ChangeSet) -> Result<(), Fault> {
        // Locked until then: a handle that closes now must not publish under the old name.
        let mut locked = self.nodes.lock_subtrees(&[from, to]);
        self.publish_all_below(caller, from, &mut locked)?;
        let is_replacing_directory =
            self.stat(caller.protocol, to).is_ok_and(|target| target.kind == EntryKind::Directory);
        let is_directory = self.stat(caller.protocol, from)?.kind == EntryKind::Directory;
        if is_replacing_directory && !is_directory {
            return Err(Fault::is_directory(to));
        }
        if is_directory && locked.at(to).is_some_and(|shared| shared.dirty.as_ref().is_some_and(|dirty| dirty.is_new)) {
            return Err(Fault::not_directory(to));
        }
        if is_replacing_directory {
            self.check_only_saved_below(to, &mut locked)?;
        }
        locked.preserve_unlinked(self, to)?;
        let xattrs = self.xattrs_of_moved(&set.changes)?;
        let is_single_change = set.changes.len() == 1;
        let outcome = self.apply_locked(caller, set);
        if outcome.is_err() {
            locked.drop_orphan(to);
        }
        if let Err(fault) = &outcome
            && fault.kind().refuses_content()
            && is_single_change
            && !is_directory
        {
            let rejected = self.read(caller.protocol, from)?;
            let own_attributes = (rejected.attributes.mode, (rejected.attributes.uid, rejected.attributes.gid));
            self.keep_rejected(to, rejected.content, fault, Some(own_attributes));
        }
        match outcome {
            Ok(_) => {}
            Err(fault) if fault.kind() == Kind::PreconditionFailed => return Err(Fault::exists(to)),
            Err(fault) => return Err(fault),
        }
        if let Some(shared) = locked.at(from) {
            let target = self.stat(caller.protocol, to).ok();
            shared.reported_times = target.map(|target| ReportedTimes::new(self.core.file_time(), target.modified));
        }
        self.nodes.rename(from, to);
        xattrs.into_iter().try_for_each(|(to, xattrs_of_file)| self.move_xattrs(&to, xattrs_of_file))
    }
}
