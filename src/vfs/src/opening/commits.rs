//! The commits of the log's unsettled end, built again.

use std::collections::HashSet;

use svcfs_base::{CommitId, ETag, Fault, Seq, TreePath};
use svcfs_store::{Author, Edit, History, Record, Role, StoreError, Way};
use tracing::{error, warn};

use super::COMMITS_AT_ONCE;
use super::logged::Logged;
use crate::core::Core;
use crate::progress::{Progress, Reporter};

/// Where the log ends in git.
pub(super) struct Completed {
    /// The newest commit that the log knows.
    pub(super) newest: Option<CommitId>,
    /// Every commit that the log knows after the last checkpoint.
    pub(super) known: HashSet<CommitId>,
    /// The newest commit of the log, where others may have committed on top of it.
    below: Option<CommitId>,
}

impl Completed {
    /// The paths that others changed in commits on top of ours, after all that was logged with a commit: they put in place there what they wanted.
    pub(super) fn changed_on_top(&self, core: &Core) -> Result<HashSet<TreePath>, Fault> {
        let (Some(below), Some(head)) = (self.below, core.git()?.head()?) else { return Ok(HashSet::new()) };
        let Way::Commits(commits) = core.git()?.way(Some(below), head)? else { return Ok(HashSet::new()) };
        let mut paths = HashSet::new();
        for part in commits.chunks(COMMITS_AT_ONCE) {
            let entries = core.git()?.foreign(part)?.into_iter().flat_map(|commit| commit.entries);
            paths.extend(entries.map(|entry| entry.path));
        }
        Ok(paths)
    }
}

/// Builds the logged commits again and brings the branch to the newest.
pub(super) fn complete(
    core: &Core,
    settled: Option<CommitId>,
    logged: &Logged<'_>,
    reporter: &mut Reporter,
) -> Result<Completed, Fault> {
    let records = logged.records;
    // A kill takes nothing from git: what the branch shows and is whole need not be written once more.
    let built = rebuild(core, settled, (logged, shown(core, records)?), reporter)?;
    let mut known: HashSet<_> = records.iter().filter_map(|record| record.commit).collect();
    let Some(ours) = built.tip else { return Ok(Completed { newest: settled, known, below: None }) };
    // Before the branch moves: what is cut off between the two builds the same commits once more, and finds them told.
    let tell = |built: &Rebuilt| core.log.set_commits(&built.commits);
    match core.git()?.head()? {
        Some(head) if core.git()?.find(&head.to_string())?.is_none() => {
            warn!(commit.id = %head, "the branch shows a commit that was lost in a crash; it is built again");
            tell(&built)?;
            core.git()?.advance(Some(head), ours)?;
        }
        Some(head) if core.git()?.contains(head, ours)? => tell(&built)?,
        Some(head) if core.git()?.contains(ours, head)? => {
            tell(&built)?;
            core.git()?.advance(Some(head), ours)?;
        }
        None => {
            tell(&built)?;
            core.git()?.advance(None, ours)?;
        }
        Some(head) => {
            // Somebody committed on what ours stood on: those that are not there yet come on top of theirs.
            warn!(commit.id = %head, "the branch was moved while changes were unsettled; building on it");
            let built = on_top(core, head, records)?;
            known.extend(built.commits.iter().map(|(_, commit)| *commit));
            tell(&built)?;
            if let Some(ours) = built.tip.filter(|ours| *ours != head) {
                core.git()?.advance(Some(head), ours)?;
            }
            core.git()?.release();
            // Whatever leads there from the last checkpoint and is not known is somebody's, also where it lies below ours.
            return Ok(Completed { newest: settled, known, below: None });
        }
    }
    core.git()?.release();
    Ok(Completed { newest: Some(ours), known, below: Some(ours) })
}

/// Makes the objects of the logged commits again, and leaves the branch alone.
pub(super) fn objects(core: &Core, settled: Option<CommitId>, logged: &Logged<'_>) -> Result<(), Fault> {
    rebuild(core, settled, (logged, 0), &mut Reporter::silent())?;
    core.git()?.release();
    Ok(())
}

