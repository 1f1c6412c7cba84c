//! Inodes and open handles.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use fuser::INodeNo;
use parking_lot::Mutex;
use svcfs_base::{Fault, Kind, TreePath};

use super::client::{ExpectedVersion, VersionedContent};
use super::dirty_buffers::RemoteDirtyBuffer;

/// Dirty bytes of a file.
pub(super) struct UnsavedChange {
    pub(super) buffer: RemoteDirtyBuffer,
    /// The version they are based on.
    pub(super) base: ExpectedVersion,
    /// Whether there is something to save: written, truncated or new.
    pub(super) is_changed: bool,
    /// Whether bytes were written: a file that was only truncated waits for its last close.
    pub(super) is_written: bool,
    pub(super) modified: SystemTime,
}

impl UnsavedChange {
    pub(super) fn of(base: ExpectedVersion, buffer: RemoteDirtyBuffer) -> Self {
        Self { buffer, base, is_changed: true, is_written: false, modified: SystemTime::now() }
    }
}

/// State shared by all handles of a file.
#[derive(Default)]
pub(super) struct SharedFile {
    pub(super) unsaved: Option<UnsavedChange>,
    /// Why the last save was rejected.
    pub(super) rejection: Option<String>,
}

struct RemoteNode {
    /// None when it was removed or replaced.
    path: Option<TreePath>,
    /// Its former path, when another file replaced it.
    replaced_path: Option<TreePath>,
    lookup_count: u64,
    handles: usize,
    shared: Arc<Mutex<SharedFile>>,
}

#[derive(Clone)]
pub(super) struct RemoteHandle {
    pub(super) inode: INodeNo,
    pub(super) is_writing: bool,
    /// Content last read through the handle, on which writes are based.
    pub(super) content: Option<VersionedContent>,
    /// The last save was rejected: further writes fail.
    pub(super) rejected: Option<Kind>,
    /// The last save was merged, and the program does not know the result: writes at its offsets
    /// fail.
    pub(super) is_merged: bool,
}

impl RemoteHandle {
    pub(super) const fn new(inode: INodeNo, is_writing: bool) -> Self {
        Self { inode, is_writing, content: None, rejected: None, is_merged: false }
    }
}

#[derive(Default)]
struct RemoteNodeTable {
    nodes: HashMap<u64, RemoteNode>,
    by_path: HashMap<TreePath, u64>,
    handles: HashMap<u64, RemoteHandle>,
    last_handle: u64,
    /// Files and directories that are not on the server yet.
    local_files: BTreeSet<TreePath>,
    local_directories: BTreeSet<TreePath>,
}

pub(super) struct RemoteNodes(Mutex<RemoteNodeTable>);

impl RemoteNodeTable {
    fn inode_for(&mut self, path: &TreePath) -> u64 {
        if let Some(number) = self.by_path.get(path) {
            return *number;
        }
        // A stable number where possible: programs recognize files by it.
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let mut number = hasher.finish() >> 2;
        while number <= INodeNo::ROOT.0 || self.nodes.contains_key(&number) {
            number += 1;
        }
        let node = RemoteNode {
            path: Some(path.clone()),
            replaced_path: None,
            lookup_count: 0,
            handles: 0,
            shared: Arc::default(),
        };
        self.nodes.insert(number, node);
        self.by_path.insert(path.clone(), number);
        number
    }

    fn drop_unused(&mut self, number: u64) {
        let is_used = |node: &RemoteNode| {
            let is_local = node.path.as_ref().is_some_and(|path| self.local_files.contains(path));
            node.lookup_count > 0 || node.handles > 0 || is_local
        };
        if number == INodeNo::ROOT.0 || self.nodes.get(&number).is_none_or(is_used) {
            return;
        }
        if let Some(path) = self.nodes.remove(&number).and_then(|node| node.path) {
            self.by_path.remove(&path);
        }
    }

    fn unlink(&mut self, path: &TreePath) {
        if let Some(number) = self.by_path.remove(path) {
            if let Some(node) = self.nodes.get_mut(&number) {
                node.path = None;
            }
            self.drop_unused(number);
        }
        self.local_files.remove(path);
    }
}

fn stale() -> Fault {
    Fault::new(Kind::Stale, "the file was removed or replaced")
}

