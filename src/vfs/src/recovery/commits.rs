//! Rebuilds the commits logged since the checkpoint.

use std::collections::{HashMap, HashSet};

use svcfs_base::{CommitId, ETag, Fault, Seq, TreePath};
use svcfs_store::{DiffBase, FileEdit, HeadMove, History, LogRecord, RecordKind, StoreError};
use tracing::{error, warn};

use super::COMMITS_PER_BATCH;
use super::replay_set::ReplaySet;
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};

/// How many of the external commits recorded together are tried as parents of own commits.
const MAX_EXTERNAL_BASES: usize = 8;

pub(super) struct LogEnd {
    /// The newest commit that the log knows.
    pub(super) newest: Option<CommitId>,
    /// Every commit that the log knows after the last checkpoint.
    pub(super) known: HashSet<CommitId>,
    /// The newest own commit; external commits may follow it.
    rebuilt_tip: Option<CommitId>,
    /// A move of the branch that the log does not know.
    pub(super) branch_move: Option<BranchMove>,
}

/// An external move of the branch (`git switch`, `git reset`) while no server ran.
pub(super) struct BranchMove {
    /// The commits before and after the move. Own commits may follow the second.
    pub(super) endpoints: (CommitId, CommitId),
    /// Records that were not on the branch before, and are rebased onto it.
    pub(super) rebased_records: Vec<LogRecord>,
}

enum BranchState {
    /// At the newest commit of the log, or at a descendant of it.
    UpToDate,
    /// At an ancestor of it.
    Behind(Option<CommitId>),
    /// At an external commit that was lost in the power failure.
    Lost(CommitId),
    /// At an external commit on the same base, or moved elsewhere, between these commits.
    Diverged(CommitId, Option<(CommitId, CommitId)>),
}

impl BranchState {
    fn read(
        core: &VfsCore,
        (checkpoint, own_tip): (Option<CommitId>, CommitId),
        records: &[LogRecord],
    ) -> Result<Self, Fault> {
        let git = core.git()?;
        let Some(head) = git.head()? else { return Ok(Self::Behind(None)) };
        Ok(if !git.has_all_objects(Some(own_tip), head)? {
            Self::Lost(head)
        } else if git.contains(head, own_tip)? {
            Self::UpToDate
        } else {
            match external_branch_move(core, (checkpoint, head), records)? {
                None if git.contains(own_tip, head)? => Self::Behind(Some(head)),
                endpoints => Self::Diverged(head, endpoints),
            }
        })
    }
}

impl LogEnd {
    /// Without records since the checkpoint.
    pub(super) fn at_checkpoint(checkpoint: Option<CommitId>) -> Self {
        Self { newest: checkpoint, known: HashSet::new(), rebuilt_tip: None, branch_move: None }
    }

    /// Paths changed by external commits after all own ones, which installed their own files.
    pub(super) fn externally_changed_paths(&self, core: &VfsCore) -> Result<HashSet<TreePath>, Fault> {
        let (Some(rebuilt_tip), Some(head)) = (self.rebuilt_tip, core.git()?.head()?) else {
            return Ok(HashSet::new());
        };
        let HeadMove::FastForward(commits) = core.git()?.head_move(Some(rebuilt_tip), head)? else {
            return Ok(HashSet::new());
        };
        let mut paths = HashSet::new();
        for chunk in commits.chunks(COMMITS_PER_BATCH) {
            let entries = core.git()?.external_commits(chunk)?.into_iter().flat_map(|commit| commit.entries);
            paths.extend(entries.map(|entry| entry.path));
        }
        Ok(paths)
    }
}

