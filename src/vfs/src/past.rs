//! History by path (contract 2.3–2.5, 4.4), answered from the log where it can be, from git where content is needed.

mod blame;
mod timeline;

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, CommitId, Door, ETag, Fault, Seq, Timestamp, TreePath};
use svcfs_store::{ChangePage, PathChange};

pub use blame::BlameLine;
pub use timeline::{Event as TimelineEvent, Timeline};

use crate::Vfs;

const MAX_VERSIONS: usize = 10_000;
/// As long as a burst of accepted saves may take to be committed on a slow disk.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// One version of a page (contract 2.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Version {
    /// Commit hash.
    pub hash: CommitId,
    /// Who wrote it.
    pub author: Actor,
    /// Commit message.
    pub message: String,
    /// When.
    pub timestamp: Timestamp,
}

/// What happened to a path (contract 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Created or changed.
    Write,
    /// Removed.
    Delete,
}

impl Action {
    const fn of(is_removal: bool) -> Self {
        if is_removal { Self::Delete } else { Self::Write }
    }
}

/// One record of the change feed (contract 2.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeRecord {
    /// Commit hash.
    pub seq: CommitId,
    /// Which path.
    pub path: TreePath,
    /// What happened to it.
    pub action: Action,
    /// Who did it.
    pub actor: Actor,
    /// When.
    pub timestamp: Timestamp,
}

/// A page of the change feed, oldest first (gaps.md D10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changes {
    /// One record for each path of each commit.
    pub changes: Vec<ChangeRecord>,
    /// What to pass as `since` next time: a commit hash, with `.<count>` behind it where the page ended within that commit; empty
    /// when there is nothing yet.
    pub last_seq: String,
}

impl Vfs {
    /// Versions of a path, newest first; at most 10,000.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn versions(&self, path: &TreePath) -> Result<Vec<Version>, Fault> {
        self.committed()?;
        let versions = self.core.log.versions(path, Seq(u64::MAX), MAX_VERSIONS)?;
        Ok(versions
            .into_iter()
            .map(|version| Version {
                hash: version.commit,
                author: version.actor,
                message: version.message,
                timestamp: version.time,
            })
            .collect())
    }

    /// The content of a path at a commit (full or abbreviated hash).
    ///
    /// # Errors
    /// `NotFound` (`version not found`) for an unknown commit, or one that does not have the path.
    pub fn version(&self, path: &TreePath, commit: &str) -> Result<Bytes, Fault> {
        let missing = || Fault::not_found(format!("version not found: `{path}` at `{}`", commit.escape_default()));
        self.committed()?;
        let id = self.core.history.find(commit)?.ok_or_else(missing)?;
        let (blob, _) = self.core.history.leaf(id, path)?.ok_or_else(missing)?;
        self.core.history.blob(blob)?.ok_or_else(missing)
    }

    /// Unified diff of a path between two commits (full or abbreviated hashes), three lines of context.
    ///
    /// # Errors
    /// `NotFound` for a commit that is unknown.
    pub fn diff(&self, path: &TreePath, from: &str, to: &str) -> Result<String, Fault> {
        self.committed()?;
        let find = |field: &str, hash: &str| -> Result<CommitId, Fault> {
            let missing = || Fault::not_found(format!("version not found: `{field}` is `{}`", hash.escape_default()));
            self.core.history.find(hash)?.ok_or_else(missing)
        };
        Ok(self.core.history.diff(path, find("from", from)?, find("to", to)?)?)
    }

    /// The change feed of the contract: at most `limit` records after `since`, oldest first and without a gap; without `since` the
    /// newest `limit`.
    ///
    /// `since` is a commit hash, as `last_seq` is. Where a page ends within a commit of many paths, `last_seq` says so as
    /// `<hash>.<records of it already given>`, and is taken back in that form.
    ///
    /// # Errors
    /// `Invalid` (`unknown sequence`) when `since` is no commit this log knows.
    pub fn changes(&self, since: Option<&str>, limit: usize) -> Result<Changes, Fault> {
        self.committed()?;
        let ChangePage { changes, is_split } = match since {
            Some(text) => {
                let (seq, given) = self.position(text)?;
                match given {
                    Some(given) => self.core.log.changes_after(seq, given, limit)?,
                    None => self.core.log.changes_after(seq.next(), 0, limit)?,
                }
            }
            None => self.core.log.newest_changes(limit)?,
        };
        let last_seq = match changes.last() {
            Some(last) if is_split => format!("{}.{}", last.commit, last.ordinal + 1),
            Some(last) => last.commit.to_string(),
            None => since.unwrap_or_default().to_owned(),
        };
        let record = |change: PathChange| ChangeRecord {
            seq: change.commit,
            path: change.path,
            action: Action::of(change.is_removal),
            actor: change.actor,
            timestamp: change.time,
        };
        Ok(Changes { changes: changes.into_iter().map(record).collect(), last_seq })
    }

    /// The position a `since` names, and how many records of that commit were given already, when it names a part of it.
    fn position(&self, since: &str) -> Result<(Seq, Option<usize>), Fault> {
        let unknown = || Fault::invalid("since", format_args!("unknown sequence `{}`", since.escape_default()));
        let (hash, given) = match since.split_once('.') {
            Some((hash, given)) => (hash, Some(given.parse().map_err(|_| unknown())?)),
            None => (since, None),
        };
        Ok((self.core.log.position_of(hash)?.ok_or_else(unknown)?, given))
    }

    /// Whether callers of a door see a path at all (gaps.md D4), whether or not something is there.
    pub fn is_visible(&self, door: Door, path: &TreePath) -> bool {
        self.core.places.is_visible(door, path)
    }

    /// Waits until everything accepted so far is durable, in the tree and announced; the position of the newest event then.
    ///
    /// # Errors
    /// `Unavailable` when the disk does not answer in time.
    pub fn settled(&self) -> Result<Seq, Fault> {
        self.core.wait_settled(MAX_WAIT)?;
        Ok(self.core.feed.last())
    }

    /// The same, and until history has it: a commit that would have come later ([`Commits::Gathered`](crate::Commits)) is made now.
    /// Every question about history asks this first, and so sees what its asker wrote.
    ///
    /// # Errors
    /// As [`Vfs::settled`].
    pub fn committed(&self) -> Result<Seq, Fault> {
        self.core.wait_committed(MAX_WAIT)?;
        Ok(self.core.feed.last())
    }

    /// The hash history has for a path at this moment; none when it is not versioned.
    ///
    /// # Errors
    /// `Internal` when git cannot be read.
    pub fn recorded(&self, path: &TreePath) -> Result<Option<ETag>, Fault> {
        let Some(head) = self.core.history.head()? else {
            return Ok(None);
        };
        Ok(self.core.history.leaf(head, path)?.map(|(etag, _)| etag))
    }
}

#[cfg(test)]
mod tests;
