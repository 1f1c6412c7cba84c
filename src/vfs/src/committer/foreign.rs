//! Commits that somebody else put on the branch: a person's `git commit`, a pull, a checkout.

use std::time::{Duration, Instant};

use svcfs_base::{Announcement, CommitId, Door, Seq};
use svcfs_store::{Entry, ForeignCommit, ForeignEntry, Record, StoreError, Way};

use tracing::{debug, info};

use super::Committer;
use crate::core::Core;
use crate::feed::Event;

/// How long writers give way to a git command of a person, which takes what it finds for the whole truth until it is done.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How long after it wrote `.git/index` a git command moves the branch.
const GRACE: Duration = Duration::from_millis(20);
pub(super) const LOOK: Duration = Duration::from_millis(5);

impl Committer {
    /// Waits for a git command that is at work in the root, so that it does not write over what we put in place meanwhile, nor
    /// finds the branch moved at its end. Only for a moment: whatever happens then, both versions are kept.
    pub(super) fn give_way(&mut self) {
        let mut trace = self.core.history.others_at_work(GRACE);
        if trace.is_none() || trace == self.passed.0 {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A merge or a rebase takes several locks, one after the other.
            let process = self.core.history.git_in_the_root(self.passed.1);
            if trace.is_none() && process.is_none() {
                return;
            }
            if Instant::now() >= deadline {
                debug!(process.id = process, "a git command takes long; writing beside it");
                self.passed = (trace, process);
                return;
            }
            self.core.queue.pause(LOOK);
            trace = self.core.history.others_at_work(GRACE);
        }
    }

    /// Records commits that somebody else put on the branch since the last one of ours.
    pub(super) fn follow_head(&mut self) -> Result<(), StoreError> {
        let below = std::mem::take(&mut self.theirs);
        if let Err(error) = self.record_foreign(&below) {
            self.theirs = below;
            return Err(error);
        }
        let head = self.core.history.head()?;
        let Some(theirs) = head.filter(|_| head != self.head) else {
            if head.is_none() && self.head.is_some() {
                return Err(no_branch());
            }
            return Ok(());
        };
        let records = foreign_records(&self.core, self.head, theirs)?;
        self.record_foreign(&records)?;
        self.head = Some(theirs);
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
        self.core.feed.publish(records.iter().cloned().map(Event::from));
        // Such as pages that the person's index had an older version of.
        self.core.doubt(records.into_iter().flat_map(|record| record.entries).map(|entry| entry.path).collect());
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
    let commits = match core.history.way(from, to)? {
        Way::Commits(commits) => core.history.foreign(&commits)?,
        Way::Jump(from) => {
            if core.history.keep(from, to)? {
                info!(commit.left = %from, commit.now = %to, "the branch was changed; what it had is kept below `refs/svcfs/kept`");
            }
            vec![core.history.jump(from, to)?]
        }
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
        modified: None,
    };
    Record {
        seq: Seq(0),
        time: commit.time,
        actor: commit.actor,
        door: Door::Direct,
        message: commit.message,
        provenance: None,
        announcement: Announcement::Files,
        foreign: true,
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
