//! Node table: names, nodes, open handles.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};
use svcfs_base::{Caller, ETag, Fault, Kind, Protocol, TreePath};
use svcfs_store::OpenFile;

use super::body::DirtyBody;
use super::extended::ScratchXattrs;
use super::orphans::OrphanNode;
use super::{HandleId, NodeId};
use crate::Vfs;
use crate::view::PathAttributes;

/// A node's unpublished content and attributes.
#[derive(Debug)]
pub(crate) struct DirtyBuffer {
    pub(crate) body: DirtyBody,
    /// Hash of the initial content; none for a new or truncated file: its last writer wins.
    pub(crate) base: Option<ETag>,
    /// Whether it differs from the published file.
    pub(crate) is_changed: bool,
    /// Whether bytes were written, not only the length set to zero: see `Vfs::publish`.
    pub(crate) is_written: bool,
    /// The file is not in the tree yet.
    pub(crate) is_new: bool,
    /// The disk error of the last write: the buffer is incomplete and must not become a version.
    pub(crate) write_error: Option<Fault>,
    /// Why these bytes were rejected when they were published.
    pub(crate) rejected: Option<Fault>,
    /// Another writer changed the file: a buffer that started from `base` is never accepted.
    pub(crate) conflict: Option<Fault>,
    /// The handles that wrote these bytes. Once rejected, the buffer belongs to them only.
    pub(crate) writers: BTreeSet<HandleId>,
    /// Handles whose bytes were truncated by another writer and that have written nothing since.
    pub(crate) truncated_writers: BTreeSet<HandleId>,
    /// The last caller that wrote, truncated or created the file.
    pub(crate) writer: Option<Caller>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: SystemTime,
    /// The last access time, if it was set.
    pub(crate) accessed: Option<SystemTime>,
    /// The last change of content or attributes.
    pub(crate) changed: SystemTime,
}

impl DirtyBuffer {
    /// An empty buffer with these attributes; permission bits are decided when it is published.
    pub(crate) fn from_attributes(attributes: &PathAttributes) -> Self {
        Self {
            body: DirtyBody::empty(),
            base: None,
            is_changed: false,
            is_written: false,
            is_new: false,
            write_error: None,
            rejected: None,
            conflict: None,
            writers: BTreeSet::new(),
            truncated_writers: BTreeSet::new(),
            writer: None,
            mode: None,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified,
            accessed: None,
            changed: attributes.changed,
        }
    }

    pub(crate) fn touch(&mut self, caller: &Caller, now: SystemTime) {
        self.writer = Some(caller.clone());
        self.modified = now;
        self.changed = now;
    }
}

/// The ctime of a published file, as reported to clients before the disk had the change.
///
/// The disk's ctime is the install time, slightly later than acceptance. A client that reads it
/// twice would see a change that did not happen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportedTimes {
    changed: SystemTime,
    modified: SystemTime,
    /// The disk's ctime of the same change, once read.
    on_disk: Option<SystemTime>,
}

impl ReportedTimes {
    pub(crate) const fn new(changed: SystemTime, modified: SystemTime) -> Self {
        Self { changed, modified, on_disk: None }
    }