impl RemoteNodes {
    /// A table with the root.
    pub(super) fn new() -> Self {
        let mut table = RemoteNodeTable::default();
        let root = RemoteNode {
            path: Some(TreePath::root()),
            replaced_path: None,
            lookup_count: 1,
            handles: 0,
            shared: Arc::default(),
        };
        table.nodes.insert(INodeNo::ROOT.0, root);
        table.by_path.insert(TreePath::root(), INodeNo::ROOT.0);
        Self(Mutex::new(table))
    }

    /// The inode of a path; adds `count` to its lookup count.
    pub(super) fn inode_for(&self, path: &TreePath, count: u64) -> INodeNo {
        let mut table = self.0.lock();
        let number = table.inode_for(path);
        if let Some(node) = table.nodes.get_mut(&number) {
            node.lookup_count += count;
        }
        INodeNo(number)
    }

    /// Increments the lookup count of a listed inode; false when it is unknown now.
    pub(super) fn add_lookup(&self, inode: INodeNo) -> bool {
        self.0.lock().nodes.get_mut(&inode.0).map(|node| node.lookup_count += 1).is_some()
    }

    /// Decrements the lookup count.
    pub(super) fn forget(&self, inode: INodeNo, count: u64) {
        let mut table = self.0.lock();
        if let Some(node) = table.nodes.get_mut(&inode.0) {
            node.lookup_count = node.lookup_count.saturating_sub(count);
        }
        table.drop_unused(inode.0);
    }

    /// The inode of a path, if it has one.
    pub(super) fn known_inode(&self, path: &TreePath) -> Option<INodeNo> {
        self.0.lock().by_path.get(path).copied().map(INodeNo)
    }

    /// Every inode that the kernel may know.
    pub(super) fn inodes(&self) -> Vec<INodeNo> {
        self.0.lock().nodes.keys().copied().map(INodeNo).collect()
    }

    /// # Errors
    /// `Stale` when it was removed or replaced.
    pub(super) fn path(&self, inode: INodeNo) -> Result<TreePath, Fault> {
        self.0.lock().nodes.get(&inode.0).and_then(|node| node.path.clone()).ok_or_else(stale)
    }

    /// The former path of a replaced file.
    pub(super) fn replaced_path(&self, inode: INodeNo) -> Option<TreePath> {
        self.0.lock().nodes.get(&inode.0)?.replaced_path.clone()
    }

    /// # Errors
    /// `Stale` for an unknown inode.
    pub(super) fn shared(&self, inode: INodeNo) -> Result<Arc<Mutex<SharedFile>>, Fault> {
        self.0.lock().nodes.get(&inode.0).map(|node| Arc::clone(&node.shared)).ok_or_else(stale)
    }

    /// Detaches the file at a path, which stays available to its handles.
    pub(super) fn unlink(&self, path: &TreePath) {
        self.0.lock().unlink(path);
    }

    /// Moves a path and everything below it; a file at the new path counts as replaced.
    pub(super) fn rename(&self, from: &TreePath, to: &TreePath) {
        let mut table = self.0.lock();
        if let Some(number) = table.by_path.get(to).copied()
            && let Some(node) = table.nodes.get_mut(&number)
        {
            node.replaced_path = Some(to.clone());
        }
        table.unlink(to);
        let moved_inodes: Vec<(TreePath, u64)> = table
            .by_path
            .iter()
            .filter(|(path, _)| path.is_under(from))
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        for (path, number) in moved_inodes {
            table.by_path.remove(&path);
            let Some(new_path) = path.rebase(from, to) else { continue };
            if let Some(node) = table.nodes.get_mut(&number) {
                node.path = Some(new_path.clone());
            }
            table.by_path.insert(new_path, number);
        }
        let RemoteNodeTable { local_files, local_directories, .. } = &mut *table;
        for paths in [local_files, local_directories] {
            *paths = paths.iter().map(|path| path.rebase(from, to).unwrap_or_else(|| path.clone())).collect();
        }
    }

    pub(super) fn add_local_file(&self, path: &TreePath) {
        self.0.lock().local_files.insert(path.clone());
    }
    /// The file is on the server, or will never be.
    pub(super) fn remove_local_file(&self, path: &TreePath) {
        self.0.lock().local_files.remove(path);
    }
    pub(super) fn is_local_file(&self, path: &TreePath) -> bool {
        self.0.lock().local_files.contains(path)
    }
    pub(super) fn add_local_directory(&self, path: &TreePath) {
        self.0.lock().local_directories.insert(path.clone());
    }
    pub(super) fn remove_local_directory(&self, path: &TreePath) {
        self.0.lock().local_directories.remove(path);
    }
    pub(super) fn is_local_directory(&self, path: &TreePath) -> bool {
        self.0.lock().local_directories.contains(path)
    }
    /// Directories and files in a directory that are not on the server yet.
    pub(super) fn local_entries(&self, directory: &TreePath) -> (Vec<TreePath>, Vec<TreePath>) {
        let table = self.0.lock();
        let inside = |paths: &BTreeSet<TreePath>| {
            paths.iter().filter(|path| path.parent().as_ref() == Some(directory)).cloned().collect()
        };
        (inside(&table.local_directories), inside(&table.local_files))
    }

