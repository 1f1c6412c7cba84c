//! A file that is read: as it was when it was opened, but one that is too large for memory, which is read as it is.

use std::io::SeekFrom;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture};
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_vfs::{EntryKind, Reader};

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
    OnDisk(Arc<Reader>, Asked),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here(bytes) => write!(formatter, "{} bytes", bytes.len()),
            Self::OnDisk(reader, _) => reader.fmt(formatter),
        }
    }
}

impl Reading {
    /// Opens the file that a path leads to, if nothing must be waited for.
    pub(crate) fn at_once(asked: &Asked, path: &TreePath) -> Option<Self> {
        let (space, caller) = (asked.space(), asked.caller());
        space.check_reach(&caller.reach, caller.door, path).ok()?;
        let (file, _) = space.vfs.read_now(caller.door, path, None)?;
        Some(Self::here(Metadata::of(file.attributes, file.etag), file.content))
    }

    /// Opens the file that a path leads to.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; those of reading it.
    pub(crate) fn open(asked: &Asked, path: &TreePath) -> Result<Self, Fault> {
        let (space, caller) = (asked.space(), asked.caller());
        space.check_reach(&caller.reach, caller.door, path)?;
        // Nearly everything that is read has a version, and then there is no more to know.
        if let Ok(file) = space.vfs.read(caller.door, path) {
            return Ok(Self::here(Metadata::of(file.attributes, file.etag), file.content));
        }
        let found = Found::at(asked, path)?;
        if found.attributes.kind != EntryKind::File {
            return Err(Fault::is_directory(path));
        }
        if found.is_large() {
            let reader = Arc::new(Reader::open(&space.vfs, caller, found.node)?);
            let metadata = Metadata::of_large(found.attributes.clone());
            return Ok(Self { metadata, position: 0, content: Content::OnDisk(reader, asked.clone()) });
        }
        match space.vfs.read(caller.door, &found.path) {
            Ok(file) => Ok(Self::here(Metadata::of(file.attributes, file.etag), file.content)),
            // Made through a mount, and not saved yet.
            Err(fault) if fault.kind() == Kind::NotFound => Ok(Self::here(found.metadata(asked)?, Bytes::new())),
            Err(fault) => Err(fault),
        }
    }

    fn here(mut metadata: Metadata, content: Bytes) -> Self {
        metadata.attributes.size = content.len() as u64;
        Self { metadata, position: 0, content: Content::Here(content) }
    }

    /// What is known of it.
    pub(crate) fn metadata(&self) -> Metadata {
        self.metadata.clone()
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
                Content::OnDisk(reader, asked) => match reader.read_now(self.position, count) {
                    Some(read) => read,
                    None => {
                        let (reader, position) = (Arc::clone(reader), self.position);
                        asked.run(move |_| reader.read(position, count)).await?
                    }
                },
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
