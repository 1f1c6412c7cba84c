//! Which node has which name, and what is open.

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

/// Unpublished content of a node.
#[derive(Debug)]
pub(crate) struct DirtyBuffer {
    pub(crate) body: DirtyBody,
    /// The hash of what staging began from; none for a new file or one emptied first: the last writer wins then.
    pub(crate) base: Option<ETag>,
    /// Something differs from what is published.
    pub(crate) is_changed: bool,
    /// Bytes were written, not only the length set to zero: see `Vfs::publish`.
    pub(crate) is_written: bool,
    /// The file is not in the tree yet.
    pub(crate) is_new: bool,
    /// Why the disk refused the last write: what is here is half a save, and nobody's version.
    pub(crate) refused: Option<Fault>,
    /// Why these very bytes were not accepted when they were to be published.
    pub(crate) verdict: Option<Fault>,
    /// Others wrote the file since, as was told: what began from `base` is accepted no more.
    pub(crate) lost: Option<Fault>,
    /// The handles that these bytes were written through: to all others they are nothing, once they are refused.
    pub(crate) writers: BTreeSet<HandleId>,
    /// Those whose bytes went when somebody emptied the file, and who have written nothing since.
    pub(crate) emptied: BTreeSet<HandleId>,
    /// Whose they are: who wrote, or emptied or made the file, last. Whoever renames what it lies in is not.
    pub(crate) writer: Option<Caller>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: SystemTime,
    /// The time of the last access, when it was set.
    pub(crate) accessed: Option<SystemTime>,
    /// When anything of it changed last.
    pub(crate) changed: SystemTime,
}

impl DirtyBuffer {
    /// No bytes yet, of a file with these attributes; its permission bits are what they are when it is published.
    pub(crate) fn of(attributes: &PathAttributes) -> Self {
        Self {
            body: DirtyBody::empty(),
            base: None,
            is_changed: false,
            is_written: false,
            is_new: false,
            refused: None,
            verdict: None,
            lost: None,
            writers: BTreeSet::new(),
            emptied: BTreeSet::new(),
            writer: None,
            mode: None,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified,
            accessed: None,
            changed: attributes.changed,
        }
    }

    /// Somebody changed the content.
    pub(crate) fn touch(&mut self, caller: &Caller, now: SystemTime) {
        self.writer = Some(caller.clone());
        self.modified = now;
        self.changed = now;
    }
}

/// When a published file changed last, as programs were told before the disk knew.
///
/// The disk dates a change by the moment in which it is put in place, which is a little after it was accepted. Whoever looked in
/// between, and once more later, would see a change that nobody made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportedTimes {
    changed: SystemTime,
    modified: SystemTime,
    /// What the disk says of the same change, once it was asked.
    on_disk: Option<SystemTime>,
}

impl ReportedTimes {
    /// A file changed and was published.
    pub(crate) const fn new(changed: SystemTime, modified: SystemTime) -> Self {
        Self { changed, modified, on_disk: None }
    }

    /// The moment that was told, when this is still the same change of the same file, on its way to the disk or there.
    pub(crate) fn of(&mut self, now: &PathAttributes, is_pending: bool) -> Option<SystemTime> {
        if now.modified != self.modified {
            return None;
        }
        if is_pending {
            return Some(self.changed);
        }
        let same = *self.on_disk.get_or_insert(now.changed) == now.changed;
        same.then_some(self.changed)
    }
}

/// What all handles of a node share.
#[derive(Debug, Default)]
pub(crate) struct SharedNode {
    pub(crate) staging: Option<DirtyBuffer>,
    /// Unpublished bytes that were refused when a handle was closed, for the handles that wrote them: they may go on with them.
    /// To all others the file is what is published.
    pub(crate) aside: Option<DirtyBuffer>,
    /// Open handles whose bytes gave way to those of others that were refused in turn: there is nothing that they could go on with.
    pub(crate) displaced: BTreeSet<HandleId>,
    /// The file itself, while it is open, too large to be recorded, and none of its bytes are unpublished.
    pub(crate) large: Option<OpenFile>,
    /// What it had, or was, when its name went.
    pub(crate) kept: Option<OrphanNode>,
    /// Attributes that programs gave a file which is not in the tree.
    pub(crate) extended: ScratchXattrs,
    /// What was told of the last published change.
    pub(crate) told: Option<ReportedTimes>,
    /// Of a directory: when a file was made in it that is not published yet, or one went that never was.
    pub(crate) names_changed: Option<SystemTime>,
}

