//! One server per repository: its work trees (git-worktree(1)) share its packs and the recycled
//! files in `.git/svcfs`.
//!
//! Invariant: the server of one work tree owns the repository. A second server would remove packs
//! and files of the first as leftovers. Readers need no lock: they do not touch those files while a
//! server runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::Repository;
use svcfs_work::{PidLock, PidLockError};
use tracing::warn;

use super::{HistoryResult, owner, pack};
use crate::StoreError;

const LOCK: &str = "server.lock";

/// Exclusive ownership of a repository; released on drop.
pub(super) struct RepoLock {
    _lock: PidLock,
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
        match PidLock::acquire(&path, &root.display().to_string()) {
            Ok(lock) => {
                owner::give_as_its_directory(&path)?;
                Ok(Self { _lock: lock })
            }
            Err(PidLockError::Locked { owner }) => {
                let (process, other) = owner.split_once(' ').unwrap_or_default();
                let (root, other, process) = (root.to_owned(), PathBuf::from(other), process.to_owned());
                Err(StoreError::AlreadyServed { root, other, process })
            }
            Err(PidLockError::Io(error)) => Err(error.into()),
        }
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