    /// The reported ctime, if the file still has the same change, pending or on disk.
    pub(crate) fn reported_ctime(&mut self, now: &PathAttributes, is_pending: bool) -> Option<SystemTime> {
        if now.modified != self.modified {
            return None;
        }
        if is_pending {
            return Some(self.changed);
        }
        let is_same_change = *self.on_disk.get_or_insert(now.changed) == now.changed;
        is_same_change.then_some(self.changed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct SharedNode {
    pub(crate) dirty: Option<DirtyBuffer>,
    /// A buffer rejected at close; only the handles that wrote it may continue with it.
    pub(crate) detached: Option<DirtyBuffer>,
    /// Open handles whose rejected buffer was replaced by another rejected one.
    pub(crate) superseded_handles: BTreeSet<HandleId>,
    /// The open file itself, if it is too large to be versioned and has no dirty buffer.
    pub(crate) large: Option<OpenFile>,
    /// The file or directory that the node was when it was unlinked.
    pub(crate) orphan: Option<OrphanNode>,
    /// Extended attributes of a file that is not in the tree yet.
    pub(crate) xattrs: ScratchXattrs,
    /// Times reported for the last published change.
    pub(crate) reported_times: Option<ReportedTimes>,
    /// For a directory: when an unpublished file was last created or removed in it.
    pub(crate) names_changed: Option<SystemTime>,
}

impl SharedNode {
    /// Whether the node is exactly the file in the tree.
    pub(crate) const fn is_plain(&self) -> bool {
        self.dirty.is_none() && self.large.is_none() && self.orphan.is_none()
    }
}

#[derive(Debug)]
struct TreeNode {
    path: TreePath,
    /// The name was removed; open handles continue to work.
    is_unlinked: bool,
    lookup_count: u64,
    open: u32,
    shared: Arc<Mutex<SharedNode>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FileHandle {
    pub(crate) node: NodeId,
    pub(crate) protocol: Protocol,
    pub(crate) is_writing: bool,
}

#[derive(Debug)]
struct NodeTable {
    next_node: u64,
    next_handle: u64,
    nodes: HashMap<NodeId, TreeNode>,
    names: BTreeMap<TreePath, NodeId>,
    handles: HashMap<HandleId, FileHandle>,
}

pub(crate) struct SpaceNodes(Mutex<NodeTable>);

impl Default for SpaceNodes {
    fn default() -> Self {
        let root =
            TreeNode { path: TreePath::root(), is_unlinked: false, lookup_count: 1, open: 0, shared: Arc::default() };
        Self(Mutex::new(NodeTable {
            next_node: NodeId::ROOT.0 + 1,
            next_handle: 1,
            nodes: HashMap::from([(NodeId::ROOT, root)]),
            names: BTreeMap::from([(TreePath::root(), NodeId::ROOT)]),
            handles: HashMap::new(),
        }))
    }
}

fn stale() -> Fault {
    Fault::new(Kind::Stale, "stale handle: the file was removed")
}

impl SpaceNodes {
    fn table(&self) -> MutexGuard<'_, NodeTable> {
        self.0.lock()
    }

    /// The node of a path, created when absent; adds `count` lookups.
    pub(crate) fn find(&self, path: &TreePath, count: u64) -> NodeId {
        let mut table = self.table();
        let id = match table.names.get(path) {
            Some(id) => *id,
            None => {
                let id = NodeId(table.next_node);
                table.next_node += 1;
                table.names.insert(path.clone(), id);
                table.nodes.insert(
                    id,
                    TreeNode {
                        path: path.clone(),
                        is_unlinked: false,
                        lookup_count: 0,
                        open: 0,
                        shared: Arc::default(),
                    },
                );
                id
            }
        };
        if let Some(node) = table.nodes.get_mut(&id) {
            node.lookup_count += count;
        }
        id
    }

    pub(crate) fn at(&self, path: &TreePath) -> Option<NodeId> {
        self.table().names.get(path).copied()
    }

    pub(crate) fn add_lookup(&self, id: NodeId, (directory, name): (NodeId, &str)) -> bool {
        let mut table = self.table();
        let parent = table.nodes.get(&directory).filter(|node| !node.is_unlinked);
        let parent_path = parent.map(|node| node.path.clone());
        let is_same_entry =
            |node: &&mut TreeNode| !node.is_unlinked && node.path.name() == name && node.path.parent() == parent_path;
        match table.nodes.get_mut(&id).filter(is_same_entry) {
            Some(node) if parent_path.is_some() => node.lookup_count += 1,
            Some(_) | None => return false,
        }
        true
    }

    pub(crate) fn forget(&self, id: NodeId, count: u64) {
        let mut table = self.table();
        if let Some(node) = table.nodes.get_mut(&id) {
            node.lookup_count = node.lookup_count.saturating_sub(count);
        }
        let swept = table.sweep(id);
        drop(table);
        drop(swept);
    }

    pub(crate) fn path_of(&self, id: NodeId) -> Result<TreePath, Fault> {
        let table = self.table();
        table.nodes.get(&id).filter(|node| !node.is_unlinked).map(|node| node.path.clone()).ok_or_else(stale)
    }

    pub(crate) fn shared(&self, id: NodeId) -> Result<Arc<Mutex<SharedNode>>, Fault> {
        self.table().nodes.get(&id).map(|node| Arc::clone(&node.shared)).ok_or_else(stale)
    }

    /// Open nodes directly below a directory, which may be dirty.
    pub(crate) fn open_children(&self, directory: &TreePath) -> Vec<(TreePath, NodeId)> {
        let table = self.table();
        let open: BTreeSet<NodeId> = table.handles.values().map(|handle| handle.node).collect();
        open.into_iter()
            .filter_map(|id| Some((table.nodes.get(&id)?, id)))
            .filter(|(node, _)| !node.is_unlinked && node.path.parent().as_ref() == Some(directory))
            .map(|(node, id)| (node.path.clone(), id))
            .collect()
    }

    pub(crate) fn open(&self, id: NodeId, protocol: Protocol, is_writing: bool) -> Result<HandleId, Fault> {
        let mut table = self.table();
        table.nodes.get_mut(&id).ok_or_else(stale)?.open += 1;
        let handle = HandleId(table.next_handle);
        table.next_handle += 1;
        table.handles.insert(handle, FileHandle { node: id, protocol, is_writing });
        Ok(handle)
    }

    pub(crate) fn handle(&self, handle: HandleId) -> Result<FileHandle, Fault> {
        self.table().handles.get(&handle).copied().ok_or_else(stale)
    }

    pub(crate) fn is_open_elsewhere(&self, id: NodeId) -> bool {
        self.table().nodes.get(&id).is_some_and(|node| node.open > 1)
    }

    /// Whether any of these handles is open, `excluded` not counted.
    pub(crate) fn is_any_open(&self, handles: &BTreeSet<HandleId>, excluded: HandleId) -> bool {
        let table = self.table();
        handles.iter().any(|handle| *handle != excluded && table.handles.contains_key(handle))
    }

    pub(crate) fn write_handles(&self, id: NodeId) -> BTreeSet<HandleId> {
        let table = self.table();
        let is_open_here = |handle: &FileHandle| handle.node == id && handle.is_writing;
        table.handles.iter().filter(|(_, handle)| is_open_here(handle)).map(|(handle, _)| *handle).collect()
    }

    pub(crate) fn is_open(&self, id: NodeId) -> bool {
        self.table().nodes.get(&id).is_some_and(|node| node.open > 0)
    }

    pub(crate) fn close(&self, handle: HandleId) {
        let mut table = self.table();
        let Some(FileHandle { node: id, .. }) = table.handles.remove(&handle) else {
            return;
        };
        if let Some(node) = table.nodes.get_mut(&id) {
            node.open = node.open.saturating_sub(1);
        }
        let swept = table.sweep(id);
        drop(table);
        drop(swept);
    }

    /// Adds a new file: a node with one lookup and a dirty buffer, and a handle for writing.
    pub(crate) fn create(&self, path: &TreePath, protocol: Protocol, mut dirty: DirtyBuffer) -> (NodeId, HandleId) {
        let mut table = self.table();
        let swept = table.unlink(path);
        let (node, handle) = (NodeId(table.next_node), HandleId(table.next_handle));
        (table.next_node, table.next_handle) = (node.0 + 1, handle.0 + 1);
        dirty.writers.insert(handle);
        let shared = Arc::new(Mutex::new(SharedNode { dirty: Some(dirty), ..SharedNode::default() }));
        table.names.insert(path.clone(), node);
        table.nodes.insert(node, TreeNode { path: path.clone(), is_unlinked: false, lookup_count: 1, open: 1, shared });
        table.handles.insert(handle, FileHandle { node, protocol, is_writing: true });
        drop(table);
        drop(swept);
        (node, handle)
    }

    /// Removes the name; the node lives on for its handles.
    pub(crate) fn remove(&self, path: &TreePath) {
        let mut table = self.table();
        let swept = table.unlink(path);
        drop(table);
        drop(swept);
    }

    /// Renames a node and everything below it; nodes with the new name lose it.
    pub(crate) fn rename(&self, from: &TreePath, to: &TreePath) {
        let mut swept = Vec::new();
        let mut table = self.table();
        let moved = table.below(from);
        for path in table.below(to) {
            swept.extend(table.unlink(&path));
        }
        for path in moved {
            table.rename_one(&path, from, to);
        }
        drop(table);
    }

    /// Exchanges the names of two nodes, with everything below them.
    pub(crate) fn exchange(&self, a: &TreePath, b: &TreePath) {
        let mut table = self.table();
        let (first, second) = (table.below(a), table.below(b));
        let moved: Vec<_> =
            first.iter().chain(&second).filter_map(|path| Some((path.clone(), table.names.remove(path)?))).collect();
        for (path, id) in moved {
            let (from, to) = if path.is_under(a) { (a, b) } else { (b, a) };
            if let (Some(path), Some(node)) = (path.rebase(from, to), table.nodes.get_mut(&id)) {
                node.path = path.clone();
                table.names.insert(path, id);
            }
        }
    }

    /// Locks the nodes at or below these paths against publishing, renames and removal.
    pub(crate) fn lock_subtrees(&self, paths: &[&TreePath]) -> LockedNodes<'_> {
        loop {
            // Later lookups of these names find the same nodes, and wait for the lock.
            let named: Vec<NodeId> = paths.iter().map(|path| self.find(path, 0)).collect();
            let shared = self.shared_below(paths).into_iter().map(|(node, shared)| (node, shared.lock_arc())).collect();
            let locked = LockedNodes { nodes: self, shared };
            // Another file may have taken a name during the wait.
            let is_current =
                |(path, node): (&&TreePath, &NodeId)| self.at(path) == Some(*node) && locked.shared.contains_key(node);
            if paths.iter().zip(&named).all(is_current) {
                return locked;
            }
        }
    }

    pub(crate) fn is_referenced(&self, id: NodeId) -> bool {
        self.table().nodes.get(&id).is_some_and(|node| node.lookup_count > 0 || node.open > 0)
    }

    /// Nodes at or below these paths, in locking order.
    fn shared_below(&self, paths: &[&TreePath]) -> Vec<(NodeId, Arc<Mutex<SharedNode>>)> {
        let table = self.table();
        let names = paths.iter().flat_map(|path| table.below(path)).filter_map(|path| table.names.get(&path).copied());
        let ids: BTreeSet<NodeId> = names.collect();
        ids.into_iter().filter_map(|id| Some((id, Arc::clone(&table.nodes.get(&id)?.shared)))).collect()
    }

    pub(crate) fn open_below(&self, path: &TreePath) -> Vec<(TreePath, Arc<Mutex<SharedNode>>)> {
        let table = self.table();
        if table.handles.is_empty() {
            return Vec::new();
        }
        let below = table.below(path).into_iter().filter_map(|path| Some((table.names.get(&path).copied()?, path)));
        let nodes = below.filter_map(|(id, path)| Some((table.nodes.get(&id)?, path)));
        nodes.filter(|(node, _)| node.open > 0).map(|(node, path)| (path, Arc::clone(&node.shared))).collect()
    }

    pub(crate) fn open_nodes(&self) -> Vec<(NodeId, TreePath)> {
        let table = self.table();
        let open = table.nodes.iter().filter(|(_, node)| node.open > 0 && !node.is_unlinked);
        open.map(|(id, node)| (*id, node.path.clone())).collect()
    }
}

pub(crate) struct LockedNodes<'a> {
    nodes: &'a SpaceNodes,
    shared: BTreeMap<NodeId, ArcMutexGuard<RawMutex, SharedNode>>,
}

impl LockedNodes<'_> {
    pub(crate) fn at(&mut self, path: &TreePath) -> Option<&mut SharedNode> {
        self.shared.get_mut(&self.nodes.at(path)?).map(|shared| &mut **shared)
    }

