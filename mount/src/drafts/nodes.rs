//! Inodes and handles of drafts.
//!
//! Lock order: the file of a node, then the table. The table is never locked while I/O is done.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use fuser::{FileHandle, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{DraftId, ETag, Fault, Kind, TreePath};

use super::DRAFT_ID_BIT;

/// A directory or a file of drafts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DraftEntry {
    /// The folder of all drafts.
    Drafts,
    Path(DraftId, TreePath),
}

impl DraftEntry {
    /// The preferred inode: a hash, so that listings need not register their entries.
    pub(super) fn number(&self) -> INodeNo {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        INodeNo(DRAFT_ID_BIT | (hasher.finish() & (DRAFT_ID_BIT - 1)))
    }
}

/// Bytes of a file that are not published.
pub(super) struct DirtyBytes {
    pub(super) bytes: Vec<u8>,
    /// The content they are based on; none for a new file.
    pub(super) base: Option<ETag>,
    /// Whether bytes were written: a file that was only truncated waits for its last close.
    pub(super) is_written: bool,
    pub(super) modified: SystemTime,
}

/// State shared by all handles of a file.
pub(super) type SharedFile = Arc<Mutex<Option<DirtyBytes>>>;

struct DraftNode {
    /// None when it was removed or replaced.
    entry: Option<DraftEntry>,
    lookup_count: u64,
    file: SharedFile,
}

#[derive(Clone)]
pub(super) struct DraftHandle {
    pub(super) inode: INodeNo,
    pub(super) is_writing: bool,
    /// The content when it was opened; none after a save, until it is read again.
    pub(super) snapshot: Option<Bytes>,
}

#[derive(Default)]
struct NodeTable {
    nodes: HashMap<u64, DraftNode>,
    by_entry: HashMap<DraftEntry, u64>,
    handles: HashMap<u64, DraftHandle>,
    last_handle: u64,
    /// Created and not in the draft yet.
    new_files: BTreeSet<DraftEntry>,
}

#[derive(Default)]
pub(super) struct DraftNodes(Mutex<NodeTable>);

impl NodeTable {
    fn drop_unused(&mut self, number: u64) {
        let has_handle = || self.handles.values().any(|handle| handle.inode.0 == number);
        if self.nodes.get(&number).is_none_or(|node| node.lookup_count > 0) || has_handle() {
            return;
        }
        if let Some(entry) = self.nodes.remove(&number).and_then(|node| node.entry) {
            self.by_entry.remove(&entry);
        }
    }

    /// Separates the node of an entry that is gone.
    fn detach(&mut self, entry: &DraftEntry) {
        self.new_files.remove(entry);
        if let Some(node) = self.by_entry.remove(entry).and_then(|number| self.nodes.get_mut(&number)) {
            node.entry = None;
        }
    }
}

impl DraftNodes {
    /// The inode of an entry; increments the lookup count.
    pub(super) fn add_lookup(&self, entry: DraftEntry) -> INodeNo {
        let mut table = self.0.lock();
        let known = table.by_entry.get(&entry).copied();
        let number = known.unwrap_or_else(|| {
            let mut number = entry.number().0;
            // Hash collision, or a removed file that is still open.
            while table.nodes.contains_key(&number) {
                number = DRAFT_ID_BIT | (number.wrapping_add(1) & (DRAFT_ID_BIT - 1));
            }
            table.by_entry.insert(entry.clone(), number);
            table.nodes.insert(number, DraftNode { entry: Some(entry), lookup_count: 0, file: Arc::default() });
            number
        });
        if let Some(node) = table.nodes.get_mut(&number) {
            node.lookup_count += 1;
        }
        INodeNo(number)
    }

    pub(super) fn forget(&self, inode: INodeNo, count: u64) {
        let mut table = self.0.lock();
        if let Some(node) = table.nodes.get_mut(&inode.0) {
            node.lookup_count = node.lookup_count.saturating_sub(count);
        }
        table.drop_unused(inode.0);
    }

    /// What an inode is.
    ///
    /// # Errors
    /// `Stale` when it is gone.
    pub(super) fn entry(&self, inode: INodeNo) -> Result<DraftEntry, Fault> {
        self.0.lock().nodes.get(&inode.0).and_then(|node| node.entry.clone()).ok_or_else(stale)
    }

    pub(super) fn file(&self, inode: INodeNo) -> Result<SharedFile, Fault> {
        self.0.lock().nodes.get(&inode.0).map(|node| Arc::clone(&node.file)).ok_or_else(stale)
    }

