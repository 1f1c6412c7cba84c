//! Opening a space: the log's unsettled end is done again, then what changed behind us is adopted.
//!
//! One rule: nothing that was not flushed is trusted. Commits are built again from the log (the same sets on the same parent
//! give the same ids), files are installed again where the tree does not have them.

mod commits;
mod files;
mod logged;

use std::collections::HashSet;
use std::sync::Arc;

use svcfs_base::{CommitId, Fault};
use svcfs_store::{FailPoint, ForeignCommit, Record, Role, Way};
use tracing::{info, warn};

use crate::committer::{Committer, Window, foreign_record, numbered};
use crate::core::Core;
use crate::progress::{Progress, Reporter};
use logged::Logged;

/// How many commits of others are read and logged at once.
const COMMITS_AT_ONCE: usize = 1_000;

/// Brings log, git and tree into agreement, and makes the committer that goes on from there.
pub(crate) fn recover(core: &Arc<Core>, is_new_log: bool, reporter: &mut Reporter) -> Result<Committer, Fault> {
    let (_, settled_head) = core.log.settled()?;
    let unsettled = core.log.unsettled()?;
    let mut committer = Committer::at(Arc::clone(core), core.log.last()?, settled_head);
    if core.history.mend_branch(settled_head)? {
        warn!("the branch was lost in a crash; it is built again from the last checkpoint and the log");
    }
    let mut known = HashSet::new();
    if !unsettled.is_empty() {
        info!(sets = unsettled.len(), "completing changes that were logged and not settled");
        let since = unsettled
            .iter()
            .filter(|record| record.role != Role::Foreign)
            .map(|record| record.time)
            .min()
            .unwrap_or_default();
        let torn = core.history.sweep_torn_objects()? + core.history.sweep_torn_packs(since)?;
        if torn > 0 {
            warn!(objects = torn, "objects of git without their bytes are written anew");
        }
        let logged = Logged::new(&unsettled);
        let completed = commits::complete(core, settled_head, &logged, reporter)?;
        core.fail.pass(FailPoint::OpenCommits);
        committer.head = completed.newest;
        known = completed.known;
        // What others committed they put in place themselves, and may have committed more since.
        if unsettled.iter().any(|record| record.role != Role::Foreign) {
            files::complete(core, settled_head, &logged, reporter)?;
        }
        if core.tree.is_doubted() {
            renew(core, settled_head, &logged)?;
        }
        core.fail.pass(FailPoint::OpenFiles);
        committer.is_unsettled = true;
        committer.touched.extend(unsettled.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()));
    }
    // Without anything unsettled, nothing hangs on what the last process could not flush.
    core.tree.renewed();
    if core.history.mend_index(core.tree.started())? {
        warn!("`.git/index` was lost in a crash; it is made anew");
    }
    follow(&mut committer, &known, is_new_log, reporter)?;
    core.fail.pass(FailPoint::OpenFollowed);
    open_window(&mut committer, unsettled);
    Ok(committer)
}

/// Sets that had no commit yet get it as the committer's first work.
fn open_window(committer: &mut Committer, mut unsettled: Vec<Record>) {
    let covered = unsettled.iter().rposition(|record| record.role == Role::Gathered).map_or(0, |last| last + 1);
    unsettled.drain(..covered);
    unsettled.retain(|record| record.role == Role::Deferred);
    let core = &committer.core;
    core.uncommitted.replace(unsettled.iter());
    core.queue.count(unsettled.len());
    core.queue.done(unsettled.len(), unsettled.is_empty());
    committer.window = Window::restored(unsettled);
}

/// Writes everything anew that the log has not settled, because a flush failed: it may be in memory only, although the disk
/// takes it for written. Nobody else writes meanwhile.
///
/// # Errors
/// What the disk or git said; the log has everything still.
pub(crate) fn write_anew(core: &Core) -> Result<(), Fault> {
    let (_, settled_head) = core.log.settled()?;
    let unsettled = core.log.unsettled()?;
    renew(core, settled_head, &Logged::new(&unsettled))
}

fn renew(core: &Core, settled_head: Option<CommitId>, logged: &Logged<'_>) -> Result<(), Fault> {
    warn!(sets = logged.records.len(), "a flush failed; what was written since the last good one is written anew");
    if let Some(since) = logged.records.iter().map(|record| record.time).min()
        && core.history.renew_packs(since)? > 0
    {
        commits::objects(core, settled_head, logged)?;
    }
    files::renew(core, logged)?;
    core.tree.renewed();
    Ok(())
}

/// Records what others put on the branch since the log's last commit; ours that lie among theirs are in the log already.
fn follow(
    committer: &mut Committer,
    known: &HashSet<CommitId>,
    is_new_log: bool,
    reporter: &mut Reporter,
) -> Result<(), Fault> {
    let core = Arc::clone(&committer.core);
    let Some(head) = core.history.head()?.filter(|head| Some(*head) != committer.head) else {
        return Ok(());
    };
    reporter.tell(Progress::ReadingHistory);
    match core.history.way(committer.head, head)? {
        Way::Jump(_) if known.contains(&head) => {}
        Way::Jump(from) => record(committer, vec![core.history.jump(from, head)?])?,
        Way::Commits(mut commits) => {
            commits.retain(|commit| !known.contains(commit));
            if is_new_log && !commits.is_empty() {
                info!(commits = commits.len(), "reading the history that is there");
            }
            // A part at a time, so that memory does not grow with history. Killed in between, the next opening finds the first
            // parts in the log, unsettled, and goes on behind them.
            for part in commits.chunks(COMMITS_AT_ONCE) {
                record(committer, core.history.foreign(part)?)?;
            }
        }
    }
    committer.head = Some(head);
    committer.is_unsettled = true;
    Ok(())
}

/// Logs commits of others.
fn record(committer: &mut Committer, commits: Vec<ForeignCommit>) -> Result<(), Fault> {
    let records: Vec<_> = commits.into_iter().map(foreign_record).collect();
    let records = numbered(&records, committer.last);
    committer.core.log.append(&records)?;
    committer.last = records.last().map_or(committer.last, |record| record.seq);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