    pub(crate) fn all(&mut self) -> impl Iterator<Item = (NodeId, &mut SharedNode)> {
        self.shared.iter_mut().map(|(node, shared)| (*node, &mut **shared))
    }

    /// Preserves the file at a path, which is about to be unlinked, for those who know its node.
    pub(crate) fn preserve_unlinked(&mut self, vfs: &Vfs, path: &TreePath) -> Result<(), Fault> {
        let Some(node) = self.nodes.at(path).filter(|node| self.nodes.is_referenced(*node)) else { return Ok(()) };
        match self.at(path).map_or(Ok(()), |shared| shared.preserve_unlinked(vfs, path)) {
            // It is not open: a server with too many open files can still remove it.
            Err(fault) if !self.nodes.is_open(node) => {
                tracing::debug!(%path, error = ?fault, "a removed file is not preserved for its lookups");
                Ok(())
            }
            outcome => outcome,
        }
    }

    pub(crate) fn drop_orphan(&mut self, path: &TreePath) {
        let is_open = self.nodes.at(path).is_some_and(|node| self.nodes.is_open(node));
        if let Some(shared) = self.at(path) {
            shared.drop_orphan(is_open);
        }
    }
}

impl Drop for LockedNodes<'_> {
    fn drop(&mut self) {
        // Removes nodes that were created only to be locked.
        for node in self.shared.keys() {
            self.nodes.forget(*node, 0);
        }
    }
}

