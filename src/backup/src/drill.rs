//! A drill: the backup is restored into a scratch directory, and compared with the root.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use svcfs_config::BackupSettings;

use crate::error::BackupError;
use crate::git::{Git, RunContext};
use crate::local_refs::{LocalRefs, RefMap, read_refs};
use crate::push::is_own;
use crate::record::{self, BackupLock, BackupRecord};
use crate::restore::{RestoreReport, find_backup, restore_into, scratch_root};
use crate::run::check_place;
use crate::target::{BackupTarget, TargetUse, shown};

const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of differences in a report.
const MAX_DIFFERENCES: usize = 50;

/// What a drill found.
#[derive(Debug, Clone, Serialize)]
pub struct DrillReport {
    /// Whether everything in the backup is as in the root.
    pub equal: bool,
    /// The remote without passwords.
    pub remote: String,
    /// The newest commit of the backup.
    pub head: String,
    /// Number of commits that were compared.
    pub commits: u64,
    /// Number of files that were compared.
    pub files: u64,
    /// Number of refs that were compared.
    pub refs: usize,
    /// Number of commits of the root that came after the backup.
    pub newer_commits: u64,
    /// What differs.
    pub differences: Vec<String>,
    /// Duration in milliseconds.
    pub took_ms: u64,
}