/// How many records, from the first, the branch shows: those up to the one whose commit it stands at. None where others committed among
/// them: they may have taken commits of ours off the branch, and whatever no branch shows somebody's `git gc` takes away.
fn shown(core: &Core, records: &[Record]) -> Result<usize, Fault> {
    let head = core.git()?.head()?;
    let count = records.iter().rposition(|record| head.is_some() && record.commit == head).map_or(0, |at| at + 1);
    let is_ours = records[..count].iter().all(|record| record.role != Role::Foreign);
    Ok(if is_ours { count } else { 0 })
}

/// Builds those records that a branch does not have on top of it, and leaves the branch where it is.
fn on_top(core: &Core, head: CommitId, records: &[Record]) -> Result<Rebuilt, Fault> {
    let ours = records.iter().filter_map(|record| record.commit).collect();
    let present = core.git()?.ancestors_among(head, &ours)?;
    let is_missing = |record: &&Record| match record.commit {
        Some(commit) => !present.contains(&commit) && record.role != Role::Foreign,
        // It has the contents of one that may not be there.
        None => record.role == Role::Deferred,
    };
    let missing: Vec<_> = records.iter().filter(is_missing).cloned().collect();
    // The same work once more, told already.
    rebuild(core, Some(head), (&Logged::new(&missing), 0), &mut Reporter::silent())
}

/// What a replay of records gave.
struct Rebuilt {
    /// The commit of each of our records.
    commits: Vec<(Seq, CommitId)>,
    /// The newest commit, ours or another's.
    tip: Option<CommitId>,
}

fn rebuild(
    core: &Core,
    parent: Option<CommitId>,
    (logged, shown): (&Logged<'_>, usize),
    reporter: &mut Reporter,
) -> Result<Rebuilt, Fault> {
    let records = logged.records;
    let total = records.len();
    reporter.tell(Progress::Replaying { records: 0, total });
    let mut tip = parent;
    let mut commits = Vec::with_capacity(records.len());
    // Records of others up to here lie below ours already.
    let mut passed = 0;
    for (at, record) in records.iter().enumerate() {
        reporter.pass(Progress::Replaying { records: at, total });
        match record.role {
            Role::Foreign if at >= passed => tip = record.commit,
            Role::Foreign | Role::Deferred => {}
            // A window that came to nothing.
            Role::Gathered if record.entries.is_empty() => {}
            Role::Set | Role::Gathered => {
                let (commit, after) = staged_again(core, tip, (at, record), (logged, shown))?;
                passed = passed.max(after);
                tip = commit.or(tip);
                commits.extend(tip.map(|commit| (record.seq, commit)));
            }
        }
    }
    core.git()?.publish()?;
    reporter.tell(Progress::Replaying { records: total, total });
    Ok(Rebuilt { commits, tip })
}

/// Builds the commit of one record again, and says up to where records of others lie below it already.
fn staged_again(
    core: &Core,
    tip: Option<CommitId>,
    (at, record): (usize, &Record),
    (logged, shown): (&Logged<'_>, usize),
) -> Result<(Option<CommitId>, usize), Fault> {
    let commit = stage(core, tip, (record, at < shown), logged)?;
    if commit != record.commit
        && let Some((theirs, after)) = next_of_others(logged.records, at)
        && let Ok(other) = stage(core, Some(theirs), (record, false), logged)
        && other == record.commit
    {
        // The branch was moved under ours after they were logged: the others' commits, recorded later, lie below.
        return Ok((other, after));
    }
    Ok((commit, 0))
}

/// The newest of the first commits of others that are recorded after a position, and the position behind them.
fn next_of_others(records: &[Record], at: usize) -> Option<(CommitId, usize)> {
    let first = at + records[at..].iter().position(|record| record.role == Role::Foreign)?;
    let count = records[first..].iter().take_while(|record| record.role == Role::Foreign).count();
    Some((records[first + count - 1].commit?, first + count))
}

/// Builds the commit of one record; none when git has no place for it there.
fn stage(
    core: &Core,
    parent: Option<CommitId>,
    (record, is_shown): (&Record, bool),
    logged: &Logged<'_>,
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
            (Some(content), _) => Some(Edit::Write { path: &entry.path, kind: entry.kind, content }),
            (None, None) => Some(Edit::Remove { path: &entry.path }),
            (None, Some(blob)) => {
                lost(&entry.path, blob);
                None
            }
        })
        .collect();
    let author = Author { actor: &record.actor, time: record.time, message: &record.message };
    let stage = if is_shown { History::stage_shown } else { History::stage };
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