impl NodeTable {
    fn below(&self, path: &TreePath) -> Vec<TreePath> {
        let range = self.names.range(path.clone()..).take_while(|(name, _)| name.as_str().starts_with(path.as_str()));
        range.filter(|(name, _)| name.is_under(path)).map(|(name, _)| name.clone()).collect()
    }

    fn rename_one(&mut self, path: &TreePath, from: &TreePath, to: &TreePath) {
        let Some(id) = self.names.remove(path) else { return };
        let Some(target) = path.rebase(from, to) else { return };
        if let Some(node) = self.nodes.get_mut(&id) {
            node.path = target.clone();
        }
        self.names.insert(target, id);
    }

    /// Removes the name; the node lives on for its handles. Returns as [`NodeTable::sweep`].
    #[must_use]
    fn unlink(&mut self, path: &TreePath) -> Option<TreeNode> {
        let id = self.names.remove(path)?;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.is_unlinked = true;
        }
        self.sweep(id)
    }

    /// Removes an unreferenced node. Drop it without the table lock: closing may be slow.
    #[must_use]
    fn sweep(&mut self, id: NodeId) -> Option<TreeNode> {
        let is_unreferenced = self.nodes.get(&id).is_some_and(|node| node.lookup_count == 0 && node.open == 0);
        if !is_unreferenced || id == NodeId::ROOT {
            return None;
        }
        let node = self.nodes.remove(&id)?;
        if self.names.get(&node.path) == Some(&id) {
            self.names.remove(&node.path);
        }
        Some(node)
    }
}
