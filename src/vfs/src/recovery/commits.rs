//! The commits of the log's unsettled end, built again.

use std::collections::{HashMap, HashSet};

use svcfs_base::{CommitId, ETag, Fault, Seq, TreePath};
use svcfs_store::{CommitAuthor, DiffBase, FileEdit, HeadMove, History, LogRecord, RecordKind, StoreError};
use tracing::{error, warn};

use super::COMMITS_AT_ONCE;
use super::replay_set::ReplaySet;
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};

/// Of so many commits of others that were told together it is looked whether ours lie on top of them.
const FEW: usize = 8;

/// Where the log ends in git.
pub(super) struct LogEnd {
    /// The newest commit that the log knows.
    pub(super) newest: Option<CommitId>,
    /// Every commit that the log knows after the last checkpoint.
    pub(super) known: HashSet<CommitId>,
    /// The newest commit of the log, where others may have committed on top of it.
    below: Option<CommitId>,
    /// Where somebody took the branch elsewhere, and the log does not know.
    pub(super) left: Option<LeftBranch>,
}

/// A branch that somebody took from the newest commit of ours to another one while no server ran, as `git switch` does and `git reset`.
pub(super) struct LeftBranch {
    /// From where, and to where. Ours may be on top by now.
    pub(super) way: (CommitId, CommitId),
    /// What had not reached the branch before, and is on top now. All else of ours they left with it.
    pub(super) moved: Vec<LogRecord>,
}

/// Where the branch stands.
enum BranchState {
    /// At the newest commit of the log, or on top of it.
    Whole,
    /// At one that is below it.
    Behind(Option<CommitId>),
    /// At a commit of others that was lost with the power.
    Lost(CommitId),
    /// On what ours stood on, with others' commits on top; or where others took it, by this way from a commit of ours.
    Aside(CommitId, Option<(CommitId, CommitId)>),
}

impl BranchState {
    fn look(
        core: &VfsCore,
        (settled, ours): (Option<CommitId>, CommitId),
        records: &[LogRecord],
    ) -> Result<Self, Fault> {
        let git = core.git()?;
        let Some(head) = git.head()? else { return Ok(Self::Behind(None)) };
        Ok(if !git.has_all_objects(Some(ours), head)? {
            Self::Lost(head)
        } else if git.contains(head, ours)? {
            Self::Whole
        } else {
            match left_by_others(core, (settled, head), records)? {
                None if git.contains(ours, head)? => Self::Behind(Some(head)),
                way => Self::Aside(head, way),
            }
        })
    }
}

impl LogEnd {
    /// Where nothing was unsettled.
    pub(super) fn nothing(settled: Option<CommitId>) -> Self {
        Self { newest: settled, known: HashSet::new(), below: None, left: None }
    }

    /// The paths that others changed in commits on top of ours, after all that was logged with a commit: they put in place there what they wanted.
    pub(super) fn changed_on_top(&self, core: &VfsCore) -> Result<HashSet<TreePath>, Fault> {
        let (Some(below), Some(head)) = (self.below, core.git()?.head()?) else { return Ok(HashSet::new()) };
        let HeadMove::FastForward(commits) = core.git()?.head_move(Some(below), head)? else {
            return Ok(HashSet::new());
        };
        let mut paths = HashSet::new();
        for part in commits.chunks(COMMITS_AT_ONCE) {
            let entries = core.git()?.external_commits(part)?.into_iter().flat_map(|commit| commit.entries);
            paths.extend(entries.map(|entry| entry.path));
        }
        Ok(paths)
    }
}

