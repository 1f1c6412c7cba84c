//! Nodes and handles: the face for inode protocols (FUSE, NFS).
use crate::{Attributes, Vfs};
use bytes::Bytes;
use std::time::SystemTime;
use svcfs_base::{Caller, Durability, Fault, Name, TreePath};

/// A file or directory, whatever its name becomes. The root is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);
impl NodeId {
    /// The knowledge root.
    pub const ROOT: Self = Self(1);
}

/// An open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandleId(pub u64);

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenMode {
    /// May be written.
    pub write: bool,
    /// Emptied first.
    pub truncate: bool,
    /// Every write goes to the end.
    pub append: bool,
}

/// Attributes to set; those that are none stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetAttributes {
    /// New length.
    pub size: Option<u64>,
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New modification time.
    pub modified: Option<SystemTime>,
    /// New access time.
    pub accessed: Option<SystemTime>,
}

impl Vfs {
    /// Finds a name in a directory; the node lives until forgotten as often as it was found (lookup, create, make).
    pub fn lookup(&self, caller: &Caller, parent: NodeId, name: &Name) -> Result<(NodeId, Attributes), Fault> {
        unimplemented!()
    }
    /// Gives back `count` findings of a node.
    pub fn forget(&self, node: NodeId, count: u64) {
        unimplemented!()
    }
    /// The node's present path. Stale when it is gone.
    pub fn path_of(&self, node: NodeId) -> Result<TreePath, Fault> {
        unimplemented!()
    }
    /// The node of a path, if one is known (for invalidation; does not count as a finding).
    pub fn node_at(&self, path: &TreePath) -> Option<NodeId> {
        unimplemented!()
    }
    /// Attributes, counting unpublished writes.
    pub fn attributes(&self, node: NodeId) -> Result<Attributes, Fault> {
        unimplemented!()
    }
    /// Changes attributes; a size change is a write of the node. Answers with the new attributes.
    pub fn set_attributes(&self, caller: &Caller, node: NodeId, set: SetAttributes) -> Result<Attributes, Fault> {
        unimplemented!()
    }
    /// Entries of a directory in name order (without `.` and `..`), each with its node number (not counted as findings).
    pub fn entries(&self, caller: &Caller, directory: NodeId) -> Result<Vec<(Name, NodeId, Attributes)>, Fault> {
        unimplemented!()
    }
    /// Opens a file.
    pub fn open_node(&self, caller: &Caller, node: NodeId, mode: OpenMode) -> Result<HandleId, Fault> {
        unimplemented!()
    }
    /// Creates and opens a file (found once). Exists when `exclusive` and the name is taken.
    pub fn create(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &Name,
        mode: u32,
        exclusive: bool,
    ) -> Result<(NodeId, Attributes, HandleId), Fault> {
        unimplemented!()
    }
    /// Bytes at an offset; fewer at the end.
    pub fn read_node(&self, node: NodeId, offset: u64, length: usize) -> Result<Bytes, Fault> {
        unimplemented!()
    }
    /// Writes at an offset (or at the end, for a handle opened to append); not yet in history.
    pub fn write_node(&self, handle: HandleId, offset: u64, data: &[u8]) -> Result<usize, Fault> {
        unimplemented!()
    }
    /// Turns the node's unpublished bytes into one version (`flush`: Soon, `fsync`: Now). Nothing to do when clean.
    pub fn publish(&self, caller: &Caller, node: NodeId, durability: Durability) -> Result<(), Fault> {
        unimplemented!()
    }
    /// Closes a handle; the last one publishes what is left, as a safety net.
    pub fn release(&self, caller: &Caller, handle: HandleId) -> Result<(), Fault> {
        unimplemented!()
    }
    /// Makes a directory (found once).
    pub fn make_directory(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &Name,
        mode: u32,
    ) -> Result<(NodeId, Attributes), Fault> {
        unimplemented!()
    }
    /// Removes an empty directory.
    pub fn remove_directory(&self, caller: &Caller, parent: NodeId, name: &Name) -> Result<(), Fault> {
        unimplemented!()
    }
    /// Removes a file or link; open handles go on working.
    pub fn unlink(&self, caller: &Caller, parent: NodeId, name: &Name) -> Result<(), Fault> {
        unimplemented!()
    }
    /// Renames; `replace` false refuses when the target exists.
    pub fn rename_node(
        &self,
        caller: &Caller,
        from: (NodeId, &Name),
        to: (NodeId, &Name),
        replace: bool,
    ) -> Result<(), Fault> {
        unimplemented!()
    }
    /// Exchanges two names atomically.
    pub fn exchange(&self, caller: &Caller, one: (NodeId, &Name), other: (NodeId, &Name)) -> Result<(), Fault> {
        unimplemented!()
    }
    /// Makes a symbolic link (found once).
    pub fn make_link(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &Name,
        target: &str,
    ) -> Result<(NodeId, Attributes), Fault> {
        unimplemented!()
    }
    /// The target of a link.
    pub fn link_target(&self, node: NodeId) -> Result<String, Fault> {
        unimplemented!()
    }
    /// Why the last save of this node was refused, if it was (`user.svc.lint`, gaps.md D6).
    pub fn refusal(&self, node: NodeId) -> Option<String> {
        unimplemented!()
    }
    /// Size and free space of the disk below the root.
    pub fn disk(&self) -> Result<DiskSpace, Fault> {
        unimplemented!()
    }
}

/// Size and free space of a disk, in blocks and files.
#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    /// Bytes a block.
    pub block_size: u32,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free for ordinary users.
    pub available: u64,
    /// All files.
    pub files: u64,
    /// Free files.
    pub files_free: u64,
}
