//! Commits that somebody else put on the branch: a person's `git commit`, a pull, a checkout.

use svcfs_base::{Announcement, CommitId, DiskAttributes, Door, Seq};
use svcfs_store::{Entry, ForeignCommit, ForeignEntry, Record, Role, StoreError, Way};

use super::Committer;
use crate::core::Core;
use crate::feed::Event;

impl Committer {
    /// Records commits that somebody else put on the branch since the last one of ours.
    pub(super) fn follow_head(&mut self) -> Result<(), StoreError> {
        let below = std::mem::take(&mut self.theirs);
        if let Err(error) = self.record_foreign(&below) {
            self.theirs = below;
            return Err(error);
        }
        let head = self.core.memory.head()?;
        let Some(theirs) = head.filter(|_| head != self.head) else {
            if head.is_none() && self.head.is_some() {
                return Err(no_branch());
            }
            return Ok(());
        };
        let records = foreign_records(&self.core, self.head, theirs)?;
        self.record_foreign(&records)?;
        self.head = Some(theirs);
        // Ours come on top of theirs, before more is said of what history has.
        self.window.hurry();
        Ok(())
    }

    /// Logs and announces commits of others; their place in the log is given here.
    fn record_foreign(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let records = numbered(records, self.last);
        let Some(newest) = records.last() else { return Ok(()) };
        self.core.log.append(&records)?;
        self.last = newest.seq;
        self.is_unsettled = true;
        self.touched.extend(records.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()));
        self.core.feed.publish(records.into_iter().map(Event::from));
        Ok(())
    }
}

/// The same records with the places in the log that follow `last`.
pub(crate) fn numbered(records: &[Record], last: Seq) -> Vec<Record> {
    let places = std::iter::successors(Some(last.next()), |seq| Some(seq.next()));
    records.iter().zip(places).map(|(record, seq)| Record { seq, ..record.clone() }).collect()
}

/// Records for the commits that lead from one head to another, without a place in the log yet.
pub(crate) fn foreign_records(core: &Core, from: Option<CommitId>, to: CommitId) -> Result<Vec<Record>, StoreError> {
    let commits = match core.git()?.way(from, to)? {
        Way::Commits(commits) => core.git()?.foreign(&commits)?,
        Way::Jump(from) => vec![core.git()?.jump(from, to)?],
    };
    Ok(commits.into_iter().map(foreign_record).collect())
}

/// The record of a commit that somebody else made, without a place in the log yet.
pub(crate) fn foreign_record(commit: ForeignCommit) -> Record {
    let entry = |entry: ForeignEntry| Entry {
        path: entry.path,
        old: entry.old,
        new: entry.new,
        kind: entry.kind,
        content: None,
        disk: DiskAttributes::default(),
    };
    Record {
        seq: Seq(0),
        time: commit.time,
        actor: commit.actor,
        door: Door::Direct,
        message: commit.message,
        provenance: None,
        announcement: Announcement::Files,
        role: Role::Foreign,
        against: commit.against,
        commit: Some(commit.commit),
        moves: Vec::new(),
        entries: commit.entries.into_iter().map(entry).collect(),
    }
}

pub(super) fn no_branch() -> StoreError {
    let text = "the git branch is gone: put `.git` back where it was, or run `git switch` to a branch that exists";
    StoreError::Repository(text.to_owned())
}
