//! Snapshots: what a file held, each in a file of its own, `.versions/<path>/<19 digits>.md` (gaps.md 4.4).
//!
//! One rule: a snapshot is named by the moment its set was recorded, and never changed. Nothing is flushed: the log has the content
//! until a checkpoint has flushed the disk.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{DiskAttributes, FileKind, Timestamp, TreePath, VersionId};
use tracing::warn;

use super::VersionResult;
use crate::{FailPoint, FailPoints, FileInstall, StatKind, StoreError, WorkTree};

/// Where snapshots lie below the root.
pub const SNAPSHOT_DIRECTORY: &str = ".versions";
/// Of every snapshot, whatever the file is called.
const SUFFIX: &str = ".md";

/// The snapshots of a tree.
pub struct SnapshotStore {
    tree: Arc<WorkTree>,
    at_most: Option<NonZeroUsize>,
    fail: FailPoints,
}

impl SnapshotStore {
    pub(super) fn new(tree: Arc<WorkTree>, at_most: Option<NonZeroUsize>) -> Self {
        let fail = tree.fail_points();
        Self { tree, at_most, fail }
    }

    /// Keeps what a file held at a moment, and lets go of its oldest snapshots where there are more than are to be kept.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn save(&self, path: &TreePath, moment: Timestamp, content: &[u8]) -> VersionResult<()> {
        self.fail.check(FailPoint::SnapshotWrite)?;
        let place = place(path, moment)?;
        let (kind, disk) = (FileKind::Regular, DiskAttributes::default());
        self.tree.install(&FileInstall { path: &place, content, kind, attributes: disk })?;
        if let Err(error) = self.prune(path) {
            warn!(page.path = %path, %error, "older snapshots could not be removed; the next write tries again");
        }
        Ok(())
    }

    fn prune(&self, path: &TreePath) -> VersionResult<()> {
        let Some(at_most) = self.at_most else { return Ok(()) };
        let kept = self.list(path)?;
        for oldest in &kept[..kept.len().saturating_sub(at_most.get())] {
            self.fail.check(FailPoint::SnapshotDrop)?;
            self.tree.unlink(&place(path, *oldest)?)?;
        }
        Ok(())
    }

    /// The moments of the snapshots of a path, oldest first.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn list(&self, path: &TreePath) -> VersionResult<Vec<Timestamp>> {
        let Ok(directory) = directory(path) else { return Ok(Vec::new()) };
        match self.tree.list(&directory) {
            Ok(entries) => {
                let files = entries.iter().filter(|(_, stat)| stat.kind == StatKind::File);
                Ok(files
                    .filter_map(|(name, _)| VersionId::parse_timestamp(name.as_str().strip_suffix(SUFFIX)?))
                    .collect())
            }
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// What a path held at a moment; none when there is no snapshot of it.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn read(&self, path: &TreePath, moment: Timestamp) -> VersionResult<Option<Bytes>> {
        let Ok(place) = place(path, moment) else { return Ok(None) };
        match self.tree.read(&place) {
            Ok((content, _)) => Ok(Some(content)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether snapshots of a path have a place.
///
/// # Errors
/// `Unrecordable` when the name is one of snapshots themselves, or the path is too long.
pub(super) fn can_keep(path: &TreePath) -> VersionResult<()> {
    let is_of_snapshots =
        |name: &str| name.strip_suffix(SUFFIX).is_some_and(|stem| VersionId::parse_timestamp(stem).is_some());
    if path.components().any(is_of_snapshots) {
        return Err(unrecordable(path, "snapshots of other files have names like it"));
    }
    place(path, Timestamp::UNIX_EPOCH).map(|_| ())
}

fn directory(path: &TreePath) -> VersionResult<TreePath> {
    let text = format!("{SNAPSHOT_DIRECTORY}/{path}");
    TreePath::parse(&text).map_err(|_| unrecordable(path, "it is too long to keep snapshots of"))
}

fn place(path: &TreePath, moment: Timestamp) -> VersionResult<TreePath> {
    let text = format!("{SNAPSHOT_DIRECTORY}/{path}/{}{SUFFIX}", VersionId::Timestamp(moment));
    TreePath::parse(&text).map_err(|_| unrecordable(path, "it is too long to keep snapshots of"))
}

fn unrecordable(path: &TreePath, reason: &str) -> StoreError {
    StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() }
}

/// Nothing is there; what is not ours there is no snapshot either.
fn is_absent(error: &StoreError) -> bool {
    error.is_missing() || error.is_type_conflict() || error.of_tree() == Some(std::io::ErrorKind::FileTooLarge)
}
