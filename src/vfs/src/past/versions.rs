//! The versions of one page, and its content at each.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{History, NamePeriod, PathVersion, SnapshotStore, StoreError, VersionStore, unified_diff};

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
    /// Path of the page at this version, if it was renamed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<TreePath>,
}

impl From<PathVersion> for PageVersion {
    fn from(version: PathVersion) -> Self {
        let PathVersion { id, actor, message, time, .. } = version;
        Self { hash: id, author: actor.to_string(), message, timestamp: time, path: None }
    }
}

impl Vfs {
    /// The readable versions of a path, newest first; at most 10,000. Empty where none are stored.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn versions(&self, path: &TreePath) -> Result<Vec<PageVersion>, Fault> {
        self.versions_under(&[NamePeriod::always(path.clone())])
    }

    /// The same under all names of a page, which are [`Vfs::names_of_page`].
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn versions_under(&self, names: &[NamePeriod]) -> Result<Vec<PageVersion>, Fault> {
        self.wait_committed()?;
        let mut versions: Vec<PageVersion> = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let of_name = match MAX_VERSIONS - versions.len() {
                0 => break,
                max => self.versions_of_name(name, max)?,
            };
            let path = (at > 0).then(|| name.path.clone());
            versions.extend(of_name.into_iter().map(|version| PageVersion { path: path.clone(), ..version }));
        }
        Ok(versions)
    }

    fn versions_of_name(&self, name: &NamePeriod, max: usize) -> Result<Vec<PageVersion>, Fault> {
        match &self.core.versions {
            VersionStore::Git { legacy_snapshots, .. } => {
                let stored: HashSet<_> = legacy_snapshots.list(&name.path)?.into_iter().collect();
                let is_stored = |version: &PathVersion| match version.id {
                    VersionId::Commit(_) => true,
                    VersionId::Timestamp(timestamp) => stored.contains(&timestamp),
                };
                let recorded = self.recorded_versions(name, max)?;
                Ok(recorded.into_iter().filter(is_stored).map(PageVersion::from).collect())
            }
            VersionStore::Snapshots { snapshots, .. } => {
                let recorded = self.core.log.versions(&name.path, Seq(u64::MAX), MAX_VERSIONS)?.into_iter();
                let mut recorded: HashMap<_, _> = recorded.map(|version| (version.recorded_at, version)).collect();
                let stored = snapshots.list(&name.path)?.into_iter().rev();
                let stored = stored.map(|timestamp| (timestamp, recorded.remove(&timestamp)));
                let stored = stored
                    .filter(|(_, version)| version.as_ref().is_none_or(|version| name.range.contains(&version.seq)));
                Ok(stored.take(max).map(|(timestamp, version)| snapshot_version(timestamp, version)).collect())
            }
            VersionStore::LogOnly { .. } => Ok(Vec::new()),
        }
    }

    /// The recorded versions of a path under a name, newest first.
    pub(super) fn recorded_versions(&self, name: &NamePeriod, max: usize) -> Result<Vec<PathVersion>, Fault> {
        let mut recorded = self.core.log.versions(&name.path, name.range.end, max)?;
        recorded.retain(|version| name.range.contains(&version.seq));
        Ok(recorded)
    }

    /// The content of a path at a version: a commit hash or its prefix, or a snapshot's time.
    ///
    /// # Errors
    /// `NotFound` (`version not found`) for an unknown version, or one without the path.
    pub fn read_version(&self, path: &TreePath, version: &str) -> Result<Bytes, Fault> {
        self.read_version_under(&[NamePeriod::always(path.clone())], version)
    }

    /// The same under the name that a page had then, of all its names.
    ///
    /// # Errors
    /// As [`Vfs::read_version`].
    pub fn read_version_under(&self, names: &[NamePeriod], version: &str) -> Result<Bytes, Fault> {
        self.wait_committed()?;
        let name = self.name_at(names, version)?;
        let missing = || {
            let version = svcfs_base::escape_unprintable(version);
            let message = format!("version not found: `{}` at `{version}`", path_of(names));
            self.not_in_history(Fault::not_found(message))
        };
        self.content_at(name, version)?.flatten().ok_or_else(missing)
    }

    /// Unified diff of a page with these names between two versions (see [`Vfs::read_version`]),
    /// three lines of context.
    ///
    /// # Errors
    /// `NotFound` for an unknown version.
    pub fn diff(&self, names: &[NamePeriod], from: &str, to: &str) -> Result<String, Fault> {
        self.wait_committed()?;
        let content = |field: &str, version: &str| {
            let missing = || {
                let message = format!("version not found: `{field}` is `{}`", svcfs_base::escape_unprintable(version));
                self.not_in_history(Fault::not_found(message))
            };
            self.content_at(self.name_at(names, version)?, version)?.ok_or_else(missing)
        };
        Ok(unified_diff(path_of(names), content("from", from)?.as_deref(), content("to", to)?.as_deref())?)
    }

    /// The name of a page at a version; the newest for an unknown version.
    fn name_at<'n>(&self, names: &'n [NamePeriod], version: &str) -> Result<&'n TreePath, Fault> {
        if names.len() > 1
            && let Some(seq) = self.core.log.find_seq(version)?
            && let Some(name) = names.iter().find(|name| name.range.contains(&seq))
        {
            return Ok(&name.path);
        }
        Ok(path_of(names))
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

/// The present path of a page with these names.
fn path_of(names: &[NamePeriod]) -> &TreePath {
    &names[0].path
}

fn snapshot_version(timestamp: Timestamp, recorded: Option<PathVersion>) -> PageVersion {
    let hash = VersionId::Timestamp(timestamp);
    match recorded {
        Some(version) => PageVersion { hash, ..PageVersion::from(version) },
        None => {
            PageVersion { hash, author: String::new(), message: SNAPSHOT_MESSAGE.to_owned(), timestamp, path: None }
        }
    }
}

fn read_snapshot(snapshots: &SnapshotStore, path: &TreePath, version: &str) -> Result<Option<Bytes>, StoreError> {
    VersionId::parse_timestamp(version).map_or(Ok(None), |timestamp| snapshots.read(path, timestamp))
}

fn read_commit(history: &History, path: &TreePath, hash: &str) -> Result<Option<Option<Bytes>>, StoreError> {
    history.find_commit(hash)?.map(|commit| history.read_file(commit, path)).transpose()
}
