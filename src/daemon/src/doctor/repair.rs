//! The repairs of `--fix`; none of them loses data.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use svcfs_base::TreePath;
use svcfs_knowledge::search::reindex;
use svcfs_store::{History, Log, StatePaths, preflight, repair_head};

use super::{DoctorProgress, RootExamination, counted};
use crate::failure::CommandFailure;
use crate::presence;
use crate::root::OpenRoot;

/// How long the index may take to catch up; a tree of a million pages takes minutes.
const INDEX_TIMEOUT: Duration = Duration::from_secs(3600);

/// Repairs the findings: first what opening the root needs, then what opening it repairs. Adds the
/// completed repairs to `done`, also when a later one fails.
///
/// # Errors
/// The first repair that failed; the earlier ones are complete.
pub fn repair(
    examination: RootExamination,
    watch: &dyn DoctorProgress,
    done: &mut Vec<String>,
) -> Result<(), CommandFailure> {
    watch.start("repairing");
    repair_mount(&examination.root, done)?;
    repair_owner(&examination.root, done)?;
    repair_repository(&examination, done)?;
    repair_log(&examination, done)?;
    if examination.settings.is_some() && can_open(&examination) {
        // Before opening: files of a root that no process uses are certainly unfinished.
        remove_unfinished(&examination, done)?;
        open_root(examination, watch, done)?;
    }
    Ok(())
}

fn repair_mount(root: &Path, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    let mounts = presence::announced(root).map(|served| served.mounts).unwrap_or_default();
    for mountpoint in mounts.into_iter().map(|mount| mount.mountpoint).filter(|at| svcfs_mount::is_dead_mount(at)) {
        svcfs_mount::unmount(&mountpoint)?;
        done.push(format!("unmounted the stale mount at `{}`", mountpoint.display()));
    }
    Ok(())
}

fn repair_owner(root: &Path, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    let files = preflight::misowned_files(root);
    if !files.is_empty() && nix::unistd::geteuid().is_root() {
        preflight::restore_owner(root, &files).context("the owner of files could not be changed")?;
        done.push(format!("changed the owner of {} to the owner of the root", counted(files.len(), "file")));
    }
    Ok(())
}

fn repair_repository(examination: &RootExamination, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    if !examination.uses_git() {
        return Ok(());
    }
    let checkpoint = examination.log.as_ref().and_then(|log| log.checkpoint_commit);
    if let Some(branch) = repair_head(&examination.root, checkpoint).context("`HEAD` could not be repaired")? {
        done.push(format!("pointed `HEAD` to `{branch}` again"));
    }
    let Some(repository) = examination.repository()? else { return Ok(()) };
    let indexed = repository.index_packs().context("the index of a pack could not be written")?;
    if indexed > 0 {
        done.push(format!("rebuilt the index of {}", counted(indexed, "pack")));
    }
    // Reopened, so that it sees the new indexes.
    let Some(repository) = examination.repository()? else { return Ok(()) };
    if let Some(checkpoint) = checkpoint
        && repository.repair_branch(checkpoint).context("the branch could not be repaired")?
    {
        done.push(format!("reset the branch to {checkpoint}, the newest commit that the log knows to be flushed"));
    }
    for lock in repository.locks().iter().filter(|lock| lock.is_stale()) {
        repository.remove_lock(lock).context("a lock could not be removed")?;
        done.push(format!("removed the stale lock `{}`, {} s old", lock.path.display(), lock.age.as_secs()));
    }
    let restored =
        repository.restore_objects(&examination.bad_objects).context("lost git objects could not be written")?;
    if restored > 0 {
        done.push(format!("restored {} of git from the tree", counted(restored, "lost object")));
    }
    Ok(())
}

fn repair_log(examination: &RootExamination, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    if examination.log.as_ref().is_some_and(|log| !log.damage.is_empty()) {
        let quarantined =
            Log::quarantine(&StatePaths::new(&examination.root)).context("the damaged log could not be renamed")?;
        let source = if examination.uses_git() { "git" } else { "the present files" };
        done.push(format!("renamed the damaged log to `{}` and rebuilt it from {source}", quarantined.display()));
    }
    Ok(())
}

/// Whether opening the root continues its history, instead of starting a new one in place of a lost
/// one.
fn can_open(examination: &RootExamination) -> bool {
    if !examination.uses_git() {
        return true;
    }
    let has_checkpoint = examination.log.as_ref().is_some_and(|log| log.checkpoint_commit.is_some());
    let is_known = examination.log.as_ref().is_some_and(|log| log.has_commits);
    match examination.repository() {
        Ok(Some(repository)) => matches!(repository.head(), Ok(head) if head.is_some() || !has_checkpoint),
        Ok(None) => !is_known && !examination.root.join(".git").exists(),
        Err(_) => false,
    }
}

fn remove_unfinished(examination: &RootExamination, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    let mut files = preflight::leftover_temp_files(&examination.root);
    files.extend(examination.log.iter().flat_map(|log| log.leftover_spool.iter().cloned()));
    if let Some(repository) = examination.repository()? {
        files.extend(repository.partial_files());
    }
    preflight::remove_files(&files).context("unfinished files could not be removed")?;
    if !files.is_empty() {
        done.push(format!("removed {}", counted(files.len(), "unfinished file")));
    }
    Ok(())
}

/// Opens the root, which completes accepted changes and adopts external edits; adopts the remaining
/// differences explicitly.
fn open_root(
    examination: RootExamination,
    watch: &dyn DoctorProgress,
    done: &mut Vec<String>,
) -> Result<(), CommandFailure> {
    let recorded = if examination.uses_git() { "the newest commit" } else { "the log" };
    let RootExamination { root: path, settings, log, tree, is_index_wrong, .. } = examination;
    let Some(settings) = settings else { return Ok(()) };
    watch.start("recovering log, git and tree");
    let root = OpenRoot::open(&path, settings, false)?;
    let outcome = root.index_to_cursor(INDEX_TIMEOUT, || {}).map_err(CommandFailure::from).and_then(|()| {
        let paths: Vec<TreePath> =
            tree.iter().flat_map(|tree| tree.modified.iter().chain(&tree.untracked)).cloned().collect();
        // Also those with unchanged size and time, which opening does not read.
        root.space().vfs.adopt(&paths)?;
        root.index_to_cursor(INDEX_TIMEOUT, || {})?;
        if is_index_wrong {
            watch.start("rebuilding the search index");
            reindex(root.space(), |read, total| watch.advance(read, total))?;
            done.push("rebuilt the search index".to_owned());
        }
        Ok(())
    });
    root.close()?;
    outcome?;
    if let Some(log) = log.filter(|log| log.pending_records > 0) {
        done.push(format!("completed {} that had been accepted", counted(log.pending_records, "change")));
    }
    let Some(tree) = tree else { return Ok(()) };
    let differing = tree.modified.len() + tree.untracked.len();
    if differing > 0 {
        done.push(format!("recorded {} that differed from {recorded}", counted(differing, "file")));
    }
    if tree.index_error.is_some() || !tree.stale_index.is_empty() {
        let paths: Vec<_> = tree.files.iter().map(|(path, _)| path).chain(&tree.stale_index).collect();
        let (history, _) = History::open(&path, &[]).context("git")?;
        history.refresh_index(paths.into_iter(), |_, _| Ok(true)).context("`.git/index` could not be written")?;
        done.push("updated `.git/index`".to_owned());
    }
    Ok(())
}
