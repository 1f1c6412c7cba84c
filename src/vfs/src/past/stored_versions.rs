//! The readable versions of a page, numbered, for views that show versions as files.

use std::collections::HashSet;

use bytes::Bytes;
use svcfs_base::{CommitId, ETag, Fault, Kind, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{NamePeriod, PathVersion, VersionStore};

use super::{MAX_VERSIONS, PageVersion};
use crate::Vfs;

/// Versions of a path in which a content is searched first.
const NEWEST_VERSIONS: usize = 64;

/// Where the content of an earlier version is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum StoredContent {
    /// In git.
    Blob(ETag),
    /// In a commit, in a form that git converts: the path, and the commit.
    Converted(TreePath, CommitId),
    /// In the snapshot of a path at a time.
    Snapshot(TreePath, Timestamp),
}

/// A version that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// Its number among all versions of the page, 1 for the oldest. Removals count too, so numbers
    /// may be missing.
    pub number: usize,
    /// Its id.
    pub id: VersionId,
    /// The path of the page at that time.
    pub path: TreePath,
    /// Its author; empty if unknown.
    pub author: String,
    /// Its time, to the second.
    pub time: Timestamp,
    /// Where its content is stored.
    pub content: StoredContent,
}

/// The newest version of an existing path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewestVersion {
    /// Author, time and message.
    pub version: PageVersion,
    /// Hash of its content.
    pub etag: ETag,
}

/// Finds the stored content of a version.
pub(super) type ContentFinder = Box<dyn Fn(&PathVersion) -> Option<StoredContent>>;

