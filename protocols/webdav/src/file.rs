//! A file that is read: as it was when it was opened, but one that is too large for memory, which is read as it is.

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture};
use svcfs_base::{Caller, Fault, Kind, TreePath};
use svcfs_vfs::{EntryKind, HandleId, NodeId, OpenMode, Vfs};

use crate::asked::Asked;
use crate::found::Found;
use crate::metadata::Metadata;
use crate::tree::sought;

/// A file that is open to be read.
#[derive(Debug)]
pub(crate) struct Reading {
    metadata: Metadata,
    position: u64,
    content: Content,
}

enum Content {
    Here(Bytes),
    OnDisk(Handle, Asked),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here(bytes) => write!(formatter, "{} bytes", bytes.len()),
            Self::OnDisk(handle, _) => write!(formatter, "{:?}", handle.handle),
        }
    }
}

/// A handle that keeps its node alive.
struct Handle {
    vfs: Arc<Vfs>,
    caller: Caller,
    node: NodeId,
    handle: HandleId,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Opened to be read: there is nothing to publish that could be refused.
        if let Err(fault) = self.vfs.release(&self.caller, self.handle) {
            tracing::debug!(error = ?fault, "a file that was read could not be closed");
        }
    }
}

impl Reading {
    /// Opens the file that a path leads to.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; those of reading it.
    pub(crate) fn open(asked: &Asked, path: &TreePath) -> Result<Self, Fault> {
        let found = Found::at(asked, path)?;
        if found.attributes.kind != EntryKind::File {
            return Err(Fault::is_directory(path));
        }
        let (vfs, caller) = (&asked.space().vfs, asked.caller());
        if found.is_large() {
            let handle = vfs.open_node(caller, found.node, OpenMode::default())?;
            let (vfs, caller) = (Arc::clone(vfs), caller.clone());
            let handle = Handle { vfs, caller, node: found.node, handle };
            let metadata = Metadata::of_large(found.attributes.clone());
            return Ok(Self { metadata, position: 0, content: Content::OnDisk(handle, asked.clone()) });
        }
        let (metadata, content) = match vfs.read(caller.door, &found.path) {
            Ok(file) => (Metadata::of(file.attributes, file.etag), file.content),
            // Made through a mount, and not saved yet.
            Err(fault) if fault.kind() == Kind::NotFound => (found.metadata(asked)?, Bytes::new()),
            Err(fault) => return Err(fault),
        };
        let mut metadata = metadata;
        metadata.attributes.size = content.len() as u64;
        Ok(Self { metadata, position: 0, content: Content::Here(content) })
    }
}

impl DavFile for Reading {
    fn metadata(&mut self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        let metadata: Box<dyn DavMetaData> = Box::new(self.metadata.clone());
        Box::pin(std::future::ready(Ok(metadata)))
    }
    fn write_buf(&mut self, _: Box<dyn Buf + Send>) -> FsFuture<'_, ()> {
        Box::pin(std::future::ready(Err(FsError::Forbidden)))
    }
    fn write_bytes(&mut self, _: Bytes) -> FsFuture<'_, ()> {
        Box::pin(std::future::ready(Err(FsError::Forbidden)))
    }
    fn read_bytes(&mut self, count: usize) -> FsFuture<'_, Bytes> {
        Box::pin(async move {
            let read = match &self.content {
                Content::Here(content) => {
                    let begin = usize::try_from(self.position).unwrap_or(usize::MAX).min(content.len());
                    content.slice(begin..content.len().min(begin.saturating_add(count)))
                }
                Content::OnDisk(Handle { vfs, node, .. }, asked) => {
                    let (vfs, node, position) = (Arc::clone(vfs), *node, self.position);
                    asked.run(move |_| vfs.read_node(node, position, count)).await?
                }
            };
            if read.is_empty() && self.position < self.metadata.attributes.size {
                // It became shorter meanwhile; dav-server would send zeros in place of what is gone.
                return Err(FsError::GeneralFailure);
            }
            self.position += read.len() as u64;
            Ok(read)
        })
    }
    fn seek(&mut self, place: SeekFrom) -> FsFuture<'_, u64> {
        let sought = sought(place, self.position, self.metadata.attributes.size);
        if let Ok(place) = sought {
            self.position = place;
        }
        Box::pin(std::future::ready(sought))
    }
    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
