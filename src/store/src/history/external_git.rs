//! External git commands in the same repository, and what they leave behind.
//!
//! Invariant: svcfs never stops an external git command. It detects one, waits for a limited time,
//! and retains commits that git would drop.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::{Oid, Repository};
use svcfs_base::CommitId;
use tracing::warn;

use super::{EMAIL, History, HistoryResult, commit_id, index_update, oid};

/// An older lock is stale.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// References to commits that left their branch.
const PINNED_REFS: &str = "refs/svcfs/kept/";

/// An external git command in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalGit {
    /// The stamp of the index or its lock.
    stamp: FileStamp,
    /// The git processes in the root when it was detected; empty where they are not visible.
    processes: BTreeSet<u32>,
}

impl ExternalGit {
    /// Combines it with the ignored processes of an earlier one.
    #[must_use]
    pub fn merge(mut self, before: Option<Self>) -> Self {
        self.processes.extend(before.into_iter().flat_map(|before| before.processes));
        self
    }
}

/// Identifies one write of a file: inode number and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp(u64, SystemTime);

impl FileStamp {
    fn new(stat: &Metadata) -> Self {
        Self(stat.ino(), stat.modified().unwrap_or(SystemTime::UNIX_EPOCH))
    }

    /// The inode number.
    pub(super) const fn inode(self) -> u64 {
        self.0
    }
}

/// The stamp of a file; none when it does not exist.
pub(super) fn stamp_of(file: &Path) -> Option<FileStamp> {
    fs::symlink_metadata(file).ok().as_ref().map(FileStamp::new)
}

impl History {
    /// Detects an external git command: it holds `.git/index.lock`, or it wrote `.git/index` less
    /// than `grace` ago and may move the branch next, as `git checkout` and `git merge` do last.
    /// `ignored` is not reported again.
    pub fn detect_external_git(&self, grace: Duration, ignored: Option<&ExternalGit>) -> Option<ExternalGit> {
        let stamp = self.current_stamp(grace).filter(|stamp| ignored.is_none_or(|ignored| ignored.stamp != *stamp))?;
        let is_ignored = |pid: &u32| ignored.is_some_and(|ignored| ignored.processes.contains(pid));
        Some(ExternalGit { stamp, processes: self.git_processes().filter(|pid| !is_ignored(pid)).collect() })
    }

    /// Whether a detected git command still runs. Commands started later do not count.
    pub fn is_git_running(&self, other: &ExternalGit, grace: Duration) -> bool {
        self.current_stamp(grace) == Some(other.stamp) || other.processes.iter().any(|pid| self.is_git_process(*pid))
    }

    /// The last stamp of an external git command; a changed one shows progress.
    pub fn index_stamp(&self) -> Option<impl Eq + use<>> {
        self.current_stamp(Duration::MAX)
    }

    fn current_stamp(&self, grace: Duration) -> Option<FileStamp> {
        let age = |FileStamp(_, made): FileStamp| made.elapsed().unwrap_or_default();
        if let Some(lock) = stamp_of(&self.git_dir.join("index.lock"))
            && age(lock) < LOCK_TIMEOUT
            && !index_update::is_own_lock(&self.git_dir)
        {
            return Some(lock);
        }
        let index = stamp_of(&self.git_dir.join("index")).filter(|index| age(*index) < grace)?;
        (*self.own_index.lock() != Some(index)).then_some(index)
    }

    /// Whether another process has written `.git/index` since svcfs last read it.
    pub fn is_index_modified(&self) -> bool {
        *self.own_index.lock() != stamp_of(&self.git_dir.join("index"))
    }

    /// The git processes that work in the root. Reads every process of the machine: a few
    /// milliseconds.
    fn git_processes(&self) -> impl Iterator<Item = u32> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|pid| self.is_git_process(*pid))
    }

    fn is_git_process(&self, pid: u32) -> bool {
        let process = Path::new("/proc").join(pid.to_string());
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        (name.trim() == "git" || name.starts_with("git-"))
            && fs::read_link(process.join("cwd")).is_ok_and(|directory| directory.starts_with(&self.root))
    }

    /// Retains commits of svcfs that lead to `dropped` and that `to`, the current HEAD, does not
    /// contain, with a reference: a rebase or reset removes them from the branch, and `git gc`
    /// would delete them later. True when there are any.
    ///
    /// References whose commits HEAD or another such reference contains are removed.
    pub fn pin_commits(&self, dropped: CommitId, to: CommitId) -> HistoryResult<bool> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let (dropped, to) = (oid(dropped)?, oid(to)?);
        // After a crash the commit may be missing on the disk; the log replays it.
        if repository.find_commit(dropped).is_err() || !has_own_commits(repository, dropped, to)? {
            return Ok(false);
        }
        let name = format!("{PINNED_REFS}{}", commit_id(dropped));
        repository.reference(&name, dropped, true, "svcfs: it left its branch")?;
        super::owner::give_below(repository.commondir(), &name)?;
        if let Err(error) = remove_unneeded_refs(repository, dropped, to) {
            // An excess reference does no harm.
            warn!(%error, "an unneeded reference below `{PINNED_REFS}` could not be removed");
        }
        Ok(true)
    }
}

/// Removes references whose commits HEAD or the newest reference contains.
fn remove_unneeded_refs(repository: &Repository, newest: Oid, to: Oid) -> HistoryResult<()> {
    let names = repository.references_glob(&format!("{PINNED_REFS}*"))?;
    for mut reference in names.collect::<Result<Vec<_>, _>>()? {
        let Some(pinned) = reference.target().filter(|pinned| *pinned != newest) else { continue };
        let contains = |tip| Ok::<_, git2::Error>(pinned == tip || repository.graph_descendant_of(tip, pinned)?);
        if contains(to)? || contains(newest)? {
            reference.delete()?;
        }
    }
    Ok(())
}

/// Whether `tip` leads to a commit of svcfs that `to` does not contain.
fn has_own_commits(repository: &Repository, tip: Oid, to: Oid) -> HistoryResult<bool> {
    let mut walk = repository.revwalk()?;
    walk.push(tip)?;
    walk.hide(to)?;
    for id in walk {
        if repository.find_commit(id?)?.committer().email_bytes() == EMAIL.as_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}