/// Restores the backup of a root into a scratch directory below `.svc/state` and compares every
/// commit and every file. Changes nothing else.
///
/// # Errors
/// When the backup cannot be read.
pub fn drill(root: &Path, settings: &BackupSettings, context: RunContext<'_>) -> Result<DrillReport, BackupError> {
    let started = Instant::now();
    let _lock = BackupLock::acquire(root, LOCK_TIMEOUT, context)?;
    check_place(root, settings.remote())?;
    let target = BackupTarget::parse(settings.remote(), TargetUse::Restore)?;
    let directory = record::directory(root);
    let (scratch, copy) = scratch_root(&directory)?;
    let source = Git::new(root, context);
    let local = LocalRefs::read(source)?.ok_or_else(|| BackupError::refused("the root has no commit yet"))?;
    let local_name = local.head.trim_start_matches("refs/heads/");
    let branch = match target {
        BackupTarget::Git(_) => Some(settings.branch.as_deref().unwrap_or(local_name)),
        BackupTarget::Bundles(_) => None,
    };
    let restored = restore_into(find_backup(&target, context)?, &copy, (branch, context))?;
    context.enter("comparing");
    let in_copy = Git::new(&copy, context);
    let mut differences = Vec::new();
    let backup = read_refs(in_copy)?;
    compare_refs((source, &local), (&restored, &backup), &mut differences)?;
    let sent = BackupRecord::load(root, settings.remote()).refs;
    compare_sent(&sent, (in_copy, &backup), &mut differences)?;
    let commits = compare_commits(source, in_copy, &mut differences)?;
    compare_files(source, in_copy, (&restored.head, &mut differences))?;
    let newer_commits = count(source, &format!("{}..{}", restored.head, local.head));
    drop(scratch);
    let equal = differences.is_empty();
    differences.truncate(MAX_DIFFERENCES);
    Ok(DrillReport {
        equal,
        remote: shown(settings.remote()),
        head: restored.head,
        commits,
        files: restored.files,
        refs: backup.len(),
        newer_commits,
        differences,
        took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

fn count(git: Git<'_>, range: &str) -> u64 {
    git.read(&["rev-list", "--count", range]).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Refs of the backup that the root has otherwise, and those that are missing. A ref that has moved
/// forward since the backup is not a difference.
fn compare_refs(
    (source, local): (Git<'_>, &LocalRefs),
    (restored, backup): (&RestoreReport, &RefMap),
    differences: &mut Vec<String>,
) -> Result<(), BackupError> {
    let head = format!("refs/heads/{}", restored.branch);
    for (name, id) in backup {
        let here = if *name == head { Some(local.tip()) } else { local.refs.get(name).map(String::as_str) };
        match here {
            Some(here) if here == id => {}
            Some(here) if source.is_ancestor(id, here)? => {}
            Some(_) if name.starts_with("refs/svcfs/") || name.starts_with("refs/heads/draft/") => {}
            Some(here) => differences.push(format!("`{name}` is {id} in the backup and {here} here")),
            // It was removed since the backup.
            None => {}
        }
    }
    // Without a record of the last backup, only tags must be there.
    let is_missing =
        |name: &&String| !backup.contains_key(*name) && **name != local.head && name.starts_with("refs/tags/");
    differences.extend(local.refs.keys().filter(is_missing).map(|name| format!("`{name}` is not in the backup")));
    Ok(())
}

/// Refs that the last backup sent, and that the backup does not have any more or has as before.
fn compare_sent(
    sent: &RefMap,
    (copy, backup): (Git<'_>, &RefMap),
    differences: &mut Vec<String>,
) -> Result<(), BackupError> {
    for (name, id) in sent {
        match backup.get(name) {
            Some(found) if found == id || is_own(name) || copy.is_ancestor(id, found)? => {}
            Some(found) => differences.push(format!("`{name}` is {found} in the backup and was backed up as {id}")),
            None => differences.push(format!("`{name}` was backed up and is not in the backup any more")),
        }
    }
    Ok(())
}

/// Commits of the backup that the root does not have. Ids are hashes of everything in a commit, and
/// git checked them when it unpacked the backup.
fn compare_commits(source: Git<'_>, copy: Git<'_>, differences: &mut Vec<String>) -> Result<u64, BackupError> {
    let list = |git: Git<'_>| git.command(["rev-list", "--all"]).long().read();
    let (restored, here) = (list(copy)?, list(source)?);
    let here: BTreeSet<&str> = here.lines().collect();
    let restored: BTreeSet<&str> = restored.lines().collect();
    for commit in restored.difference(&here) {
        // A draft that ended since the backup left no ref here.
        if !source.has_commit(commit)? {
            differences.push(format!("commit {commit} is in the backup only"));
        }
    }
    // Every ancestor of a backed up commit must be there, too; newer ones are not expected.
    let shared: String =
        restored.iter().filter(|commit| here.contains(*commit)).map(|commit| format!("{commit}\n")).collect();
    if !shared.is_empty() {
        let ancestors = source.command(["rev-list", "--stdin"]).input(shared).long().read()?;
        let missing = ancestors.lines().filter(|commit| !restored.contains(commit));
        differences.extend(missing.map(|commit| format!("commit {commit} is not in the backup")));
    }
    Ok(restored.len() as u64)
}

/// Files of the copy that differ from the commit in the root.
fn compare_files(
    source: Git<'_>,
    copy: Git<'_>,
    (head, differences): (&str, &mut Vec<String>),
) -> Result<(), BackupError> {
    let tree = |git: Git<'_>| git.read(&["rev-parse", &format!("{head}^{{tree}}")]);
    match tree(source) {
        Ok(here) if here == tree(copy)? => {}
        Ok(_) => differences.push(format!("the files of commit {head} differ")),
        Err(_) => differences.push(format!("commit {head} of the backup is not here")),
    }
    // Without an index, git reads and hashes every file.
    let index = copy.directory().join(".git/index");
    fs::remove_file(&index).map_err(|error| BackupError::io("remove", &index, &error))?;
    copy.command(["read-tree", head]).long().read()?;
    let status =
        copy.command(["-c", "core.quotePath=false", "status", "--porcelain", "--untracked-files=all"]).long().read()?;
    let changed = status.lines().filter(|line| !line.ends_with("/") && !line.contains(" .svc/state/"));
    differences.extend(changed.map(|line| format!("file `{}` differs from its commit", line.get(3..).unwrap_or(line))));
    Ok(())
}
