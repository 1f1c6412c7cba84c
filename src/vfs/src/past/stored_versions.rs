//! Every version of a page that can be read, numbered, for those who show versions as files.

use std::collections::HashSet;

use bytes::Bytes;
use svcfs_base::{ETag, Fault, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{PathVersion, VersionStore};

use super::{MAX_VERSIONS, PageVersion};
use crate::Vfs;

/// Where the content of an earlier version is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StoredContent {
    /// In git.
    Blob(ETag),
    /// In the snapshot of a path at a moment.
    Snapshot(TreePath, Timestamp),
}

/// A version that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// Its place among all versions of the page, 1 for the oldest. Removals are versions too, so that numbers may be missing.
    pub number: usize,
    /// What it is called.
    pub id: VersionId,
    /// Who wrote it; empty where nobody knows any more.
    pub author: String,
    /// When, to the second.
    pub time: Timestamp,
    /// Where its content is.
    pub content: StoredContent,
}

/// The newest version of a path that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestVersion {
    /// Who, when and what for.
    pub version: PageVersion,
    /// Its content.
    pub etag: ETag,
}

impl Vfs {
    /// The versions of a path that can be read, oldest first; of more than 10,000 the newest. None where none are kept, or where
    /// the path never was a file. Contents are not looked at.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn stored_versions(&self, path: &TreePath) -> Result<Vec<StoredVersion>, Fault> {
        self.wait_committed()?;
        match &self.core.memory {
            VersionStore::Git { legacy_snapshots: earlier, .. } => {
                let kept: HashSet<_> = earlier.list(path)?.into_iter().collect();
                self.numbered(path, |version| match version.id {
                    VersionId::Commit(_) => version.new.map(StoredContent::Blob),
                    VersionId::Timestamp(moment) if kept.contains(&moment) => {
                        Some(StoredContent::Snapshot(path.clone(), moment))
                    }
                    VersionId::Timestamp(_) => None,
                })
            }
            VersionStore::Snapshots { snapshots, .. } => {
                let kept: HashSet<_> = snapshots.list(path)?.into_iter().collect();
                let content = |version: &PathVersion| {
                    kept.contains(&version.recorded_at)
                        .then(|| StoredContent::Snapshot(path.clone(), version.recorded_at))
                };
                self.numbered(path, content)
            }
            VersionStore::LogOnly { .. } => Ok(Vec::new()),
        }
    }

    fn numbered(
        &self,
        path: &TreePath,
        content: impl Fn(&PathVersion) -> Option<StoredContent>,
    ) -> Result<Vec<StoredVersion>, Fault> {
        let recorded = self.core.log.versions(path, Seq(u64::MAX), MAX_VERSIONS)?;
        let count = match recorded.len() {
            MAX_VERSIONS => self.core.log.count_versions(path)?.max(MAX_VERSIONS),
            all => all,
        };
        let numbered = (count + 1 - recorded.len()..).zip(recorded.into_iter().rev());
        let kept = numbered.filter_map(|(number, version)| {
            let content = content(&version)?;
            let PathVersion { id, actor, time, .. } = version;
            Some(StoredVersion { number, id, author: actor.to_string(), time, content })
        });
        Ok(kept.collect())
    }

    /// The newest version of a path, waiting until what was accepted of it is one; none when it was never recorded, or is removed.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read; `Unavailable` when the disk does not answer in time.
    pub fn newest_version(&self, path: &TreePath) -> Result<Option<NewestVersion>, Fault> {
        if self.is_pending(path) {
            self.wait_committed()?;
        }
        self.newest(path)
    }

    /// The same without waiting: none while something accepted of it is no version yet.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn try_newest_version(&self, path: &TreePath) -> Result<Option<NewestVersion>, Fault> {
        if self.is_pending(path) { Ok(None) } else { self.newest(path) }
    }

    fn is_pending(&self, path: &TreePath) -> bool {
        self.core.overlay.get(path).is_some() || self.core.uncommitted.get(path, Seq(0)).is_some()
    }

    fn newest(&self, path: &TreePath) -> Result<Option<NewestVersion>, Fault> {
        let newest = self.core.log.versions(path, Seq(u64::MAX), 1)?.into_iter().next();
        Ok(newest.and_then(|version| Some(NewestVersion { etag: version.new?, version: version.into() })))
    }

    /// Whether a version of a path, by its full name, is the removal of it. Versions of that path alone are looked at, of more than 10,000 the newest.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn is_removal(&self, path: &TreePath, version: &str) -> Result<bool, Fault> {
        self.wait_committed()?;
        let recorded = self.core.log.versions(path, Seq(u64::MAX), MAX_VERSIONS)?;
        Ok(recorded.iter().any(|recorded| recorded.new.is_none() && recorded.id.to_string() == version))
    }

    /// Whether a path, or something below it, was ever recorded.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn has_history(&self, path: &TreePath) -> Result<bool, Fault> {
        self.wait_committed()?;
        Ok(self.core.log.has_path(path)?)
    }

    /// The length of a kept content in bytes; of one in git without reading it.
    ///
    /// # Errors
    /// `NotFound` when it is not kept any more; `Internal` when git cannot be read.
    pub fn stored_size(&self, content: &StoredContent) -> Result<u64, Fault> {
        match (content, &self.core.memory) {
            (StoredContent::Blob(blob), VersionStore::Git { history, .. }) => {
                history.blob_size(*blob)?.ok_or_else(gone)
            }
            (StoredContent::Blob(_) | StoredContent::Snapshot(..), _) => Ok(self.stored_content(content)?.len() as u64),
        }
    }

    /// A kept content.
    ///
    /// # Errors
    /// `NotFound` when it is not kept any more; `Internal` when git cannot be read.
    pub fn stored_content(&self, content: &StoredContent) -> Result<Bytes, Fault> {
        let found = match (content, &self.core.memory) {
            (StoredContent::Blob(blob), VersionStore::Git { history, .. }) => history.read_blob(*blob)?,
            (StoredContent::Snapshot(path, moment), VersionStore::Git { legacy_snapshots: snapshots, .. })
            | (StoredContent::Snapshot(path, moment), VersionStore::Snapshots { snapshots, .. }) => {
                snapshots.read(path, *moment)?
            }
            (StoredContent::Blob(_), VersionStore::Snapshots { .. } | VersionStore::LogOnly { .. })
            | (StoredContent::Snapshot(..), VersionStore::LogOnly { .. }) => None,
        };
        found.ok_or_else(gone)
    }
}

fn gone() -> Fault {
    Fault::not_found("this version is not kept any more")
}
