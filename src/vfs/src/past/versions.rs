//! The versions of one page, and its content at each.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{History, PathVersion, SnapshotStore, StoreError, VersionStore, unified_diff};

use super::MAX_VERSIONS;
use crate::Vfs;

/// The message of a snapshot whose record was lost with its log.
const SNAPSHOT_MESSAGE: &str = "snapshot";

/// One version of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageVersion {
    /// Commit hash; a timestamp where git keeps no history.
    pub hash: VersionId,
    /// Its author; empty if unknown.
    pub author: String,
    /// Message of its commit.
    pub message: String,
    /// Its time.
    pub timestamp: Timestamp,
}

impl From<PathVersion> for PageVersion {
    fn from(version: PathVersion) -> Self {
        let PathVersion { id, actor, message, time, .. } = version;
        Self { hash: id, author: actor.to_string(), message, timestamp: time }
    }
}

impl Vfs {
    /// The readable versions of a path, newest first; at most 10,000. Empty where none are stored.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn versions(&self, path: &TreePath) -> Result<Vec<PageVersion>, Fault> {
        self.wait_committed()?;
        let recorded = || self.core.log.versions(path, Seq(u64::MAX), MAX_VERSIONS);
        match &self.core.versions {
            VersionStore::Git { legacy_snapshots, .. } => {
                let stored: HashSet<_> = legacy_snapshots.list(path)?.into_iter().collect();
                let is_stored = |version: &PathVersion| match version.id {
                    VersionId::Commit(_) => true,
                    VersionId::Timestamp(timestamp) => stored.contains(&timestamp),
                };
                Ok(recorded()?.into_iter().filter(is_stored).map(PageVersion::from).collect())
            }
            VersionStore::Snapshots { snapshots, .. } => {
                let recorded = recorded()?.into_iter().map(|version| (version.recorded_at, version));
                let mut recorded: HashMap<_, _> = recorded.collect();
                let stored = snapshots.list(path)?.into_iter().rev().take(MAX_VERSIONS);
                Ok(stored.map(|timestamp| snapshot_version(timestamp, recorded.remove(&timestamp))).collect())
            }
            VersionStore::LogOnly { .. } => Ok(Vec::new()),
        }
    }

    /// The content of a path at a version: a commit hash or its prefix, or a snapshot's time.
    ///
    /// # Errors
    /// `NotFound` (`version not found`) for an unknown version, or one without the path.
    pub fn read_version(&self, path: &TreePath, version: &str) -> Result<Bytes, Fault> {
        let missing = || {
            let message = format!("version not found: `{path}` at `{}`", svcfs_base::escape_unprintable(version));
            self.not_in_history(Fault::not_found(message))
        };
        self.wait_committed()?;
        self.content_at(path, version)?.flatten().ok_or_else(missing)
    }

    /// Unified diff of a path between two versions (see [`Vfs::read_version`]), three lines of
    /// context.
    ///
    /// # Errors
    /// `NotFound` for an unknown version.
    pub fn diff(&self, path: &TreePath, from: &str, to: &str) -> Result<String, Fault> {
        self.wait_committed()?;
        let content = |field: &str, version: &str| {
            let missing = || {
                let message = format!("version not found: `{field}` is `{}`", svcfs_base::escape_unprintable(version));
                self.not_in_history(Fault::not_found(message))
            };
            self.content_at(path, version)?.ok_or_else(missing)
        };
        Ok(unified_diff(path, content("from", from)?.as_deref(), content("to", to)?.as_deref())?)
    }

    /// Replaces a `NotFound` by the fault that keeps history from being read, if any.
    pub(super) fn not_in_history(&self, fault: Fault) -> Fault {
        self.health().err().unwrap_or(fault)
    }

    /// The content at a version, if the path existed; none for an unknown version.
    fn content_at(&self, path: &TreePath, version: &str) -> Result<Option<Option<Bytes>>, StoreError> {
        match &self.core.versions {
            VersionStore::Git { history, legacy_snapshots } => match read_snapshot(legacy_snapshots, path, version)? {
                Some(content) => Ok(Some(Some(content))),
                None => read_commit(history, path, version),
            },
            VersionStore::Snapshots { snapshots, .. } => Ok(read_snapshot(snapshots, path, version)?.map(Some)),
            VersionStore::LogOnly { .. } => Ok(None),
        }
    }
}

fn snapshot_version(timestamp: Timestamp, recorded: Option<PathVersion>) -> PageVersion {
    let hash = VersionId::Timestamp(timestamp);
    match recorded {
        Some(version) => PageVersion { hash, ..PageVersion::from(version) },
        None => PageVersion { hash, author: String::new(), message: SNAPSHOT_MESSAGE.to_owned(), timestamp },
    }
}

fn read_snapshot(snapshots: &SnapshotStore, path: &TreePath, version: &str) -> Result<Option<Bytes>, StoreError> {
    VersionId::parse_timestamp(version).map_or(Ok(None), |timestamp| snapshots.read(path, timestamp))
}

fn read_commit(history: &History, path: &TreePath, hash: &str) -> Result<Option<Option<Bytes>>, StoreError> {
    history.find_commit(hash)?.map(|commit| history.read_file(commit, path)).transpose()
}
