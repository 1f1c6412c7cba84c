//! A file that is open to be read, for doors that have no handles of their own.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{Caller, Fault, TreePath};
use tracing::debug;

use super::{HandleId, NodeId, OpenMode};
use crate::Vfs;
use crate::view::{Attributes, EntryKind};

/// Most bytes that are read without waiting: so many are copied while others at the same thread do not notice, and an allocator has room for
/// them at hand.
const AT_ONCE: usize = 64 << 10;

/// A file that is open to be read, whatever its name becomes; closed when it is let go of.
///
/// One of at most 64 MiB is read as it stands under its name at each moment; a larger one as it is.
pub struct Reader {
    vfs: Arc<Vfs>,
    caller: Caller,
    node: NodeId,
    handle: HandleId,
}

impl fmt::Debug for Reader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.handle)
    }
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`Vfs::open_node`].
    pub fn open(vfs: &Arc<Vfs>, caller: &Caller, node: NodeId) -> Result<Self, Fault> {
        let handle = vfs.open_node(caller, node, OpenMode::default())?;
        Ok(Self { vfs: Arc::clone(vfs), caller: caller.clone(), node, handle })
    }

    /// Opens the file that a path leads to, links followed; what it is like besides.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; `Invalid` for a link that leads out of the root.
    pub fn at(vfs: &Arc<Vfs>, caller: &Caller, path: &TreePath) -> Result<(Self, Attributes), Fault> {
        let (node, attributes) = vfs.find(caller, &vfs.leads_to(caller.door, path)?)?;
        let opened = match attributes.kind {
            EntryKind::File => Self::open(vfs, caller, node),
            EntryKind::Directory => Err(Fault::is_directory(path)),
            EntryKind::Symlink | EntryKind::Special(_) => Err(Fault::file_not_found(path)),
        };
        // Its handle keeps it.
        vfs.forget(node, 1);
        Ok((opened?, attributes))
    }

    /// Bytes at an offset; fewer at the end. Waits for the disk.
    ///
    /// # Errors
    /// As [`Vfs::read_node`].
    pub fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        self.vfs.read_node(self.node, offset, length)
    }

    /// Bytes at an offset, as far as they can be had at once: of a file over 64 MiB that the system has in memory. At most 64 KiB.
    ///
    /// Never waits, so that a door that is async may ask where it is, and needs no thread for what is there.
    pub fn read_now(&self, offset: u64, length: usize) -> Option<Bytes> {
        let shared = self.vfs.nodes.shared(self.node).ok()?;
        let shared = shared.try_lock()?;
        match (&shared.staging, &shared.large) {
            (None, Some(large)) => large.read_cached(offset, length.min(AT_ONCE)),
            _ => None,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Opened to be read: there is nothing to publish that could be refused.
        if let Err(fault) = self.vfs.release(&self.caller, self.handle) {
            debug!(error = ?fault, "a file that was read could not be closed");
        }
    }
}