impl Vfs {
    /// The readable versions of a path, oldest first; the newest 10,000 of more. Empty where none
    /// are stored, or where the path never was a file. Contents are not read.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn stored_versions(&self, path: &TreePath) -> Result<Vec<StoredVersion>, Fault> {
        self.stored_versions_under(&[NamePeriod::always(path.clone())])
    }

    /// The same under all names of a page, which are [`Vfs::names_of_page`].
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn stored_versions_under(&self, names: &[NamePeriod]) -> Result<Vec<StoredVersion>, Fault> {
        self.wait_committed()?;
        // Newest first, with removals and versions without content.
        let mut recorded: Vec<(&NamePeriod, PathVersion)> = Vec::new();
        for name in names {
            let of_name = self.recorded_versions(name, MAX_VERSIONS - recorded.len())?;
            recorded.extend(of_name.into_iter().map(|version| (name, version)));
        }
        let count = match recorded.len() {
            MAX_VERSIONS => {
                let counts = names.iter().map(|name| self.core.log.count_versions(name));
                counts.sum::<Result<usize, _>>()?.max(MAX_VERSIONS)
            }
            all => all,
        };
        let contents = names.iter().map(|name| self.content_finder(&name.path)).collect::<Result<Vec<_>, _>>()?;
        let numbered = (count + 1 - recorded.len()..).zip(recorded.into_iter().rev());
        let stored = numbered.filter_map(|(number, (name, version))| {
            let at = names.iter().position(|known| known == name)?;
            let content = contents[at](&version)?;
            let PathVersion { id, actor, time, .. } = version;
            let path = name.path.clone();
            Some(StoredVersion { number, id, path, author: actor.to_string(), time, content })
        });
        Ok(stored.collect())
    }

    /// Where the contents of versions of a path are stored.
    pub(super) fn content_finder(&self, path: &TreePath) -> Result<ContentFinder, Fault> {
        let path = path.clone();
        Ok(match &self.core.versions {
            VersionStore::Git { legacy_snapshots, .. } => {
                let stored: HashSet<_> = legacy_snapshots.list(&path)?.into_iter().collect();
                let is_converted = self.core.versions.is_converted(&path);
                Box::new(move |version| match version.id {
                    VersionId::Commit(commit) if is_converted => {
                        version.new.map(|_| StoredContent::Converted(path.clone(), commit))
                    }
                    VersionId::Commit(_) => version.new.map(StoredContent::Blob),
                    VersionId::Timestamp(timestamp) if stored.contains(&timestamp) => {
                        Some(StoredContent::Snapshot(path.clone(), timestamp))
                    }
                    VersionId::Timestamp(_) => None,
                })
            }
            VersionStore::Snapshots { snapshots, .. } => {
                let stored: HashSet<_> = snapshots.list(&path)?.into_iter().collect();
                Box::new(move |version| {
                    let is_stored = stored.contains(&version.recorded_at);
                    is_stored.then(|| StoredContent::Snapshot(path.clone(), version.recorded_at))
                })
            }
            VersionStore::LogOnly { .. } => Box::new(|_| None),
        })
    }

    /// The stored content of a path that had this hash, under one of these names; none if no
    /// version had it, or its content is not stored.
    ///
    /// # Errors
    /// `Internal` when log or history cannot be read.
    pub fn content_of_etag(&self, names: &[NamePeriod], etag: ETag) -> Result<Option<Bytes>, Fault> {
        self.wait_committed()?;
        for name in names {
            let find_content = self.content_finder(&name.path)?;
            // A requested version is nearly always one of the newest.
            for max in [NEWEST_VERSIONS, MAX_VERSIONS] {
                let versions = self.recorded_versions(name, max)?;
                let is_all = versions.len() < max;
                let with_etag = versions.iter().filter(|version| version.new == Some(etag));
                for stored in with_etag.filter_map(&find_content) {
                    match self.stored_content(&stored) {
                        Ok(content) if ETag::from_content(&content) == etag => return Ok(Some(content)),
                        Err(fault) if fault.kind() != Kind::NotFound => return Err(fault),
                        Ok(_) | Err(_) => {}
                    }
                }
                if is_all {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// The newest version of a path, after waiting for its pending changes; none when it was never
    /// recorded, or is removed.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read; `Unavailable` when the disk does not answer in time.
    pub fn newest_version(&self, path: &TreePath) -> Result<Option<NewestVersion>, Fault> {
        if self.is_pending(path) {
            self.wait_committed()?;
        }
        self.read_newest(path)
    }

    /// As [`Vfs::newest_version`], without waiting: none while changes are pending.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn try_newest_version(&self, path: &TreePath) -> Result<Option<NewestVersion>, Fault> {
        if self.is_pending(path) { Ok(None) } else { self.read_newest(path) }
    }

    fn is_pending(&self, path: &TreePath) -> bool {
        self.core.overlay.get(path).is_some() || self.core.uncommitted.get(path, Seq(0)).is_some()
    }

    fn read_newest(&self, path: &TreePath) -> Result<Option<NewestVersion>, Fault> {
        let newest = self.core.log.versions(path, Seq(u64::MAX), 1)?.into_iter().next();
        Ok(newest.and_then(|version| Some(NewestVersion { etag: version.new?, version: version.into() })))
    }

    /// Whether a version of a path, by its full id, is a removal. Only the newest 10,000 versions
    /// are searched.
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

    /// The length of a stored content in bytes; in git without reading it.
    ///
    /// # Errors
    /// `NotFound` when it is no longer stored; `Internal` when git cannot be read.
    pub fn stored_size(&self, content: &StoredContent) -> Result<u64, Fault> {
        match (content, &self.core.versions) {
            (StoredContent::Blob(blob), VersionStore::Git { history, .. }) => {
                history.blob_size(*blob)?.ok_or_else(not_stored)
            }
            (StoredContent::Blob(_) | StoredContent::Converted(..) | StoredContent::Snapshot(..), _) => {
                Ok(self.stored_content(content)?.len() as u64)
            }
        }
    }

    /// A stored content.
    ///
    /// # Errors
    /// `NotFound` when it is no longer stored; `Internal` when git cannot be read.
    pub fn stored_content(&self, content: &StoredContent) -> Result<Bytes, Fault> {
        let content_bytes = match (content, &self.core.versions) {
            (StoredContent::Blob(blob), VersionStore::Git { history, .. }) => history.read_blob(*blob)?,
            (StoredContent::Converted(path, commit), VersionStore::Git { history, .. }) => {
                history.read_file(*commit, path)?
            }
            (StoredContent::Snapshot(path, timestamp), VersionStore::Git { legacy_snapshots: snapshots, .. })
            | (StoredContent::Snapshot(path, timestamp), VersionStore::Snapshots { snapshots, .. }) => {
                snapshots.read(path, *timestamp)?
            }
            (
                StoredContent::Blob(_) | StoredContent::Converted(..),
                VersionStore::Snapshots { .. } | VersionStore::LogOnly { .. },
            )
            | (StoredContent::Snapshot(..), VersionStore::LogOnly { .. }) => None,
        };
        content_bytes.ok_or_else(not_stored)
    }
}

fn not_stored() -> Fault {
    Fault::not_found("this version is no longer stored")
}
