//! A new `.git/index`: drafted beside git, put in place under git's lock.
//!
//! One rule: `index.lock` is ours for a look and a rename, never for work. What takes time is done on a copy; when somebody wrote
//! the index meanwhile, theirs stays and the draft was for nothing. Our lock is a second name of the draft, by which the next
//! start knows one that a kill left behind.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::{ErrorClass, ErrorCode, Index, Repository};
use rustix::fs::{self as sys, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::external_git::{FileStamp, written_at};
use super::repair::is_damaged;
use super::{HistoryResult, owner};
use crate::StoreError;
use crate::rename::is_unsupported;

const INDEX: &str = "index";
const LOCK: &str = "index.lock";
const DRAFT: &str = "svcfs-index";
/// libgit2's own, while it writes the draft.
const DRAFT_LOCK: &str = "svcfs-index.lock";

/// A copy of `.git/index` to work on. Only one at a time.
pub(super) struct IndexUpdate {
    /// git's folder, also when it gets another name meanwhile.
    directory: OwnedFd,
    /// The index it was made from; open, so that no other file gets its number. None when there was none.
    from: Option<File>,
    /// What the copy was before anybody worked on it.
    copied: Option<FileStamp>,
}

impl IndexUpdate {
    /// Copies the index, and has a repository work on the copy.
    ///
    /// # Errors
    /// `Git` with code `Locked` while somebody holds the index; `State` when it cannot be copied.
    pub(super) fn of(repository: &Repository) -> HistoryResult<(Self, Index)> {
        let folder = repository.path();
        if folder.join(LOCK).exists() {
            return Err(locked());
        }
        sweep(folder)?;
        let directory = sys::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from)?;
        let (path, from) = (folder.join(DRAFT), opened(&folder.join(INDEX))?);
        if let Some(mut from) = from.as_ref() {
            let mut copy = File::create_new(&path)?;
            io::copy(&mut from, &mut copy)?;
            // By this git tells files that may have been edited since without showing it.
            copy.set_modified(from.metadata()?.modified()?)?;
        }
        let draft = Self { directory, from, copied: written_at(&path) };
        let mut index = Index::open(&path).map_err(|error| explained(&path, error))?;
        repository.set_index(&mut index)?;
        Ok((draft, index))
    }

    /// Puts the copy in place, if anything was written to it; which writing of the index is ours now.
    ///
    /// # Errors
    /// `Git` with code `Locked`, and nothing done, while somebody holds the index or when somebody wrote it since it was copied.
    pub(super) fn take(&self, repository: &Repository) -> HistoryResult<Option<FileStamp>> {
        let folder = repository.path();
        let drafted = written_at(&folder.join(DRAFT));
        if drafted == self.copied {
            let number = self.from.as_ref().map(|from| from.metadata().map(|stat| stat.ino())).transpose()?;
            return Ok(written_at(&folder.join(INDEX)).filter(|now| Some(now.number()) == number));
        }
        owner::give_as_its_directory(&folder.join(DRAFT))?;
        self.lock()?;
        let renamed = if self.is_current()? {
            sys::renameat(&self.directory, LOCK, &self.directory, INDEX).map_err(|error| io::Error::from(error).into())
        } else {
            Err(locked())
        };
        if renamed.is_err() {
            // The failure that matters is the first one.
            let _ = sys::unlinkat(&self.directory, LOCK, AtFlags::empty());
        }
        renamed.map(|()| drafted)
    }

    fn lock(&self) -> HistoryResult<()> {
        let directory = &self.directory;
        let taken = match sys::linkat(directory, DRAFT, directory, LOCK, AtFlags::empty()) {
            // A disk that knows no second names.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => {
                match sys::renameat_with(directory, DRAFT, directory, LOCK, RenameFlags::NOREPLACE) {
                    // Nor that flag: whoever makes the lock has it, and may replace it.
                    Err(error) if is_unsupported(error) => {
                        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                        sys::openat(directory, LOCK, flags, Mode::from_raw_mode(0o644))
                            .and_then(|_| sys::renameat(directory, DRAFT, directory, LOCK))
                    }
                    outcome => outcome,
                }
            }
            outcome => outcome,
        };
        match taken {
            Err(Errno::EXIST) => Err(locked()),
            outcome => Ok(outcome.map_err(io::Error::from)?),
        }
    }

    /// Whether the index is still the one that was copied.
    fn is_current(&self) -> HistoryResult<bool> {
        let from = self.from.as_ref().map(File::metadata).transpose()?;
        match sys::statat(&self.directory, INDEX, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) => Ok(from.is_some_and(|from| (from.dev(), from.ino()) == (now.st_dev, now.st_ino))),
            Err(Errno::NOENT) => Ok(from.is_none()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

impl Drop for IndexUpdate {
    fn drop(&mut self) {
        // Else the next one takes it away.
        let _ = sys::unlinkat(&self.directory, DRAFT, AtFlags::empty());
    }
}

/// Whether the lock of the index is our own of this moment, or one that our own last process left.
pub(super) fn is_own_lock(folder: &Path) -> bool {
    let file = |name| fs::symlink_metadata(folder.join(name)).ok().map(|stat| (stat.dev(), stat.ino()));
    file(DRAFT).is_some_and(|draft| file(LOCK) == Some(draft))
}

/// Takes away what a killed server left.
///
/// # Errors
/// What the disk said.
pub(super) fn sweep(folder: &Path) -> io::Result<()> {
    let lock = is_own_lock(folder).then_some(LOCK);
    for name in lock.into_iter().chain([DRAFT_LOCK, DRAFT]) {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn opened(file: &Path) -> io::Result<Option<File>> {
    match File::open(file) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why an index cannot be worked on: libgit2 knows neither split nor sparse ones, nor what newer gits may write.
fn explained(index: &Path, error: git2::Error) -> StoreError {
    if fs::read(index).map_or(true, |bytes| is_damaged(&bytes)) {
        return error.into();
    }
    StoreError::Repository(unknown_kind(error.message()))
}

/// What to say of an index of a kind that we do not know, and to whom it is no secret.
pub(super) fn unknown_kind(reason: &str) -> String {
    format!(
        "`.git/index` is of a kind that svcfs does not know ({reason}); it is left as it is, and `git status` shows changes that are none. \
         After `git update-index --no-split-index`, or `git sparse-checkout reapply --no-sparse-index`, svcfs keeps it up to date"
    )
}

fn locked() -> StoreError {
    let text = "somebody writes git's index at this moment";
    StoreError::Git(git2::Error::new(ErrorCode::Locked, ErrorClass::Index, text))
}

#[cfg(test)]
mod tests;
