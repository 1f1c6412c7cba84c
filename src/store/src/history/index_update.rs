//! A new `.git/index`: prepared in a copy, installed under git's lock.
//!
//! Invariant: svcfs holds `index.lock` for a check and a rename only. The slow work is done on the
//! copy; if another process wrote the index meanwhile, the copy is discarded. The lock is a hard
//! link to the copy, so that the next start can recognize one that a killed process left.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::{ErrorClass, ErrorCode, Index, Repository};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::external_git::{FileStamp, stamp_of};
use super::repair::is_damaged;
use super::{HistoryResult, owner};
use crate::StoreError;
use crate::rename::is_unsupported;

const INDEX: &str = "index";
const LOCK: &str = "index.lock";
const COPY: &str = "svcfs-index";
/// libgit2's own, while it writes the copy.
const COPY_LOCK: &str = "svcfs-index.lock";

/// A copy of `.git/index` to work on; one at a time.
pub(super) struct IndexUpdate {
    /// The git directory, even if it is renamed meanwhile.
    directory: OwnedFd,
    /// The index that was copied; kept open, so that its inode number is not reused. None when
    /// there was none.
    original: Option<File>,
    /// The stamp of the unmodified copy.
    original_stamp: Option<FileStamp>,
}

impl IndexUpdate {
    /// Copies the index and makes a repository use the copy.
    ///
    /// # Errors
    /// `Git` with code `Locked` while another process holds the index; `State` when it cannot be
    /// copied.
    pub(super) fn new(repository: &Repository) -> HistoryResult<(Self, Index)> {
        let git_dir = repository.path();
        if git_dir.join(LOCK).exists() {
            return Err(lock_error());
        }
        sweep(git_dir)?;
        let directory = sys::open(git_dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from)?;
        let (path, original) = (git_dir.join(COPY), open_if_exists(&git_dir.join(INDEX))?);
        if let Some(mut original) = original.as_ref() {
            let mut copy = File::create_new(&path)?;
            io::copy(&mut original, &mut copy)?;
            // git compares this time with file times to detect racy edits.
            copy.set_modified(original.metadata()?.modified()?)?;
        }
        let copy = Self { directory, original, original_stamp: stamp_of(&path) };
        let mut index = Index::open(&path).map_err(|error| describe_error(&path, error))?;
        repository.set_index(&mut index)?;
        Ok((copy, index))
    }

    /// Installs the copy if it was modified; returns the stamp of the index that svcfs knows.
    ///
    /// # Errors
    /// `Git` with code `Locked`, without a change, when another process holds the index or wrote it
    /// since the copy.
    pub(super) fn install(&self, repository: &Repository) -> HistoryResult<Option<FileStamp>> {
        let git_dir = repository.path();
        let copy_stamp = stamp_of(&git_dir.join(COPY));
        if copy_stamp == self.original_stamp {
            let number =
                self.original.as_ref().map(|original| original.metadata().map(|stat| stat.ino())).transpose()?;
            return Ok(stamp_of(&git_dir.join(INDEX)).filter(|now| Some(now.inode()) == number));
        }
        owner::give_as_its_directory(&git_dir.join(COPY))?;
        self.lock()?;
        let renamed = if self.is_current()? {
            sys::renameat(&self.directory, LOCK, &self.directory, INDEX).map_err(|error| io::Error::from(error).into())
        } else {
            Err(lock_error())
        };
        if renamed.is_err() {
            // The first error is the meaningful one.
            let _ = sys::unlinkat(&self.directory, LOCK, AtFlags::empty());
        }
        renamed.map(|()| copy_stamp)
    }

    fn lock(&self) -> HistoryResult<()> {
        let directory = &self.directory;
        let result = match sys::linkat(directory, COPY, directory, LOCK, AtFlags::empty()) {
            // The file system does not support hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => {
                match sys::renameat_with(directory, COPY, directory, LOCK, RenameFlags::NOREPLACE) {
                    // Nor RENAME_NOREPLACE: create the lock, then replace it.
                    Err(error) if is_unsupported(error) => {
                        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                        sys::openat(directory, LOCK, flags, Mode::from_raw_mode(0o644))
                            .and_then(|_| sys::renameat(directory, COPY, directory, LOCK))
                    }
                    outcome => outcome,
                }
            }
            outcome => outcome,
        };
        match result {
            Err(Errno::EXIST) => Err(lock_error()),
            outcome => Ok(outcome.map_err(io::Error::from)?),
        }
    }

    /// Whether the index is still the one that was copied.
    fn is_current(&self) -> HistoryResult<bool> {
        let original = self.original.as_ref().map(File::metadata).transpose()?;
        match sys::statat(&self.directory, INDEX, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) => {
                Ok(original.is_some_and(|original| (original.dev(), original.ino()) == (now.st_dev, now.st_ino)))
            }
            Err(Errno::NOENT) => Ok(original.is_none()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

impl Drop for IndexUpdate {
    fn drop(&mut self) {
        // Otherwise the next update removes it.
        let _ = sys::unlinkat(&self.directory, COPY, AtFlags::empty());
    }
}

/// Whether the lock of the index is ours, or was left by an earlier process of svcfs.
pub(super) fn is_own_lock(git_dir: &Path) -> bool {
    let file = |name| fs::symlink_metadata(git_dir.join(name)).ok().map(|stat| (stat.dev(), stat.ino()));
    file(COPY).is_some_and(|copy| file(LOCK) == Some(copy))
}

/// Removes leftovers of a killed server.
///
/// # Errors
/// The system error.
pub(super) fn sweep(git_dir: &Path) -> io::Result<()> {
    let lock = is_own_lock(git_dir).then_some(LOCK);
    for name in lock.into_iter().chain([COPY_LOCK, COPY]) {
        match fs::remove_file(git_dir.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn open_if_exists(file: &Path) -> io::Result<Option<File>> {
    match File::open(file) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The reason why an index cannot be used: libgit2 does not support split and sparse indexes, nor
/// newer formats.
fn describe_error(index: &Path, error: git2::Error) -> StoreError {
    if fs::read(index).map_or(true, |bytes| is_damaged(&bytes)) {
        return error.into();
    }
    StoreError::Repository(unsupported_index(error.message()))
}

/// The error for an unsupported index; it may be shown to every caller.
pub(super) fn unsupported_index(reason: &str) -> String {
    format!(
        "`.git/index` has a format that svcfs does not support ({reason}); it is not updated, so `git status` shows changes that do not exist. \
         Run `git update-index --no-split-index`, or `git sparse-checkout reapply --no-sparse-index`, then svcfs updates it again"
    )
}

fn lock_error() -> StoreError {
    let text = "another process is writing git's index";
    StoreError::Git(git2::Error::new(ErrorCode::Locked, ErrorClass::Index, text))
}

#[cfg(test)]
mod tests;
