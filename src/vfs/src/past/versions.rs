//! The versions of one page, and what it was then (contract 2.3, 4.4).

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{CommitId, Fault, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{History, PathVersion, SnapshotStore, StoreError, VersionStore, unified_diff};

use super::MAX_VERSIONS;
use crate::Vfs;

/// What is told of a snapshot whose record is gone with its log (gaps.md 4.4).
const UNRECORDED: &str = "snapshot";

/// One version of a page (contract 2.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageVersion {
    /// Commit hash, or moment where git keeps no history.
    pub hash: VersionId,
    /// Who wrote it; empty where nobody knows any more.
    pub author: String,
    /// Message of its commit.
    pub message: String,
    /// When.
    pub timestamp: Timestamp,
}

impl From<PathVersion> for PageVersion {
    fn from(version: PathVersion) -> Self {
        let PathVersion { id, actor, message, time, .. } = version;
        Self { hash: id, author: actor.to_string(), message, timestamp: time }
    }
}

impl Vfs {
    /// Versions of a path that can be read, newest first; at most 10,000. None where none are kept.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn versions(&self, path: &TreePath) -> Result<Vec<PageVersion>, Fault> {
        self.wait_committed()?;
        let recorded = || self.core.log.versions(path, Seq(u64::MAX), MAX_VERSIONS);
        match &self.core.memory {
            VersionStore::Git { legacy_snapshots: earlier, .. } => {
                let kept: HashSet<_> = earlier.list(path)?.into_iter().collect();
                let is_kept = |version: &PathVersion| match version.id {
                    VersionId::Commit(_) => true,
                    VersionId::Timestamp(moment) => kept.contains(&moment),
                };
                Ok(recorded()?.into_iter().filter(is_kept).map(PageVersion::from).collect())
            }
            VersionStore::Snapshots { snapshots, .. } => {
                let recorded = recorded()?.into_iter().map(|version| (version.recorded_at, version));
                let mut recorded: HashMap<_, _> = recorded.collect();
                let kept = snapshots.list(path)?.into_iter().rev().take(MAX_VERSIONS);
                Ok(kept.map(|moment| snapshot(moment, recorded.remove(&moment))).collect())
            }
            VersionStore::LogOnly { .. } => Ok(Vec::new()),
        }
    }

    /// The content of a path at a version: a commit (full or abbreviated hash), or the moment of a snapshot.
    ///
    /// # Errors
    /// `NotFound` (`version not found`) for an unknown version, or one that does not have the path.
    pub fn read_version(&self, path: &TreePath, version: &str) -> Result<Bytes, Fault> {
        let missing = || {
            let told = format!("version not found: `{path}` at `{}`", svcfs_base::escape_unprintable(version));
            self.not_in_history(Fault::not_found(told))
        };
        self.wait_committed()?;
        self.content_at(path, version)?.flatten().ok_or_else(missing)
    }

    /// Unified diff of a path between two versions, as [`Vfs::version`] names them; three lines of context.
    ///
    /// # Errors
    /// `NotFound` for a version that is unknown.
    pub fn diff(&self, path: &TreePath, from: &str, to: &str) -> Result<String, Fault> {
        self.wait_committed()?;
        let content = |field: &str, version: &str| {
            let missing = || {
                let told = format!("version not found: `{field}` is `{}`", svcfs_base::escape_unprintable(version));
                self.not_in_history(Fault::not_found(told))
            };
            self.content_at(path, version)?.ok_or_else(missing)
        };
        Ok(unified_diff(path, content("from", from)?.as_deref(), content("to", to)?.as_deref())?)
    }

    /// Why history does not have something: what keeps it from being read, if anything does.
    pub(super) fn not_in_history(&self, fault: Fault) -> Fault {
        self.health().err().unwrap_or(fault)
    }

    /// What a path was at a version, if anything; none when there is no such version.
    fn content_at(&self, path: &TreePath, version: &str) -> Result<Option<Option<Bytes>>, StoreError> {
        match &self.core.memory {
            VersionStore::Git { history, legacy_snapshots: earlier } => match of_snapshots(earlier, path, version)? {
                Some(content) => Ok(Some(Some(content))),
                None => of_commits(history, path, version),
            },
            VersionStore::Snapshots { snapshots, .. } => Ok(of_snapshots(snapshots, path, version)?.map(Some)),
            VersionStore::LogOnly { .. } => Ok(None),
        }
    }
}

fn snapshot(moment: Timestamp, recorded: Option<PathVersion>) -> PageVersion {
    let hash = VersionId::Timestamp(moment);
    match recorded {
        Some(version) => PageVersion { hash, ..PageVersion::from(version) },
        None => PageVersion { hash, author: String::new(), message: UNRECORDED.to_owned(), timestamp: moment },
    }
}

fn of_snapshots(snapshots: &SnapshotStore, path: &TreePath, version: &str) -> Result<Option<Bytes>, StoreError> {
    VersionId::parse_timestamp(version).map_or(Ok(None), |moment| snapshots.read(path, moment))
}

fn of_commits(history: &History, path: &TreePath, hash: &str) -> Result<Option<Option<Bytes>>, StoreError> {
    let at = |commit: CommitId| match history.leaf(commit, path)? {
        Some((blob, _)) => history.read_blob(blob),
        None => Ok(None),
    };
    history.find_commit(hash)?.map(at).transpose()
}
