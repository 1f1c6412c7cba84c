//! A file that is read: pinned to the content at the time of opening, except for files over 64 MiB.

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture};
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_vfs::{EntryKind, FileContent, FileReader, OpenedFile};
use svcfs_work::Lane;

use crate::WebdavServer;
use crate::context::WebdavRequestContext;
use crate::file_system::seek_position;
use crate::metadata::ResourceMetadata;
use crate::resolved::{ResolvedResource, check_access};

/// A file open for reading.
pub(crate) struct ReadableFile {
    metadata: ResourceMetadata,
    position: u64,
    content: Arc<FileContent>,
    protocol: Arc<WebdavServer>,
}

impl std::fmt::Debug for ReadableFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.content.fmt(formatter)
    }
}

impl ReadableFile {
    /// Opens a file from the caches, without blocking; `None` when that is not possible.
    pub(crate) fn try_cached(context: &WebdavRequestContext, path: &TreePath) -> Option<Self> {
        let (space, caller) = (context.space(), context.caller());
        if context.is_proposing() {
            return None;
        }
        // A cached path contains no links.
        caller.permissions.check_path(path).ok()?;
        let (file, _) = space.vfs.try_read_cached(caller.protocol, path, None)?;
        Some(Self::of(context, file.into()))
    }

    /// Opens a file. Errors: `NotFound`, `IsDirectory`.
    pub(crate) fn open(context: &WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        let (space, caller) = (context.space(), context.caller());
        check_access(context, path)?;
        // The common case: a versioned file.
        let tree = context.tree();
        if let Ok(opened) = tree.open_content(caller.protocol, path) {
            return Ok(Self::of(context, opened));
        }
        let resource = ResolvedResource::at(context, path)?;
        if resource.attributes.kind != EntryKind::File {
            return Err(Fault::is_directory(path));
        }
        if resource.is_large() {
            let reader = match resource.draftless_node() {
                Some(node) => FileReader::open(&space.vfs, caller, node)?,
                None => FileReader::open_path(&space.vfs, caller, &resource.path)?.0,
            };
            let metadata = ResourceMetadata::of_large(resource.attributes.clone());
            return Ok(Self::new(context, metadata, FileContent::OnDisk(reader)));
        }
        match tree.open_content(caller.protocol, &resource.path) {
            // Created through a mount and not saved yet.
            Err(fault) if fault.kind() == Kind::NotFound => {
                let mut metadata = resource.metadata(context)?;
                metadata.attributes.size = 0;
                Ok(Self::new(context, metadata, FileContent::InMemory(Bytes::new())))
            }
            opened => Ok(Self::of(context, opened?)),
        }
    }

    fn of(context: &WebdavRequestContext, OpenedFile { content, etag, attributes }: OpenedFile) -> Self {
        Self::new(context, ResourceMetadata::of(attributes, etag), content)
    }

    fn new(context: &WebdavRequestContext, metadata: ResourceMetadata, content: FileContent) -> Self {
        // Not the context: it holds this file.
        Self { metadata, position: 0, content: Arc::new(content), protocol: Arc::clone(context.protocol()) }
    }

    pub(crate) fn metadata(&self) -> ResourceMetadata {
        self.metadata.clone()
    }
}

impl DavFile for ReadableFile {
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
            let read = match self.content.try_read_cached(self.position, count) {
                Some(read) => read,
                None => {
                    let (content, position) = (Arc::clone(&self.content), self.position);
                    let read = move || content.read(position, count);
                    // The response has started: break the connection, so that the client notices.
                    let read = svcfs_listener::run_blocking(&self.protocol.lanes, Lane::Quick, read).await;
                    read.map_err(|fault| {
                        svcfs_listener::log_fault(&fault, "GET");
                        FsError::GeneralFailure
                    })?
                }
            };
            if read.is_empty() && self.position < self.metadata.attributes.size {
                // The file was truncated; dav-server would pad it with zeros.
                return Err(FsError::GeneralFailure);
            }
            self.position += read.len() as u64;
            Ok(read)
        })
    }
    fn seek(&mut self, target: SeekFrom) -> FsFuture<'_, u64> {
        let seek_position = seek_position(target, self.position, self.metadata.attributes.size);
        if let Ok(target) = seek_position {
            self.position = target;
        }
        Box::pin(std::future::ready(seek_position))
    }
    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