/// Builds the logged commits again and brings the branch to the newest.
pub(super) fn complete(
    core: &VfsCore,
    settled: Option<CommitId>,
    logged: &ReplaySet<'_>,
    reporter: &mut ProgressReporter,
) -> Result<LogEnd, Fault> {
    let records = logged.records;
    let known: HashSet<_> = records.iter().filter_map(|record| record.commit).collect();
    if let Some(gone) = settled
        && !core.git()?.has_commit(gone)?
    {
        // Somebody put another repository in its place.
        let completed = LogEnd { newest: settled, known, below: None, left: None };
        let Some(head) = core.git()?.head()? else { return complete(core, None, logged, reporter) };
        return beside(core, (settled, Some((gone, head)), head), records, completed);
    }
    // A kill takes nothing from git: what the branch shows and is whole need not be written once more.
    let built = rebuild(core, settled, (logged, shown(core, records)?), reporter)?;
    let completed = LogEnd { newest: built.tip.or(settled), known, below: built.tip, left: None };
    let Some(ours) = built.tip else { return Ok(completed) };
    let commits = shown_commits(core, (settled, ours), records, built.commits)?;
    loop {
        let branch = BranchState::look(core, (settled, ours), records)?;
        match branch {
            BranchState::Lost(head) => take_back(core, head, ours)?,
            BranchState::Aside(head, left) => {
                let completed = LogEnd { newest: settled, below: None, ..completed };
                return beside(core, (settled, left, head), records, completed);
            }
            BranchState::Behind(_) | BranchState::Whole => {
                // Before the branch moves: what is cut off between the two builds the same commits once more, and finds them told.
                core.log.set_commits(&commits)?;
                if let BranchState::Behind(head) = branch {
                    core.git()?.advance(head, ours)?;
                }
                core.git()?.unpin_packs();
                return Ok(completed);
            }
        }
    }
}

/// The commits of our records but of those that somebody left, unless the branch has them again and nothing else tells that.
fn shown_commits(
    core: &VfsCore,
    (settled, ours): (Option<CommitId>, CommitId),
    records: &[LogRecord],
    mut commits: Vec<(Seq, CommitId)>,
) -> Result<Vec<(Seq, CommitId)>, Fault> {
    let left: HashMap<_, _> = records
        .iter()
        .filter(|record| record.diff_base == DiffBase::Dropped)
        .map(|record| (record.seq, record.commit))
        .collect();
    if !left.is_empty() {
        let wanted = left.values().copied().flatten().collect();
        let mut again = core.git()?.ancestors_among((settled, ours), &wanted)?;
        for told in records.iter().filter(|record| record.kind == RecordKind::ExternalCommit) {
            told.commit.map(|commit| again.remove(&commit));
        }
        commits.retain(|(seq, _)| left.get(seq).is_none_or(|left| left.is_some_and(|commit| again.contains(&commit))));
    }
    Ok(commits)
}

/// Somebody committed on what ours stood on, or took the branch elsewhere: what they left, if they did, stays where it is. Whatever else is
/// not there yet comes on top of theirs.
fn beside(
    core: &VfsCore,
    (settled, left, head): (Option<CommitId>, Option<(CommitId, CommitId)>, CommitId),
    records: &[LogRecord],
    mut completed: LogEnd,
) -> Result<LogEnd, Fault> {
    warn!(commit.id = %head, commit.left = ?left, "the branch was moved while changes were unsettled; building on it");
    let moved = moved(core, (settled, left, head), records)?;
    // Cut off after the branch was moved, an opening finds them there.
    let present =
        core.git()?.ancestors_among((settled, head), &moved.iter().filter_map(|record| record.commit).collect())?;
    let is_missing = |record: &&LogRecord| record.commit.is_none_or(|commit| !present.contains(&commit));
    let missing: Vec<_> = moved.iter().filter(is_missing).cloned().collect();
    // The same work once more, told already.
    let built = rebuild(core, Some(head), (&ReplaySet::new(&missing), 0), &mut ProgressReporter::silent())?;
    completed.known.extend(built.commits.iter().map(|(_, commit)| *commit));
    core.log.set_commits(&built.commits)?;
    if let Some(ours) = built.tip.filter(|ours| *ours != head) {
        core.git()?.advance(Some(head), ours)?;
    }
    core.git()?.unpin_packs();
    if let Some(way) = left {
        completed.newest = Some(way.0);
        completed.left = Some(LeftBranch { way, moved });
    }
    // Without that, whatever leads there from the last checkpoint and is not known is somebody's, also where it lies below ours.
    Ok(completed)
}

