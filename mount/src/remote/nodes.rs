//! Files as the kernel and programs hold them: by number, and open.

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

/// What was written to a file and is not on the server.
pub(super) struct UnsavedChange {
    pub(super) draft: RemoteDirtyBuffer,
    /// What it was made from.
    pub(super) base: ExpectedVersion,
    /// Whether it is something to be saved: it was written or emptied, or the file is new.
    pub(super) is_changed: bool,
    /// Whether somebody wrote: a file that was only emptied waits for its last handle.
    pub(super) is_written: bool,
    pub(super) modified: SystemTime,
}

/// What all handles of a file share.
#[derive(Default)]
pub(super) struct SharedFile {
    pub(super) unsaved: Option<UnsavedChange>,
    /// Why the last save was refused.
    pub(super) refusal: Option<String>,
}

struct RemoteNode {
    /// Where it is; none when it was removed or replaced.
    path: Option<TreePath>,
    /// Where it was, when another file took its place.
    replaced: Option<TreePath>,
    /// Findings that the kernel has not given back.
    found: u64,
    handles: usize,
    shared: Arc<Mutex<SharedFile>>,
}

/// An open file.
#[derive(Clone)]
pub(super) struct RemoteHandle {
    pub(super) inode: INodeNo,
    pub(super) is_writing: bool,
    /// What was last read through it, and what is written through it is made from.
    pub(super) content: Option<VersionedContent>,
    /// Its last save was refused: nothing more is taken.
    pub(super) refused: Option<Kind>,
}

#[derive(Default)]
struct RemoteNodeTable {
    nodes: HashMap<u64, RemoteNode>,
    by_path: HashMap<TreePath, u64>,
    handles: HashMap<u64, RemoteHandle>,
    last_handle: u64,
    /// Files and directories that are on no server yet.
    own_files: BTreeSet<TreePath>,
    own_directories: BTreeSet<TreePath>,
}

/// All of them.
pub(super) struct RemoteNodes(Mutex<RemoteNodeTable>);

impl RemoteNodeTable {
    fn find(&mut self, path: &TreePath) -> u64 {
        if let Some(number) = self.by_path.get(path) {
            return *number;
        }
        // The same one each time, as far as possible: programs know files again by it.
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let mut number = hasher.finish() >> 2;
        while number <= INodeNo::ROOT.0 || self.nodes.contains_key(&number) {
            number += 1;
        }
        let node =
            RemoteNode { path: Some(path.clone()), replaced: None, found: 0, handles: 0, shared: Arc::default() };
        self.nodes.insert(number, node);
        self.by_path.insert(path.clone(), number);
        number
    }

    fn drop_unused(&mut self, number: u64) {
        let is_used = |node: &RemoteNode| {
            let is_own = node.path.as_ref().is_some_and(|path| self.own_files.contains(path));
            node.found > 0 || node.handles > 0 || is_own
        };
        if number == INodeNo::ROOT.0 || self.nodes.get(&number).is_none_or(is_used) {
            return;
        }
        if let Some(path) = self.nodes.remove(&number).and_then(|node| node.path) {
            self.by_path.remove(&path);
        }
    }

    fn unname(&mut self, path: &TreePath) {
        if let Some(number) = self.by_path.remove(path) {
            if let Some(node) = self.nodes.get_mut(&number) {
                node.path = None;
            }
            self.drop_unused(number);
        }
        self.own_files.remove(path);
    }
}

fn stale() -> Fault {
    Fault::new(Kind::Stale, "the file is gone")
}

impl RemoteNodes {
    /// The root, and nothing else.
    pub(super) fn new() -> Self {
        let mut table = RemoteNodeTable::default();
        let root =
            RemoteNode { path: Some(TreePath::root()), replaced: None, found: 1, handles: 0, shared: Arc::default() };
        table.nodes.insert(INodeNo::ROOT.0, root);
        table.by_path.insert(TreePath::root(), INodeNo::ROOT.0);
        Self(Mutex::new(table))
    }

