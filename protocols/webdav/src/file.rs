//! A file that is read: as it was when it was opened, but one over 64 MiB, which is read as it is.

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture};
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_vfs::{EntryKind, FileContent, FileReader, OpenedFile};
use svcfs_work::Lane;

use crate::WebdavServer;
use crate::context::WebdavRequestContext;
use crate::file_system::sought;
use crate::metadata::ResourceMetadata;
use crate::resolved::{ResolvedResource, check_reach};

/// A file that is open to be read.
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
    /// Opens the file that a path leads to, if nothing must be waited for.
    pub(crate) fn at_once(asked: &WebdavRequestContext, path: &TreePath) -> Option<Self> {
        let (space, caller) = (asked.space(), asked.caller());
        // One that is found at once has no link on its way: it lies where its path says.
        caller.permissions.check_path(path).ok()?;
        let (file, _) = space.vfs.try_read_cached(caller.protocol, path, None)?;
        Some(Self::of(asked, file.into()))
    }

    /// Opens the file that a path leads to.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; those of reading it.
    pub(crate) fn open(asked: &WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        let (space, caller) = (asked.space(), asked.caller());
        check_reach(asked, path)?;
        // Nearly everything that is read has a version, and then there is no more to know.
        if let Ok(opened) = space.vfs.open_content(caller.protocol, path) {
            return Ok(Self::of(asked, opened));
        }
        let found = ResolvedResource::at(asked, path)?;
        if found.attributes.kind != EntryKind::File {
            return Err(Fault::is_directory(path));
        }
        if found.is_large() {
            let content = FileContent::OnDisk(FileReader::open(&space.vfs, caller, found.node)?);
            return Ok(Self::new(asked, ResourceMetadata::of_large(found.attributes.clone()), content));
        }
        match space.vfs.open_content(caller.protocol, &found.path) {
            // Made through a mount, and not saved yet.
            Err(fault) if fault.kind() == Kind::NotFound => {
                let mut metadata = found.metadata(asked)?;
                metadata.attributes.size = 0;
                Ok(Self::new(asked, metadata, FileContent::InMemory(Bytes::new())))
            }
            opened => Ok(Self::of(asked, opened?)),
        }
    }

    fn of(asked: &WebdavRequestContext, OpenedFile { content, etag, attributes }: OpenedFile) -> Self {
        Self::new(asked, ResourceMetadata::of(attributes, etag), content)
    }

    fn new(asked: &WebdavRequestContext, metadata: ResourceMetadata, content: FileContent) -> Self {
        // Not what is asked: that has this.
        Self { metadata, position: 0, content: Arc::new(content), protocol: Arc::clone(asked.protocol()) }
    }

    /// What is known of it.
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
                    // The answer has begun: the connection breaks off, and the client knows.
                    let read = svcfs_listener::run_blocking(&self.protocol.lanes, Lane::Quick, read).await;
                    read.map_err(|fault| {
                        svcfs_listener::log_fault(&fault, "GET");
                        FsError::GeneralFailure
                    })?
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
