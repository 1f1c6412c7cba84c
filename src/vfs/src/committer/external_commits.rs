//! External commits on the branch: from `git commit`, a pull, a checkout.

use std::time::{Duration, Instant};

use svcfs_base::{Actor, CommitId, DiskAttributes, EventAnnouncement, Protocol, Seq};
use svcfs_store::{
    DiffBase, DivergedMove, ForeignCommit, ForeignEntry, HeadMove, LogEntry, LogRecord, RecordKind, StoreError,
};
use tracing::{debug, info};

use super::Committer;
use crate::core::VfsCore;
use crate::feed::FeedEvent;

/// How long writers wait for an idle external git command, and for one that makes progress: a git
/// command assumes that the files it reads do not change until it ends.
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(5);
/// How long after writing `.git/index` a git command may still move the branch.
const INDEX_GRACE: Duration = Duration::from_millis(20);
/// How often the committer checks whether the command has ended.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

impl Committer {
    /// Waits for an external git command, so that it neither overwrites files installed meanwhile
    /// nor finds the branch moved at its end. The wait is bounded: whatever happens after it, both
    /// versions are kept.
    pub(super) fn wait_for_external_git(&mut self) {
        let Some(history) = self.core.versions.git() else { return };
        let Some(external) = history.detect_external_git(INDEX_GRACE, self.ignored_git.as_ref()) else { return };
        let started = Instant::now();
        let (mut stamp, mut deadline) = (history.index_stamp(), started + WAIT_TIMEOUT);
        while history.is_git_running(&external, INDEX_GRACE) {
            let now = history.index_stamp();
            if now != stamp {
                (stamp, deadline) = (now, (Instant::now() + WAIT_TIMEOUT).min(started + MAX_WAIT));
            }
            if Instant::now() >= deadline {
                debug!(?external, "an external git command takes long; writing without waiting for it");
                // It may be a pager or an editor, or a lock file left by a killed git.
                self.ignored_git = Some(external.merge(self.ignored_git.take()));
                return;
            }
            if self.core.queue.pause(POLL_INTERVAL) {
                return;
            }
        }
    }

    /// Records external commits since the last known head.
    pub(super) fn follow_head(&mut self) -> Result<(), StoreError> {
        let pending = std::mem::take(&mut self.pending_external_records);
        if let Err(error) = self.record_external(&pending) {
            self.pending_external_records = pending;
            return Err(error);
        }
        let head = self.core.versions.head()?;
        let Some(new_head) = head.filter(|_| head != self.head) else {
            if head.is_none() && self.head.is_some() {
                return Err(missing_branch());
            }
            return Ok(());
        };
        let records = external_records(&self.core, self.head, new_head)?;
        self.record_external(&records)?;
        self.head = Some(new_head);
        // The window's commits are based on them, before history is read again.
        self.window.expedite();
        Ok(())
    }

    /// Logs and announces external commits; assigns their positions.
    fn record_external(&mut self, records: &[LogRecord]) -> Result<(), StoreError> {
        let records = assign_seqs(records, self.last_seq);
        let Some(newest) = records.last() else { return Ok(()) };
        self.core.log.append(&records)?;
        (self.last_seq, self.last_non_scan_seq) = (newest.seq, newest.seq);
        self.needs_checkpoint = true;
        let paths: Vec<_> = records.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()).collect();
        self.git_index.touch(paths.iter().cloned());
        self.core.feed.publish(records.into_iter().map(FeedEvent::from));
        // Pages that the committed index had an older version of differ from the tree.
        self.core.request_rescan(paths);
        Ok(())
    }
}

/// The records with the positions that follow `last`.
pub(crate) fn assign_seqs(records: &[LogRecord], last: Seq) -> Vec<LogRecord> {
    let seqs = std::iter::successors(Some(last.next()), |seq| Some(seq.next()));
    records.iter().zip(seqs).map(|(record, seq)| LogRecord { seq, ..record.clone() }).collect()
}

/// Unnumbered records for the commits between two heads. Flushes their objects first, as recovery
/// trusts logged commits.
pub(crate) fn external_records(
    core: &VfsCore,
    from: Option<CommitId>,
    to: CommitId,
) -> Result<Vec<LogRecord>, StoreError> {
    let commits = match core.git()?.head_move(from, to)? {
        HeadMove::FastForward(commits) => core.git()?.external_commits(&commits)?,
        HeadMove::Diverged(from) => return diverged_records(core, from, to),
    };
    core.git()?.flush_commits(&commits)?;
    Ok(commits.into_iter().map(external_record).collect())
}

/// As [`external_records`], for a head that is not a descendant of the former one. Drops the former
/// commits from history. After a kill before the records are logged, recovery finds the same move.
pub(crate) fn diverged_records(core: &VfsCore, from: CommitId, to: CommitId) -> Result<Vec<LogRecord>, StoreError> {
    pin_dropped_commits(core, from, to)?;
    let DivergedMove { diff, dropped, added } = core.git()?.diverged_move(from, to)?;
    // Everything that may fail comes before commits are marked as dropped.
    let readded = core.git()?.external_commits(&added)?;
    core.git()?.flush_commits(&readded)?;
    core.log.mark_dropped(&dropped)?;
    let actor = Actor::new(Protocol::Direct.default_actor());
    let message = format!("{actor}: the branch is at {:.7} now, and was at {:.7}", to.to_string(), from.to_string());
    let time = core.versions.record_timestamp(core.clock.now());
    let readded = readded.into_iter().map(|commit| ForeignCommit { diff_base: DiffBase::AfterSwitch, ..commit });
    let diff = ForeignCommit { actor, message, time, ..diff };
    Ok(std::iter::once(diff).chain(readded).map(external_record).collect())
}

/// Keeps the commits that a branch no longer has.
pub(crate) fn pin_dropped_commits(core: &VfsCore, from: CommitId, to: CommitId) -> Result<(), StoreError> {
    if core.git()?.pin_commits(from, to)? {
        info!(commit.left = %from, commit.now = %to, "the branch was moved; its former commits are kept in `refs/svcfs/kept`");
    }
    Ok(())
}

/// The unnumbered record of an external commit.
pub(crate) fn external_record(commit: ForeignCommit) -> LogRecord {
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
        request: None,
        moves: Vec::new(),
        entries: commit.entries.into_iter().map(entry).collect(),
    }
}

pub(super) fn missing_branch() -> StoreError {
    let text = "the git branch is missing: restore `.git`, or run `git switch` to a branch that exists";
    StoreError::Repository(text.to_owned())
}
