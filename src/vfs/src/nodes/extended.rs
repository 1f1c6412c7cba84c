//! Extended attributes that programs give their files: `user.…`, but not `user.svc.…`, which are the mount's.
//!
//! One rule: they are the disk's alone, and no version has them. A file that is not in the tree yet keeps them here until it is, as many as
//! the disk will take; one that is renamed takes them along, and what is written over a file has the file's.

use std::collections::BTreeMap;

use svcfs_base::{Change, Fault, Kind, Protocol, TreePath};
use svcfs_store::{SetXattrMode, WorkTree, XattrProbe};
use tracing::warn;

use super::NodeId;
use super::table::SharedNode;
use crate::Vfs;
use crate::view::{EntryKind, not_there};

/// Names and values.
pub(crate) type XattrMap = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a file that is not in the tree has of them at most, names and values, in bytes: the longest single value that Linux knows.
const MOST: usize = 1 << 16;

/// What a file that is not in the tree was given.
#[derive(Debug, Default)]
pub(crate) struct ScratchXattrs {
    all: XattrMap,
    /// Bytes of all names and values.
    length: usize,
    /// What has them, too: whether the disk takes one more is asked with that one alone.
    probe: Option<XattrProbe>,
}

impl ScratchXattrs {
    /// Sets one, where the disk would take it beside all others. Told to whoever sets it: whoever saves the file can do nothing about it.
    ///
    /// # Errors
    /// `NoSpace`; those of the disk. Nothing has changed then.
    fn set(&mut self, tree: &WorkTree, path: &TreePath, (name, value): (&[u8], &[u8])) -> Result<(), Fault> {
        let length = self.length - self.length_of(name) + name.len() + value.len();
        if length > MOST {
            return Err(Fault::new(Kind::NoSpace, "no space left for attributes of a file that is not saved yet"));
        }
        let probe = match &self.probe {
            Some(probe) => probe,
            None => self.probe.insert(tree.xattr_probe()?),
        };
        probe.set_xattr(path, name, value)?;
        self.length = length;
        self.all.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    /// Takes one away; false when it was not there.
    fn remove(&mut self, path: &TreePath, name: &[u8]) -> Result<bool, Fault> {
        if !self.all.contains_key(name) {
            return Ok(false);
        }
        self.probe.as_ref().map_or(Ok(()), |probe| probe.remove_xattr(path, name))?;
        self.length -= self.length_of(name);
        Ok(self.all.remove(name).is_some())
    }

    fn length_of(&self, name: &[u8]) -> usize {
        self.all.get(name).map_or(0, |value| name.len() + value.len())
    }
}

#[cfg(test)]
impl From<XattrMap> for ScratchXattrs {
    fn from(all: XattrMap) -> Self {
        Self { all, ..Self::default() }
    }
}

/// The new name of a file that is renamed, what it has, and what the file has whose place it takes.
pub(crate) type RenamedXattrs = (TreePath, (XattrMap, XattrMap));

impl Vfs {
    /// The value of an attribute; none when the file does not have it.
    ///
    /// # Errors
    /// `Stale`; those of the disk.
    pub fn xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let shared = self.nodes.shared(node)?;
        let shared = shared.lock();
        match self.on_disk(node, &shared) {
            Some(path) => {
                self.settle_at(&path)?;
                Ok(self.core.tree.xattr(&path, name)?)
            }
            None => Ok(shared.extended.all.get(name).cloned()),
        }
    }

    /// The names of all attributes that a file has.
    ///
    /// # Errors
    /// As [`Vfs::extended`].
    pub fn xattr_names(&self, node: NodeId) -> Result<Vec<Vec<u8>>, Fault> {
        let shared = self.nodes.shared(node)?;
        let shared = shared.lock();
        match self.on_disk(node, &shared) {
            // What is about to be put in place of a file has the same ones: only for a new file is there something to wait for.
            Some(path) => match self.core.tree.list_xattrs(&path) {
                Err(error) if error.is_missing() => {
                    self.settle_at(&path)?;
                    Ok(self.core.tree.list_xattrs(&path)?)
                }
                names => self.names_at_rest(&path, names?),
            },
            None => Ok(shared.extended.all.keys().cloned().collect()),
        }
    }

