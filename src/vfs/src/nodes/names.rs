//! Names of nodes: finding, making, exchanging, removing.

use std::collections::BTreeMap;

use svcfs_base::{
    Caller, Change, ChangeSet, Durability, Fault, Kind, MAX_FILE_BYTES, PathComponent, Precondition, TreePath,
};

use super::renaming::holds_unsaved;
use super::table::{DirtyBuffer, LockedNodes};
use super::{HandleId, NodeId, SET_GROUP_ID};
use crate::overlay::OverlayFile;
use crate::view::PathAttributes;
use crate::{Vfs, core::EffectiveState};

/// How the names of files begin and end that a door writes beside their place until all of them has come.
pub const UPLOAD_AFFIXES: (&str, &str) = (".svc-upload-", ".part");

fn is_of_upload(name: &str) -> bool {
    name.starts_with(UPLOAD_AFFIXES.0) && name.ends_with(UPLOAD_AFFIXES.1)
}

impl Vfs {
    /// Finds a path; the node lives until it is forgotten as often as it was found.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn lookup_path(&self, caller: &Caller, path: &TreePath) -> Result<(NodeId, PathAttributes), Fault> {
        loop {
            let known = self.nodes.at(path);
            let attributes = self.attributes_at(caller, path)?;
            let node = self.nodes.find(path, 1);
            if known.is_none_or(|known| known == node) {
                return Ok((node, attributes));
            }
            // Another file took its place between the two looks.
            self.nodes.forget(node, 1);
        }
    }

    /// Finds a name in a directory; the node lives until it is forgotten as often as it was found.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Stale`.
    pub fn lookup(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
    ) -> Result<(NodeId, PathAttributes), Fault> {
        self.lookup_path(caller, &self.directory(parent)?.join(name))
    }

    /// Counts one more finding of a node that a listing gave by a name in a directory; false when that is its name no longer, or nobody knows
    /// it any more.
    pub fn add_lookup(&self, node: NodeId, at: (NodeId, &str)) -> bool {
        self.nodes.found(node, at)
    }

    /// Whether anybody outside may still ask for a node.
    pub fn has_lookups(&self, node: NodeId) -> bool {
        self.nodes.is_known(node)
    }

    /// Gives back `count` findings of a node.
    pub fn forget(&self, node: NodeId, count: u64) {
        self.nodes.forget(node, count);
    }

    /// The node's present path.
    ///
    /// # Errors
    /// `Stale` when it is gone.
    pub fn path_of(&self, node: NodeId) -> Result<TreePath, Fault> {
        self.nodes.path_of(node)
    }

    /// The node of a path, if one is known; does not count as a finding.
    pub fn node_at(&self, path: &TreePath) -> Option<NodeId> {
        self.nodes.at(path)
    }

    /// Entries of a directory in name order, without `.` and `..`; not counted as findings. Files that a door puts beside their place until all of
    /// them has come ([`UPLOAD`]) are none while it does.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Stale`.
    pub fn entries(
        &self,
        caller: &Caller,
        directory: NodeId,
    ) -> Result<Vec<(PathComponent, NodeId, PathAttributes)>, Fault> {
        if self.is_removed_directory(directory) {
            return Ok(Vec::new());
        }
        let path = self.nodes.path_of(directory)?;
        // Before all else, as `list` looks at what is pending before the tree: what is published meanwhile is seen twice, not missed.
        let staged = self.nodes.staged_below(&path);
        let mut entries: BTreeMap<TreePath, PathAttributes> =
            self.list(caller.protocol, &path)?.into_iter().map(|entry| (entry.path, entry.attributes)).collect();
        entries.extend(self.specials_in(&path)?);
        for (path, node) in staged {
            let is_there = self.nodes.path_of(node).is_ok_and(|now| now == path);
            if is_there
                && let Ok(attributes) = self.attributes(node)
                && attributes.links > 0
            {
                entries.insert(path, attributes);
            }
        }
        // Whoever brings a folder in line with another one must not remove what is on its way there.
        let is_on_its_way = |path: &TreePath| {
            is_of_upload(path.name()) && self.nodes.at(path).is_some_and(|node| self.nodes.is_open(node))
        };
        entries
            .into_iter()
            .filter(|(path, _)| !is_on_its_way(path))
            .map(|(path, attributes)| Ok((PathComponent::parse(path.name())?, self.nodes.find(&path, 0), attributes)))
            .collect()
    }

    /// Creates a file (found once) and opens it to read and write. It is in the tree and in history once it is published.
    ///
    /// # Errors
    /// `Exists` when the name is taken; `NotFound`, `NotDirectory`, `Invalid` for places nobody may write.
    pub fn create(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
        mode: u32,
    ) -> Result<(NodeId, PathAttributes, HandleId), Fault> {
        let path = self.writable(caller, parent, name)?;
        self.must_be_free(caller, &path)?;
        let now = self.core.file_time();
        let owner = self.core.tree.stat(&path.parent().unwrap_or_else(TreePath::root))?;
        let staging = DirtyBuffer {
            is_changed: true,
            is_new: true,
            writer: Some(caller.clone()),
            mode: Some(mode & 0o7777),
            modified: now,
            changed: now,
            ..DirtyBuffer::of(&owner.into())
        };
        let (node, handle) = {
            // Held, as those do who rename a file to a name that is free: one of us finds it taken.
            let mut held = self.nodes.hold(&[&path]);
            if held.at(&path).is_some_and(|shared| shared.staging.is_some()) {
                return Err(Fault::exists(&path));
            }
            match self.stat_any(caller.protocol, &path) {
                Ok(_) => return Err(Fault::exists(&path)),
                Err(fault) if fault.kind() == Kind::NotFound => {}
                Err(fault) => return Err(fault),
            }
            // A name that was taken before may have left a node that still has handles.
            self.nodes.create(&path, caller.protocol, staging)
        };
        self.nodes.shared(parent)?.lock().names_changed = Some(now);
        Ok((node, self.attributes(node)?, handle))
    }

    /// Makes a directory (found once).
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `Invalid` for places nobody may write.
    pub fn make_directory(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
        mode: u32,
    ) -> Result<(NodeId, PathAttributes), Fault> {
        let path = self.writable(caller, parent, name)?;
        self.apply(caller, Change::MakeDir { path: path.clone() })?;
        let above = self.core.tree.stat(&path.parent().unwrap_or_else(TreePath::root))?;
        self.core.tree.set_mode(&path, mode & 0o7777 | above.mode & SET_GROUP_ID)?;
        let attributes = self.stat(caller.protocol, &path)?;
        Ok((self.nodes.find(&path, 1), attributes))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `NotFound`, `NotDirectory`.
    pub fn remove_directory(&self, caller: &Caller, parent: NodeId, name: &PathComponent) -> Result<(), Fault> {
        let path = self.writable(caller, parent, name)?;
        if !self.nodes.staged_below(&path).is_empty() {
            return Err(holds_unsaved(&path));
        }
        self.apply(caller, Change::RemoveDir { path: path.clone() })?;
        self.nodes.remove(&path);
        Ok(())
    }

    /// Removes a file or link; open handles go on working.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`.
    pub fn unlink(&self, caller: &Caller, parent: NodeId, name: &PathComponent) -> Result<(), Fault> {
        let path = self.writable(caller, parent, name)?;
        if self.remove_special(&path)? {
            return Ok(());
        }
        self.unlink_at(caller, &path, Precondition::Any)?;
        self.nodes.shared(parent)?.lock().names_changed = Some(self.core.file_time());
        Ok(())
    }

    /// Removes the file or link at a path, if it is what is expected.
    pub(super) fn unlink_at(&self, caller: &Caller, path: &TreePath, expect: Precondition) -> Result<(), Fault> {
        // Held until the name is gone: a handle that closes in this moment must not publish the file again.
        let mut held = self.nodes.hold(&[path]);
        let is_new = held.at(path).is_some_and(|shared| shared.staging.as_ref().is_some_and(|staging| staging.is_new));
        held.keep(self, path)?;
        match self.apply_held(caller, ChangeSet::from(Change::remove(path.clone()).with_precondition(expect)).soon()) {
            Ok(_) => {}
            // Created and removed again before anything was published.
            Err(fault) if fault.kind() == Kind::NotFound && is_new => {}
            Err(fault) => {
                held.unkeep(path);
                return Err(fault);
            }
        }
        self.nodes.remove(path);
        Ok(())
    }

    /// Exchanges two files atomically, in one commit.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for directories, pipes and their like, which only a rename moves.
    pub fn exchange(
        &self,
        caller: &Caller,
        (one_parent, one_name): (NodeId, &PathComponent),
        (other_parent, other_name): (NodeId, &PathComponent),
    ) -> Result<(), Fault> {
        let one = self.writable(caller, one_parent, one_name)?;
        let other = self.writable(caller, other_parent, other_name)?;
        let mut held = self.nodes.hold(&[&one, &other]);
        self.publish_all_below(caller, &TreePath::root(), &mut held)?;
        let leaf_at = |path: &TreePath| match self.core.present(path)? {
            EffectiveState::Absent if self.special(path)?.is_some() => {
                Err(Fault::invalid("path", format_args!("`{path}` is no file; only files are exchanged")))
            }
            EffectiveState::Absent => Err(Fault::file_not_found(path)),
            EffectiveState::Directory => {
                Err(Fault::invalid("path", format_args!("`{path}` is a directory; only files are exchanged")))
            }
            EffectiveState::Leaf(leaf, _) => {
                Ok(OverlayFile { disk: self.core.attributes_to_be(path, leaf.disk)?, ..leaf })
            }
            EffectiveState::Large(_) => Err(Fault::too_large("file", MAX_FILE_BYTES)),
        };
        let (first, second) = (leaf_at(&one)?, leaf_at(&other)?);
        let put = |path: &TreePath, now: &OverlayFile, new: &OverlayFile| Change::Put {
            path: path.clone(),
            content: new.content.clone(),
            // Whoever writes one of them in this moment is not covered by what the other was.
            precondition: Precondition::OneOf(vec![now.etag]),
            kind: Some(new.kind),
            attributes: new.disk,
        };
        let (of_one, of_other) = (self.extended_at(&one)?, self.extended_at(&other)?);
        if (first.etag, first.kind) == (second.etag, second.kind) {
            // No version, but each name leads to the other file.
            self.wait_applied()?;
            let _held = self.core.locks.hold([one.clone(), other.clone()].into());
            self.core.replace_same(&one, &second)?;
            self.core.replace_same(&other, &first)?;
        } else {
            let set = ChangeSet::new(vec![put(&one, &first, &second), put(&other, &second, &first)]);
            let message = format!("{}: exchange {one} and {other}", caller.actor());
            self.apply(caller, set.with_message(message))?;
        }
        self.nodes.exchange(&one, &other);
        self.move_extended(&other, (of_one.clone(), of_other.clone()))?;
        self.move_extended(&one, (of_other, of_one))
    }

    /// Makes a symbolic link (found once).
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NameTooLong` for a target over 4,095 bytes.
    pub fn make_link(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
        target: &str,
    ) -> Result<(NodeId, PathAttributes), Fault> {
        let path = self.writable(caller, parent, name)?;
        if target.len() > 4095 {
            return Err(Fault::new(
                Kind::NameTooLong,
                format!("the target of `{path}` is {} bytes long; 4095 is the limit", target.len()),
            ));
        }
        let change = Change::symlink(path.clone(), target).with_precondition(Precondition::Absent);
        self.apply(caller, ChangeSet::from(change).soon()).map_err(|fault| match fault.kind() {
            Kind::PreconditionFailed | Kind::IsDirectory => Fault::exists(&path),
            _ => fault,
        })?;
        let attributes = self.stat(caller.protocol, &path)?;
        Ok((self.nodes.find(&path, 1), attributes))
    }

    /// The target of a link.
    ///
    /// # Errors
    /// `Invalid` when it is no link, `Stale` when it is gone.
    pub fn link_target(&self, caller: &Caller, node: NodeId) -> Result<String, Fault> {
        self.read_link(caller.protocol, &self.nodes.path_of(node)?)
    }

    /// Attributes of a path, counting a file that is created and not published.
    pub(super) fn attributes_at(&self, caller: &Caller, path: &TreePath) -> Result<PathAttributes, Fault> {
        if !self.core.places.is_visible(caller.protocol, path) {
            return Err(Fault::file_not_found(path));
        }
        match self.nodes.at(path).map(|node| self.attributes(node)) {
            // Forgotten between the two looks.
            Some(Err(fault)) if fault.kind() == Kind::Stale => self.stat_any(caller.protocol, path),
            // It lives on for its handles; here is what stands at the path now.
            Some(Ok(known)) if known.links == 0 => self.stat_any(caller.protocol, path),
            Some(known) => known,
            None => self.stat_any(caller.protocol, path),
        }
    }

    /// Refuses a name that is taken.
    pub(super) fn must_be_free(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        match self.attributes_at(caller, path) {
            Ok(_) => Err(Fault::exists(path)),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Where a directory is whose names are asked for or changed: nothing is in one that was removed.
    fn directory(&self, node: NodeId) -> Result<TreePath, Fault> {
        if self.is_removed_directory(node) {
            return Err(Fault::not_found("the directory was removed; nothing is in it"));
        }
        self.nodes.path_of(node)
    }

    /// The path of a name that this caller may write.
    pub(super) fn writable(&self, caller: &Caller, parent: NodeId, name: &PathComponent) -> Result<TreePath, Fault> {
        let path = self.directory(parent)?.join(name);
        if !self.core.places.is_visible(caller.protocol, &path) {
            return Err(Fault::new(Kind::Forbidden, format!("`{path}` belongs to the server")));
        }
        self.core.not_leased(caller, &path, true)?;
        Ok(path)
    }

    /// Publishes those of the held nodes that lie at or below a path, before its name changes: each for who wrote it.
    pub(super) fn publish_all_below(
        &self,
        caller: &Caller,
        path: &TreePath,
        held: &mut LockedNodes<'_>,
    ) -> Result<(), Fault> {
        for (node, shared) in held.all() {
            if let Some(staging) = &shared.staging
                && self.nodes.path_of(node).is_ok_and(|place| place.is_under(path))
            {
                let writer = staging.writer.clone();
                self.publish_held(writer.as_ref().unwrap_or(caller), node, shared, Durability::Soon)?;
            }
        }
        Ok(())
    }
}