    /// Size and modification time of a file with unpublished bytes.
    pub(super) fn unsaved(&self, entry: &DraftEntry) -> Option<(u64, SystemTime)> {
        let file = {
            let table = self.0.lock();
            let number = table.by_entry.get(entry)?;
            Arc::clone(&table.nodes.get(number)?.file)
        };
        let dirty = file.lock();
        dirty.as_ref().map(|dirty| (dirty.bytes.len() as u64, dirty.modified))
    }

    /// The size of a removed file that is still open.
    pub(super) fn orphan_size(&self, inode: INodeNo) -> Option<u64> {
        let dirty = self.file(inode).ok()?.lock().as_ref().map(|dirty| dirty.bytes.len() as u64);
        let table = self.0.lock();
        let handle = table.handles.values().find(|handle| handle.inode == inode)?;
        Some(dirty.unwrap_or_else(|| handle.snapshot.as_ref().map_or(0, Bytes::len) as u64))
    }

    pub(super) fn is_new(&self, entry: &DraftEntry) -> bool {
        self.0.lock().new_files.contains(entry)
    }

    pub(super) fn set_new(&self, entry: DraftEntry, is_new: bool) {
        let new_files = &mut self.0.lock().new_files;
        let _was_set = if is_new { new_files.insert(entry) } else { new_files.remove(&entry) };
    }

    /// New files directly in a directory.
    pub(super) fn new_files(&self, id: DraftId, directory: &TreePath) -> Vec<TreePath> {
        let table = self.0.lock();
        let path = |entry: &DraftEntry| match entry {
            DraftEntry::Path(draft, path) if *draft == id => Some(path.clone()),
            DraftEntry::Path(..) | DraftEntry::Drafts => None,
        };
        let paths = table.new_files.iter().filter_map(path);
        paths.filter(|path| path.parent().as_ref() == Some(directory)).collect()
    }

    /// The inodes that are a path or are below it.
    pub(super) fn inodes_below(&self, id: DraftId, above: &TreePath) -> Vec<INodeNo> {
        let table = self.0.lock();
        let is_below = |entry: &DraftEntry| match entry {
            DraftEntry::Path(draft, path) => *draft == id && path.is_under(above),
            DraftEntry::Drafts => false,
        };
        let found = table.by_entry.iter().filter(|(entry, _)| is_below(entry));
        found.map(|(_, number)| INodeNo(*number)).collect()
    }

    pub(super) fn detach(&self, entry: &DraftEntry) {
        self.0.lock().detach(entry);
    }

    /// Gives the inodes of a renamed entry their new paths.
    pub(super) fn rename(&self, id: DraftId, (from, to): (&TreePath, &TreePath)) {
        let moved = self.inodes_below(id, from);
        let mut table = self.0.lock();
        table.detach(&DraftEntry::Path(id, to.clone()));
        for INodeNo(number) in moved {
            let Some(DraftEntry::Path(_, path)) = table.nodes.get(&number).and_then(|node| node.entry.clone()) else {
                continue;
            };
            let Some(renamed) = path.rebase(from, to) else { continue };
            let renamed = DraftEntry::Path(id, renamed);
            table.by_entry.remove(&DraftEntry::Path(id, path));
            table.by_entry.insert(renamed.clone(), number);
            if let Some(node) = table.nodes.get_mut(&number) {
                node.entry = Some(renamed);
            }
        }
    }

    pub(super) fn open(&self, handle: DraftHandle) -> FileHandle {
        let mut table = self.0.lock();
        table.last_handle += 1;
        let number = DRAFT_ID_BIT | table.last_handle;
        table.handles.insert(number, handle);
        FileHandle(number)
    }

    pub(super) fn handle(&self, handle: FileHandle) -> Result<DraftHandle, Fault> {
        self.0.lock().handles.get(&handle.0).cloned().ok_or_else(stale)
    }

    pub(super) fn set_snapshot(&self, handle: FileHandle, content: Bytes) {
        if let Some(handle) = self.0.lock().handles.get_mut(&handle.0) {
            handle.snapshot = Some(content);
        }
    }

    /// Gives the handles of a file its saved content; without it they read it again.
    pub(super) fn set_snapshots(&self, inode: INodeNo, content: Option<&Bytes>) {
        for handle in self.0.lock().handles.values_mut().filter(|handle| handle.inode == inode) {
            handle.snapshot = content.cloned();
        }
    }

    pub(super) fn has_writer(&self, inode: INodeNo) -> bool {
        self.0.lock().handles.values().any(|handle| handle.inode == inode && handle.is_writing)
    }

    /// Removes a handle; call after what it wrote is published.
    pub(super) fn close(&self, handle: FileHandle) {
        let mut table = self.0.lock();
        if let Some(closed) = table.handles.remove(&handle.0) {
            table.drop_unused(closed.inode.0);
        }
    }
}

fn stale() -> Fault {
    Fault::new(Kind::Stale, "this file of a draft is gone; look up its path again")
}
