//! History by path (contract 2.3–2.5, 4.4), answered from the log where it can be, from git or snapshots where content is needed.

mod blame;
mod states;
mod stored_versions;
mod timeline;
mod tombstones;
mod versions;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, ETag, Fault, Protocol, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{ChangePage, PathChange};

pub use blame::BlameLine;
pub use states::{PastName, PastState};
pub use stored_versions::{NewestVersion, StoredContent, StoredVersion};
pub use timeline::{PathTimeline, TimelineEvent};
pub(crate) use tombstones::RemovedPaths;
pub use versions::PageVersion;

use crate::Vfs;

const MAX_VERSIONS: usize = 10_000;
/// As long as a burst of accepted saves may take to be committed on a slow disk.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What happened to a path (contract 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathAction {
    /// Created or changed.
    Write,
    /// Removed.
    Delete,
}

impl PathAction {
    const fn of(is_removal: bool) -> Self {
        if is_removal { Self::Delete } else { Self::Write }
    }
}

/// One record of the change feed (contract 2.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeRecord {
    /// Commit hash, or moment where git keeps no history.
    pub seq: VersionId,
    /// Which path.
    pub path: TreePath,
    /// What happened to it.
    pub action: PathAction,
    /// Who did it.
    pub actor: Actor,
    /// When.
    pub timestamp: Timestamp,
}

/// A page of the change feed, oldest first (gaps.md D10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeFeedPage {
    /// One record for each path of each set.
    pub changes: Vec<ChangeRecord>,
    /// What to pass as `since` next time: the `seq` of the last record, with `.<count>` behind it where the page ended within that
    /// set; empty when there is nothing yet.
    pub last_seq: String,
}

impl Vfs {
    /// The change feed of the contract: at most `limit` records after `since`, oldest first and without a gap; without `since` the
    /// newest `limit`.
    ///
    /// `since` is a commit hash or a moment, as `last_seq` is. Where a page ends within a set of many paths, `last_seq` says so as
    /// `<seq>.<records of it already given>`, and is taken back in that form.
    ///
    /// # Errors
    /// `Invalid` (`unknown sequence`) when `since` is nothing this log knows.
    pub fn changes(&self, since: Option<&str>, limit: usize) -> Result<ChangeFeedPage, Fault> {
        self.wait_committed()?;
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
            Some(last) if is_split => format!("{}.{}", last.id, last.ordinal + 1),
            Some(last) => last.id.to_string(),
            None => since.unwrap_or_default().to_owned(),
        };
        let record = |change: PathChange| ChangeRecord {
            seq: change.id,
            path: change.path,
            action: PathAction::of(change.is_removal),
            actor: change.actor,
            timestamp: change.time,
        };
        Ok(ChangeFeedPage { changes: changes.into_iter().map(record).collect(), last_seq })
    }

    /// The position a `since` names, and how many records of that set were given already, when it names a part of it.
    fn position(&self, since: &str) -> Result<(Seq, Option<usize>), Fault> {
        let unknown =
            || Fault::invalid("since", format_args!("unknown sequence `{}`", svcfs_base::escape_unprintable(since)));
        let (name, given) = match since.split_once('.') {
            Some((name, given)) => (name, Some(given.parse().map_err(|_| unknown())?)),
            None => (since, None),
        };
        Ok((self.core.log.find_seq(name)?.ok_or_else(unknown)?, given))
    }

    /// Whether callers of a door see a path at all (gaps.md D4), whether or not something is there.
    pub fn is_visible(&self, protocol: Protocol, path: &TreePath) -> bool {
        self.core.places.is_visible(protocol, path)
    }

    /// Whether what is at a path becomes part of history: neither the server's own state nor a scratch name is.
    pub fn is_versioned(&self, path: &TreePath) -> bool {
        self.core.places.of(path).is_versioned()
    }

    /// Waits until everything accepted so far is durable, in the tree and announced; the position of the newest event then.
    ///
    /// # Errors
    /// `Unavailable` when the disk does not answer in time.
    pub fn wait_applied(&self) -> Result<Seq, Fault> {
        self.core.wait_settled(MAX_WAIT)?;
        Ok(self.core.feed.last_seq())
    }

    /// The same, and until history has it: a commit that would have come later ([`Commits::Gathered`](crate::Commits)) is made now.
    /// Every question about history asks this first, and so sees what its asker wrote.
    ///
    /// # Errors
    /// As [`Vfs::settled`].
    pub fn wait_committed(&self) -> Result<Seq, Fault> {
        self.settle_doors();
        self.core.wait_committed(MAX_WAIT)?;
        Ok(self.core.feed.last_seq())
    }

    /// Has doors that hold writes back save them.
    pub(crate) fn settle_doors(&self) {
        let held_back = self.before_history.lock().clone();
        held_back.iter().for_each(|settle| settle());
    }

    /// The hash that is recorded for a path at this moment; none when it is not versioned.
    ///
    /// # Errors
    /// `Internal` when git or the log cannot be read.
    pub fn recorded_etag(&self, path: &TreePath) -> Result<Option<ETag>, Fault> {
        let recorded = self.core.memory.current_states(&[path])?.into_iter().flatten().next();
        Ok(recorded.map(|(etag, _)| etag))
    }
}

#[cfg(test)]
mod tests;
