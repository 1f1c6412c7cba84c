//! Nodes and handles: the interface for inode protocols (FUSE, NFS).
//!
//! Invariant: a node is a file or directory, whatever its name becomes. All its handles share one
//! dirty buffer; publishing that makes one version.

mod attributes;
mod body;
mod content;
mod detached;
mod extended;
mod large;
mod names;
mod nonblocking;
mod orphans;
mod passthrough;
mod reading;
mod refusals;
mod rejected;
mod renaming;
mod snapshot_reader;
mod special;
mod staged_file;
mod table;

use std::time::SystemTime;

use svcfs_base::Fault;

pub use body::DirtyBytes;
pub use detached::{RejectedBuffer, RejectedText};
pub use names::is_upload_name;
pub use nonblocking::CachedRead;
pub use reading::{FileContent, FileReader, OpenedFile};
pub(crate) use refusals::{RecentRefusals, RefusalMark};
pub use rejected::rejected_path;
pub use staged_file::StagedFile;
pub(crate) use table::SpaceNodes;

use crate::Vfs;

/// A file or directory, whatever its name becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The knowledge root.
    pub const ROOT: Self = Self(1);
}

/// The permission bit of a directory whose new entries inherit its group.
pub const SET_GROUP_ID: u32 = 0o2000;
/// Permission bits that a file loses when its content changes.
const PRIVILEGES: u32 = 0o4000 | SET_GROUP_ID;

/// An open file. Later handles have greater numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleId(pub u64);

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenMode {
    /// May be written.
    pub write: bool,
    /// Emptied first.
    pub truncate: bool,
}

/// Where a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteAt {
    /// Offset in bytes from the start.
    Offset(u64),
    /// Offset in bytes, from a memory mapping: any write handle may have written it.
    Mapped(u64),
    /// To the current end (`O_APPEND`).
    End,
}

/// The range of a `fallocate(2)` call.
#[derive(Debug, Clone, Copy)]
pub struct Allocation {
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether the range is zeroed; otherwise its content stays.
    pub is_zeroed: bool,
    /// Whether the file grows to the end of the range; otherwise it keeps its length.
    pub grows: bool,
}

/// Attributes to set; `None` leaves an attribute as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetAttributes {
    /// New length in bytes; added bytes are zeros.
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
    /// The handle they are set through; none when set by name.
    pub handle: Option<HandleId>,
}

/// Size and free space of a disk.
#[derive(Debug, Clone, Copy)]
pub struct DiskSpace {
    /// Block size in bytes.
    pub block_size: u32,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Blocks free for ordinary users.
    pub available: u64,
    /// All inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

impl Vfs {
    /// Size and free space of the disk below the root.
    ///
    /// # Errors
    /// `Internal` when the disk does not report them.
    pub fn disk_space(&self) -> Result<DiskSpace, Fault> {
        let disk = self.core.tree.disk_usage()?;
        Ok(DiskSpace {
            block_size: u32::try_from(disk.block_size).unwrap_or(4096),
            blocks: disk.blocks,
            free: disk.free,
            available: disk.available,
            files: disk.files,
            files_free: disk.files_free,
        })
    }
}

#[cfg(test)]
mod tests;
