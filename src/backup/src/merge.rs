//! Commits that others pushed to the remote: merged in a clone, and taken over as `git pull` does.

use std::fs;
use std::time::Duration;

use svcfs_store::INTERNAL_EMAIL;

use crate::error::BackupError;
use crate::git::{Git, GitCommand, failure};
use crate::local_refs::SCRATCH_REFS;
use crate::record;

/// The server may be writing: git's index is updated up to a second after a commit.
const ADOPTION_ATTEMPTS: u32 = 12;
const ADOPTION_INTERVAL: Duration = Duration::from_millis(300);
/// Maximum number of conflicting files that an error names.
const MAX_SHOWN_FILES: usize = 5;

/// How the adoption of a commit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// The branch has the commits now: their number.
    Done(u64),
    /// The branch has moved meanwhile.
    BranchMoved,
}

/// Makes the branch contain `external`, a commit that is here already.
///
/// # Errors
/// `refused` on a conflict; nothing has changed then.
pub(crate) fn adopt(git: Git<'_>, head: &str, external: &str) -> Result<Adoption, BackupError> {
    let count = git.read(&["rev-list", "--count", &format!("{head}..{external}")])?.parse().unwrap_or_default();
    let target = if git.is_ancestor(head, external)? { external.to_owned() } else { merge(git, head, external)? };
    // The state is that of the server, such as its shares.
    let has_state = |commit: &str| -> Result<bool, BackupError> {
        Ok(!git.read(&["ls-tree", "--name-only", commit, "--", ".svc/state"])?.is_empty())
    };
    if has_state(&target)? && !has_state(head)? {
        return Err(BackupError::refused(
            "the commits of the remote have files in `.svc/state`, which are the server's own; remove them there",
        ));
    }
    git.context().enter("taking over commits of others");
    let mut error = String::new();
    for attempt in 0..ADOPTION_ATTEMPTS {
        if attempt > 0 {
            std::thread::park_timeout(ADOPTION_INTERVAL);
        }
        // An external commit for the server. Files with unsaved edits are not overwritten.
        let merged =
            git.command(["merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-autostash", &target]).run()?;
        if merged.is_success() {
            return Ok(Adoption::Done(count));
        }
        if git.read(&["rev-parse", "HEAD"])? != head {
            return Ok(Adoption::BranchMoved);
        }
        error = merged.error;
    }
    Err(BackupError::failed(format!("the commits of the remote cannot be taken over: {error}")))
}

/// Merges in a clone that shares the objects; returns the commit, which is here then.
fn merge(git: Git<'_>, head: &str, external: &str) -> Result<String, BackupError> {
    git.context().enter("merging commits of others");
    let directory = record::directory(git.directory());
    let scratch = tempfile::Builder::new().prefix("merge-").tempdir_in(&directory);
    let scratch = scratch.map_err(|error| BackupError::io("write to", &directory, &error))?;
    let clone = scratch.path().join("clone");
    let root = git.directory().to_string_lossy();
    git.command(["clone", "-q", "--shared", "--no-checkout", &root, &clone.to_string_lossy()]).long().read()?;
    // Settings of the repository that decide what a file is.
    let attributes = [git.directory().join(".git/info/attributes"), clone.join(".git/info/attributes")];
    if let [from, to] = &attributes
        && from.exists()
    {
        fs::copy(from, to).map_err(|error| BackupError::io("copy", from, &error))?;
    }
    let in_clone = Git::new(&clone, git.context());
    in_clone.command(["checkout", "-q", "--detach", head]).long().read()?;
    let message = "Merge commits of the backup remote";
    let merged =
        as_svcfs(in_clone.command(["merge", "-q", "--no-ff", "--no-edit", "-m", message, external])).long().run()?;
    if !merged.is_success() {
        return Err(conflict(in_clone, &merged.error)?);
    }
    let commit = in_clone.read(&["rev-parse", "HEAD"])?;
    let merge_ref = format!("+HEAD:{SCRATCH_REFS}merge");
    git.command(["fetch", "-q", "--no-tags", "--no-write-fetch-head", &clone.to_string_lossy(), &merge_ref])
        .long()
        .read()?;
    Ok(commit)
}

fn conflict(clone: Git<'_>, error: &str) -> Result<BackupError, BackupError> {
    if error.contains("unrelated histories") {
        return Ok(BackupError::refused(
            "the remote has the history of another knowledge base; use another remote, or another `backup.branch`",
        ));
    }
    let files = clone.read(&["-c", "core.quotePath=false", "diff", "--name-only", "--diff-filter=U"])?;
    let files: Vec<&str> = files.lines().collect();
    if files.is_empty() {
        return Ok(failure("merge", error));
    }
    let more = files.len().saturating_sub(MAX_SHOWN_FILES);
    let mut shown = files.iter().take(MAX_SHOWN_FILES).map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ");
    if more > 0 {
        shown.push_str(&format!(" and {more} more"));
    }
    Ok(BackupError::refused(format!(
        "the remote and this knowledge base both changed {shown}; nothing was changed on either side; merge by hand in the \
         root (`git pull --no-rebase URL BRANCH`), and the next backup continues"
    )))
}

/// A command that makes a commit in the name of svcfs.
pub(crate) fn as_svcfs(command: GitCommand<'_>) -> GitCommand<'_> {
    command
        .variable("GIT_AUTHOR_NAME", "svcfs")
        .variable("GIT_AUTHOR_EMAIL", INTERNAL_EMAIL)
        .variable("GIT_COMMITTER_NAME", "svcfs")
        .variable("GIT_COMMITTER_EMAIL", INTERNAL_EMAIL)
}
