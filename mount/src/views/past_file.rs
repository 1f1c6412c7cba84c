//! A file as it was: what `history` and `at` both show.

use bytes::Bytes;
use svcfs_base::{CommitId, Fault, FileKind, Timestamp, TreePath};
use svcfs_vfs::{PastName, StoredContent, StoredVersion};

use super::recent_cache::RecentCache;
use super::{MountViews, ViewAttributes, ViewNode, ViewNodeKind};

/// What was listed of the past last. It does not change.
#[derive(Default)]
pub(super) struct PastCache {
    /// The versions of a page.
    pub(super) versions: RecentCache<TreePath, Vec<StoredVersion>>,
    /// The names of a directory in a commit, in order.
    pub(super) directories: RecentCache<(CommitId, TreePath), Vec<PastName>>,
}

/// A file, or a link, as it was.
pub(super) struct PastFile {
    /// What it held.
    pub(super) content: StoredContent,
    /// What kind of file it was.
    pub(super) kind: FileKind,
    /// Since when it is known to be so.
    pub(super) time: Timestamp,
    /// Where it is, or was.
    pub(super) path: TreePath,
}

impl ViewNode for PastFile {
    fn key(&self) -> Vec<u8> {
        let Self { content, kind, time, path } = self;
        let mut key = match content {
            StoredContent::Blob(blob) => [b"blob ", &blob.as_bytes()[..]].concat(),
            StoredContent::Snapshot(path, moment) => format!("snapshot {moment} {path} ").into_bytes(),
        };
        key.extend(kind.git_mode().to_ne_bytes());
        key.extend(time.as_second().to_ne_bytes());
        key.extend(path.as_str().as_bytes());
        key
    }

    fn shape(&self) -> ViewNodeKind {
        match self.kind {
            FileKind::Symlink => ViewNodeKind::Link,
            FileKind::Regular | FileKind::Executable => ViewNodeKind::File,
        }
    }

    fn look(&self, views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes {
            size: views.vfs.stored_size(&self.content)?,
            modified: Some(self.time),
            like: self.path.clone(),
            is_executable: self.kind == FileKind::Executable,
        })
    }

    fn content(&self, views: &MountViews) -> Result<Bytes, Fault> {
        views.vfs.stored_content(&self.content)
    }
}