    /// The number of a path, found `count` times more.
    pub(super) fn find(&self, path: &TreePath, count: u64) -> INodeNo {
        let mut table = self.0.lock();
        let number = table.find(path);
        if let Some(node) = table.nodes.get_mut(&number) {
            node.found += count;
        }
        INodeNo(number)
    }

    /// Counts one more finding of a number that a listing gave; false when nobody knows it any more.
    pub(super) fn found(&self, inode: INodeNo) -> bool {
        self.0.lock().nodes.get_mut(&inode.0).map(|node| node.found += 1).is_some()
    }

    /// Gives back findings.
    pub(super) fn forget(&self, inode: INodeNo, count: u64) {
        let mut table = self.0.lock();
        if let Some(node) = table.nodes.get_mut(&inode.0) {
            node.found = node.found.saturating_sub(count);
        }
        table.drop_unused(inode.0);
    }

    /// The number of a path that somebody knows.
    pub(super) fn at(&self, path: &TreePath) -> Option<INodeNo> {
        self.0.lock().by_path.get(path).copied().map(INodeNo)
    }

    /// Every number that the kernel may know.
    pub(super) fn all(&self) -> Vec<INodeNo> {
        self.0.lock().nodes.keys().copied().map(INodeNo).collect()
    }

    /// Where a file is.
    ///
    /// # Errors
    /// `Stale` when it was removed or replaced.
    pub(super) fn path(&self, inode: INodeNo) -> Result<TreePath, Fault> {
        self.0.lock().nodes.get(&inode.0).and_then(|node| node.path.clone()).ok_or_else(stale)
    }

    /// Where a file was whose place another one took.
    pub(super) fn replaced(&self, inode: INodeNo) -> Option<TreePath> {
        self.0.lock().nodes.get(&inode.0)?.replaced.clone()
    }

    /// What all handles of a file share.
    ///
    /// # Errors
    /// `Stale` when nobody knows it.
    pub(super) fn shared(&self, inode: INodeNo) -> Result<Arc<Mutex<SharedFile>>, Fault> {
        self.0.lock().nodes.get(&inode.0).map(|node| Arc::clone(&node.shared)).ok_or_else(stale)
    }

    /// A path is another file's from now on, or nobody's.
    pub(super) fn removed(&self, path: &TreePath) {
        self.0.lock().unname(path);
    }

    /// A path, and all below it, has another name.
    pub(super) fn renamed(&self, from: &TreePath, to: &TreePath) {
        let mut table = self.0.lock();
        if let Some(number) = table.by_path.get(to).copied()
            && let Some(node) = table.nodes.get_mut(&number)
        {
            node.replaced = Some(to.clone());
        }
        table.unname(to);
        let moved: Vec<(TreePath, u64)> = table
            .by_path
            .iter()
            .filter(|(path, _)| path.is_under(from))
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        for (path, number) in moved {
            table.by_path.remove(&path);
            let Some(place) = path.rebase(from, to) else { continue };
            if let Some(node) = table.nodes.get_mut(&number) {
                node.path = Some(place.clone());
            }
            table.by_path.insert(place, number);
        }
        let RemoteNodeTable { own_files, own_directories, .. } = &mut *table;
        for own in [own_files, own_directories] {
            *own = own.iter().map(|path| path.rebase(from, to).unwrap_or_else(|| path.clone())).collect();
        }
    }