impl SharedNode {
    /// Whether the file is what is in the tree at its path, and nothing else.
    pub(crate) const fn is_plain(&self) -> bool {
        self.staging.is_none() && self.large.is_none() && self.kept.is_none()
    }
}

#[derive(Debug)]
struct TreeNode {
    path: TreePath,
    /// The name is gone; open handles go on working.
    is_gone: bool,
    found: u64,
    open: u32,
    shared: Arc<Mutex<SharedNode>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FileHandle {
    pub(crate) node: NodeId,
    /// Which door it was opened at.
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

/// The nodes of one space.
pub(crate) struct SpaceNodes(Mutex<NodeTable>);

impl Default for SpaceNodes {
    fn default() -> Self {
        let root = TreeNode { path: TreePath::root(), is_gone: false, found: 1, open: 0, shared: Arc::default() };
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
    Fault::new(Kind::Stale, "the file behind this handle is gone")
}

impl SpaceNodes {
    fn table(&self) -> MutexGuard<'_, NodeTable> {
        self.0.lock()
    }

    /// The node of a path, made when absent; counts as found when `count` says so.
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
                    TreeNode { path: path.clone(), is_gone: false, found: 0, open: 0, shared: Arc::default() },
                );
                id
            }
        };
        if let Some(node) = table.nodes.get_mut(&id) {
            node.found += count;
        }
        id
    }

    pub(crate) fn at(&self, path: &TreePath) -> Option<NodeId> {
        self.table().names.get(path).copied()
    }

    pub(crate) fn found(&self, id: NodeId, (directory, name): (NodeId, &str)) -> bool {
        let mut table = self.table();
        let above = table.nodes.get(&directory).filter(|above| !above.is_gone).map(|above| above.path.clone());
        let is_there = |node: &&mut TreeNode| !node.is_gone && node.path.name() == name && node.path.parent() == above;
        match table.nodes.get_mut(&id).filter(is_there) {
            Some(node) if above.is_some() => node.found += 1,
            Some(_) | None => return false,
        }
        true
    }

    pub(crate) fn forget(&self, id: NodeId, count: u64) {
        let mut table = self.table();
        if let Some(node) = table.nodes.get_mut(&id) {
            node.found = node.found.saturating_sub(count);
        }
        let swept = table.sweep(id);
        drop(table);
        drop(swept);
    }

    pub(crate) fn path_of(&self, id: NodeId) -> Result<TreePath, Fault> {
        let table = self.table();
        table.nodes.get(&id).filter(|node| !node.is_gone).map(|node| node.path.clone()).ok_or_else(stale)
    }

    pub(crate) fn shared(&self, id: NodeId) -> Result<Arc<Mutex<SharedNode>>, Fault> {
        self.table().nodes.get(&id).map(|node| Arc::clone(&node.shared)).ok_or_else(stale)
    }

    /// Open nodes directly below a directory, which may have unpublished content.
    pub(crate) fn staged_below(&self, directory: &TreePath) -> Vec<(TreePath, NodeId)> {
        let table = self.table();
        let open: BTreeSet<NodeId> = table.handles.values().map(|handle| handle.node).collect();
        open.into_iter()
            .filter_map(|id| Some((table.nodes.get(&id)?, id)))
            .filter(|(node, _)| !node.is_gone && node.path.parent().as_ref() == Some(directory))
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

    /// True when other handles of the node are open.
    pub(crate) fn is_open_elsewhere(&self, id: NodeId) -> bool {
        self.table().nodes.get(&id).is_some_and(|node| node.open > 1)
    }

    /// True when any of some handles is open, this one not counted.
    pub(crate) fn is_any_open(&self, of: &BTreeSet<HandleId>, but: HandleId) -> bool {
        let table = self.table();
        of.iter().any(|handle| *handle != but && table.handles.contains_key(handle))
    }

    /// The handles of a node that are open for writing.
    pub(crate) fn writing(&self, id: NodeId) -> BTreeSet<HandleId> {
        let table = self.table();
        let is_its = |opened: &FileHandle| opened.node == id && opened.is_writing;
        table.handles.iter().filter(|(_, opened)| is_its(opened)).map(|(handle, _)| *handle).collect()
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

    /// A file that is new at a path: its node, found once, with unpublished bytes from the first moment on, and the handle it is written through.
    pub(crate) fn create(&self, path: &TreePath, protocol: Protocol, mut staging: DirtyBuffer) -> (NodeId, HandleId) {
        let mut table = self.table();
        let swept = table.lose(path);
        let (node, handle) = (NodeId(table.next_node), HandleId(table.next_handle));
        (table.next_node, table.next_handle) = (node.0 + 1, handle.0 + 1);
        staging.writers.insert(handle);
        let shared = Arc::new(Mutex::new(SharedNode { staging: Some(staging), ..SharedNode::default() }));
        table.names.insert(path.clone(), node);
        table.nodes.insert(node, TreeNode { path: path.clone(), is_gone: false, found: 1, open: 1, shared });
        table.handles.insert(handle, FileHandle { node, protocol, is_writing: true });
        drop(table);
        drop(swept);
        (node, handle)
    }

    /// The name is gone: the node lives on for its handles only.
    pub(crate) fn remove(&self, path: &TreePath) {
        let mut table = self.table();
        let swept = table.lose(path);
        drop(table);
        drop(swept);
    }

    /// A node (and everything below it) has another name; what had that name before is gone.
    pub(crate) fn rename(&self, from: &TreePath, to: &TreePath) {
        let mut swept = Vec::new();
        let mut table = self.table();
        let moved = table.below(from);
        for path in table.below(to) {
            swept.extend(table.lose(&path));
        }
        for path in moved {
            table.rename_one(&path, from, to);
        }
        drop(table);
    }

    /// Two nodes (and what is below them) trade names.
    pub(crate) fn exchange(&self, one: &TreePath, other: &TreePath) {
        let mut table = self.table();
        let (first, second) = (table.below(one), table.below(other));
        let taken: Vec<_> =
            first.iter().chain(&second).filter_map(|path| Some((path.clone(), table.names.remove(path)?))).collect();
        for (path, id) in taken {
            let (from, to) = if path.is_under(one) { (one, other) } else { (other, one) };
            if let (Some(path), Some(node)) = (path.rebase(from, to), table.nodes.get_mut(&id)) {
                node.path = path.clone();
                table.names.insert(path, id);
            }
        }
    }

    /// Holds what the nodes at or below these paths share, so that nothing of them is published, renamed or removed meanwhile.
    pub(crate) fn hold(&self, paths: &[&TreePath]) -> LockedNodes<'_> {
        loop {
            // Whoever finds one of these names from now on finds the same node, and waits for us.
            let named: Vec<NodeId> = paths.iter().map(|path| self.find(path, 0)).collect();
            let shared = self.shared_below(paths).into_iter().map(|(node, shared)| (node, shared.lock_arc())).collect();
            let held = LockedNodes { nodes: self, shared };
            // Another file may have come there while we waited.
            let is_still =
                |(path, node): (&&TreePath, &NodeId)| self.at(path) == Some(*node) && held.shared.contains_key(node);
            if paths.iter().zip(&named).all(is_still) {
                return held;
            }
        }
    }

    /// Whether anybody outside may still ask for a node.
    pub(crate) fn is_known(&self, id: NodeId) -> bool {
        self.table().nodes.get(&id).is_some_and(|node| node.found > 0 || node.open > 0)
    }

    /// What the known nodes at or below these paths share, in the order in which several may be locked.
    fn shared_below(&self, paths: &[&TreePath]) -> Vec<(NodeId, Arc<Mutex<SharedNode>>)> {
        let table = self.table();
        let known = paths.iter().flat_map(|path| table.below(path)).filter_map(|path| table.names.get(&path).copied());
        let ids: BTreeSet<NodeId> = known.collect();
        ids.into_iter().filter_map(|id| Some((id, Arc::clone(&table.nodes.get(&id)?.shared)))).collect()
    }

    /// Nodes at or below a path that have open handles: where they are, and what they share.
    pub(crate) fn opened_below(&self, path: &TreePath) -> Vec<(TreePath, Arc<Mutex<SharedNode>>)> {
        let table = self.table();
        if table.handles.is_empty() {
            return Vec::new();
        }
        let below = table.below(path).into_iter().filter_map(|path| Some((table.names.get(&path).copied()?, path)));
        let nodes = below.filter_map(|(id, path)| Some((table.nodes.get(&id)?, path)));
        nodes.filter(|(node, _)| node.open > 0).map(|(node, path)| (path, Arc::clone(&node.shared))).collect()
    }

    /// Nodes with open handles, with their paths.
    pub(crate) fn opened(&self) -> Vec<(NodeId, TreePath)> {
        let table = self.table();
        let open = table.nodes.iter().filter(|(_, node)| node.open > 0 && !node.is_gone);
        open.map(|(id, node)| (*id, node.path.clone())).collect()
    }
}

