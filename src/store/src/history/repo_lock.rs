//! One server a repository: its work trees (git-worktree(1)) share its packs, and the files that wait to be used again in `.git/svcfs`.
//!
//! One rule: whoever serves one of them has the repository. A second server would take packs and files of the first for what a crash left.
//! Questions need no lock: who only asks leaves all of it alone while somebody serves.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use git2::Repository;
use tracing::warn;

use super::{HistoryResult, owner, pack};
use crate::StoreError;

const LOCK: &str = "server.lock";

/// A repository that is had, and no other server has; given back when this is dropped.
pub(super) struct RepoLock(File);

impl Drop for RepoLock {
    fn drop(&mut self) {
        // Not by closing alone: a process forked in this moment would hold on to it until it executes its program.
        let _ = self.0.unlock();
    }
}

impl RepoLock {
    /// Takes the repository of a root for the server of that root, or for a moment.
    ///
    /// # Errors
    /// `Served`, when it is had; `State` when the lock cannot be made.
    pub(super) fn take(repository: &Repository, root: &Path) -> HistoryResult<Self> {
        let directory = directory(repository);
        fs::create_dir_all(&directory)?;
        owner::give_as_its_directory(&directory)?;
        let path = directory.join(LOCK);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        owner::give_as_its_directory(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut told = String::new();
                file.read_to_string(&mut told)?;
                let (process, other) = told.trim_end().split_once(' ').unwrap_or_default();
                let (root, other, process) = (root.to_owned(), PathBuf::from(other), process.to_owned());
                return Err(StoreError::AlreadyServed { root, other, process });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        writeln!(file, "{} {}", std::process::id(), root.display())?;
        Ok(Self(file))
    }

    /// Takes away what a crash left in the repository.
    pub(super) fn sweep(&self, repository: &Repository) {
        if let Err(error) = pack::sweep_temporary(&repository.commondir().join("objects/pack")) {
            warn!(%error, "what a crash left of packs cannot be removed");
        }
        if let Err(error) = emptied(&directory(repository)) {
            warn!(%error, "`.git/svcfs` cannot be emptied");
        }
    }
}

/// Where files wait to be used again.
pub(super) fn directory(repository: &Repository) -> PathBuf {
    repository.commondir().join("svcfs")
}

fn emptied(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
