//! Recent changes and activity, answered from the log's aggregates.

use svcfs_base::{Actor, Fault, Timestamp, TreePath, VersionId};
use svcfs_store::{ChangeFilter, PathOccurrence, TotalActivity};

use super::PathAction;
use crate::Vfs;

/// One change of one path.
#[derive(Debug, Clone)]
pub struct TimelineEvent {
    /// What happened.
    pub action: PathAction,
    /// The path.
    pub path: TreePath,
    /// Author of the change.
    pub actor: Actor,
    /// Time of the change, to the second.
    pub time: Timestamp,
    /// The full message of the commit.
    pub message: String,
    /// Id of its change set.
    pub id: VersionId,
}

/// A page of changes.
#[derive(Debug, Clone)]
pub struct PathTimeline {
    /// The changes, newest first.
    pub events: Vec<TimelineEvent>,
    /// Total number of changes.
    pub total: usize,
}

impl Vfs {
    /// The changes that match a filter, newest first: at most `limit` after the first `skip`.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn timeline(&self, filter: &ChangeFilter, skip: usize, limit: usize) -> Result<PathTimeline, Fault> {
        self.wait_committed()?;
        let (occurrences, total) = self.core.log.select_changes(filter, skip, limit)?;
        let sets = self.core.log.sets(occurrences.iter().map(|occurrence| occurrence.seq))?;
        let event = |PathOccurrence { seq, path, is_removal }| {
            let set = sets.get(&seq)?;
            Some(TimelineEvent {
                action: PathAction::of(is_removal),
                path,
                actor: set.actor.clone(),
                time: set.time,
                message: set.message.clone(),
                id: set.id,
            })
        };
        Ok(PathTimeline { events: occurrences.into_iter().filter_map(event).collect(), total })
    }

    /// For each path with a version: when the first one was recorded.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn first_times(&self) -> Result<Vec<(TreePath, Timestamp)>, Fault> {
        self.wait_committed()?;
        Ok(self.core.log.first_times()?)
    }

    /// The actors of all changes, each once.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn actors(&self) -> Result<Vec<Actor>, Fault> {
        Ok(self.core.log.actors()?)
    }

    /// Activity of the pages at or below a path, or of all pages, since a time.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn activity(&self, since: Timestamp, below: Option<&TreePath>) -> Result<TotalActivity, Fault> {
        self.wait_committed()?;
        Ok(self.core.log.activity(since, below, self.hidden_files())?)
    }
}
