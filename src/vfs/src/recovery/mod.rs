//! Opening a space: the log's unsettled end is done again, then what changed behind us is adopted.
//!
//! One rule: nothing that was not flushed is trusted. Commits are built again from the log (the same sets on the same parent
//! give the same ids), files are installed again where the tree does not have them, and snapshots are taken again.

mod commits;
mod redo;
mod replay_set;
mod snapshots;
mod strategy;

use std::sync::Arc;
use std::thread;

use svcfs_base::{CommitId, Fault};
use svcfs_store::{
    FailPoint, HeadMove, History, LogRecord, RecordKind, StatePaths, VersionStore, WriteTip, boot_marker,
};
use tracing::{debug, info, warn};

use crate::committer::{CommitWindow, Committer, foreign_record, jump_records, numbered};
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};
use commits::{LeftBranch, LogEnd};
use replay_set::ReplaySet;
pub(crate) use strategy::{RootStores, begin};

/// How many commits of others are read and logged at once.
const COMMITS_AT_ONCE: usize = 1_000;

/// Brings log, memory and tree into agreement, and makes the committer that goes on from there.
pub(crate) fn recover(
    core: &Arc<VfsCore>,
    is_new_log: bool,
    reporter: &mut ProgressReporter,
) -> Result<Committer, Fault> {
    let committer = brought_into_agreement(core, is_new_log, reporter)?;
    // From here on a kill takes nothing from the tree.
    if let Err(error) = boot_marker::write_marker(&StatePaths::new(&core.root), core.tree.boot_time()) {
        debug!(%error, "the next start looks at the tree as after a power cut");
    }
    Ok(committer)
}

fn brought_into_agreement(
    core: &Arc<VfsCore>,
    is_new_log: bool,
    reporter: &mut ProgressReporter,
) -> Result<Committer, Fault> {
    let (seq, settled_head) = core.log.last_checkpoint()?;
    let unsettled = core.log.pending_records()?;
    let mut committer = Committer::at(Arc::clone(core), core.log.last_seq(), settled_head);
    if !unsettled.is_empty() {
        info!(sets = unsettled.len(), "completing changes that were logged and not settled");
        committer.is_unsettled = true;
        committer.index.touch(unsettled.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()));
    }
    let logged = ReplaySet::new(&unsettled);
    let settled = WriteTip { commit: settled_head, seq };
    match &core.memory {
        VersionStore::Git { history, .. } => {
            let completed = complete_history(&mut committer, history, (settled, &logged), reporter)?;
            follow(&mut committer, &completed, is_new_log, reporter)?;
            core.fail.hit(FailPoint::OpenReconciled);
            open_window(&mut committer, &unsettled);
            return Ok(committer);
        }
        VersionStore::Snapshots { snapshots, .. } => {
            committer.head = None;
            complete_files(core, settled, &logged, reporter)?;
            snapshots::complete(core, snapshots, &logged)?;
        }
        VersionStore::LogOnly { .. } => {
            committer.head = None;
            complete_files(core, settled, &logged, reporter)?;
        }
    }
    core.fail.hit(FailPoint::OpenReconciled);
    Ok(committer)
}

/// Brings the tree to what the log says, where there are no commits.
fn complete_files(
    core: &VfsCore,
    settled: WriteTip,
    logged: &ReplaySet<'_>,
    reporter: &mut ProgressReporter,
) -> Result<(), Fault> {
    let in_place = redo::in_place(core, logged);
    redo::complete(core, settled, (logged, |path| in_place.contains(path)), reporter)?;
    if core.tree.has_sync_failed() && !logged.records.is_empty() {
        renew(core, None, logged)?;
    }
    core.tree.mark_rewritten();
    Ok(())
}

