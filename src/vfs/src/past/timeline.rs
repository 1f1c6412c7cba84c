//! What happened lately, and how much (contract 4.6, 4.17): answered from what the log's rows come to.

use svcfs_base::{Actor, Fault, Timestamp, TreePath, VersionId};
use svcfs_store::{ChangeFilter, PathOccurrence, TotalActivity};

use super::PathAction;
use crate::Vfs;

/// One change of one path.
#[derive(Debug, Clone)]
pub struct TimelineEvent {
    /// What happened.
    pub action: PathAction,
    /// To which path.
    pub path: TreePath,
    /// Who did it.
    pub actor: Actor,
    /// When, to the second.
    pub time: Timestamp,
    /// The whole message of the commit.
    pub message: String,
    /// What the set it belongs to is called.
    pub id: VersionId,
}

/// A stretch of what happened.
#[derive(Debug, Clone)]
pub struct PathTimeline {
    /// The changes, newest first.
    pub events: Vec<TimelineEvent>,
    /// How many there are in all.
    pub total: usize,
}

impl Vfs {
    /// The changes that a selection means, newest first: at most `max` after the first `skip`.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn timeline(&self, selection: &ChangeFilter, skip: usize, max: usize) -> Result<PathTimeline, Fault> {
        self.wait_committed()?;
        let (found, total) = self.core.log.select_changes(selection, skip, max)?;
        let sets = self.core.log.sets(found.iter().map(|occurrence| occurrence.seq))?;
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
        Ok(PathTimeline { events: found.into_iter().filter_map(event).collect(), total })
    }

    /// How much the pages at or below a path, or all pages, changed from a moment on.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn activity(&self, since: Timestamp, below: Option<&TreePath>) -> Result<TotalActivity, Fault> {
        self.wait_committed()?;
        Ok(self.core.log.activity(since, below)?)
    }
}
