//! History by path, answered from the log, and from git or snapshots for content.

mod blame;
mod former_names;
mod page_steps;
mod requests;
mod states;
mod stored_versions;
mod timeline;
mod tombstones;
mod versions;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, ETag, Fault, HiddenFiles, Protocol, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{ChangePage, PathChange};

pub use blame::BlameLine;
pub use page_steps::{PageState, PageStep, PageSteps, PageTrail, RemovedFile, SetOrigin};
pub use states::{PastFile, PastName, PastState};
pub use stored_versions::{NewestVersion, StoredContent, StoredVersion};
pub use timeline::{PathTimeline, TimelineEvent};
pub(crate) use tombstones::RemovedPaths;
pub use versions::PageVersion;

use crate::Vfs;

const MAX_VERSIONS: usize = 10_000;
/// As long as a burst of accepted saves may take to be committed on a slow disk.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// What happened to a path.
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

/// One record of the change feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeRecord {
    /// Commit hash; a timestamp where git keeps no history.
    pub seq: VersionId,
    /// The path.
    pub path: TreePath,
    /// What happened to it.
    pub action: PathAction,
    /// Author of the change.
    pub actor: Actor,
    /// Time of the change.
    pub timestamp: Timestamp,
}

/// A page of the change feed, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeFeedPage {
    /// One record for each path of each set.
    pub changes: Vec<ChangeRecord>,
    /// Pass it as `since` next time: the `seq` of the last record, with `.<count>` appended if the
    /// page ended within that set; empty when there is nothing yet.
    pub last_seq: String,
}

impl Vfs {
    /// The change feed: at most `limit` records after `since`, oldest first; without `since` the
    /// newest.
    ///
    /// `since` is a commit hash or a timestamp, as `last_seq` is. If a page ends within a set of
    /// many paths, `last_seq` is `<seq>.<records already returned>`, which `since` accepts.
    ///
    /// # Errors
    /// `Invalid` (`unknown sequence`) when the log does not know `since`.
    pub fn changes(&self, since: Option<&str>, limit: usize) -> Result<ChangeFeedPage, Fault> {
        self.wait_committed()?;
        let ChangePage { changes, is_split } = match since {
            Some(text) => {
                let (seq, ordinal) = self.parse_since(text)?;
                match ordinal {
                    Some(ordinal) => self.core.log.changes_after(seq, ordinal, limit)?,
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

    /// The position that `since` names, and how many records of that set were returned already.
    fn parse_since(&self, since: &str) -> Result<(Seq, Option<usize>), Fault> {
        let unknown =
            || Fault::invalid("since", format_args!("unknown sequence `{}`", svcfs_base::escape_unprintable(since)));
        let (name, ordinal) = match since.split_once('.') {
            Some((name, ordinal)) => (name, Some(ordinal.parse().map_err(|_| unknown())?)),
            None => (since, None),
        };
        Ok((self.core.log.find_seq(name)?.ok_or_else(unknown)?, ordinal))
    }

    /// Whether a path is visible to callers of a protocol, whether or not it exists.
    pub fn is_visible(&self, protocol: Protocol, path: &TreePath) -> bool {
        self.core.is_visible(protocol, path)
    }

    /// Checks that callers of a protocol may write a path, as far as its name decides.
    ///
    /// # Errors
    /// `Invalid`, with the reason and what to do.
    pub fn check_writable_name(&self, protocol: Protocol, path: &TreePath) -> Result<(), Fault> {
        if self.core.is_visible(protocol, path) { Ok(()) } else { Err(self.core.denied_path(path)) }
    }

    /// Which hidden files the APIs serve.
    pub fn hidden_files(&self) -> &HiddenFiles {
        self.core.path_classes.hidden_files()
    }

    /// Whether a path is versioned: neither server state nor a scratch name.
    pub fn is_versioned(&self, path: &TreePath) -> bool {
        self.core.is_versioned(path)
    }

    /// Waits until everything accepted so far is durable, in the tree and announced; returns the
    /// last position.
    ///
    /// # Errors
    /// `Unavailable` when the disk does not answer in time.
    pub fn wait_applied(&self) -> Result<Seq, Fault> {
        self.core.wait_applied(MAX_WAIT)?;
        Ok(self.core.feed.last_seq())
    }

    /// Also waits until history has it: coalesced commits
    /// ([`CommitPolicy::Coalesced`](crate::CommitPolicy::Coalesced)) are made now. Every history
    /// query calls this first, and so sees its caller's writes.
    ///
    /// # Errors
    /// As [`Vfs::wait_applied`].
    pub fn wait_committed(&self) -> Result<Seq, Fault> {
        self.run_write_flushers();
        self.core.wait_committed(MAX_WAIT)?;
        Ok(self.core.feed.last_seq())
    }

    pub(crate) fn run_write_flushers(&self) {
        let flushers = self.write_flushers.lock().clone();
        flushers.iter().for_each(|flush| flush());
    }

    /// The recorded hash of a path; none when it is not versioned.
    ///
    /// # Errors
    /// `Internal` when git or the log cannot be read.
    pub fn recorded_etag(&self, path: &TreePath) -> Result<Option<ETag>, Fault> {
        let recorded = self.core.versions.current_states(&[path])?.into_iter().flatten().next();
        Ok(recorded.map(|(etag, _)| etag))
    }
}

#[cfg(test)]
mod tests;