    /// A file that is on no server yet.
    pub(super) fn add_own_file(&self, path: &TreePath) {
        self.0.lock().own_files.insert(path.clone());
    }
    /// The file is on the server, or will never be.
    pub(super) fn remove_own_file(&self, path: &TreePath) {
        self.0.lock().own_files.remove(path);
    }
    /// Whether a file is on no server yet.
    pub(super) fn is_own_file(&self, path: &TreePath) -> bool {
        self.0.lock().own_files.contains(path)
    }
    /// A directory that is on no server yet, because nothing is in it.
    pub(super) fn add_own_directory(&self, path: &TreePath) {
        self.0.lock().own_directories.insert(path.clone());
    }
    /// The directory is gone.
    pub(super) fn remove_own_directory(&self, path: &TreePath) {
        self.0.lock().own_directories.remove(path);
    }
    /// Whether a directory was made here.
    pub(super) fn is_own_directory(&self, path: &TreePath) -> bool {
        self.0.lock().own_directories.contains(path)
    }
    /// Directories and files in a directory that are on no server yet.
    pub(super) fn own_in(&self, directory: &TreePath) -> (Vec<TreePath>, Vec<TreePath>) {
        let table = self.0.lock();
        let inside = |own: &BTreeSet<TreePath>| {
            own.iter().filter(|path| path.parent().as_ref() == Some(directory)).cloned().collect()
        };
        (inside(&table.own_directories), inside(&table.own_files))
    }

    /// Opens a file.
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

    /// An open file.
    ///
    /// # Errors
    /// `Stale` when there is no such handle.
    pub(super) fn opened(&self, handle: u64) -> Result<RemoteHandle, Fault> {
        self.0.lock().handles.get(&handle).cloned().ok_or_else(stale)
    }

    /// Notes what was read through a handle.
    pub(super) fn read(&self, handle: u64, content: &VersionedContent) {
        if let Some(opened) = self.0.lock().handles.get_mut(&handle) {
            opened.content = Some(content.clone());
        }
    }

    /// Notes for all handles of a file that what they hold was saved as `content`, or refused.
    pub(super) fn settled(&self, inode: INodeNo, outcome: Result<&VersionedContent, Kind>) {
        for opened in self.0.lock().handles.values_mut().filter(|opened| opened.inode == inode) {
            match outcome {
                Ok(content) => opened.content = Some(content.clone()),
                Err(kind) if opened.is_writing => opened.refused = Some(kind),
                Err(_) => {}
            }
        }
    }

    /// Content that a removed file still has for its handles.
    pub(super) fn kept_open(&self, inode: INodeNo) -> Option<VersionedContent> {
        let table = self.0.lock();
        table.handles.values().find(|opened| opened.inode == inode && opened.content.is_some())?.content.clone()
    }

    /// Whether a file has a handle, beside `but`.
    pub(super) fn is_open(&self, inode: INodeNo, but: Option<u64>) -> bool {
        let table = self.0.lock();
        table.handles.iter().any(|(handle, opened)| opened.inode == inode && Some(*handle) != but)
    }

    /// Whether a file has a handle to be written through.
    pub(super) fn is_being_written(&self, inode: INodeNo) -> bool {
        self.0.lock().handles.values().any(|opened| opened.inode == inode && opened.is_writing)
    }

    /// Closes a handle.
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
    fn a_file_keeps_its_number_under_another_name_and_has_the_same_one_when_it_is_found_again() {
        let nodes = RemoteNodes::new();
        let number = nodes.find(&path("a/b.md"), 1);
        nodes.renamed(&path("a"), &path("c"));
        assert_eq!(nodes.path(number).unwrap(), path("c/b.md"));
        let other = nodes.find(&path("a/b.md"), 1);
        assert_ne!(other, number);
        nodes.forget(number, 1);
        nodes.forget(other, 1);
        assert!(nodes.path(number).is_err());
        assert_eq!(nodes.find(&path("a/b.md"), 1), number);
    }

    #[test]
    fn a_removed_file_lives_as_long_as_it_is_open_and_leaves_its_name() {
        let nodes = RemoteNodes::new();
        let number = nodes.find(&path("a"), 1);
        let opened = RemoteHandle { inode: number, is_writing: false, content: None, refused: None };
        let handle = nodes.open(opened);
        nodes.removed(&path("a"));
        nodes.forget(number, 1);
        assert!(nodes.shared(number).is_ok() && nodes.path(number).is_err());
        assert_ne!(nodes.find(&path("a"), 1), number);
        nodes.close(handle);
        assert!(nodes.shared(number).is_err());
    }
}
