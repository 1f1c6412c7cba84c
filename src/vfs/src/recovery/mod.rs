//! Recovery: replays the log since the last checkpoint; adoption of external edits follows.
//!
//! Invariant: only flushed data is trusted. Commits are rebuilt from the log (the same sets on the
//! same parent get the same ids), missing files are installed again, snapshots are saved again.

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

use crate::committer::{CommitWindow, Committer, assign_seqs, diverged_records, external_record};
use crate::core::VfsCore;
use crate::progress::{OpenProgress, ProgressReporter};
use commits::{BranchMove, LogEnd};
use replay_set::ReplaySet;
pub(crate) use strategy::{RootStores, switch_strategy};

/// How many external commits are read and logged at a time.
const COMMITS_PER_BATCH: usize = 1_000;

/// Reconciles log, versions and tree, and creates the committer.
pub(crate) fn recover(
    core: &Arc<VfsCore>,
    is_new_log: bool,
    reporter: &mut ProgressReporter,
) -> Result<Committer, Fault> {
    let committer = reconcile(core, is_new_log, reporter)?;
    // From here on a kill loses nothing from the tree.
    if let Err(error) = boot_marker::write_marker(&StatePaths::new(&core.root), core.tree.boot_time()) {
        debug!(%error, "cannot write the boot marker; the next start checks the tree as after a power cut");
    }
    Ok(committer)
}

fn reconcile(core: &Arc<VfsCore>, is_new_log: bool, reporter: &mut ProgressReporter) -> Result<Committer, Fault> {
    let (seq, checkpoint_head) = core.log.last_checkpoint()?;
    let pending = core.log.pending_records()?;
    let mut committer = Committer::starting_at(Arc::clone(core), core.log.last_seq(), checkpoint_head);
    if !pending.is_empty() {
        info!(sets = pending.len(), "replaying changes logged since the last checkpoint");
        committer.needs_checkpoint = true;
        committer.git_index.touch(pending.iter().flat_map(|record| &record.entries).map(|entry| entry.path.clone()));
    }
    let replay = ReplaySet::new(&pending);
    let checkpoint = WriteTip { commit: checkpoint_head, seq };
    match &core.versions {
        VersionStore::Git { history, .. } => {
            let end = restore_history(&mut committer, history, (checkpoint, &replay), reporter)?;
            record_external_commits(&mut committer, &end, is_new_log, reporter)?;
            core.fail_points.hit(FailPoint::OpenReconciled);
            restore_window(&mut committer, &pending);
            return Ok(committer);
        }
        VersionStore::Snapshots { snapshots, .. } => {
            committer.head = None;
            restore_files(core, checkpoint, &replay, reporter)?;
            snapshots::redo_snapshots(core, snapshots, &replay)?;
        }
        VersionStore::LogOnly { .. } => {
            committer.head = None;
            restore_files(core, checkpoint, &replay, reporter)?;
        }
    }
    core.fail_points.hit(FailPoint::OpenReconciled);
    Ok(committer)
}

/// Restores the tree from the log, where there are no commits.
fn restore_files(
    core: &VfsCore,
    checkpoint: WriteTip,
    replay: &ReplaySet<'_>,
    reporter: &mut ProgressReporter,
) -> Result<(), Fault> {
    let in_place = redo::paths_in_place(core, replay);
    redo::redo_files(core, checkpoint, (replay, |path| in_place.contains(path)), reporter)?;
    if core.tree.has_sync_failed() && !replay.records.is_empty() {
        rewrite_records(core, None, replay)?;
    }
    core.tree.mark_rewritten();
    Ok(())
}

