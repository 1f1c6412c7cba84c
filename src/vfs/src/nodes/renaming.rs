//! Another name for a node, and the links that go with it.

use svcfs_base::{Caller, Change, ChangeSet, Expect, Fault, Kind, Name, TreePath};

use super::NodeId;
use super::table::Told;
use crate::Vfs;
use crate::view::EntryKind;

/// How often a rename is worked out anew because somebody wrote one of the linking pages meanwhile.
const ATTEMPTS: usize = 8;

impl Vfs {
    /// Renames a file or directory; `replace` false refuses when the new name is taken.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `NotEmpty`, `Invalid`; `Rejected` when a scratch file becomes a page that a gate refuses; `Unavailable` while
    /// it is not known which pages link to one whose links follow ([`Vfs::with_links`]).
    pub fn rename_node(
        &self,
        caller: &Caller,
        (old_parent, old_name): (NodeId, &Name),
        (new_parent, new_name): (NodeId, &Name),
        replace: bool,
    ) -> Result<(), Fault> {
        let expect = if replace { Expect::Any } else { Expect::Absent };
        self.rename_node_expecting(caller, (old_parent, old_name), (new_parent, new_name), expect)
    }

    /// The same, if what has the new name is what is expected.
    ///
    /// # Errors
    /// As [`Vfs::rename_node`]; `Conflict` when something else stands there.
    pub fn rename_node_expecting(
        &self,
        caller: &Caller,
        (old_parent, old_name): (NodeId, &Name),
        (new_parent, new_name): (NodeId, &Name),
        expect: Expect,
    ) -> Result<(), Fault> {
        let from = self.writable(caller, old_parent, old_name)?;
        let to = self.writable(caller, new_parent, new_name)?;
        self.publish_large(caller, &from)?;
        if from == to || self.rename_special(caller, (&from, &to), &expect)? {
            return Ok(());
        }
        if let Some(there) = self.special(&to)? {
            if self.stat(caller.door, &from)?.kind == EntryKind::Directory {
                return Err(Fault::not_directory(&to));
            }
            if there.large().is_none() {
                self.replace_special(&to, &expect)?;
            }
        }
        let rename = Change::rename(from.clone(), to.clone()).expecting(expect);
        for _ in 1..ATTEMPTS {
            let set = self.published_with_links(caller, (&from, &to), &rename)?;
            let is_alone = set.changes.len() == 1;
            match self.rename_as(caller, (&from, &to), set) {
                Err(fault) if fault.kind() == Kind::Conflict && !is_alone => {}
                outcome => return outcome,
            }
        }
        let set = self.published_with_links(caller, (&from, &to), &rename)?;
        self.rename_as(caller, (&from, &to), set)
    }

    /// The rename with the links that follow it, after what is not saved of the page is: its links are those of its text.
    fn published_with_links(
        &self,
        caller: &Caller,
        (from, to): (&TreePath, &TreePath),
        rename: &Change,
    ) -> Result<ChangeSet, Fault> {
        if self.links_follow(from, to) {
            self.publish_all_below(caller, from, &mut self.nodes.hold(&[from]))?;
        }
        Ok(self.with_links(caller, rename.clone())?.0)
    }

    /// Renames by this set, which begins with the rename.
    fn rename_as(&self, caller: &Caller, (from, to): (&TreePath, &TreePath), set: ChangeSet) -> Result<(), Fault> {
        // Held until the names have changed: a handle that closes in this moment must not publish under the old one.
        let mut held = self.nodes.hold(&[from, to]);
        self.publish_all_below(caller, from, &mut held)?;
        let is_replacing_directory = self.stat(caller.door, to).is_ok_and(|there| there.kind == EntryKind::Directory);
        let is_directory = self.stat(caller.door, from)?.kind == EntryKind::Directory;
        if is_replacing_directory && !is_directory {
            return Err(Fault::is_directory(to));
        }
        held.keep(self, to)?;
        let taken_along = self.extended_of_moved(&set.changes)?;
        let outcome = self.apply_held(caller, set.soon());
        if outcome.is_err() {
            held.unkeep(to);
        }
        if let Err(fault) = &outcome
            && matches!(fault.kind(), Kind::Rejected)
        {
            let refused = self.read(caller.door, from)?;
            let own = (refused.attributes.mode, (refused.attributes.uid, refused.attributes.gid));
            self.keep_refused(to, refused.content, fault, Some(own));
        }
        match outcome {
            Ok(_) => {}
            Err(fault) if fault.kind() == Kind::PreconditionFailed => return Err(Fault::exists(to)),
            Err(fault) => return Err(fault),
        }
        if let Some(shared) = held.at(from) {
            let there = self.stat(caller.door, to).ok();
            shared.told = there.map(|there| Told::new(self.core.file_time(), there.modified));
        }
        self.nodes.rename(from, to);
        taken_along.into_iter().try_for_each(|(to, extended)| self.move_extended(&to, extended))
    }
}
