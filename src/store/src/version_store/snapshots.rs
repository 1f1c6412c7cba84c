//! Snapshots: each content of a file in its own file, `.versions/<path>/<19 digits>.md`.
//!
//! Invariant: a snapshot is named by the timestamp of its set and never changes. Nothing is
//! flushed: the log has the content until a checkpoint has flushed the disk.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{DiskAttributes, FileKind, Timestamp, TreePath, VersionId};
use tracing::warn;

use super::VersionResult;
use crate::{FailPoint, FailPoints, FileInstall, StatKind, StoreError, WorkTree};

/// The directory of snapshots below the root.
pub const SNAPSHOT_DIRECTORY: &str = ".versions";
/// Suffix of every snapshot, whatever the suffix of the file.
const SUFFIX: &str = ".md";

/// The snapshots of a tree.
/// Methods fail with `StoreError::Disk`.
pub struct SnapshotStore {
    tree: Arc<WorkTree>,
    max_snapshots: Option<NonZeroUsize>,
    fail: FailPoints,
}

impl SnapshotStore {
    pub(super) fn new(tree: Arc<WorkTree>, max_snapshots: Option<NonZeroUsize>) -> Self {
        let fail = tree.fail_points();
        Self { tree, max_snapshots, fail }
    }

    /// Stores the content of a file at a timestamp, and removes the oldest snapshots beyond the
    /// limit.
    pub fn save(&self, path: &TreePath, timestamp: Timestamp, content: &[u8]) -> VersionResult<()> {
        self.fail.check(FailPoint::SnapshotWrite)?;
        let target = snapshot_path(path, timestamp)?;
        let (kind, disk) = (FileKind::Regular, DiskAttributes::default());
        self.tree.install(&FileInstall { path: &target, content, kind, attributes: disk })?;
        if let Err(error) = self.prune(path) {
            warn!(page.path = %path, %error, "older snapshots could not be removed; the next write tries again");
        }
        Ok(())
    }

    fn prune(&self, path: &TreePath) -> VersionResult<()> {
        let Some(max_snapshots) = self.max_snapshots else { return Ok(()) };
        let snapshots = self.list(path)?;
        for oldest in &snapshots[..snapshots.len().saturating_sub(max_snapshots.get())] {
            self.fail.check(FailPoint::SnapshotDrop)?;
            self.tree.unlink(&snapshot_path(path, *oldest)?)?;
        }
        Ok(())
    }

    /// The timestamps of the snapshots of a path, oldest first.
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

    /// The content of a path at a timestamp; none without such a snapshot.
    pub fn read(&self, path: &TreePath, timestamp: Timestamp) -> VersionResult<Option<Bytes>> {
        let Ok(file) = snapshot_path(path, timestamp) else { return Ok(None) };
        match self.tree.read(&file) {
            Ok((content, _)) => Ok(Some(content)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Checks that snapshots of a path can be stored.
///
/// # Errors
/// `Unrecordable` when a component looks like the name of a snapshot, or the path is too long.
pub(super) fn check_path(path: &TreePath) -> VersionResult<()> {
    let is_snapshot_name =
        |name: &str| name.strip_suffix(SUFFIX).is_some_and(|stem| VersionId::parse_timestamp(stem).is_some());
    if path.components().any(is_snapshot_name) {
        return Err(unrecordable(path, "a part of it has the form of a snapshot's name"));
    }
    snapshot_path(path, Timestamp::UNIX_EPOCH).map(|_| ())
}

fn directory(path: &TreePath) -> VersionResult<TreePath> {
    let text = format!("{SNAPSHOT_DIRECTORY}/{path}");
    TreePath::parse(&text).map_err(|_| unrecordable(path, "it is too long for snapshots"))
}

fn snapshot_path(path: &TreePath, timestamp: Timestamp) -> VersionResult<TreePath> {
    let text = format!("{SNAPSHOT_DIRECTORY}/{path}/{}{SUFFIX}", VersionId::Timestamp(timestamp));
    TreePath::parse(&text).map_err(|_| unrecordable(path, "it is too long for snapshots"))
}

fn unrecordable(path: &TreePath, reason: &str) -> StoreError {
    StoreError::Unrecordable { path: path.clone(), reason: reason.to_owned() }
}

/// Whether there is no snapshot: nothing exists, or a file that svcfs did not create.
fn is_absent(error: &StoreError) -> bool {
    error.is_missing() || error.is_type_conflict() || error.io_kind() == Some(std::io::ErrorKind::FileTooLarge)
}