/// From which newest commit of the log somebody took the branch, and to which one that its present commit has: neither was told.
fn left_by_others(
    core: &VfsCore,
    (settled, head): (Option<CommitId>, CommitId),
    records: &[LogRecord],
) -> Result<Option<(CommitId, CommitId)>, Fault> {
    let git = core.git()?;
    let moves = git.external_reflog_moves()?;
    let Some((_, to)) = moves.first().copied() else { return Ok(None) };
    if to != head && !(git.has_commit(to)? && git.contains(head, to)?) {
        return Ok(None);
    }
    for (at, (from, _)) in moves.iter().enumerate() {
        let unsettled = records.iter().rposition(|record| record.commit == Some(*from));
        let Some(place) = unsettled.or((settled == Some(*from)).then_some(0)) else { continue };
        if !git.has_commit(*from)? || git.contains(head, *from)? {
            continue;
        }
        let is_end = |record: &LogRecord| moves[..=at].iter().any(|(_, to)| record.commit == Some(*to));
        let is_told = records[place..].iter().any(|record| record.kind == RecordKind::ExternalCommit && is_end(record));
        return Ok((!is_told).then_some((*from, to)));
    }
    Ok(None)
}

/// Takes the branch back from a commit that was lost with the power, where nothing is unsettled.
pub(super) fn take_back_lost(core: &VfsCore, ours: Option<CommitId>) -> Result<(), Fault> {
    match (core.git()?.head()?, ours) {
        (Some(head), Some(ours)) if !core.git()?.has_all_objects(Some(ours), head)? => take_back(core, head, ours),
        _ => Ok(()),
    }
}

/// Takes the branch back from a commit that was lost: to the newest one of which git knows that it stood there, and that is whole.
fn take_back(core: &VfsCore, lost: CommitId, ours: CommitId) -> Result<(), Fault> {
    let git = core.git()?;
    let mut whole = ours;
    for before in git.reflog_targets()?.into_iter().filter(|before| *before != lost) {
        if git.has_commit(before)? && git.has_all_objects(Some(ours), before)? {
            whole = before;
            break;
        }
    }
    warn!(commit.lost = %lost, commit.now = %whole, "the branch shows a commit that was lost with the power; it is taken back");
    Ok(git.rollback_branch(lost, whole)?)
}

/// Makes the objects of the logged commits again, and leaves the branch alone.
pub(super) fn objects(core: &VfsCore, settled: Option<CommitId>, logged: &ReplaySet<'_>) -> Result<(), Fault> {
    rebuild(core, settled, (logged, 0), &mut ProgressReporter::silent())?;
    core.git()?.unpin_packs();
    Ok(())
}

/// How many records, from the first, the branch shows: those up to the one whose commit it stands at. None where others committed among
/// them: they may have taken commits of ours off the branch, and whatever no branch shows somebody's `git gc` takes away.
fn shown(core: &VfsCore, records: &[LogRecord]) -> Result<usize, Fault> {
    let head = core.git()?.head()?;
    let count = records.iter().rposition(|record| head.is_some() && record.commit == head).map_or(0, |at| at + 1);
    let is_ours = records[..count].iter().all(|record| record.kind != RecordKind::ExternalCommit);
    Ok(if is_ours { count } else { 0 })
}

/// Those records of ours that are to be on top of a head: neither others' commits had them, nor the commit that somebody took the branch from.
fn moved(
    core: &VfsCore,
    (settled, left, head): (Option<CommitId>, Option<(CommitId, CommitId)>, CommitId),
    records: &[LogRecord],
) -> Result<Vec<LogRecord>, Fault> {
    let ours = records.iter().filter_map(|record| record.commit).collect();
    let among = |commit: CommitId| match core.git()?.has_commit(commit)? {
        true => core.git()?.ancestors_among((settled, commit), &ours),
        false => Ok(HashSet::new()),
    };
    let theirs = among(left.map_or(head, |(_, to)| to))?;
    let stay = left.map(|(from, _)| among(from)).transpose()?.unwrap_or_default();
    // What was gathered in a commit that stays does so, too.
    let stays = |record: &LogRecord| {
        record.diff_base == DiffBase::Dropped || record.commit.is_some_and(|commit| stay.contains(&commit))
    };
    let first = records.iter().rposition(stays).map_or(0, |last| last + 1);
    let is_moved = |(at, record): &(usize, &LogRecord)| match record.commit {
        Some(commit) => !theirs.contains(&commit) && !stays(record) && record.kind != RecordKind::ExternalCommit,
        // It has the contents of one that may not be there.
        None => *at >= first && record.kind == RecordKind::Uncommitted,
    };
    Ok(records.iter().enumerate().filter(is_moved).map(|(_, record)| record.clone()).collect())
}