/// Rebuilds the logged commits and moves the branch to the newest.
pub(super) fn rebuild_commits(
    core: &VfsCore,
    checkpoint: Option<CommitId>,
    replay: &ReplaySet<'_>,
    reporter: &mut ProgressReporter,
) -> Result<LogEnd, Fault> {
    let records = replay.records;
    let known: HashSet<_> = records.iter().filter_map(|record| record.commit).collect();
    if let Some(missing) = checkpoint
        && !core.git()?.has_commit(missing)?
    {
        // Another repository was put in its place.
        let end = LogEnd { newest: checkpoint, known, rebuilt_tip: None, branch_move: None };
        let Some(head) = core.git()?.head()? else { return rebuild_commits(core, None, replay, reporter) };
        return rebase_onto(core, (checkpoint, Some((missing, head)), head), records, end);
    }
    // A kill loses nothing of git: intact commits on the branch need no rewrite.
    let built = rebuild(core, checkpoint, (replay, records_on_branch(core, records)?), reporter)?;
    let end = LogEnd { newest: built.tip.or(checkpoint), known, rebuilt_tip: built.tip, branch_move: None };
    let Some(own_tip) = built.tip else { return Ok(end) };
    let commits = commits_to_record(core, (checkpoint, own_tip), records, built.commits)?;
    loop {
        let branch = BranchState::read(core, (checkpoint, own_tip), records)?;
        match branch {
            BranchState::Lost(head) => rollback_branch(core, head, own_tip)?,
            BranchState::Diverged(head, branch_move) => {
                let end = LogEnd { newest: checkpoint, rebuilt_tip: None, ..end };
                return rebase_onto(core, (checkpoint, branch_move, head), records, end);
            }
            BranchState::Behind(_) | BranchState::UpToDate => {
                // Before the branch moves: after a crash in between, recovery rebuilds the same
                // commits, and the log knows them.
                core.log.set_commits(&commits)?;
                if let BranchState::Behind(head) = branch {
                    core.git()?.advance(head, own_tip)?;
                }
                core.git()?.unpin_packs();
                return Ok(end);
            }
        }
    }
}

/// The commits of own records, without dropped ones that the branch has not regained.
fn commits_to_record(
    core: &VfsCore,
    (checkpoint, own_tip): (Option<CommitId>, CommitId),
    records: &[LogRecord],
    mut commits: Vec<(Seq, CommitId)>,
) -> Result<Vec<(Seq, CommitId)>, Fault> {
    let dropped: HashMap<_, _> = records
        .iter()
        .filter(|record| record.diff_base == DiffBase::Dropped)
        .map(|record| (record.seq, record.commit))
        .collect();
    if !dropped.is_empty() {
        let dropped_commits = dropped.values().copied().flatten().collect();
        let mut readded = core.git()?.ancestors_among((checkpoint, own_tip), &dropped_commits)?;
        // A commit that an external record added again belongs to that record.
        for external in records.iter().filter(|record| record.kind == RecordKind::ExternalCommit) {
            external.commit.map(|commit| readded.remove(&commit));
        }
        commits.retain(|(seq, _)| {
            dropped.get(seq).is_none_or(|commit| commit.is_some_and(|commit| readded.contains(&commit)))
        });
    }
    Ok(commits)
}

/// Rebases own records onto an external head: one on the same base, or one the branch was moved to.
/// Dropped commits stay dropped.
fn rebase_onto(
    core: &VfsCore,
    (checkpoint, branch_move, head): (Option<CommitId>, Option<(CommitId, CommitId)>, CommitId),
    records: &[LogRecord],
    mut end: LogEnd,
) -> Result<LogEnd, Fault> {
    warn!(commit.id = %head, commit.left = ?branch_move, "the branch was moved while logged changes were pending; rebasing onto it");
    let moved = records_to_rebase(core, (checkpoint, branch_move, head), records)?;
    // After a crash that followed the move of the branch, they are there already.
    let existing =
        core.git()?.ancestors_among((checkpoint, head), &moved.iter().filter_map(|record| record.commit).collect())?;
    let is_missing = |record: &&LogRecord| record.commit.is_none_or(|commit| !existing.contains(&commit));
    let missing: Vec<_> = moved.iter().filter(is_missing).cloned().collect();
    // Progress for these records was already reported.
    let built = rebuild(core, Some(head), (&ReplaySet::new(&missing), 0), &mut ProgressReporter::silent())?;
    end.known.extend(built.commits.iter().map(|(_, commit)| *commit));
    core.log.set_commits(&built.commits)?;
    if let Some(own_tip) = built.tip.filter(|own_tip| *own_tip != head) {
        core.git()?.advance(Some(head), own_tip)?;
    }
    core.git()?.unpin_packs();
    if let Some(endpoints) = branch_move {
        end.newest = Some(endpoints.0);
        end.branch_move = Some(BranchMove { endpoints, rebased_records: moved });
    }
    // Otherwise every unknown commit since the checkpoint is external, also one below own commits.
    Ok(end)
}

