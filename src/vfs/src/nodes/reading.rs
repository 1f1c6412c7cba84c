//! A file that is open to be read, for doors that have no handles of their own.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{Caller, ETag, Fault, Protocol, TreePath};
use tracing::debug;

use super::snapshot_reader::SnapshotReader;
use super::{HandleId, NodeId, OpenMode};
use crate::Vfs;
use crate::view::{EntryKind, FileView, FoundFile, PathAttributes};

/// Most bytes that are read without waiting: so many are copied while others at the same thread do not notice, and an allocator has room for
/// them at hand.
const AT_ONCE: usize = 64 << 10;
/// Most bytes of a file that are handed on from memory: about as many as a connection takes at once. What is longer would stay there for as long as
/// a client is slow.
const HERE: u64 = 256 << 10;

/// The bytes of a file, to be handed on.
#[derive(Debug)]
pub enum FileContent {
    /// Few, or on their way to the disk.
    InMemory(Bytes),
    /// Many: read piece by piece.
    OnDisk(FileReader),
}

impl FileContent {
    /// Bytes at an offset; fewer at the end. Waits for the disk.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match self {
            Self::InMemory(content) => Ok(content.slice(super::body::part(content, offset, length as u64))),
            Self::OnDisk(reader) => reader.read(offset, length),
        }
    }

    /// The same as far as it can be had at once, as [`Reader::read_now`] says.
    pub fn try_read_cached(&self, offset: u64, length: usize) -> Option<Bytes> {
        match self {
            Self::InMemory(_) => self.read(offset, length).ok(),
            Self::OnDisk(reader) => reader.try_read_cached(offset, length),
        }
    }
}

/// A file whose bytes are handed on, and what goes with it.
#[derive(Debug)]
pub struct OpenedFile {
    /// Its bytes.
    pub content: FileContent,
    /// Their git blob hash.
    pub etag: ETag,
    /// What is known of the file.
    pub attributes: PathAttributes,
}

impl From<FileView> for OpenedFile {
    fn from(FileView { content, etag, attributes }: FileView) -> Self {
        let attributes = PathAttributes { size: content.len() as u64, ..attributes };
        Self { content: FileContent::InMemory(content), etag, attributes }
    }
}

/// A file that is open to be read, whatever its name becomes; closed when it is let go of.
///
/// One of at most 64 MiB has one content to its end, whatever is written meanwhile; a larger one is read as it is.
pub struct FileReader {
    vfs: Arc<Vfs>,
    of: ReaderSource,
}

enum ReaderSource {
    Still(SnapshotReader),
    Large { caller: Caller, node: NodeId, handle: HandleId },
}

impl fmt::Debug for FileReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            ReaderSource::Still(still) => write!(formatter, "{}", still.etag),
            ReaderSource::Large { handle, .. } => write!(formatter, "{handle:?}"),
        }
    }
}

impl Vfs {
    /// The content of a file, as [`Vfs::read`] has it, for whoever hands it on as fast as somebody takes it.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub fn open_content(self: &Arc<Self>, protocol: Protocol, path: &TreePath) -> Result<OpenedFile, Fault> {
        match self.there(protocol, path)? {
            FoundFile::Placed(place, size) if size > HERE => {
                let (still, stat) = SnapshotReader::at(self, &place)?;
                let (etag, reader) = (still.etag, FileReader { vfs: Arc::clone(self), of: ReaderSource::Still(still) });
                Ok(OpenedFile { content: FileContent::OnDisk(reader), etag, attributes: stat.into() })
            }
            there => Ok(self.taken(path, there)?.into()),
        }
    }

    /// Many bytes that no file has (any more) are handed on from the disk, too.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn spill_content(self: &Arc<Self>, content: Bytes) -> Result<FileContent, Fault> {
        if content.len() as u64 <= HERE {
            return Ok(FileContent::InMemory(content));
        }
        let of = ReaderSource::Still(SnapshotReader::of(self, &content)?);
        Ok(FileContent::OnDisk(FileReader { vfs: Arc::clone(self), of }))
    }
}

impl FileReader {
    /// Opens a file over 64 MiB.
    ///
    /// # Errors
    /// As [`Vfs::open_node`].
    pub fn open(vfs: &Arc<Vfs>, caller: &Caller, node: NodeId) -> Result<Self, Fault> {
        let handle = vfs.open_node(caller, node, OpenMode::default())?;
        Ok(Self { vfs: Arc::clone(vfs), of: ReaderSource::Large { caller: caller.clone(), node, handle } })
    }

    /// Opens one that a path leads to, links followed; what it is like besides.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; `Invalid` for a link that leads out of the root.
    pub fn open_path(vfs: &Arc<Vfs>, caller: &Caller, path: &TreePath) -> Result<(Self, PathAttributes), Fault> {
        let (node, attributes) = vfs.lookup_path(caller, &vfs.resolve_links(caller.protocol, path)?)?;
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
    /// As [`Vfs::read_node`]; `Unavailable` when the content is gone, because somebody wrote into the file behind the server.
    pub fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match &self.of {
            ReaderSource::Still(still) => still.read(offset, length),
            ReaderSource::Large { node, .. } => self.vfs.read_node(*node, offset, length),
        }
    }

    /// Bytes at an offset, as far as they can be had at once: of a file that the system has in memory. At most 64 KiB.
    ///
    /// Never waits, so that a door that is async may ask where it is, and needs no thread for what is there.
    pub fn try_read_cached(&self, offset: u64, length: usize) -> Option<Bytes> {
        let length = length.min(AT_ONCE);
        let node = match &self.of {
            ReaderSource::Still(still) => return still.read_now(offset, length),
            ReaderSource::Large { node, .. } => *node,
        };
        let shared = self.vfs.nodes.shared(node).ok()?;
        let shared = shared.try_lock()?;
        match (&shared.staging, &shared.large) {
            (None, Some(large)) => large.read_cached(offset, length),
            _ => None,
        }
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        let ReaderSource::Large { caller, handle, .. } = &self.of else { return };
        // Opened to be read: there is nothing to publish that could be refused.
        if let Err(fault) = self.vfs.release(caller, *handle) {
            debug!(error = ?fault, "a file that was read could not be closed");
        }
    }
}
