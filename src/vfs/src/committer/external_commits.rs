//! Commits that somebody else put on the branch: a person's `git commit`, a pull, a checkout.

use std::time::{Duration, Instant};

use svcfs_base::{Actor, CommitId, DiskAttributes, EventAnnouncement, Protocol, Seq};
use svcfs_store::{
    DiffBase, DivergedMove, ForeignCommit, ForeignEntry, HeadMove, LogEntry, LogRecord, RecordKind, StoreError,
};
use tracing::{debug, info};

use super::Committer;
use crate::core::VfsCore;
use crate::feed::FeedEvent;

/// How long writers give way to a git command that shows no sign of life, and to one that does: it takes what it finds for the whole
/// truth until it is done.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
const MAX_PATIENCE: Duration = Duration::from_secs(5);
/// How long after it wrote `.git/index` a git command moves the branch.
const GRACE: Duration = Duration::from_millis(20);
/// How often we look whether it is done.
pub(super) const LOOK: Duration = Duration::from_millis(5);

impl Committer {
    /// Waits for a git command that is at work in the root, so that it does not write over what we put in place meanwhile, nor
    /// finds the branch moved at its end. Only for a moment: whatever happens then, both versions are kept.
    pub(super) fn give_way(&mut self) {
        let Some(history) = self.core.memory.git() else { return };
        let Some(other) = history.detect_external_git(GRACE, self.passed.as_ref()) else { return };
        let begun = Instant::now();
        let (mut mark, mut deadline) = (history.index_stamp(), begun + PATIENCE);
        while history.is_git_running(&other, GRACE) {
            let now = history.index_stamp();
            if now != mark {
                (mark, deadline) = (now, (Instant::now() + PATIENCE).min(begun + MAX_PATIENCE));
            }
            if Instant::now() >= deadline {
                debug!(?other, "a git command takes long; writing beside it");
                // A pager, an editor, a lock that a dead git left.
                self.passed = Some(other.merge(self.passed.take()));
                return;
            }
            if self.core.queue.pause(LOOK) {
                return;
            }
        }
    }

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
    fn record_foreign(&mut self, records: &[LogRecord]) -> Result<(), StoreError> {
        let records = numbered(records, self.last);
        let Some(newest) = records.last() else { return Ok(()) };
        self.core.log.append(&records)?;
        (self.last, self.told) = (newest.seq, newest.seq);
        self.is_unsettled = true;
        let paths: Vec<_> = records.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()).collect();
        self.index.touch(paths.iter().cloned());
        self.core.feed.publish(records.into_iter().map(FeedEvent::from));
        // Such as pages that the person's index had an older version of.
        self.core.doubt(paths);
        Ok(())
    }
}

/// The same records with the places in the log that follow `last`.
pub(crate) fn numbered(records: &[LogRecord], last: Seq) -> Vec<LogRecord> {
    let places = std::iter::successors(Some(last.next()), |seq| Some(seq.next()));
    records.iter().zip(places).map(|(record, seq)| LogRecord { seq, ..record.clone() }).collect()
}

/// Records for the commits that lead from one head to another, without a place in the log yet. What is logged is trusted: they are flushed.
pub(crate) fn foreign_records(
    core: &VfsCore,
    from: Option<CommitId>,
    to: CommitId,
) -> Result<Vec<LogRecord>, StoreError> {
    let commits = match core.git()?.head_move(from, to)? {
        HeadMove::FastForward(commits) => core.git()?.external_commits(&commits)?,
        HeadMove::Diverged(from) => return jump_records(core, from, to),
    };
    core.git()?.flush_commits(&commits)?;
    Ok(commits.into_iter().map(foreign_record).collect())
}

/// The same for heads of which the first is no ancestor of the second. What was left is no history any more from now on: killed before
/// these are logged, the next opening finds the same way.
pub(crate) fn jump_records(core: &VfsCore, from: CommitId, to: CommitId) -> Result<Vec<LogRecord>, StoreError> {
    keep(core, from, to)?;
    let DivergedMove { diff: whole, dropped: left, added: come } = core.git()?.diverged_move(from, to)?;
    // All that can fail or takes its time comes before anything is said of what was left.
    let again = core.git()?.external_commits(&come)?;
    core.git()?.flush_commits(&again)?;
    core.log.mark_dropped(&left)?;
    let actor = Actor::new(Protocol::Direct.default_actor());
    let message = format!("{actor}: the branch is at {:.7} now, and was at {:.7}", to.to_string(), from.to_string());
    let time = core.memory.record_timestamp(core.clock.now());
    let again = again.into_iter().map(|commit| ForeignCommit { diff_base: DiffBase::AfterSwitch, ..commit });
    let whole = ForeignCommit { actor, message, time, ..whole };
    Ok(std::iter::once(whole).chain(again).map(foreign_record).collect())
}

/// Keeps what a branch does not have any more.
pub(crate) fn keep(core: &VfsCore, from: CommitId, to: CommitId) -> Result<(), StoreError> {
    if core.git()?.pin_commits(from, to)? {
        info!(commit.left = %from, commit.now = %to, "the branch was changed; what it had is kept below `refs/svcfs/kept`");
    }
    Ok(())
}

/// The record of a commit that somebody else made, without a place in the log yet.
pub(crate) fn foreign_record(commit: ForeignCommit) -> LogRecord {
    let entry = |entry: ForeignEntry| LogEntry {
        path: entry.path,
        old: entry.old,
        new: entry.new,
        kind: entry.kind,
        content: None,
        attributes: DiskAttributes::default(),
        replaces_large: None,
    };
    LogRecord {
        seq: Seq(0),
        time: commit.time,
        actor: commit.actor,
        protocol: Protocol::Direct,
        message: commit.message,
        provenance: None,
        announcement: EventAnnouncement::Files,
        kind: RecordKind::ExternalCommit,
        diff_base: commit.diff_base,
        commit: Some(commit.commit),
        moves: Vec::new(),
        entries: commit.entries.into_iter().map(entry).collect(),
    }
}

pub(super) fn no_branch() -> StoreError {
    let text = "the git branch is gone: put `.git` back where it was, or run `git switch` to a branch that exists";
    StoreError::Repository(text.to_owned())
}
