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
use crate::push::{self, PushOptions, push};
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
    /// What the remote did not take; it has everything else.
    pub note: Option<String>,
}

/// What is done about a remote that had a backup and has none now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyRemote {
    /// It is refused: its disk may not be mounted, and a new backup would be elsewhere.
    Refuse,
    /// It gets a new backup.
    Accept,
}

/// Backs up a root, and records how it went. Waits up to `lock_timeout` for another process that
/// does the same.
///
/// # Errors
/// Why the remote does not have everything. The remote is as it was, or has a part.
pub fn run(
    root: &Path,
    (settings, empty_remote): (&BackupSettings, EmptyRemote),
    (context, lock_timeout): (RunContext<'_>, Duration),
) -> Result<(BackupOutcome, BackupRecord), BackupError> {
    let _lock = BackupLock::acquire(root, lock_timeout, context)?;
    let started = Timestamp::now();
    let mut record = BackupRecord::load(root, settings.remote());
    record.since.get_or_insert(started);
    record.last_attempt = Some(started);
    let outcome = back_up(Git::new(root, context), (settings, empty_remote), &mut record);
    record.refused = outcome.as_ref().is_err_and(BackupError::is_refusal);
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

fn back_up(
    git: Git<'_>,
    (settings, empty_remote): (&BackupSettings, EmptyRemote),
    record: &mut BackupRecord,
) -> Result<BackupOutcome, BackupError> {
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
    // A root without a commit was verified, too, and left the remote empty.
    let has_backup = record.head.is_some() && empty_remote == EmptyRemote::Refuse;
    let last_verified = record.last_verified.filter(|_| has_backup);
    match target {
        BackupTarget::Git(remote) => {
            let (branch, merges_others) = (settings.branch.as_deref(), settings.rebase_before_push);
            push(git, &PushOptions { remote: &remote, branch, merges_others, last_verified }, record)
        }
        BackupTarget::Bundles(store) => {
            // Refs that appear meanwhile may be in the next backup only.
            let Some(local) = LocalRefs::read(git)? else { return Ok(BackupOutcome::default()) };
            let outcome = bundles::back_up(git, &*store, &local, last_verified)?;
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

/// Whether the last backup has every ref, open draft and file of the state, as far as this side
/// knows.
#[must_use]
pub fn is_up_to_date(root: &Path, settings: &BackupSettings, context: RunContext<'_>) -> bool {
    let record = BackupRecord::load(root, settings.remote());
    let git = Git::new(root, context);
    let (Some(verified), None) = (record.last_verified, &record.last_error) else { return false };
    let has_bundles =
        matches!(BackupTarget::parse(settings.remote(), TargetUse::Backup), Ok(BackupTarget::Bundles(_)) | Err(_));
    if has_bundles && state_files::changed_since(root, verified) {
        return false;
    }
    // Open drafts become a ref.
    let local = state_files::update_state_ref(git).and_then(|()| LocalRefs::read(git));
    let Ok(Some(local)) = local else { return false };
    let branch = settings.branch.as_deref().filter(|_| !has_bundles);
    push::wanted_refs(&local, &push::remote_branch(&local, branch)) == record.refs
}
