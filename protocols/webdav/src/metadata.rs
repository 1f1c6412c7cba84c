//! What is known of a file or folder, as dav-server asks for it.

use std::time::SystemTime;

use dav_server::fs::{DavDirEntry, DavMetaData, FsFuture, FsResult};
use svcfs_base::{ETag, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes};

/// What is known of a file or folder.
#[derive(Debug, Clone)]
pub(crate) struct ResourceMetadata {
    pub(crate) attributes: PathAttributes,
    /// None where nobody asks for it, and for a folder.
    pub(crate) etag: Option<String>,
    /// A folder that is to be handled as one thing.
    pub(crate) is_whole: bool,
    /// A link that is to be handled itself.
    pub(crate) is_link: bool,
}

impl ResourceMetadata {
    /// Of a file with this content.
    pub(crate) fn of(attributes: PathAttributes, etag: ETag) -> Self {
        Self { attributes, etag: Some(etag.to_string()), is_whole: false, is_link: false }
    }
    /// Of a file that is too large to be recorded: no version has it, and size and time must do.
    pub(crate) fn of_large(attributes: PathAttributes) -> Self {
        let etag = attributes.large_file().map(|large| large.to_string());
        Self { attributes, etag, is_whole: false, is_link: false }
    }
    /// Of something whose hash nobody asks for.
    pub(crate) const fn without_etag(attributes: PathAttributes) -> Self {
        Self { attributes, etag: None, is_whole: false, is_link: false }
    }
}

impl DavMetaData for ResourceMetadata {
    fn len(&self) -> u64 {
        self.attributes.size
    }
    fn modified(&self) -> FsResult<SystemTime> {
        Ok(self.attributes.modified)
    }
    fn is_dir(&self) -> bool {
        self.attributes.kind == EntryKind::Directory && !self.is_whole
    }
    fn is_symlink(&self) -> bool {
        self.is_link
    }
    fn etag(&self) -> Option<String> {
        self.etag.clone()
    }
}

/// A file or folder of which something is told: one line of a listing.
pub(crate) struct ListedResource {
    /// What the client calls it, in its space.
    pub(crate) path: TreePath,
    /// Where it is, links followed.
    pub(crate) place: TreePath,
    pub(crate) metadata: ResourceMetadata,
}

impl DavDirEntry for ListedResource {
    fn name(&self) -> Vec<u8> {
        self.path.name().as_bytes().to_vec()
    }
    fn metadata(&self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        let metadata: Box<dyn DavMetaData> = Box::new(self.metadata.clone());
        Box::pin(std::future::ready(Ok(metadata)))
    }
}
