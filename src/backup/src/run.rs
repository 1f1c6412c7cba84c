//! One backup.

use std::fs;
use std::path::Path;
use std::time::Duration;

use svcfs_base::Timestamp;
use svcfs_config::BackupSettings;

use crate::bundles;
use crate::error::BackupError;
use crate::git::{Git, RunContext};
use crate::local_refs::LocalRefs;
use crate::push::{PushOptions, push};
use crate::record::{BackupLock, BackupRecord};
use crate::state_files;
use crate::target::{BackupTarget, TargetUse};

/// What a backup did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupOutcome {
    /// Number of refs or objects that were sent; 0 when the remote had everything.
    pub sent_refs: usize,
    /// Number of commits of others that were merged.
    pub merged_commits: u64,
    /// The newest commit that the remote has; none if there is no commit.
    pub head: Option<String>,
    /// What the remote did not take, although the backup is complete without it.
    pub note: Option<String>,
}

/// Backs up a root, and records how it went. Waits up to `lock_timeout` for another process that
/// does the same.
///
/// # Errors
/// Why the remote does not have everything. The remote is as it was, or has a part.
pub fn run(
    root: &Path,
    settings: &BackupSettings,
    (context, lock_timeout): (RunContext<'_>, Duration),
) -> Result<(BackupOutcome, BackupRecord), BackupError> {
    let _lock = BackupLock::acquire(root, lock_timeout, context)?;
    let started = Timestamp::now();
    let mut record = BackupRecord::load(root, settings.remote());
    record.since.get_or_insert(started);
    record.last_attempt = Some(started);
    let outcome = back_up(Git::new(root, context), settings, &mut record);
    match &outcome {
        Ok(done) => {
            record.last_error = None;
            record.last_verified = Some(started);
            record.last_push = if done.sent_refs > 0 { Some(Timestamp::now()) } else { record.last_push };
            record.merged_commits += done.merged_commits;
            record.head.clone_from(&done.head);
            record.note.clone_from(&done.note);
        }
        Err(error) => record.last_error = Some(error.to_string()),
    }
    record.save(root, settings.remote())?;
    outcome.map(|outcome| (outcome, record))
}

fn back_up(git: Git<'_>, settings: &BackupSettings, record: &mut BackupRecord) -> Result<BackupOutcome, BackupError> {
    check_place(git.directory(), settings.remote())?;
    let target = BackupTarget::parse(settings.remote(), TargetUse::Backup)?;
    // Nothing to back up; the state needs a repository, too.
    if LocalRefs::read(git)?.is_none() {
        return match &record.head {
            None => Ok(BackupOutcome::default()),
            Some(head) => Err(BackupError::refused(format!(
                "the current branch has no commit, but commit {head} was backed up; repair `.git` (`svcfs doctor`), or \
                 restore the backup"
            ))),
        };
    }
    state_files::update_state_ref(git)?;
    match target {
        BackupTarget::Git(remote) => {
            let (branch, merges_others) = (settings.branch.as_deref(), settings.rebase_before_push);
            push(git, &PushOptions { remote: &remote, branch, merges_others }, record)
        }
        BackupTarget::Bundles(store) => {
            // Refs that appear meanwhile may be in the next backup only.
            let Some(local) = LocalRefs::read(git)? else { return Ok(BackupOutcome::default()) };
            let outcome = bundles::back_up(git, &*store, &local)?;
            record.refs = local.refs;
            Ok(outcome)
        }
    }
}

/// Refuses a remote in the root itself, which would be lost with it.
pub(crate) fn check_place(root: &Path, remote: &str) -> Result<(), BackupError> {
    let path = remote.strip_prefix("file://").unwrap_or(remote);
    match (fs::canonicalize(path), fs::canonicalize(root)) {
        (Ok(place), Ok(root)) if path.starts_with('/') && place.starts_with(&root) => Err(BackupError::refused(
            format!("`{path}` is in the knowledge base itself; a backup needs another place, best another disk"),
        )),
        _ => Ok(()),
    }
}

/// Whether the last backup has the current commit, as far as this side knows.
#[must_use]
pub fn is_up_to_date(root: &Path, settings: &BackupSettings, context: RunContext<'_>) -> bool {
    let record = BackupRecord::load(root, settings.remote());
    let local = LocalRefs::read(Git::new(root, context));
    record.last_error.is_none()
        && local.is_ok_and(|local| local.is_some_and(|local| record.head.as_deref() == Some(local.tip())))
}
