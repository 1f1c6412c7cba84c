//! Commits that somebody else put on the branch: a person's `git commit`, a pull, a checkout.

use svcfs_base::{Announcement, CommitId, Door, Seq};
use svcfs_store::{Entry, ForeignEntry, Record, StoreError};

use super::Committer;
use crate::core::Core;
use crate::feed::Event;

impl Committer {
    /// Records commits that somebody else put on the branch since the last one of ours.
    pub(super) fn follow_head(&mut self) -> Result<(), StoreError> {
        let head = self.core.history.head()?;
        let Some(theirs) = head.filter(|_| head != self.head) else {
            if head.is_none() && self.head.is_some() {
                return Err(no_branch());
            }
            return Ok(());
        };
        let mut records = foreign_records(&self.core, self.head, theirs, self.last)?;
        self.head = Some(theirs);
        self.record_foreign(&mut records)
    }

    pub(super) fn record_foreign(&mut self, records: &mut Vec<Record>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        self.core.log.append(records)?;
        if let Some(newest) = records.last() {
            self.last = newest.seq;
        }
        self.is_unsettled = true;
        self.touched.extend(records.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()));
        self.core.feed.publish(records.drain(..).map(Event::from));
        Ok(())
    }
}

/// Records for the commits that lead from one head to another.
pub(crate) fn foreign_records(
    core: &Core,
    from: Option<CommitId>,
    to: CommitId,
    last: Seq,
) -> Result<Vec<Record>, StoreError> {
    let mut seq = last;
    let commits = core.history.between(from, to)?;
    Ok(commits
        .into_iter()
        .map(|commit| {
            seq = seq.next();
            let entry = |entry: ForeignEntry| Entry {
                path: entry.path,
                old: entry.old,
                new: entry.new,
                kind: entry.kind,
                content: None,
                modified: None,
            };
            Record {
                seq,
                time: commit.time,
                actor: commit.actor,
                door: Door::Direct,
                message: commit.message,
                provenance: None,
                announcement: Announcement::Files,
                foreign: true,
                commit: Some(commit.commit),
                moves: Vec::new(),
                entries: commit.entries.into_iter().map(entry).collect(),
            }
        })
        .collect())
}

pub(super) fn no_branch() -> StoreError {
    StoreError::Damaged("the git branch is gone; restore it, or run `git switch` to one that exists".to_owned())
}