/// The unrecorded external move of the branch: from a logged commit to its new head. Own commits
/// may follow that head already, when recovery was interrupted.
fn external_branch_move(
    core: &VfsCore,
    (checkpoint, head): (Option<CommitId>, CommitId),
    records: &[LogRecord],
) -> Result<Option<(CommitId, CommitId)>, Fault> {
    let git = core.git()?;
    let head_moves = git.external_reflog_moves()?;
    let Some((_, to)) = head_moves.first().copied() else { return Ok(None) };
    if to != head && !(git.has_commit(to)? && git.contains(head, to)?) {
        return Ok(None);
    }
    for (index, (from, _)) in head_moves.iter().enumerate() {
        let pending = records.iter().rposition(|record| record.commit == Some(*from));
        let Some(position) = pending.or((checkpoint == Some(*from)).then_some(0)) else { continue };
        if !git.has_commit(*from)? || git.contains(head, *from)? {
            continue;
        }
        let is_end = |record: &LogRecord| head_moves[..=index].iter().any(|(_, to)| record.commit == Some(*to));
        let is_recorded =
            records[position..].iter().any(|record| record.kind == RecordKind::ExternalCommit && is_end(record));
        return Ok((!is_recorded).then_some((*from, to)));
    }
    Ok(None)
}

/// Rolls the branch back from a commit lost in the power failure, when no records are pending.
pub(super) fn rollback_lost_head(core: &VfsCore, own_tip: Option<CommitId>) -> Result<(), Fault> {
    match (core.git()?.head()?, own_tip) {
        (Some(head), Some(own_tip)) if !core.git()?.has_all_objects(Some(own_tip), head)? => {
            rollback_branch(core, head, own_tip)
        }
        _ => Ok(()),
    }
}

/// Rolls the branch back from a lost commit: to the newest reflog entry that is intact.
fn rollback_branch(core: &VfsCore, lost: CommitId, own_tip: CommitId) -> Result<(), Fault> {
    let git = core.git()?;
    let mut intact = own_tip;
    for before in git.reflog_targets()?.into_iter().filter(|before| *before != lost) {
        if git.has_commit(before)? && git.has_all_objects(Some(own_tip), before)? {
            intact = before;
            break;
        }
    }
    warn!(commit.lost = %lost, commit.now = %intact, "the branch points to a commit lost in the power failure; rolling it back");
    Ok(git.rollback_branch(lost, intact)?)
}

/// Rebuilds the objects of the logged commits; the branch does not move.
pub(super) fn rebuild_objects(
    core: &VfsCore,
    checkpoint: Option<CommitId>,
    replay: &ReplaySet<'_>,
) -> Result<(), Fault> {
    rebuild(core, checkpoint, (replay, 0), &mut ProgressReporter::silent())?;
    core.git()?.unpin_packs();
    Ok(())
}

/// How many records, from the first, are on the branch. None when external commits are among them:
/// those may have removed own commits from the branch, and `git gc` may remove what no branch has.
fn records_on_branch(core: &VfsCore, records: &[LogRecord]) -> Result<usize, Fault> {
    let head = core.git()?.head()?;
    let count = records.iter().rposition(|record| head.is_some() && record.commit == head).map_or(0, |index| index + 1);
    let is_ours = records[..count].iter().all(|record| record.kind != RecordKind::ExternalCommit);
    Ok(if is_ours { count } else { 0 })
}

/// Own records to rebase onto a head: those on neither side of the move.
fn records_to_rebase(
    core: &VfsCore,
    (checkpoint, branch_move, head): (Option<CommitId>, Option<(CommitId, CommitId)>, CommitId),
    records: &[LogRecord],
) -> Result<Vec<LogRecord>, Fault> {
    let own_commits = records.iter().filter_map(|record| record.commit).collect();
    let own_ancestors = |commit: CommitId| match core.git()?.has_commit(commit)? {
        true => core.git()?.ancestors_among((checkpoint, commit), &own_commits),
        false => Ok(HashSet::new()),
    };
    let external = own_ancestors(branch_move.map_or(head, |(_, to)| to))?;
    let staying = branch_move.map(|(from, _)| own_ancestors(from)).transpose()?.unwrap_or_default();
    // Sets coalesced into a staying commit stay, too.
    let is_staying = |record: &LogRecord| {
        record.diff_base == DiffBase::Dropped || record.commit.is_some_and(|commit| staying.contains(&commit))
    };
    let first = records.iter().rposition(is_staying).map_or(0, |last| last + 1);
    let is_moved = |(index, record): &(usize, &LogRecord)| match record.commit {
        Some(commit) => !external.contains(&commit) && !is_staying(record) && record.kind != RecordKind::ExternalCommit,
        // It has the contents of a coalesced commit, which may be missing.
        None => *index >= first && record.kind == RecordKind::Uncommitted,
    };
    Ok(records.iter().enumerate().filter(is_moved).map(|(_, record)| record.clone()).collect())
}

struct ReplayResult {
    commits: Vec<(Seq, CommitId)>,
    /// The newest commit, own or external.
    tip: Option<CommitId>,
}