/// Nodes whose shared content is held.
pub(crate) struct LockedNodes<'a> {
    nodes: &'a SpaceNodes,
    shared: BTreeMap<NodeId, ArcMutexGuard<RawMutex, SharedNode>>,
}

impl LockedNodes<'_> {
    /// What the node at a path shares.
    pub(crate) fn at(&mut self, path: &TreePath) -> Option<&mut SharedNode> {
        self.shared.get_mut(&self.nodes.at(path)?).map(|shared| &mut **shared)
    }

    /// All of them.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = (NodeId, &mut SharedNode)> {
        self.shared.iter_mut().map(|(node, shared)| (*node, &mut **shared))
    }

    /// Keeps what stands at a path, which is about to lose its name, for whoever knows its node.
    pub(crate) fn keep(&mut self, vfs: &Vfs, path: &TreePath) -> Result<(), Fault> {
        let Some(node) = self.nodes.at(path).filter(|node| self.nodes.is_known(*node)) else { return Ok(()) };
        match self.at(path).map_or(Ok(()), |shared| shared.keep(vfs, path)) {
            // Nobody has it open, and hardly anybody is about to: a server with too many open files can remove it all the same.
            Err(fault) if !self.nodes.is_open(node) => {
                tracing::debug!(%path, error = ?fault, "what is removed is not kept for those who have found its name");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// The name stays.
    pub(crate) fn unkeep(&mut self, path: &TreePath) {
        let is_open = self.nodes.at(path).is_some_and(|node| self.nodes.is_open(node));
        if let Some(shared) = self.at(path) {
            shared.unkeep(is_open);
        }
    }
}

impl Drop for LockedNodes<'_> {
    fn drop(&mut self) {
        // Those that were made only to be held.
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

    /// The name is gone: the node lives on for its handles only. Answers as [`Table::sweep`].
    #[must_use]
    fn lose(&mut self, path: &TreePath) -> Option<TreeNode> {
        let id = self.names.remove(path)?;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.is_gone = true;
        }
        self.sweep(id)
    }

    /// Takes a node out that nobody knows any more. To be dropped by whoever does not hold the table: letting go of the last of a file may
    /// take the disk a while.
    #[must_use]
    fn sweep(&mut self, id: NodeId) -> Option<TreeNode> {
        let is_unknown = self.nodes.get(&id).is_some_and(|node| node.found == 0 && node.open == 0);
        if !is_unknown || id == NodeId::ROOT {
            return None;
        }
        let node = self.nodes.remove(&id)?;
        if self.names.get(&node.path) == Some(&id) {
            self.names.remove(&node.path);
        }
        Some(node)
    }
}
