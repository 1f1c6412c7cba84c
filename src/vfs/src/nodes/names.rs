//! Names of nodes: lookup, create, exchange, remove.

use std::collections::BTreeMap;

use svcfs_base::{
    Caller, Change, ChangeSet, Durability, Fault, FileKind, Kind, MAX_FILE_BYTES, PathComponent, Precondition, TreePath,
};

use super::renaming::holds_unsaved;
use super::table::{DirtyBuffer, LockedNodes};
use super::{HandleId, NodeId, SET_GROUP_ID};
use crate::overlay::OverlayFile;
use crate::view::PathAttributes;
use crate::{Vfs, core::EffectiveState};

/// Prefix and suffix of the temporary files of unfinished uploads.
pub(crate) const UPLOAD_AFFIXES: (&str, &str) = (".svc-upload-", ".part");

/// Whether a name is that of a [`StagedFile`](super::StagedFile).
#[must_use]
pub fn is_upload_name(name: &str) -> bool {
    name.starts_with(UPLOAD_AFFIXES.0) && name.ends_with(UPLOAD_AFFIXES.1)
}

impl Vfs {
    /// Looks up a path; the node lives until each lookup is forgotten.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn lookup_path(&self, caller: &Caller, path: &TreePath) -> Result<(NodeId, PathAttributes), Fault> {
        loop {
            let known_node = self.nodes.at(path);
            let attributes = self.attributes_at(caller, path)?;
            let node = self.nodes.find(path, 1);
            if known_node.is_none_or(|known_node| known_node == node) {
                return Ok((node, attributes));
            }
            // Another file took the name in between.
            self.nodes.forget(node, 1);
        }
    }

    /// Looks up a name in a directory; the node lives until each lookup is forgotten.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Stale`.
    pub fn lookup(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
    ) -> Result<(NodeId, PathAttributes), Fault> {
        self.lookup_path(caller, &self.directory_path(parent)?.join(name))
    }

    /// Adds a lookup of a listed node; false when it was renamed or forgotten.
    pub fn add_lookup(&self, node: NodeId, at: (NodeId, &str)) -> bool {
        self.nodes.add_lookup(node, at)
    }

    /// Whether the node has lookups or open handles.
    pub fn has_lookups(&self, node: NodeId) -> bool {
        self.nodes.is_referenced(node)
    }

    /// Drops `count` lookups of a node.
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

    /// The node of a path, if one exists; adds no lookup.
    pub fn node_at(&self, path: &TreePath) -> Option<NodeId> {
        self.nodes.at(path)
    }

    /// Entries of a directory in name order, without `.` and `..`; adds no lookups. Unfinished
    /// uploads ([`UPLOAD_AFFIXES`]) are omitted.
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
        // Read first: a file published meanwhile is seen twice, not missed.
        let open_files = self.nodes.open_children(&path);
        let mut entries: BTreeMap<TreePath, PathAttributes> =
            self.list(caller.protocol, &path)?.into_iter().map(|entry| (entry.path, entry.attributes)).collect();
        entries.extend(self.specials_in(&path)?);
        for (path, node) in open_files {
            let is_current = self.nodes.path_of(node).is_ok_and(|old| old == path);
            if is_current
                && let Ok(attributes) = self.attributes(node)
                && attributes.links > 0
            {
                entries.insert(path, attributes);
            }
        }
        // A client that mirrors a folder must not remove uploads in progress.
        let is_upload = |path: &TreePath| {
            is_upload_name(path.name()) && self.nodes.at(path).is_some_and(|node| self.nodes.is_open(node))
        };
        entries
            .into_iter()
            .filter(|(path, _)| !is_upload(path))
            .map(|(path, attributes)| Ok((PathComponent::parse(path.name())?, self.nodes.find(&path, 0), attributes)))
            .collect()
    }

    /// Creates a file (one lookup) and opens it read-write. Publishing puts it into the tree.
    ///
    /// # Errors
    /// `Exists`; `NotFound`, `NotDirectory`, `Invalid` for paths that cannot be written.
    pub fn create(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
        mode: u32,
    ) -> Result<(NodeId, PathAttributes, HandleId), Fault> {
        let path = self.writable_path(caller, parent, name)?;
        self.check_name_free(caller, &path)?;
        let old = self.core.file_time();
        let owner = self.core.tree.stat(&path.parent().unwrap_or_else(TreePath::root))?;
        let dirty = DirtyBuffer {
            is_changed: true,
            is_new: true,
            writer: Some(caller.clone()),
            mode: Some(mode & 0o7777),
            modified: old,
            changed: old,
            ..DirtyBuffer::from_attributes(&owner.into())
        };
        let (node, handle) = {
            // Locked, as a rename to a free name does: only one of them finds it free.
            let mut locked = self.nodes.lock_subtrees(&[&path]);
            if locked.at(&path).is_some_and(|shared| shared.dirty.is_some()) {
                return Err(Fault::exists(&path));
            }
            match self.stat_any(caller.protocol, &path) {
                Ok(_) => return Err(Fault::exists(&path)),
                Err(fault) if fault.kind() == Kind::NotFound => {}
                Err(fault) => return Err(fault),
            }
            // A former file of this name may have open handles.
            self.nodes.create(&path, caller.protocol, dirty)
        };
        self.nodes.shared(parent)?.lock().names_changed = Some(old);
        Ok((node, self.attributes(node)?, handle))
    }

    /// Creates a directory (one lookup).
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `Invalid` for paths that cannot be written.
    pub fn make_directory(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
        mode: u32,
    ) -> Result<(NodeId, PathAttributes), Fault> {
        let path = self.writable_path(caller, parent, name)?;
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
        let path = self.writable_path(caller, parent, name)?;
        if !self.nodes.open_children(&path).is_empty() {
            return Err(holds_unsaved(&path));
        }
        self.apply(caller, Change::RemoveDir { path: path.clone() })?;
        self.nodes.remove(&path);
        Ok(())
    }

    /// Removes a file or link; open handles continue to work.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`.
    pub fn unlink(&self, caller: &Caller, parent: NodeId, name: &PathComponent) -> Result<(), Fault> {
        let path = self.writable_path(caller, parent, name)?;
        if self.remove_special(&path)? {
            return Ok(());
        }
        self.unlink_at(caller, &path, Precondition::Any)?;
        self.nodes.shared(parent)?.lock().names_changed = Some(self.core.file_time());
        Ok(())
    }

    /// Removes the file or link at a path, if the precondition holds.
    pub(super) fn unlink_at(&self, caller: &Caller, path: &TreePath, precondition: Precondition) -> Result<(), Fault> {
        // Locked until then: a handle that closes now must not publish the file again.
        let mut locked = self.nodes.lock_subtrees(&[path]);
        let is_new = locked.at(path).is_some_and(|shared| shared.dirty.as_ref().is_some_and(|dirty| dirty.is_new));
        locked.preserve_unlinked(self, path)?;
        match self
            .apply_locked(caller, ChangeSet::from(Change::remove(path.clone()).with_precondition(precondition)).soon())
        {
            Ok(_) => {}
            // Created and removed before it was published.
            Err(fault) if fault.kind() == Kind::NotFound && is_new => {}
            Err(fault) => {
                locked.drop_orphan(path);
                return Err(fault);
            }
        }
        self.nodes.remove(path);
        Ok(())
    }

    /// Exchanges two files atomically, in one commit.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for directories and special files, which can only be renamed.
    pub fn exchange(
        &self,
        caller: &Caller,
        (a_parent, a_name): (NodeId, &PathComponent),
        (b_parent, b_name): (NodeId, &PathComponent),
    ) -> Result<(), Fault> {
        let a = self.writable_path(caller, a_parent, a_name)?;
        let b = self.writable_path(caller, b_parent, b_name)?;
        let mut locked = self.nodes.lock_subtrees(&[&a, &b]);
        self.publish_all_below(caller, &TreePath::root(), &mut locked)?;
        let leaf_at = |path: &TreePath| match self.core.effective_state(path)? {
            EffectiveState::Absent if self.special(path)?.is_some() => {
                Err(Fault::invalid("path", format_args!("`{path}` is not a regular file; only files can be exchanged")))
            }
            EffectiveState::Absent => Err(Fault::file_not_found(path)),
            EffectiveState::Directory => {
                Err(Fault::invalid("path", format_args!("`{path}` is a directory; only files can be exchanged")))
            }
            EffectiveState::Leaf(leaf, _) => {
                Ok(OverlayFile { disk: self.core.resulting_attributes(path, leaf.disk)?, ..leaf })
            }
            EffectiveState::Large(_) => Err(Fault::too_large("file", MAX_FILE_BYTES)),
        };
        let (first, second) = (leaf_at(&a)?, leaf_at(&b)?);
        let put = |path: &TreePath, old: &OverlayFile, new: &OverlayFile| Change::Put {
            path: path.clone(),
            content: new.content.clone(),
            // A concurrent write of either file must not be overwritten.
            precondition: Precondition::OneOf(vec![old.etag]),
            kind: Some(new.kind),
            attributes: new.disk,
        };
        let (xattrs_of_a, xattrs_of_b) = (self.xattrs_at(&a)?, self.xattrs_at(&b)?);
        if (first.etag, first.kind) == (second.etag, second.kind) {
            // Same content: no version, but the files change places.
            self.wait_applied()?;
            let _held = self.core.path_locks.lock([a.clone(), b.clone()].into());
            self.core.replace_same(&a, &second)?;
            self.core.replace_same(&b, &first)?;
        } else {
            let set = ChangeSet::new(vec![put(&a, &first, &second), put(&b, &second, &first)]);
            let message = format!("{}: exchange {a} and {b}", caller.actor());
            self.apply(caller, set.with_message(message))?;
        }
        self.nodes.exchange(&a, &b);
        self.move_xattrs(&b, (xattrs_of_a.clone(), xattrs_of_b.clone()))?;
        self.move_xattrs(&a, (xattrs_of_b, xattrs_of_a))
    }

    /// Creates a symbolic link (one lookup).
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
        let path = self.writable_path(caller, parent, name)?;
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

    /// Attributes of a path, including unpublished new files.
    pub(super) fn attributes_at(&self, caller: &Caller, path: &TreePath) -> Result<PathAttributes, Fault> {
        if !self.core.is_visible(caller.protocol, path) {
            return Err(Fault::file_not_found(path));
        }
        match self.nodes.at(path).map(|node| self.attributes(node)) {
            // Forgotten meanwhile.
            Some(Err(fault)) if fault.kind() == Kind::Stale => self.stat_any(caller.protocol, path),
            // The node is unlinked; another file may have the path now.
            Some(Ok(known_node)) if known_node.links == 0 => self.stat_any(caller.protocol, path),
            Some(known_node) => known_node,
            None => self.stat_any(caller.protocol, path),
        }
    }

    pub(super) fn check_name_free(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        self.core.check_name(caller.protocol, path, Some(FileKind::Regular))?;
        match self.attributes_at(caller, path) {
            Ok(_) => Err(Fault::exists(path)),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Path of a directory; a removed one has no entries.
    fn directory_path(&self, node: NodeId) -> Result<TreePath, Fault> {
        if self.is_removed_directory(node) {
            return Err(Fault::not_found("the directory was removed; it has no entries"));
        }
        self.nodes.path_of(node)
    }

    /// The path of a name, if this caller may write it.
    pub(super) fn writable_path(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &PathComponent,
    ) -> Result<TreePath, Fault> {
        self.check_writes_tree(caller)?;
        let path = self.directory_path(parent)?.join(name);
        if !self.core.is_visible(caller.protocol, &path) {
            return Err(Fault::new(Kind::Forbidden, format!("`{path}` belongs to the server")));
        }
        self.core.check_not_leased(caller, &path, true)?;
        self.core.check_not_claimed(caller, &path)?;
        Ok(path)
    }

    /// Publishes the locked nodes at or below a path before it is renamed, each as its last writer.
    pub(super) fn publish_all_below(
        &self,
        caller: &Caller,
        path: &TreePath,
        locked: &mut LockedNodes<'_>,
    ) -> Result<(), Fault> {
        for (node, shared) in locked.all() {
            if let Some(dirty) = &shared.dirty
                && self.nodes.path_of(node).is_ok_and(|current| current.is_under(path))
            {
                let writer = dirty.writer.clone();
                self.publish_locked(writer.as_ref().unwrap_or(caller), node, shared, Durability::Soon)?;
            }
        }
        Ok(())
    }
}