    /// Sets an attribute; false when it is there and may not be, or is not and must.
    ///
    /// # Errors
    /// `Stale`, `NoSpace`; those of the disk.
    pub fn set_xattr(&self, node: NodeId, name: &[u8], value: &[u8], how: SetXattrMode) -> Result<bool, Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        if let Some(path) = self.on_disk(node, &shared) {
            self.settle_at(&path)?;
            return Ok(self.core.tree.set_xattr(&path, name, value, how)?);
        }
        let is_there = shared.extended.all.contains_key(name);
        let may = match how {
            SetXattrMode::CreateOrReplace => true,
            SetXattrMode::Create => !is_there,
            SetXattrMode::Replace => is_there,
        };
        if may {
            let path = self.nodes.path_of(node).unwrap_or_else(|_| TreePath::root());
            shared.extended.set(&self.core.tree, &path, (name, value))?;
        }
        Ok(may)
    }

    /// Takes an attribute away; false when it was not there.
    ///
    /// # Errors
    /// `Stale`; those of the disk.
    pub fn remove_xattr(&self, node: NodeId, name: &[u8]) -> Result<bool, Fault> {
        let shared = self.nodes.shared(node)?;
        let mut shared = shared.lock();
        match self.on_disk(node, &shared) {
            Some(path) => {
                self.settle_at(&path)?;
                Ok(self.core.tree.remove_xattr(&path, name)?)
            }
            None => {
                let path = self.nodes.path_of(node).unwrap_or_else(|_| TreePath::root());
                shared.extended.remove(&path, name)
            }
        }
    }

    /// Brings a file or folder to the disk as it stands in the tree: what it was given, and its name. What versions have is safe without.
    ///
    /// # Errors
    /// `Stale`, `NotFound`; those of the disk.
    pub fn flush_node(&self, node: NodeId) -> Result<(), Fault> {
        let path = self.nodes.path_of(node)?;
        self.settle_at(&path)?;
        self.core.tree.flush_path(&path).map_err(|error| not_there(&path, error))
    }

    /// Where a node's file is on the disk, or will be in a moment; none while it is not in the tree, and when its name is gone.
    fn on_disk(&self, node: NodeId, shared: &SharedNode) -> Option<TreePath> {
        let is_new = shared.staging.as_ref().is_some_and(|staging| staging.is_new);
        self.nodes.path_of(node).ok().filter(|_| !is_new)
    }

    /// Gives a file that came into the tree what it was given before. It is saved, whatever becomes of that.
    pub(super) fn put_extended(&self, path: &TreePath, shared: &mut SharedNode) {
        let ScratchXattrs { all, .. } = std::mem::take(&mut shared.extended);
        if all.is_empty() {
            return;
        }
        let set = |(name, value): (&Vec<u8>, &Vec<u8>)| {
            self.core.tree.set_xattr(path, name, value, SetXattrMode::CreateOrReplace).map(drop)
        };
        if let Err(fault) = self.settle_at(path).and_then(|()| Ok(all.iter().try_for_each(set)?)) {
            warn!(page.path = %path, error = ?fault, "a saved file does not have all attributes that it was given before");
        }
    }

    /// The names that a file has once what is accepted for its path is on the disk. These may be those of a file that was
    /// removed, and was replaced by another one since.
    fn names_at_rest(&self, path: &TreePath, names: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Fault> {
        if names.is_empty() || self.core.overlay.get(path).is_none() {
            return Ok(names);
        }
        self.settle_at(path)?;
        match self.core.tree.list_xattrs(path) {
            Err(error) if error.is_missing() => Ok(Vec::new()),
            names => Ok(names?),
        }
    }

    /// What the file at a path has; nothing where nothing is.
    pub(super) fn extended_at(&self, path: &TreePath) -> Result<XattrMap, Fault> {
        let names = match self.core.tree.list_xattrs(path) {
            Err(error) if error.is_missing() => return Ok(XattrMap::new()),
            names => self.names_at_rest(path, names?)?,
        };
        let value = |name: Vec<u8>| Some(self.core.tree.xattr(path, &name).transpose()?.map(|value| (name, value)));
        Ok(names.into_iter().filter_map(value).collect::<Result<_, _>>()?)
    }

    /// What files have that a set renames, with what those have whose place they take, by their new names.
    pub(crate) fn extended_of_moved(&self, changes: &[Change]) -> Result<Vec<RenamedXattrs>, Fault> {
        let mut moved = Vec::new();
        for change in changes {
            let Change::Move { from, to, .. } = change else { continue };
            // A directory is the same one under another name.
            if self.stat(Protocol::Internal, from).is_ok_and(|there| there.kind != EntryKind::Directory) {
                moved.push((to.clone(), (self.extended_at(from)?, self.extended_at(to)?)));
            }
        }
        Ok(moved)
    }

    /// Makes what a file has at its new name the same as it had at its old one.
    pub(crate) fn move_extended(&self, to: &TreePath, (of_it, of_other): (XattrMap, XattrMap)) -> Result<(), Fault> {
        if of_it == of_other {
            return Ok(());
        }
        self.settle_at(to)?;
        for name in of_other.keys().filter(|name| !of_it.contains_key(*name)) {
            self.core.tree.remove_xattr(to, name)?;
        }
        for (name, value) in &of_it {
            self.core.tree.set_xattr(to, name, value, SetXattrMode::CreateOrReplace)?;
        }
        Ok(())
    }
}
