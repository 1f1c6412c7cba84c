//! One server per repository: its work trees (git-worktree(1)) share its packs and the recycled
//! files in `.git/svcfs`.
//!
//! Invariant: the server of one work tree owns the repository. A second server would remove packs
//! and files of the first as leftovers. Readers need no lock: they do not touch those files while a
//! server runs.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use git2::Repository;
use tracing::warn;

use super::{HistoryResult, owner, pack};
use crate::StoreError;

const LOCK: &str = "server.lock";

/// Exclusive ownership of a repository; released on drop.
pub(super) struct RepoLock(File);

impl Drop for RepoLock {
    fn drop(&mut self) {
        // Closing is not enough: a process forked at this moment keeps the descriptor until it
        // calls exec.
        let _ = self.0.unlock();
    }
}

impl RepoLock {
    /// Locks the repository for the server of `root`, or temporarily.
    ///
    /// # Errors
    /// `AlreadyServed` when it is locked; `State` when the lock cannot be created.
    pub(super) fn acquire(repository: &Repository, root: &Path) -> HistoryResult<Self> {
        let directory = directory(repository);
        fs::create_dir_all(&directory)?;
        owner::give_as_its_directory(&directory)?;
        let path = directory.join(LOCK);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        owner::give_as_its_directory(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner_line = String::new();
                file.read_to_string(&mut owner_line)?;
                let (process, other) = owner_line.trim_end().split_once(' ').unwrap_or_default();
                let (root, other, process) = (root.to_owned(), PathBuf::from(other), process.to_owned());
                return Err(StoreError::AlreadyServed { root, other, process });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        writeln!(file, "{} {}", std::process::id(), root.display())?;
        Ok(Self(file))
    }

    /// Removes leftovers of a crash from the repository.
    pub(super) fn sweep(&self, repository: &Repository) {
        if let Err(error) = pack::sweep_temporary(&repository.commondir().join("objects/pack")) {
            warn!(%error, "leftover temporary packs could not be removed");
        }
        if let Err(error) = remove_recycled(&directory(repository)) {
            warn!(%error, "leftover files in `.git/svcfs` could not be removed");
        }
    }
}

/// The directory of recycled files.
pub(super) fn directory(repository: &Repository) -> PathBuf {
    repository.commondir().join("svcfs")
}

fn remove_recycled(directory: &Path) -> io::Result<()> {
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
