//! Metadata of a file or folder for dav-server.

use std::time::SystemTime;

use dav_server::fs::{DavDirEntry, DavMetaData, FsFuture, FsResult};
use svcfs_base::{ETag, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes};

/// Metadata of a file or folder.
#[derive(Debug, Clone)]
pub(crate) struct ResourceMetadata {
    pub(crate) attributes: PathAttributes,
    /// `None` when it is not requested, and for a folder.
    pub(crate) etag: Option<String>,
    /// A folder that is handled as a unit: dav-server sees a file.
    pub(crate) is_opaque: bool,
    /// A link that is handled itself.
    pub(crate) is_link: bool,
}

impl ResourceMetadata {
    /// For a file with this content.
    pub(crate) fn of(attributes: PathAttributes, etag: ETag) -> Self {
        Self { attributes, etag: Some(etag.to_string()), is_opaque: false, is_link: false }
    }
    /// For a file too large to be versioned; size and time identify its content.
    pub(crate) fn of_large(attributes: PathAttributes) -> Self {
        let etag = attributes.large_file().map(|large| large.to_string());
        Self { attributes, etag, is_opaque: false, is_link: false }
    }
    /// For a resource whose hash is not requested.
    pub(crate) const fn without_etag(attributes: PathAttributes) -> Self {
        Self { attributes, etag: None, is_opaque: false, is_link: false }
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
        self.attributes.kind == EntryKind::Directory && !self.is_opaque
    }
    fn is_symlink(&self) -> bool {
        self.is_link
    }
    fn etag(&self) -> Option<String> {
        self.etag.clone()
    }
}

/// A file or folder in a listing.
pub(crate) struct ListedResource {
    /// The path as the client sees it, in its space.
    pub(crate) path: TreePath,
    /// The path with links followed.
    pub(crate) resolved_path: TreePath,
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
