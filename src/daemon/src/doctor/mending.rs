//! What `--fix` does: only what loses nothing.

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

/// How long the index may take to read what it has missed; a tree of a million pages takes minutes.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Mends what was found, from the ground up: what the root is opened with, then what opening it brings together. Says what it
/// did, also when it fails.
///
/// # Errors
/// What stood in the way; everything before it is done.
pub fn mend(found: RootExamination, watch: &dyn DoctorProgress, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    watch.begin("mending");
    mend_mount(&found.root, done)?;
    mend_owner(&found.root, done)?;
    mend_repository(&found, done)?;
    mend_log(&found, done)?;
    if found.settings.is_some() && can_open(&found) {
        // Before it is opened: whether something is left over is known of a root nobody has.
        sweep(&found, done)?;
        open(found, watch, done)?;
    }
    Ok(())
}

fn mend_mount(root: &Path, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    let mounts = presence::announced(root).map(|served| served.mounts).unwrap_or_default();
    for mountpoint in mounts.into_iter().map(|mount| mount.mountpoint).filter(|at| svcfs_mount::is_dead_mount(at)) {
        svcfs_mount::unmount(&mountpoint)?;
        done.push(format!("took the dead mount at `{}` away", mountpoint.display()));
    }
    Ok(())
}

fn mend_owner(root: &Path, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    let files = preflight::misowned_files(root);
    if !files.is_empty() && nix::unistd::geteuid().is_root() {
        preflight::restore_owner(root, &files).context("files could not be given to the owner of the root")?;
        done.push(format!("gave {} to the owner of the root", counted(files.len(), "file")));
    }
    Ok(())
}

fn mend_repository(found: &RootExamination, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    if !found.keeps_git() {
        return Ok(());
    }
    let settled = found.log.as_ref().and_then(|log| log.checkpoint_commit);
    if let Some(branch) = repair_head(&found.root, settled).context("`HEAD` could not be mended")? {
        done.push(format!("made `HEAD` name `{branch}` again"));
    }
    let Some(repository) = found.repository()? else { return Ok(()) };
    let indexed = repository.index_packs().context("the index of a pack could not be made")?;
    if indexed > 0 {
        done.push(format!("made the index of {} anew", counted(indexed, "pack")));
    }
    // Opened again: it has seen what it has.
    let Some(repository) = found.repository()? else { return Ok(()) };
    if let Some(settled) = settled
        && repository.repair_branch(settled).context("the branch could not be mended")?
    {
        done.push(format!("put the branch back to {settled}, the newest commit that the log knows to be safe"));
    }
    for lock in repository.locks().iter().filter(|lock| lock.is_stale()) {
        repository.remove_lock(lock).context("a lock could not be removed")?;
        done.push(format!("removed `{}`, {} s old, whose process is gone", lock.path.display(), lock.age.as_secs()));
    }
    let restored =
        repository.restore_objects(&found.bad_objects).context("lost objects of git could not be written")?;
    if restored > 0 {
        done.push(format!("wrote {} of git again from the tree", counted(restored, "lost object")));
    }
    Ok(())
}

fn mend_log(found: &RootExamination, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    if found.log.as_ref().is_some_and(|log| !log.damage.is_empty()) {
        let aside =
            Log::quarantine(&StatePaths::new(&found.root)).context("the damaged log could not be moved aside")?;
        let source = if found.keeps_git() { "git" } else { "the files as they are" };
        done.push(format!("moved the damaged log to `{}` and made another from {source}", aside.display()));
    }
    Ok(())
}

/// Whether opening the root would not begin a new history in the place of one that was lost.
fn can_open(found: &RootExamination) -> bool {
    if !found.keeps_git() {
        return true;
    }
    let is_settled = found.log.as_ref().is_some_and(|log| log.checkpoint_commit.is_some());
    let is_known = found.log.as_ref().is_some_and(|log| log.has_commits);
    match found.repository() {
        Ok(Some(repository)) => matches!(repository.head(), Ok(head) if head.is_some() || !is_settled),
        Ok(None) => !is_known && !found.root.join(".git").exists(),
        Err(_) => false,
    }
}

fn sweep(found: &RootExamination, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    let mut files = preflight::leftover_temp_files(&found.root);
    files.extend(found.log.iter().flat_map(|log| log.leftover_spool.iter().cloned()));
    if let Some(repository) = found.repository()? {
        files.extend(repository.partial_files());
    }
    preflight::remove_files(&files).context("unfinished files could not be removed")?;
    if !files.is_empty() {
        done.push(format!("removed {}", counted(files.len(), "unfinished file")));
    }
    Ok(())
}

/// Opening completes what was accepted and adopts what differs; what it does not see is told to it.
fn open(found: RootExamination, watch: &dyn DoctorProgress, done: &mut Vec<String>) -> Result<(), CommandFailure> {
    let recorded = if found.keeps_git() { "the newest commit" } else { "the log" };
    let RootExamination { root: path, settings, log, tree, is_index_wrong, .. } = found;
    let Some(settings) = settings else { return Ok(()) };
    watch.begin("bringing log, git and tree together");
    let root = OpenRoot::open(&path, settings, false)?;
    let mended = root.index_to_cursor(PATIENCE, || {}).map_err(CommandFailure::from).and_then(|()| {
        let paths: Vec<TreePath> =
            tree.iter().flat_map(|tree| tree.modified.iter().chain(&tree.untracked)).cloned().collect();
        // Also those whose size and time are as before, which the opening does not look into.
        root.space().vfs.adopt(&paths)?;
        root.index_to_cursor(PATIENCE, || {})?;
        if is_index_wrong {
            watch.begin("making the search index anew");
            reindex(root.space(), |read, total| watch.reach(read, total))?;
            done.push("made the search index anew".to_owned());
        }
        Ok(())
    });
    root.close()?;
    mended?;
    if let Some(log) = log.filter(|log| log.pending_records > 0) {
        done.push(format!("completed {} that were accepted and not finished", counted(log.pending_records, "change")));
    }
    let Some(tree) = tree else { return Ok(()) };
    let differing = tree.modified.len() + tree.untracked.len();
    if differing > 0 {
        done.push(format!("recorded {} that differed from {recorded}", counted(differing, "file")));
    }
    if tree.index_error.is_some() || !tree.stale_index.is_empty() {
        let every: Vec<_> = tree.files.iter().map(|(path, _)| path).chain(&tree.stale_index).collect();
        let (history, _) = History::open(&path, &[]).context("git")?;
        history.refresh_index(every.into_iter(), |_, _| Ok(true)).context("`.git/index` could not be written")?;
        done.push("brought `.git/index` up to date".to_owned());
    }
    Ok(())
}
