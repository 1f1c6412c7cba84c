//! Extended attributes of files: `user.…` without `user.svc.…`, which the mount provides.
//!
//! Invariant: they are only on disk, never in versions. A file that is not in the tree keeps them
//! here, as many as the disk accepts. A renamed file takes them along; a rewritten file keeps them.

use std::collections::BTreeMap;

use svcfs_base::{Caller, Change, Fault, Kind, Protocol, TreePath};
use svcfs_store::{SetXattrMode, WorkTree, XattrProbe};
use tracing::warn;

use super::NodeId;
use super::table::SharedNode;
use crate::Vfs;
use crate::view::{EntryKind, not_found_fault};

/// Names and values.
pub(crate) type XattrMap = BTreeMap<Vec<u8>, Vec<u8>>;

/// Limit for names and values of a file that is not in the tree: Linux's maximum value.
const MAX_TOTAL_BYTES: usize = 1 << 16;

/// Attributes of a file that is not in the tree yet.
#[derive(Debug, Default)]
pub(crate) struct ScratchXattrs {
    entries: XattrMap,
    /// Bytes of all names and values.
    bytes: usize,
    /// A temporary file with the same attributes, to check whether the disk accepts more.
    probe: Option<XattrProbe>,
}

impl ScratchXattrs {
    /// Sets one, if the disk would accept it: the setter gets the error, not the saver.
    ///
    /// # Errors
    /// `NoSpace`; those of the disk. Nothing has changed then.
    fn set(&mut self, tree: &WorkTree, path: &TreePath, (name, value): (&[u8], &[u8])) -> Result<(), Fault> {
        let length = self.bytes - self.entry_bytes(name) + name.len() + value.len();
        if length > MAX_TOTAL_BYTES {
            return Err(Fault::new(
                Kind::NoSpace,
                "no space left for extended attributes of a file that is not saved yet",
            ));
        }
        let probe = match &self.probe {
            Some(probe) => probe,
            None => self.probe.insert(tree.xattr_probe()?),
        };
        probe.set_xattr(path, name, value)?;
        self.bytes = length;
        self.entries.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove(&mut self, path: &TreePath, name: &[u8]) -> Result<bool, Fault> {
        if !self.entries.contains_key(name) {
            return Ok(false);
        }
        self.probe.as_ref().map_or(Ok(()), |probe| probe.remove_xattr(path, name))?;
        self.bytes -= self.entry_bytes(name);
        Ok(self.entries.remove(name).is_some())
    }

    fn entry_bytes(&self, name: &[u8]) -> usize {
        self.entries.get(name).map_or(0, |value| name.len() + value.len())
    }
}

#[cfg(test)]
impl From<XattrMap> for ScratchXattrs {
    fn from(entries: XattrMap) -> Self {
        Self { entries, ..Self::default() }
    }
}

/// New name of a renamed file, its attributes, and those of the file it replaces.
pub(crate) type RenamedXattrs = (TreePath, (XattrMap, XattrMap));

impl Vfs {
    /// The value of an attribute, if it exists.
    ///
    /// # Errors
    /// `Stale`; those of the disk.
    pub fn xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let shared = self.nodes.shared(node)?;
        let shared = shared.lock();
        match self.disk_path(node, &shared) {
            Some(path) => {
                self.wait_applied_at(&path)?;
                Ok(self.core.tree.xattr(&path, name)?)
            }
            None => Ok(shared.xattrs.entries.get(name).cloned()),
        }
    }

    /// The names of all attributes of a file.
    ///
    /// # Errors
    /// As [`Vfs::xattr`].
    pub fn xattr_names(&self, node: NodeId) -> Result<Vec<Vec<u8>>, Fault> {
        let shared = self.nodes.shared(node)?;
        let shared = shared.lock();
        match self.disk_path(node, &shared) {
            // A pending rewrite has the same attributes: only a new file must be awaited.
            Some(path) => match self.core.tree.list_xattrs(&path) {
                Err(error) if error.is_missing() => {
                    self.wait_applied_at(&path)?;
                    Ok(self.core.tree.list_xattrs(&path)?)
                }
                names => self.names_after_pending(&path, names?),
            },
            None => Ok(shared.xattrs.entries.keys().cloned().collect()),
        }
    }

    /// Sets an attribute; false when `mode` forbids it.
    ///
    /// # Errors
    /// `Stale`, `NoSpace`; those of the disk.
    pub fn set_xattr(
        &self,
        caller: &Caller,
        node: NodeId,
        (name, value): (&[u8], &[u8]),
        mode: SetXattrMode,
    ) -> Result<bool, Fault> {
        self.check_writes_tree(caller)?;
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(path) = self.disk_path(node, &shared) {
            self.wait_applied_at(&path)?;
            return Ok(self.core.tree.set_xattr(&path, name, value, mode)?);
        }
        let exists = shared.xattrs.entries.contains_key(name);
        let is_allowed = match mode {
            SetXattrMode::CreateOrReplace => true,
            SetXattrMode::Create => !exists,
            SetXattrMode::Replace => exists,
        };
        if is_allowed {
            let path = self.nodes.path_of(node).unwrap_or_else(|_| TreePath::root());
            shared.xattrs.set(&self.core.tree, &path, (name, value))?;
        }
        Ok(is_allowed)
    }