/// What a replay of records gave.
struct ReplayResult {
    /// The commit of each of our records.
    commits: Vec<(Seq, CommitId)>,
    /// The newest commit, ours or another's.
    tip: Option<CommitId>,
}

fn rebuild(
    core: &VfsCore,
    parent: Option<CommitId>,
    (logged, shown): (&ReplaySet<'_>, usize),
    reporter: &mut ProgressReporter,
) -> Result<ReplayResult, Fault> {
    let records = logged.records;
    let total = records.len();
    reporter.tell(OpenProgress::Replaying { records: 0, total });
    let mut tip = parent;
    let mut commits = Vec::with_capacity(records.len());
    // Records of others up to here lie below ours already.
    let mut passed = 0;
    for (at, record) in records.iter().enumerate() {
        reporter.pass(OpenProgress::Replaying { records: at, total });
        match record.kind {
            RecordKind::ExternalCommit if at >= passed => {
                // One that is gone with the repository that had it is nothing to build on.
                let there =
                    record.commit.map(|commit| Ok::<_, Fault>(core.git()?.has_commit(commit)?.then_some(commit)));
                tip = there.transpose()?.flatten().or(tip);
            }
            RecordKind::ExternalCommit | RecordKind::Uncommitted => {}
            // A window that came to nothing.
            RecordKind::Commit if record.entries.is_empty() => {}
            RecordKind::Change | RecordKind::Commit => {
                let (commit, after) = staged_again(core, tip, (at, record), (logged, shown))?;
                passed = passed.max(after);
                tip = commit.or(tip);
                commits.extend(tip.map(|commit| (record.seq, commit)));
            }
        }
    }
    core.git()?.publish()?;
    reporter.tell(OpenProgress::Replaying { records: total, total });
    Ok(ReplayResult { commits, tip })
}

/// Builds the commit of one record again, and says up to where records of others lie below it already.
fn staged_again(
    core: &VfsCore,
    tip: Option<CommitId>,
    (at, record): (usize, &LogRecord),
    (logged, shown): (&ReplaySet<'_>, usize),
) -> Result<(Option<CommitId>, usize), Fault> {
    let commit = stage(core, tip, (record, at < shown), logged)?;
    if commit != record.commit {
        // The branch was moved under ours after they were logged: some of the others' commits, recorded later, lie below.
        let first = at + records_until_others(&logged.records[at..]);
        let others =
            logged.records[first..].iter().take_while(|record| record.kind == RecordKind::ExternalCommit).count();
        for number in others.checked_sub(1).into_iter().chain(0..others.min(FEW)) {
            let theirs = &logged.records[first + number];
            if let Ok(other) = stage(core, theirs.commit, (record, false), logged)
                && other == record.commit
            {
                return Ok((other, first + number + 1));
            }
        }
    }
    Ok((commit, 0))
}

fn records_until_others(records: &[LogRecord]) -> usize {
    records.iter().position(|record| record.kind == RecordKind::ExternalCommit).unwrap_or(records.len())
}

/// Builds the commit of one record; none when git has no place for it there.
fn stage(
    core: &VfsCore,
    parent: Option<CommitId>,
    (record, is_shown): (&LogRecord, bool),
    logged: &ReplaySet<'_>,
) -> Result<Option<CommitId>, Fault> {
    let mut contents = Vec::with_capacity(record.entries.len());
    for entry in &record.entries {
        contents.push(match (&entry.content, entry.new) {
            (Some(content), _) => Some(content.clone()),
            (None, Some(blob)) => logged.content_of(core, &entry.path, blob)?,
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
                lost(&entry.path, blob);
                None
            }
        })
        .collect();
    let author = CommitAuthor { actor: &record.actor, time: record.time, message: &record.message };
    let stage = if is_shown { History::restage } else { History::stage };
    match stage(core.git()?, parent, &edits, &author) {
        Ok(staged) => Ok(Some(staged.commit)),
        Err(StoreError::Unrecordable { path, reason }) => {
            error!(page.path = %path, reason, "a logged change has no place beside another's commit; theirs stands");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Only edits behind the server are logged without their content: nobody was promised them.
fn lost(path: &TreePath, blob: ETag) {
    error!(page.path = %path, %blob, "a version made behind the server was lost with the power; the others are whole");
}