/// Brings branch and tree to the newest commit of the log.
fn complete_history(
    committer: &mut Committer,
    history: &History,
    (settled, logged): (WriteTip, &ReplaySet<'_>),
    reporter: &mut ProgressReporter,
) -> Result<LogEnd, Fault> {
    let core = Arc::clone(&committer.core);
    if history.repair_branch(settled.commit)? {
        warn!("the branch was lost in a crash; it is built again from the last checkpoint and the log");
    }
    let mut completed = LogEnd::nothing(settled.commit);
    let is_settled = logged.records.is_empty();
    let ours = || logged.records.iter().filter(|record| record.kind != RecordKind::ExternalCommit);
    let since = (!is_settled).then(|| ours().map(|record| record.time).min().unwrap_or_default());
    // Packs first: what one of them has torn is not looked for behind it.
    let packs = history.remove_torn_packs(since)?;
    // Where others committed or staged since the last checkpoint, git may have told the disk of their objects and not written them.
    let is_known = is_settled
        && (settled.commit.is_none() || settled.commit == history.head()?)
        && !history.is_index_older_than(core.tree.boot_time());
    let torn = packs + if is_known { 0 } else { history.remove_torn_objects()? };
    if torn > 0 {
        warn!(objects = torn, "objects of git without their bytes are taken away; what the log has is written anew");
    }
    if !is_settled {
        let (outcome, in_place) =
            beside(|| redo::in_place(&core, logged), || commits::complete(&core, settled.commit, logged, reporter));
        completed = outcome?;
        core.fail.hit(FailPoint::OpenCommits);
        committer.head = completed.newest;
        // What others committed they put in place themselves, and may have committed more since.
        if ours().next().is_some() {
            let mut theirs = completed.changed_on_top(&core)?;
            for entry in without_commit(logged.records).flat_map(|record| &record.entries) {
                theirs.remove(&entry.path);
            }
            let moved = completed.left.as_ref().map(|left| ReplaySet::new(&left.moved));
            // Where they took the branch, their files stand, and ours come on top.
            let below =
                completed.left.as_ref().map_or(settled, |left| WriteTip { commit: Some(left.way.1), ..settled });
            let is_done = |path: &_| in_place.contains(path) || theirs.contains(path);
            redo::complete(&core, below, (moved.as_ref().unwrap_or(logged), is_done), reporter)?;
        }
        if core.tree.has_sync_failed() {
            renew(&core, settled.commit, logged)?;
        }
        core.fail.hit(FailPoint::OpenFiles);
    }
    if is_settled {
        commits::take_back_lost(&core, settled.commit)?;
    }
    if let Err(error) = history.repair_reflogs(settled.commit) {
        // `git fsck` says the same, and nothing of ours hangs on it.
        warn!(%error, "git's own logs name commits that were lost with the power, and cannot be written");
    }
    // Without anything unsettled, nothing hangs on what the last process could not flush.
    core.tree.mark_rewritten();
    if history.repair_index(core.tree.boot_time())? {
        warn!("`.git/index` was lost in a crash; it is made anew");
    }
    Ok(completed)
}

/// Does one thing while another thread does the other, or after it where the system has no thread to give.
fn beside<O: Default + Send, T>(other: impl Fn() -> O + Sync, deed: impl FnOnce() -> T) -> (T, O) {
    let other = &other;
    thread::scope(|scope| {
        let begun = thread::Builder::new().name("opening".to_owned()).spawn_scoped(scope, other);
        let done = deed();
        // Whoever panicked found nothing.
        (done, begun.map_or_else(|_| other(), |begun| begun.join().unwrap_or_default()))
    })
}

/// The sets that have no commit yet.
fn without_commit(unsettled: &[LogRecord]) -> impl Iterator<Item = &LogRecord> {
    let covered = unsettled.iter().rposition(|record| record.kind == RecordKind::Commit).map_or(0, |last| last + 1);
    unsettled[covered..].iter().filter(|record| record.kind == RecordKind::Uncommitted)
}

/// Sets that had no commit yet get it as the committer's first work.
fn open_window(committer: &mut Committer, unsettled: &[LogRecord]) {
    let unsettled: Vec<_> = without_commit(unsettled).cloned().collect();
    let core = &committer.core;
    core.uncommitted.replace(unsettled.iter());
    core.queue.count(unsettled.len());
    core.queue.done(unsettled.len(), unsettled.is_empty());
    committer.window = CommitWindow::restored(unsettled);
}

/// Writes everything anew that the log has not settled, because a flush failed: it may be in memory only, although the disk
/// takes it for written. Nobody else writes meanwhile.
///
/// # Errors
/// What the disk or git said; the log has everything still.
pub(crate) fn write_anew(core: &VfsCore) -> Result<(), Fault> {
    let (_, settled_head) = core.log.last_checkpoint()?;
    let unsettled = core.log.pending_records()?;
    renew(core, settled_head, &ReplaySet::new(&unsettled))
}

fn renew(core: &VfsCore, settled_head: Option<CommitId>, logged: &ReplaySet<'_>) -> Result<(), Fault> {
    warn!(sets = logged.records.len(), "a flush failed; what was written since the last good one is written anew");
    match &core.memory {
        VersionStore::Git { history, .. } => {
            if let Some(since) = logged.records.iter().map(|record| record.time).min()
                && history.rewrite_unsynced_packs(since)? > 0
            {
                commits::objects(core, settled_head, logged)?;
                history.mark_rebuilt();
            }
        }
        VersionStore::Snapshots { snapshots, .. } => snapshots::complete(core, snapshots, logged)?,
        VersionStore::LogOnly { .. } => {}
    }
    redo::renew(core, logged)?;
    core.tree.mark_rewritten();
    Ok(())
}

/// Records what others put on the branch since the log's last commit; ours that lie among theirs are in the log already.
fn follow(
    committer: &mut Committer,
    LogEnd { known, left, .. }: &LogEnd,
    is_new_log: bool,
    reporter: &mut ProgressReporter,
) -> Result<(), Fault> {
    let core = Arc::clone(&committer.core);
    let Some(head) = core.git()?.head()?.filter(|head| Some(*head) != committer.head) else {
        return Ok(());
    };
    reporter.tell(OpenProgress::ReadingHistory);
    core.git()?.flush_all()?;
    if let Some(LeftBranch { way: (from, to), .. }) = left {
        record(committer, &jump_records(&core, *from, *to)?)?;
        committer.head = Some(head);
        committer.is_unsettled = true;
        return Ok(());
    }
    match core.git()?.head_move(committer.head, head)? {
        HeadMove::Diverged(_) if known.contains(&head) => {}
        HeadMove::Diverged(from) => record(committer, &jump_records(&core, from, head)?)?,
        HeadMove::FastForward(mut commits) => {
            commits.retain(|commit| !known.contains(commit));
            if is_new_log && !commits.is_empty() {
                info!(commits = commits.len(), "reading the history that is there");
            }
            // A part at a time, so that memory does not grow with history. Killed in between, the next opening finds the first
            // parts in the log, unsettled, and goes on behind them.
            for part in commits.chunks(COMMITS_AT_ONCE) {
                let commits = core.git()?.external_commits(part)?;
                record(committer, &commits.into_iter().map(foreign_record).collect::<Vec<_>>())?;
            }
        }
    }
    committer.head = Some(head);
    committer.is_unsettled = true;
    Ok(())
}

/// Logs commits of others.
fn record(committer: &mut Committer, records: &[LogRecord]) -> Result<(), Fault> {
    let records = numbered(records, committer.last);
    committer.core.log.append(&records)?;
    committer.last = records.last().map_or(committer.last, |record| record.seq);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