    pub(super) fn open(&self, opened: RemoteHandle) -> u64 {
        let mut table = self.0.lock();
        table.last_handle += 1;
        let handle = table.last_handle;
        if let Some(node) = table.nodes.get_mut(&opened.inode.0) {
            node.handles += 1;
        }
        table.handles.insert(handle, opened);
        handle
    }

    /// # Errors
    /// `Stale` when there is no such handle.
    pub(super) fn handle(&self, handle: u64) -> Result<RemoteHandle, Fault> {
        self.0.lock().handles.get(&handle).cloned().ok_or_else(stale)
    }

    pub(super) fn record_read(&self, handle: u64, content: &VersionedContent) {
        if let Some(opened) = self.0.lock().handles.get_mut(&handle) {
            opened.content = Some(content.clone());
        }
    }

    /// Records for all handles of a file that it was saved as `content`, or rejected.
    pub(super) fn record_save(&self, inode: INodeNo, outcome: Result<&VersionedContent, Kind>) {
        for opened in self.0.lock().handles.values_mut().filter(|opened| opened.inode == inode) {
            match outcome {
                Ok(content) => opened.content = Some(content.clone()),
                Err(kind) if opened.is_writing => opened.rejected = Some(kind),
                Err(_) => {}
            }
        }
    }

    /// Records for all handles of a file that it was saved as another text than was sent.
    pub(super) fn record_merge(&self, inode: INodeNo) {
        for opened in self.0.lock().handles.values_mut().filter(|opened| opened.inode == inode) {
            opened.content = None;
            opened.is_merged = opened.is_writing;
        }
    }

    /// Content of a removed file that one of its handles still has.
    pub(super) fn open_content(&self, inode: INodeNo) -> Option<VersionedContent> {
        let table = self.0.lock();
        table.handles.values().find(|opened| opened.inode == inode && opened.content.is_some())?.content.clone()
    }

    /// Whether a file has a handle other than `except`.
    pub(super) fn is_open(&self, inode: INodeNo, except: Option<u64>) -> bool {
        let table = self.0.lock();
        table.handles.iter().any(|(handle, opened)| opened.inode == inode && Some(*handle) != except)
    }

    pub(super) fn is_open_for_writing(&self, inode: INodeNo) -> bool {
        self.0.lock().handles.values().any(|opened| opened.inode == inode && opened.is_writing)
    }

    pub(super) fn close(&self, handle: u64) {
        let mut table = self.0.lock();
        if let Some(opened) = table.handles.remove(&handle) {
            if let Some(node) = table.nodes.get_mut(&opened.inode.0) {
                node.handles -= 1;
            }
            table.drop_unused(opened.inode.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn a_file_keeps_its_inode_number_through_rename_and_lookup() {
        let nodes = RemoteNodes::new();
        let number = nodes.inode_for(&path("a/b.md"), 1);
        nodes.rename(&path("a"), &path("c"));
        assert_eq!(nodes.path(number).unwrap(), path("c/b.md"));
        let other = nodes.inode_for(&path("a/b.md"), 1);
        assert_ne!(other, number);
        nodes.forget(number, 1);
        nodes.forget(other, 1);
        assert!(nodes.path(number).is_err());
        assert_eq!(nodes.inode_for(&path("a/b.md"), 1), number);
    }

    #[test]
    fn a_removed_file_lives_while_open_and_frees_its_name() {
        let nodes = RemoteNodes::new();
        let number = nodes.inode_for(&path("a"), 1);
        let handle = nodes.open(RemoteHandle::new(number, false));
        nodes.unlink(&path("a"));
        nodes.forget(number, 1);
        assert!(nodes.shared(number).is_ok() && nodes.path(number).is_err());
        assert_ne!(nodes.inode_for(&path("a"), 1), number);
        nodes.close(handle);
        assert!(nodes.shared(number).is_err());
    }
}
