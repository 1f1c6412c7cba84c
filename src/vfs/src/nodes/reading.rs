//! Files opened for reading, for protocols without handles.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{Caller, ETag, Fault, Protocol, TreePath};
use tracing::debug;

use super::snapshot_reader::SnapshotReader;
use super::{HandleId, NodeId, OpenMode};
use crate::Vfs;
use crate::view::{EntryKind, FileView, FoundFile, PathAttributes};

/// Maximum bytes of a non-blocking read: copying them does not delay other tasks of the thread.
const MAX_CACHED_READ_BYTES: usize = 64 << 10;
/// Maximum size of a file that is passed on from memory, about one socket buffer. Longer content
/// would stay in memory for as long as a client is slow.
const MAX_IN_MEMORY_BYTES: u64 = 256 << 10;

/// The content of a file, to be sent.
#[derive(Debug)]
pub enum FileContent {
    /// Small, or not on disk yet.
    InMemory(Bytes),
    /// Large: read in pieces.
    OnDisk(FileReader),
}

impl FileContent {
    /// Bytes at an offset; fewer at the end. May block on the disk.
    ///
    /// # Errors
    /// As [`FileReader::read`].
    pub fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match self {
            Self::InMemory(content) => Ok(content.slice(super::body::clamped_range(content, offset, length as u64))),
            Self::OnDisk(reader) => reader.read(offset, length),
        }
    }

    /// As `read`, without blocking; see [`FileReader::try_read_cached`].
    pub fn try_read_cached(&self, offset: u64, length: usize) -> Option<Bytes> {
        match self {
            Self::InMemory(_) => self.read(offset, length).ok(),
            Self::OnDisk(reader) => reader.try_read_cached(offset, length),
        }
    }
}

/// An open file with its attributes.
#[derive(Debug)]
pub struct OpenedFile {
    /// Its content.
    pub content: FileContent,
    /// Git blob hash of the content.
    pub etag: ETag,
    /// Its attributes.
    pub attributes: PathAttributes,
}

impl From<FileView> for OpenedFile {
    fn from(FileView { content, etag, attributes }: FileView) -> Self {
        let attributes = PathAttributes { size: content.len() as u64, ..attributes };
        Self { content: FileContent::InMemory(content), etag, attributes }
    }
}

/// A file opened for reading, whatever its name becomes; closed when dropped.
///
/// Up to 64 MiB its content stays the same; a larger file is read as it is.
pub struct FileReader {
    vfs: Arc<Vfs>,
    source: ReaderSource,
}

enum ReaderSource {
    Snapshot(SnapshotReader),
    Large { caller: Box<Caller>, node: NodeId, handle: HandleId },
}

impl fmt::Debug for FileReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ReaderSource::Snapshot(snapshot) => write!(formatter, "{}", snapshot.etag),
            ReaderSource::Large { handle, .. } => write!(formatter, "{handle:?}"),
        }
    }
}

impl Vfs {
    /// The content of a file as in [`Vfs::read`], to be sent at the speed of a client.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub fn open_content(self: &Arc<Self>, protocol: Protocol, path: &TreePath) -> Result<OpenedFile, Fault> {
        match self.find_file(protocol, path)? {
            FoundFile::InTree(place, size) if size > MAX_IN_MEMORY_BYTES => {
                let (snapshot, stat) = SnapshotReader::open(self, &place)?;
                let (etag, reader) =
                    (snapshot.etag, FileReader { vfs: Arc::clone(self), source: ReaderSource::Snapshot(snapshot) });
                Ok(OpenedFile { content: FileContent::OnDisk(reader), etag, attributes: stat.into() })
            }
            file => Ok(self.read_found(path, file)?.into()),
        }
    }

    /// Content that no file has (any more); spilled to disk when large.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn spill_content(self: &Arc<Self>, content: Bytes) -> Result<FileContent, Fault> {
        if content.len() as u64 <= MAX_IN_MEMORY_BYTES {
            return Ok(FileContent::InMemory(content));
        }
        let of = ReaderSource::Snapshot(SnapshotReader::from_content(self, &content)?);
        Ok(FileContent::OnDisk(FileReader { vfs: Arc::clone(self), source: of }))
    }
}

impl FileReader {
    /// Opens a file over 64 MiB.
    ///
    /// # Errors
    /// As [`Vfs::open_node`].
    pub fn open(vfs: &Arc<Vfs>, caller: &Caller, node: NodeId) -> Result<Self, Fault> {
        let handle = vfs.open_node(caller, node, OpenMode::default())?;
        Ok(Self {
            vfs: Arc::clone(vfs),
            source: ReaderSource::Large { caller: Box::new(caller.clone()), node, handle },
        })
    }

    /// Opens the file at a path, following links; also returns its attributes.
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
        // The handle keeps the node.
        vfs.forget(node, 1);
        Ok((opened?, attributes))
    }

    /// Bytes at an offset; fewer at the end. May block on the disk.
    ///
    /// # Errors
    /// As [`Vfs::read_node`]; `Unavailable` when the content was overwritten externally.
    pub fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match &self.source {
            ReaderSource::Snapshot(snapshot) => snapshot.read(offset, length),
            ReaderSource::Large { node, .. } => self.vfs.read_node(*node, offset, length),
        }
    }

    /// Bytes at an offset that are in the page cache, at most 64 KiB.
    ///
    /// Never blocks: async protocols need no thread for it.
    pub fn try_read_cached(&self, offset: u64, length: usize) -> Option<Bytes> {
        let length = length.min(MAX_CACHED_READ_BYTES);
        let node = match &self.source {
            ReaderSource::Snapshot(snapshot) => return snapshot.try_read_cached(offset, length),
            ReaderSource::Large { node, .. } => *node,
        };
        let shared = self.vfs.nodes.shared(node).ok()?;
        let shared = shared.try_lock()?;
        match (&shared.dirty, &shared.large) {
            (None, Some(large)) => large.read_cached(offset, length),
            _ => None,
        }
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        let ReaderSource::Large { caller, handle, .. } = &self.source else { return };
        // Opened read-only: nothing to publish.
        if let Err(fault) = self.vfs.release(caller, *handle) {
            debug!(error = ?fault, "a file that was read could not be closed");
        }
    }
}
