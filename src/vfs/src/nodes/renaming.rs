//! Another name for a node, and the links that go with it.

use svcfs_base::{Caller, Change, ChangeSet, Durability, Fault, Kind, PathComponent, Precondition, Protocol, TreePath};

use super::NodeId;
use super::table::{DirtyBuffer, LockedNodes, ReportedTimes, SharedNode};
use crate::Vfs;
use crate::view::EntryKind;

/// Why a directory is neither removed nor replaced.
pub(super) fn holds_unsaved(directory: &TreePath) -> Fault {
    Fault::new(Kind::NotEmpty, format!("directory `{directory}` has files that are being written"))
}

impl Vfs {
    /// Renames a file or directory; `replace` false refuses when the new name is taken.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `NotEmpty`, `Invalid`; `Rejected` when a scratch file becomes a page that a gate refuses; `Unavailable` while
    /// it is not known which pages link to one whose links follow ([`Vfs::rename_with_links`]).
    pub fn rename_node(
        &self,
        caller: &Caller,
        (old_parent, old_name): (NodeId, &PathComponent),
        (new_parent, new_name): (NodeId, &PathComponent),
        replace: bool,
    ) -> Result<(), Fault> {
        let expect = if replace { Precondition::Any } else { Precondition::Absent };
        let how = (expect, Durability::Soon);
        self.rename_node_expecting(caller, (old_parent, old_name), (new_parent, new_name), how)
    }

    /// The same, if what has the new name is what is expected. What is refused that should be durable [now](Durability::Now) does not happen later,
    /// either.
    ///
    /// # Errors
    /// As [`Vfs::rename_node`]; `Conflict` when something else stands there.
    pub fn rename_node_expecting(
        &self,
        caller: &Caller,
        (old_parent, old_name): (NodeId, &PathComponent),
        (new_parent, new_name): (NodeId, &PathComponent),
        (expect, durability): (Precondition, Durability),
    ) -> Result<(), Fault> {
        let from = self.writable(caller, old_parent, old_name)?;
        let to = self.writable(caller, new_parent, new_name)?;
        self.publish_large(caller, &from)?;
        if from == to || self.rename_special(caller, (&from, &to), &expect)? {
            return Ok(());
        }
        if let Some(there) = self.special(&to)? {
            if self.stat(caller.protocol, &from)?.kind == EntryKind::Directory {
                return Err(Fault::not_directory(&to));
            }
            if there.large_file().is_none() {
                // Not removed for a rename that is then refused.
                self.await_links(&from, &to)?;
                self.replace_special(&to, &expect)?;
            }
        }
        // Its links are those of its text.
        if self.linking(&from, &to).is_some() {
            self.publish_all_below(caller, &from, &mut self.nodes.hold(&[&from]))?;
        }
        let rename = Change::rename(from.clone(), to.clone()).with_precondition(expect);
        let by = |set| self.rename_by(caller, (&from, &to), ChangeSet { durability, ..set });
        self.rename_with_links(caller, &rename, by).map(|((), _)| ())
    }

    /// Whether a node has something that is not published.
    pub(crate) fn is_unsaved(&self, node: NodeId) -> bool {
        let is_staged =
            |shared: &SharedNode| shared.staging.as_ref().is_some_and(|staging| staging.is_changed || staging.is_new);
        self.nodes.shared(node).is_ok_and(|shared| is_staged(&shared.lock()))
    }

    /// A file that is not in the tree yet is an entry of its directory.
    ///
    /// # Errors
    /// `NotEmpty` where a directory that is to be removed or replaced holds one; `Exists`, `NotDirectory` where one has the
    /// name that a directory is to have.
    pub(crate) fn check_no_unsaved(&self, changes: &[Change]) -> Result<(), Fault> {
        let is_directory =
            |path: &TreePath| self.stat(Protocol::Internal, path).is_ok_and(|there| there.kind == EntryKind::Directory);
        let is_new = |node: NodeId| {
            let is_new = |shared: &SharedNode| shared.staging.as_ref().is_some_and(|staging| staging.is_new);
            self.nodes.shared(node).is_ok_and(|shared| is_new(&shared.lock()))
        };
        let has_unsaved =
            |directory: &TreePath| self.nodes.staged_below(directory).into_iter().any(|(_, node)| is_new(node));
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

    /// The same of whatever is not saved, of a directory whose nodes are held.
    fn check_only_saved_below(&self, directory: &TreePath, held: &mut LockedNodes<'_>) -> Result<(), Fault> {
        let is_below = |path: TreePath| path != *directory && path.is_under(directory);
        let is_unsaved = |staging: &DirtyBuffer| staging.is_changed || staging.is_new;
        let mut nodes = held.all();
        let is_any = nodes.any(|(node, shared)| {
            shared.staging.as_ref().is_some_and(is_unsaved) && self.nodes.path_of(node).is_ok_and(is_below)
        });
        if is_any { Err(holds_unsaved(directory)) } else { Ok(()) }
    }

    /// Renames by this set, which begins with the rename.
    fn rename_by(&self, caller: &Caller, (from, to): (&TreePath, &TreePath), set: ChangeSet) -> Result<(), Fault> {
        // Held until the names have changed: a handle that closes in this moment must not publish under the old one.
        let mut held = self.nodes.hold(&[from, to]);
        self.publish_all_below(caller, from, &mut held)?;
        let is_replacing_directory =
            self.stat(caller.protocol, to).is_ok_and(|there| there.kind == EntryKind::Directory);
        let is_directory = self.stat(caller.protocol, from)?.kind == EntryKind::Directory;
        if is_replacing_directory && !is_directory {
            return Err(Fault::is_directory(to));
        }
        if is_directory
            && held.at(to).is_some_and(|shared| shared.staging.as_ref().is_some_and(|staging| staging.is_new))
        {
            return Err(Fault::not_directory(to));
        }
        if is_replacing_directory {
            self.check_only_saved_below(to, &mut held)?;
        }
        held.keep(self, to)?;
        let taken_along = self.extended_of_moved(&set.changes)?;
        let is_alone = set.changes.len() == 1;
        let outcome = self.apply_held(caller, set);
        if outcome.is_err() {
            held.unkeep(to);
        }
        if let Err(fault) = &outcome
            && fault.kind() == Kind::Rejected
            && is_alone
        {
            let refused = self.read(caller.protocol, from)?;
            let own = (refused.attributes.mode, (refused.attributes.uid, refused.attributes.gid));
            self.keep_refused(to, refused.content, fault, Some(own));
        }
        match outcome {
            Ok(_) => {}
            Err(fault) if fault.kind() == Kind::PreconditionFailed => return Err(Fault::exists(to)),
            Err(fault) => return Err(fault),
        }
        if let Some(shared) = held.at(from) {
            let there = self.stat(caller.protocol, to).ok();
            shared.told = there.map(|there| ReportedTimes::new(self.core.file_time(), there.modified));
        }
        self.nodes.rename(from, to);
        taken_along.into_iter().try_for_each(|(to, extended)| self.move_extended(&to, extended))
    }
}
