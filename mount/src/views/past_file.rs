//! An earlier version of a file, as shown by `history` and `at`.

use bytes::Bytes;
use svcfs_base::{CommitId, Fault, FileKind, Timestamp, TreePath};
use svcfs_vfs::{PastName, StoredContent, StoredVersion};

use super::recent_cache::RecentCache;
use super::{MountViews, ViewAttributes, ViewNode, ViewNodeKind};

/// Recent listings of the past, which does not change.
#[derive(Default)]
pub(super) struct PastCache {
    /// Versions of a page.
    pub(super) versions: RecentCache<TreePath, Vec<StoredVersion>>,
    /// Names of a directory in a commit, sorted.
    pub(super) directories: RecentCache<(CommitId, TreePath), Vec<PastName>>,
}

/// A file or link of the past.
pub(super) struct PastFile {
    pub(super) content: StoredContent,
    pub(super) kind: FileKind,
    /// Time of the version.
    pub(super) time: Timestamp,
    pub(super) path: TreePath,
}

impl ViewNode for PastFile {
    fn key(&self) -> Vec<u8> {
        let Self { content, kind, time, path } = self;
        let mut key = match content {
            StoredContent::Blob(blob) => [b"blob ", &blob.as_bytes()[..]].concat(),
            StoredContent::Converted(path, commit) => format!("converted {commit} {path} ").into_bytes(),
            StoredContent::Snapshot(path, moment) => format!("snapshot {moment} {path} ").into_bytes(),
        };
        key.extend(kind.git_mode().to_ne_bytes());
        key.extend(time.as_second().to_ne_bytes());
        key.extend(path.as_str().as_bytes());
        key
    }

    fn node_kind(&self) -> ViewNodeKind {
        match self.kind {
            FileKind::Symlink => ViewNodeKind::Link,
            FileKind::Regular | FileKind::Executable => ViewNodeKind::File,
        }
    }

    fn attributes(&self, views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes {
            size: views.vfs.stored_size(&self.content)?,
            modified: Some(self.time),
            permissions_of: self.path.clone(),
            is_executable: self.kind == FileKind::Executable,
        })
    }

    fn content(&self, views: &MountViews) -> Result<Bytes, Fault> {
        views.vfs.stored_content(&self.content)
    }
}