    /// Removes an attribute; false when it did not exist.
    ///
    /// # Errors
    /// `Stale`; those of the disk.
    pub fn remove_xattr(&self, caller: &Caller, node: NodeId, name: &[u8]) -> Result<bool, Fault> {
        self.check_writes_tree(caller)?;
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        match self.disk_path(node, &shared) {
            Some(path) => {
                self.wait_applied_at(&path)?;
                Ok(self.core.tree.remove_xattr(&path, name)?)
            }
            None => {
                let path = self.nodes.path_of(node).unwrap_or_else(|_| TreePath::root());
                shared.xattrs.remove(&path, name)
            }
        }
    }

    /// Flushes a file or folder: attributes and name. Versions are durable without this.
    ///
    /// # Errors
    /// `Stale`, `NotFound`; those of the disk.
    pub fn flush_node(&self, node: NodeId) -> Result<(), Fault> {
        let path = self.nodes.path_of(node)?;
        self.wait_applied_at(&path)?;
        self.core.tree.flush_path(&path).map_err(|error| not_found_fault(&path, error))
    }

    /// Path of a node's file, on disk or pending; none for a new or unlinked file.
    fn disk_path(&self, node: NodeId, shared: &SharedNode) -> Option<TreePath> {
        let is_new = shared.dirty.as_ref().is_some_and(|staging| staging.is_new);
        self.nodes.path_of(node).ok().filter(|_| !is_new)
    }

    /// Writes the pending attributes of a file that entered the tree; best-effort.
    pub(super) fn write_pending_xattrs(&self, path: &TreePath, shared: &mut SharedNode) {
        let ScratchXattrs { entries, .. } = std::mem::take(&mut shared.xattrs);
        if entries.is_empty() {
            return;
        }
        let set = |(name, value): (&Vec<u8>, &Vec<u8>)| {
            self.core.tree.set_xattr(path, name, value, SetXattrMode::CreateOrReplace).map(drop)
        };
        if let Err(fault) = self.wait_applied_at(path).and_then(|()| Ok(entries.iter().try_for_each(set)?)) {
            warn!(page.path = %path, error = ?fault, "a saved file lacks extended attributes that were set before");
        }
    }

    /// The names after pending changes, as the listed ones may be of a removed file.
    fn names_after_pending(&self, path: &TreePath, names: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Fault> {
        if names.is_empty() || self.core.overlay.get(path).is_none() {
            return Ok(names);
        }
        self.wait_applied_at(path)?;
        match self.core.tree.list_xattrs(path) {
            Err(error) if error.is_missing() => Ok(Vec::new()),
            names => Ok(names?),
        }
    }

    /// Attributes of the file at a path; empty without a file.
    pub(super) fn xattrs_at(&self, path: &TreePath) -> Result<XattrMap, Fault> {
        let names = match self.core.tree.list_xattrs(path) {
            Err(error) if error.is_missing() => return Ok(XattrMap::new()),
            names => self.names_after_pending(path, names?)?,
        };
        let value = |name: Vec<u8>| Some(self.core.tree.xattr(path, &name).transpose()?.map(|value| (name, value)));
        Ok(names.into_iter().filter_map(value).collect::<Result<_, _>>()?)
    }

    /// Attributes of the files that a set renames, and of those they replace, by new name.
    pub(crate) fn xattrs_of_moved(&self, changes: &[Change]) -> Result<Vec<RenamedXattrs>, Fault> {
        let mut moved = Vec::new();
        for change in changes {
            let Change::Move { from, to, .. } = change else { continue };
            // A directory keeps its own.
            if self.stat(Protocol::Internal, from).is_ok_and(|there| there.kind != EntryKind::Directory) {
                moved.push((to.clone(), (self.xattrs_at(from)?, self.xattrs_at(to)?)));
            }
        }
        Ok(moved)
    }

    /// Sets a renamed file's attributes at its new name.
    pub(crate) fn move_xattrs(&self, to: &TreePath, (source, replaced): (XattrMap, XattrMap)) -> Result<(), Fault> {
        if source == replaced {
            return Ok(());
        }
        self.wait_applied_at(to)?;
        for name in replaced.keys().filter(|name| !source.contains_key(*name)) {
            self.core.tree.remove_xattr(to, name)?;
        }
        for (name, value) in &source {
            self.core.tree.set_xattr(to, name, value, SetXattrMode::CreateOrReplace)?;
        }
        Ok(())
    }
}
