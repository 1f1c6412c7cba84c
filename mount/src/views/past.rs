//! A file as it was: what `history` and `at` both show.

use bytes::Bytes;
use svcfs_base::{CommitId, Fault, FileKind, Timestamp, TreePath};
use svcfs_vfs::{KeptContent, KeptVersion, PastName};

use super::recent::Recent;
use super::{Look, Place, Shape, Views};

/// What was listed of the past last. It does not change.
#[derive(Default)]
pub(super) struct Recently {
    /// The versions of a page.
    pub(super) versions: Recent<TreePath, Vec<KeptVersion>>,
    /// The names of a directory in a commit, in order.
    pub(super) directories: Recent<(CommitId, TreePath), Vec<PastName>>,
}

/// A file, or a link, as it was.
pub(super) struct PastFile {
    /// What it held.
    pub(super) content: KeptContent,
    /// What kind of file it was.
    pub(super) kind: FileKind,
    /// Since when it is known to be so.
    pub(super) time: Timestamp,
    /// Where it is, or was.
    pub(super) path: TreePath,
}

impl Place for PastFile {
    fn key(&self) -> Vec<u8> {
        let Self { content, kind, time, path } = self;
        let mut key = match content {
            KeptContent::Blob(blob) => [b"blob ", &blob.as_bytes()[..]].concat(),
            KeptContent::Snapshot(path, moment) => format!("snapshot {moment} {path} ").into_bytes(),
        };
        key.extend(kind.git_mode().to_ne_bytes());
        key.extend(time.as_second().to_ne_bytes());
        key.extend(path.as_str().as_bytes());
        key
    }

    fn shape(&self) -> Shape {
        match self.kind {
            FileKind::Symlink => Shape::Link,
            FileKind::Regular | FileKind::Executable => Shape::File,
        }
    }

    fn look(&self, views: &Views) -> Result<Look, Fault> {
        Ok(Look {
            size: views.vfs.kept_size(&self.content)?,
            modified: Some(self.time),
            like: self.path.clone(),
            is_executable: self.kind == FileKind::Executable,
        })
    }

    fn content(&self, views: &Views) -> Result<Bytes, Fault> {
        views.vfs.kept_content(&self.content)
    }
}