fn rebuild(
    core: &VfsCore,
    parent: Option<CommitId>,
    (replay, on_branch): (&ReplaySet<'_>, usize),
    reporter: &mut ProgressReporter,
) -> Result<ReplayResult, Fault> {
    let records = replay.records;
    let total = records.len();
    reporter.report(OpenProgress::Replaying { records: 0, total });
    let mut tip = parent;
    let mut commits = Vec::with_capacity(records.len());
    // External records up to here are below own commits already.
    let mut covered = 0;
    for (index, record) in records.iter().enumerate() {
        reporter.report_throttled(OpenProgress::Replaying { records: index, total });
        match record.kind {
            RecordKind::ExternalCommit if index >= covered => {
                // A commit that was lost with its repository cannot be a parent.
                let existing =
                    record.commit.map(|commit| Ok::<_, Fault>(core.git()?.has_commit(commit)?.then_some(commit)));
                tip = existing.transpose()?.flatten().or(tip);
            }
            RecordKind::ExternalCommit | RecordKind::Uncommitted => {}
            // A window without changes.
            RecordKind::Commit if record.entries.is_empty() => {}
            RecordKind::Change | RecordKind::Commit => {
                let (commit, after) = restage(core, tip, (index, record), (replay, on_branch))?;
                covered = covered.max(after);
                tip = commit.or(tip);
                commits.extend(tip.map(|commit| (record.seq, commit)));
            }
        }
    }
    core.git()?.publish()?;
    reporter.report(OpenProgress::Replaying { records: total, total });
    Ok(ReplayResult { commits, tip })
}

/// Rebuilds the commit of a record; also returns up to where external records are below it already.
fn restage(
    core: &VfsCore,
    tip: Option<CommitId>,
    (index, record): (usize, &LogRecord),
    (replay, on_branch): (&ReplaySet<'_>, usize),
) -> Result<(Option<CommitId>, usize), Fault> {
    let commit = stage_record(core, tip, (record, index < on_branch), replay)?;
    if commit != record.commit {
        // The branch moved later: external commits recorded afterwards are below.
        let first = index + records_until_external(&replay.records[index..]);
        let external_count =
            replay.records[first..].iter().take_while(|record| record.kind == RecordKind::ExternalCommit).count();
        for number in external_count.checked_sub(1).into_iter().chain(0..external_count.min(MAX_EXTERNAL_BASES)) {
            let external = &replay.records[first + number];
            if let Ok(commit_below) = stage_record(core, external.commit, (record, false), replay)
                && commit_below == record.commit
            {
                return Ok((commit_below, first + number + 1));
            }
        }
    }
    Ok((commit, 0))
}

fn records_until_external(records: &[LogRecord]) -> usize {
    records.iter().position(|record| record.kind == RecordKind::ExternalCommit).unwrap_or(records.len())
}

/// Builds the commit of a record; none when it conflicts with its parent.
fn stage_record(
    core: &VfsCore,
    parent: Option<CommitId>,
    (record, is_on_branch): (&LogRecord, bool),
    replay: &ReplaySet<'_>,
) -> Result<Option<CommitId>, Fault> {
    let mut contents = Vec::with_capacity(record.entries.len());
    for entry in &record.entries {
        contents.push(match (&entry.content, entry.new) {
            (Some(content), _) => Some(content.clone()),
            (None, Some(blob)) => replay.find_content(core, &entry.path, blob)?,
            (None, None) => None,
        });
    }
    let edits: Vec<_> = record
        .entries
        .iter()
        .zip(&contents)
        .filter_map(|(entry, content)| match (content, entry.new) {
            (Some(content), _) => Some(FileEdit::Write { path: &entry.path, kind: entry.kind, content }),
            (None, None) => Some(FileEdit::Remove { path: &entry.path }),
            (None, Some(blob)) => {
                report_lost_version(&entry.path, blob);
                None
            }
        })
        .collect();
    let stage = if is_on_branch { History::restage } else { History::stage };
    match stage(core.git()?, parent, &edits, &record.author()) {
        Ok(staged) => Ok(Some(staged.commit)),
        Err(StoreError::Unrecordable { path, reason } | StoreError::FilterFailed { path, reason }) => {
            error!(page.path = %path, reason, "a logged change conflicts with an external commit; that commit was kept");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Only external edits are logged without content: no writer was acknowledged.
fn report_lost_version(path: &TreePath, blob: ETag) {
    error!(page.path = %path, %blob, "a version of an external edit was lost in the power failure; other versions are intact");
}
