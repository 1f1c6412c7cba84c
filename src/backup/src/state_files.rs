//! What is only in `.svc/state` and cannot be derived: open drafts, shares and webhooks.
//!
//! Claims, leases and locks end by themselves; the log and the index are rebuilt from git; the
//! secret of S3 is a secret. Shares contain hashes of passwords, webhooks their secrets: they are
//! not pushed to a git remote.

use std::fs;
use std::path::{Path, PathBuf};

use svcfs_base::Timestamp;
use svcfs_store::{StatePaths, snapshot_database, snapshot_webhooks};
use tempfile::TempDir;

use crate::error::BackupError;
use crate::git::Git;
use crate::local_refs::STATE_REF;
use crate::record;

/// In [`STATE_REF`], so that every remote has it.
pub(crate) const DRAFTS: &str = "drafts.db";
/// In bundles only.
pub(crate) const BUNDLED: [&str; 2] = ["shares.db", WEBHOOKS];
const WEBHOOKS: &str = "webhooks.db";

/// Makes [`STATE_REF`] a commit with the open drafts, unless it is one already. It has no parent,
/// so that old states do not stay.
pub(crate) fn update_state_ref(git: Git<'_>) -> Result<(), BackupError> {
    let Some((_directory, drafts)) = snapshot(git.directory(), DRAFTS)? else { return Ok(()) };
    let path = drafts.to_string_lossy();
    let blob = git.read(&["hash-object", "-w", "--no-filters", "--", &path])?;
    let tree = git.command(["mktree"]).input(format!("100644 blob {blob}\t{DRAFTS}\n")).read()?;
    let current = git.command(["rev-parse", "-q", "--verify", &format!("{STATE_REF}^{{tree}}")]).run()?;
    if current.is_success() && current.text() == tree {
        return Ok(());
    }
    let commit = git.command(["commit-tree", "-m", "open drafts", &tree]);
    let commit = crate::merge::as_svcfs(commit).read()?;
    git.read(&["update-ref", STATE_REF, &commit]).map(drop)
}

/// A consistent copy of a database, beside a running server; none if there is none.
pub(crate) fn snapshot(root: &Path, name: &str) -> Result<Option<(TempDir, PathBuf)>, BackupError> {
    let source = StatePaths::new(root).directory().join(name);
    if !source.exists() {
        return Ok(None);
    }
    let directory = record::directory(root);
    let scratch = tempfile::tempdir_in(&directory).map_err(|error| BackupError::io("write to", &directory, &error))?;
    let copy = scratch.path().join(name);
    // What waits to be delivered is about the log of this root.
    let take = if name == WEBHOOKS { snapshot_webhooks } else { snapshot_database };
    take(&source, &copy)
        .map_err(|error| BackupError::failed(format!("cannot copy `{}`: {error}", source.display())))?;
    Ok(Some((scratch, copy)))
}

/// Whether a file of [`BUNDLED`] may have changed after a time.
pub(crate) fn changed_since(root: &Path, time: Timestamp) -> bool {
    let state = StatePaths::new(root);
    let files =
        BUNDLED.iter().flat_map(|name| [state.directory().join(name), state.directory().join(format!("{name}-wal"))]);
    let modified = files.filter_map(|file| file.metadata().ok()?.modified().ok()?.try_into().ok());
    modified.into_iter().any(|modified: Timestamp| modified >= time)
}

/// Writes the open drafts of [`STATE_REF`] into the state directory of a restored root.
pub(crate) fn restore_drafts(git: Git<'_>) -> Result<bool, BackupError> {
    let blob = git.command(["cat-file", "blob", &format!("{STATE_REF}:{DRAFTS}")]).long().run()?;
    if !blob.is_success() {
        return Ok(false);
    }
    write_state(git.directory(), DRAFTS, &blob.stdout)?;
    Ok(true)
}

/// Writes a file into the state directory of a restored root.
pub(crate) fn write_state(root: &Path, name: &str, content: &[u8]) -> Result<(), BackupError> {
    let state = StatePaths::new(root);
    let path = state.directory().join(name);
    fs::create_dir_all(state.directory()).map_err(|error| BackupError::io("create", state.directory(), &error))?;
    svcfs_store::create_file(&path, content, 0o600).map_err(|error| BackupError::io("write", &path, &error))
}
