//! Somebody else's git at work in the same repository, and what it leaves behind.
//!
//! One rule: a person's git is never stopped. We look for its traces, give way for a moment, and keep what it would let go of.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::{Oid, Repository};
use svcfs_base::CommitId;
use tracing::warn;

use super::{EMAIL, History, HistoryResult, commit_id, index_update, oid};

/// A lock that has been there for this long has lost its process.
const MAX_LOCKED: Duration = Duration::from_secs(60);
/// Where the ends of lines of commits stand that left their branch.
const KEPT: &str = "refs/svcfs/kept/";

/// A git command that is in the middle of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalGit {
    /// The index, or its lock, as it wrote it.
    trace: FileStamp,
    /// The git processes that were at work in the root when it was noticed; none where they cannot be seen.
    processes: BTreeSet<u32>,
}

impl ExternalGit {
    /// Together with what was passed before.
    #[must_use]
    pub fn merge(mut self, before: Option<Self>) -> Self {
        self.processes.extend(before.into_iter().flat_map(|before| before.processes));
        self
    }
}

/// One writing of a file: its number, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp(u64, SystemTime);

impl FileStamp {
    fn of(stat: &Metadata) -> Self {
        Self(stat.ino(), stat.modified().unwrap_or(SystemTime::UNIX_EPOCH))
    }

    /// The number of its file.
    pub(super) const fn number(self) -> u64 {
        self.0
    }
}

/// Which writing of a file is there; none when there is no file.
pub(super) fn written_at(file: &Path) -> Option<FileStamp> {
    fs::symlink_metadata(file).ok().as_ref().map(FileStamp::of)
}

impl History {
    /// A git command that is in the middle of something: it holds `.git/index.lock`, or it wrote `.git/index` less than `grace` ago
    /// and may be about to move the branch, which is the last thing `git checkout` and `git merge` do. What was `passed` is not
    /// waited for any more.
    pub fn detect_external_git(&self, grace: Duration, passed: Option<&ExternalGit>) -> Option<ExternalGit> {
        let trace = self.trace(grace).filter(|trace| passed.is_none_or(|passed| passed.trace != *trace))?;
        let known = |number: &u32| passed.is_some_and(|passed| passed.processes.contains(number));
        Some(ExternalGit { trace, processes: self.gits_in_the_root().filter(|number| !known(number)).collect() })
    }

    /// Whether a git command is still at work; whoever runs one after the other is no reason to wait for all of them.
    pub fn is_git_running(&self, other: &ExternalGit, grace: Duration) -> bool {
        self.trace(grace) == Some(other.trace) || other.processes.iter().any(|number| self.is_git_in_the_root(*number))
    }

    /// The mark that a git command of somebody else left last; another one is a sign of life.
    pub fn index_stamp(&self) -> Option<impl Eq + use<>> {
        self.trace(Duration::MAX)
    }

    fn trace(&self, grace: Duration) -> Option<FileStamp> {
        let age = |FileStamp(_, made): FileStamp| made.elapsed().unwrap_or_default();
        if let Some(lock) = written_at(&self.folder.join("index.lock"))
            && age(lock) < MAX_LOCKED
            && !index_update::is_own_lock(&self.folder)
        {
            return Some(lock);
        }
        let index = written_at(&self.folder.join("index")).filter(|index| age(*index) < grace)?;
        (*self.own_index.lock() != Some(index)).then_some(index)
    }

    /// Whether somebody wrote `.git/index` since we looked at it last.
    pub fn is_index_modified(&self) -> bool {
        *self.own_index.lock() != written_at(&self.folder.join("index"))
    }

    /// The numbers of the git processes that work in the root. Looks at every process of the machine: a few milliseconds.
    fn gits_in_the_root(&self) -> impl Iterator<Item = u32> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter(|number| self.is_git_in_the_root(*number))
    }

    fn is_git_in_the_root(&self, number: u32) -> bool {
        let process = Path::new("/proc").join(number.to_string());
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        (name.trim() == "git" || name.starts_with("git-"))
            && fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(&self.root))
    }

    /// Keeps the commits of this server that lead to `left` and that `to`, where HEAD is now, does not have, under a reference of
    /// ours: a rebase or a reset takes them off their branch, and `git gc` would take them away one day. True when there are any.
    ///
    /// What HEAD has again, and what another of these references has, is let go of.
    ///
    /// # Errors
    /// `Git`.
    pub fn pin_commits(&self, left: CommitId, to: CommitId) -> HistoryResult<bool> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let (left, to) = (oid(left)?, oid(to)?);
        // After a crash it may be one that never reached the disk; the log makes it again.
        if repository.find_commit(left).is_err() || !has_ours(repository, left, to)? {
            return Ok(false);
        }
        let name = format!("{KEPT}{}", commit_id(left));
        repository.reference(&name, left, true, "svcfs: it left its branch")?;
        super::owner::give_below(repository.commondir(), &name)?;
        if let Err(error) = let_go(repository, left, to) {
            // One too many harms nobody.
            warn!(%error, "a reference below `{KEPT}` that is needed no more could not be removed");
        }
        Ok(true)
    }
}

/// Removes what HEAD has again, and what the newest of them has.
fn let_go(repository: &Repository, left: Oid, to: Oid) -> HistoryResult<()> {
    let names = repository.references_glob(&format!("{KEPT}*"))?;
    for mut reference in names.collect::<Result<Vec<_>, _>>()? {
        let Some(kept) = reference.target().filter(|kept| *kept != left) else { continue };
        let has = |tip| Ok::<_, git2::Error>(kept == tip || repository.graph_descendant_of(tip, kept)?);
        if has(to)? || has(left)? {
            reference.delete()?;
        }
    }
    Ok(())
}

/// Whether a commit that `to` does not have is of our making.
fn has_ours(repository: &Repository, left: Oid, to: Oid) -> HistoryResult<bool> {
    let mut walk = repository.revwalk()?;
    walk.push(left)?;
    walk.hide(to)?;
    for id in walk {
        if repository.find_commit(id?)?.committer().email_bytes() == EMAIL.as_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}