/// Restores branch and tree to the newest commit of the log.
fn restore_history(
    committer: &mut Committer,
    history: &History,
    (checkpoint, replay): (WriteTip, &ReplaySet<'_>),
    reporter: &mut ProgressReporter,
) -> Result<LogEnd, Fault> {
    let core = Arc::clone(&committer.core);
    if history.repair_branch(checkpoint.commit)? {
        warn!("the branch was lost in a crash; rebuilding it from the last checkpoint and the log");
    }
    let mut end = LogEnd::at_checkpoint(checkpoint.commit);
    let is_clean = replay.records.is_empty();
    let own_records = || replay.records.iter().filter(|record| record.kind != RecordKind::ExternalCommit);
    let since = (!is_clean).then(|| own_records().map(|record| record.time).min().unwrap_or_default());
    // Packs first: objects of a torn pack must not be read through it.
    let packs = history.remove_torn_packs(since)?;
    // Objects that an external git command committed or staged since the checkpoint may not be
    // flushed.
    let is_trusted = is_clean
        && (checkpoint.commit.is_none() || checkpoint.commit == history.head()?)
        && !history.is_index_older_than(core.tree.boot_time());
    let torn = packs + if is_trusted { 0 } else { history.remove_torn_objects()? };
    if torn > 0 {
        warn!(objects = torn, "torn git objects were removed; those in the log are written again");
    }
    if !is_clean {
        let (outcome, in_place) = run_both(
            || redo::paths_in_place(&core, replay),
            || commits::rebuild_commits(&core, checkpoint.commit, replay, reporter),
        );
        end = outcome?;
        core.fail_points.hit(FailPoint::OpenCommits);
        committer.head = end.newest;
        // External commits installed their own files, and more may have followed since.
        if own_records().next().is_some() {
            let mut external = end.externally_changed_paths(&core)?;
            for entry in uncommitted_records(replay.records).flat_map(|record| &record.entries) {
                external.remove(&entry.path);
            }
            let rebased = end.branch_move.as_ref().map(|branch_move| ReplaySet::new(&branch_move.rebased_records));
            // Where the branch was moved, its files stay, and svcfs's own records follow.
            let base = end
                .branch_move
                .as_ref()
                .map_or(checkpoint, |branch_move| WriteTip { commit: Some(branch_move.endpoints.1), ..checkpoint });
            let is_installed = |path: &_| in_place.contains(path) || external.contains(path);
            redo::redo_files(&core, base, (rebased.as_ref().unwrap_or(replay), is_installed), reporter)?;
        }
        if core.tree.has_sync_failed() {
            rewrite_records(&core, checkpoint.commit, replay)?;
        }
        core.fail_points.hit(FailPoint::OpenFiles);
    }
    if is_clean {
        commits::rollback_lost_head(&core, checkpoint.commit)?;
    }
    if let Err(error) = history.repair_reflogs(checkpoint.commit) {
        // `git fsck` reports the same; svcfs does not depend on it.
        warn!(%error, "cannot repair git reflogs, which name commits lost in the power failure");
    }
    // Without pending records, unflushed data of the last process does not matter.
    core.tree.mark_rewritten();
    if history.repair_index(core.tree.boot_time())? {
        warn!("`.git/index` was lost in a crash; rebuilding it");
    }
    Ok(end)
}

/// Runs `background` on another thread during `work`, or after it when no thread can be started.
fn run_both<O: Default + Send, T>(background: impl Fn() -> O + Sync, work: impl FnOnce() -> T) -> (T, O) {
    let background = &background;
    thread::scope(|scope| {
        let spawned = thread::Builder::new().name("opening".to_owned()).spawn_scoped(scope, background);
        let done = work();
        // A panic counts as no result.
        (done, spawned.map_or_else(|_| background(), |spawned| spawned.join().unwrap_or_default()))
    })
}

fn uncommitted_records(pending: &[LogRecord]) -> impl Iterator<Item = &LogRecord> {
    let first = pending.iter().rposition(|record| record.kind == RecordKind::Commit).map_or(0, |last| last + 1);
    pending[first..].iter().filter(|record| record.kind == RecordKind::Uncommitted)
}

/// Gives the committer the sets that have no commit yet.
fn restore_window(committer: &mut Committer, pending: &[LogRecord]) {
    let pending: Vec<_> = uncommitted_records(pending).cloned().collect();
    let core = &committer.core;
    core.uncommitted.replace(pending.iter());
    core.queue.count_accepted(pending.len());
    core.queue.done(pending.len(), pending.is_empty());
    committer.window = CommitWindow::restored(pending);
}

/// Rewrites everything since the last checkpoint after a failed flush: the data may be in memory
/// only, although the kernel considers it written. No other thread writes meanwhile.
pub(crate) fn rewrite_unsynced(core: &VfsCore) -> Result<(), Fault> {
    let (_, checkpoint_head) = core.log.last_checkpoint()?;
    let pending = core.log.pending_records()?;
    rewrite_records(core, checkpoint_head, &ReplaySet::new(&pending))
}

fn rewrite_records(core: &VfsCore, checkpoint_head: Option<CommitId>, replay: &ReplaySet<'_>) -> Result<(), Fault> {
    warn!(sets = replay.records.len(), "a flush failed; rewriting everything since the last successful one");
    match &core.versions {
        VersionStore::Git { history, .. } => {
            if let Some(since) = replay.records.iter().map(|record| record.time).min()
                && history.rewrite_unsynced_packs(since)? > 0
            {
                commits::rebuild_objects(core, checkpoint_head, replay)?;
                history.mark_rebuilt();
            }
        }
        VersionStore::Snapshots { snapshots, .. } => snapshots::redo_snapshots(core, snapshots, replay)?,
        VersionStore::LogOnly { .. } => {}
    }
    redo::rewrite_files(core, replay)?;
    core.tree.mark_rewritten();
    Ok(())
}

/// Records external commits since the log's last commit; own commits among them are in the log.
fn record_external_commits(
    committer: &mut Committer,
    LogEnd { known, branch_move, .. }: &LogEnd,
    is_new_log: bool,
    reporter: &mut ProgressReporter,
) -> Result<(), Fault> {
    let core = Arc::clone(&committer.core);
    let Some(head) = core.git()?.head()?.filter(|head| Some(*head) != committer.head) else {
        return Ok(());
    };
    reporter.report(OpenProgress::ReadingHistory);
    core.git()?.flush_all()?;
    if let Some(BranchMove { endpoints: (from, to), .. }) = branch_move {
        log_external(committer, &diverged_records(&core, *from, *to)?)?;
        committer.head = Some(head);
        committer.needs_checkpoint = true;
        return Ok(());
    }
    match core.git()?.head_move(committer.head, head)? {
        HeadMove::Diverged(_) if known.contains(&head) => {}
        HeadMove::Diverged(from) => log_external(committer, &diverged_records(&core, from, head)?)?,
        HeadMove::FastForward(mut commits) => {
            commits.retain(|commit| !known.contains(commit));
            if is_new_log && !commits.is_empty() {
                info!(commits = commits.len(), "reading the existing history");
            }
            // In batches, to bound memory. After a kill, recovery finds the first batches in the
            // log and continues after them.
            for chunk in commits.chunks(COMMITS_PER_BATCH) {
                let commits = core.git()?.external_commits(chunk)?;
                log_external(committer, &commits.into_iter().map(external_record).collect::<Vec<_>>())?;
            }
        }
    }
    committer.head = Some(head);
    committer.needs_checkpoint = true;
    Ok(())
}

fn log_external(committer: &mut Committer, records: &[LogRecord]) -> Result<(), Fault> {
    let records = assign_seqs(records, committer.last_seq);
    committer.core.log.append(&records)?;
    committer.last_seq = records.last().map_or(committer.last_seq, |record| record.seq);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
