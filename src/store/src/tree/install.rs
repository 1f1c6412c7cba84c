//! Atomic install and removal of files.
//!
//! Invariant: a replaced file is checked after its name was taken. Between a check and a rename
//! another process may write, so the existing file is exchanged (renameat2(2)), checked, and
//! exchanged back when it is unexpected: an external edit, which stays. Programs that have it open
//! keep writing to the same file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use rustix::fs::{self as sys, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use svcfs_base::{DiskAttributes, ETag, ETagHasher, FileKind, LargeFile, TreePath};

use super::extended::inherit_xattrs;
use super::stat::{StatKind, times, to_stat};
use super::{TreeResult, WorkTree, disk, reserve, to_errno};
use crate::FailPoint;
use crate::deferred_unlink::{OpenHandle, PATH_ONLY};
use crate::rename::{is_unsupported, rename_to_free};

/// Retries when another process keeps creating and removing the name.
const MAX_ATTEMPTS: usize = 64;

/// Read size of the content check, in bytes.
const READ_BLOCK_BYTES: usize = 256 << 10;

/// A file to install.
#[derive(Debug, Clone)]
pub struct FileInstall<'a> {
    /// Where.
    pub path: &'a TreePath,
    /// The full content (of a link: its target).
    pub content: &'a [u8],
    /// Its kind.
    pub kind: FileKind,
    /// Its attributes.
    pub attributes: DiskAttributes,
}

/// What may exist where a file is installed or removed; anything else is an external edit.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedFile<'a> {
    /// A file or link with one of these contents.
    pub contents: &'a [ETag],
    /// This file, which is too large for versions.
    pub large: Option<LargeFile>,
    /// The existing file was removed before the install, so the new file inherits nothing. Mode and
    /// owner come from the install then.
    pub is_removed: bool,
}

impl<'a> From<&'a [ETag]> for ExpectedFile<'a> {
    fn from(contents: &'a [ETag]) -> Self {
        Self { contents, large: None, is_removed: false }
    }
}

/// The outcome of the change of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum InstallResult {
    /// Done.
    Done,
    /// An external edit was found; it stays, and nothing was changed.
    ConflictingEdit,
}

/// A name in an open directory, and the file that has it.
pub(super) struct DirectorySlot<'a> {
    pub(super) parent: OwnedFd,
    name: &'a str,
    file: Option<(OwnedFd, sys::Stat)>,
}

impl DirectorySlot<'_> {
    /// The stat of the file when the slot was opened.
    pub(super) fn before(&self) -> Option<sys::Stat> {
        self.file.as_ref().map(|(_, stat)| *stat)
    }
    /// Closes the file while it still has a name, so that its last unlink frees the blocks.
    fn release(&mut self) {
        self.file = None;
    }
}

/// A file under a temporary name; removed on drop.
pub(super) struct TempFile<'t> {
    tree: &'t WorkTree,
    pub(super) name: String,
    pub(super) has_name: bool,
    /// Approximate disk space freed by its removal.
    bytes: u64,
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if self.has_name {
            self.tree.reclaimer.unlink(&self.tree.temporary, std::mem::take(&mut self.name), self.bytes);
        }
    }
}

impl WorkTree {
    /// Installs a file atomically over whatever exists, and creates missing directories. A replaced
    /// file passes on owner and permission bits; a new file belongs to the owner of its directory.
    /// Nothing is flushed: the log has the content.
    ///
    /// # Errors
    /// `Disk` with the system error; the old file still exists, complete.
    pub fn install(&self, install: &FileInstall<'_>) -> TreeResult<()> {
        let slot = self.prepare_slot(install.path)?;
        let outcome = self.write_temp(install, &slot, true).and_then(|mut new| new.rename(&slot, RenameFlags::empty()));
        self.close_slot(slot);
        outcome.map_err(|error| disk(install.path, error))
    }

    /// Installs a file over an `expected` one, or over nothing.
    ///
    /// # Errors
    /// As [`WorkTree::install`].
    pub fn replace(&self, install: &FileInstall<'_>, expected: ExpectedFile<'_>) -> TreeResult<InstallResult> {
        for _ in 0..MAX_ATTEMPTS {
            let mut slot = self.prepare_slot(install.path)?;
            let is_new = slot.file.is_none();
            let outcome = match self.is_expected_slot(&slot, expected) {
                Ok(true) => {
                    self.write_temp(install, &slot, !expected.is_removed).and_then(|mut new| match slot.before() {
                        None => new.rename(&slot, RenameFlags::NOREPLACE).map(|()| InstallResult::Done),
                        Some(before) => new.exchange(&mut slot, &before, expected),
                    })
                }
                Ok(false) => Ok(InstallResult::ConflictingEdit),
                Err(error) => Err(error),
            };
            self.close_slot(slot);
            match outcome {
                // The name was created or removed since the check.
                Err(Errno::EXIST) if is_new => {}
                Err(Errno::NOENT) if !is_new => {}
                outcome => return outcome.map_err(|error| disk(install.path, error)),
            }
        }
        Err(disk(install.path, Errno::AGAIN))
    }

    /// Removes a file or link.
    pub fn remove(&self, path: &TreePath) -> TreeResult<()> {
        self.check_fail_point(FailPoint::TreeRemove).map_err(|error| disk(path, error))?;
        self.unlink(path)
    }

    /// The same for a file outside the served tree, without fail point.
    pub(crate) fn unlink(&self, path: &TreePath) -> TreeResult<()> {
        let slot = self.open_slot(path)?;
        let outcome = sys::unlinkat(&slot.parent, slot.name, AtFlags::empty());
        self.close_slot(slot);
        outcome.map_err(|error| disk(path, error))
    }

    /// Removes a file or link if it is `expected`.
    pub fn remove_expected(&self, path: &TreePath, expected: ExpectedFile<'_>) -> TreeResult<InstallResult> {
        let mut slot = self.open_slot(path)?;
        let outcome = match (slot.before(), self.is_expected_slot(&slot, expected)) {
            (None, _) => Err(Errno::NOENT),
            (Some(before), Ok(true)) => self
                .check_fail_point(FailPoint::TreeRemove)
                .and_then(|()| self.unlink_expected(&mut slot, &before, expected)),
            (Some(_), Ok(false)) => Ok(InstallResult::ConflictingEdit),
            (Some(_), Err(error)) => Err(error),
        };
        self.close_slot(slot);
        outcome.map_err(|error| disk(path, error))
    }

    fn unlink_expected(
        &self,
        slot: &mut DirectorySlot<'_>,
        before: &sys::Stat,
        expected: ExpectedFile<'_>,
    ) -> rustix::io::Result<InstallResult> {
        let mut old = TempFile { tree: self, name: self.temporary_name(), has_name: false, bytes: size(before) };
        rename_to_free((&slot.parent, slot.name), (&self.temporary, &*old.name))?;
        old.has_name = true;
        if old.is_checked_file(&old.stat()?, before, expected) {
            slot.release();
            return Ok(InstallResult::Done);
        }
        match old.rename(slot, RenameFlags::NOREPLACE) {
            // It was created again at this moment: the newest edit wins.
            Ok(()) | Err(Errno::EXIST) => Ok(InstallResult::ConflictingEdit),
            Err(error) => Err(error),
        }
    }

    pub(super) fn open_slot<'a>(&self, path: &'a TreePath) -> TreeResult<DirectorySlot<'a>> {
        let (parent, name) = self.parent_of(path)?;
        let file = match sys::openat(&parent, name, PATH_ONLY, Mode::empty()) {
            Ok(file) => {
                let stat = sys::fstat(&file).map_err(|error| disk(path, error))?;
                Some((file, stat))
            }
            Err(Errno::NOENT) => None,
            Err(error) => return Err(disk(path, error)),
        };
        Ok(DirectorySlot { parent, name, file })
    }

    /// The slot of a path; creates missing directories above it.
    fn prepare_slot<'a>(&self, path: &'a TreePath) -> TreeResult<DirectorySlot<'a>> {
        match self.open_slot(path) {
            Err(error) if error.is_missing() || error.is_type_conflict() => {
                self.make_parents(path)?;
                self.open_slot(path)
            }
            slot => slot,
        }
    }

    fn close_slot(&self, slot: DirectorySlot<'_>) {
        self.reclaimer.close(OpenHandle::from(slot.file.map(|(file, _)| file)));
    }

    /// Whether the slot is empty or its file is expected.
    fn is_expected_slot(&self, slot: &DirectorySlot<'_>, expected: ExpectedFile<'_>) -> rustix::io::Result<bool> {
        match &slot.file {
            Some((_, stat)) => is_expected(&slot.parent, slot.name, stat, expected),
            None => Ok(true),
        }
    }

    pub(super) fn temporary_name(&self) -> String {
        format!("{:x}", self.counter.fetch_add(1, Ordering::Relaxed))
    }

    /// A written temporary file: the staged one, or a new one.
    fn write_temp(
        &self,
        install: &FileInstall<'_>,
        slot: &DirectorySlot<'_>,
        inherit: bool,
    ) -> rustix::io::Result<TempFile<'_>> {
        self.check_fail_point(FailPoint::TreeWrite)?;
        let new = match self.staged.take(install, slot).filter(|_| inherit) {
            Some(name) => self.temp_file(name),
            None => self.create_temp(install, slot, inherit)?,
        };
        self.check_fail_point(FailPoint::TreeRename)?;
        Ok(new)
    }

    pub(super) fn create_temp(
        &self,
        install: &FileInstall<'_>,
        slot: &DirectorySlot<'_>,
        inherit: bool,
    ) -> rustix::io::Result<TempFile<'_>> {
        let new = if install.kind == FileKind::Symlink {
            let link = self.temp_file(self.temporary_name());
            sys::symlinkat(OsStr::from_bytes(install.content), &self.temporary, &*link.name)?;
            link
        } else {
            let (new, file) = self.create_empty()?;
            reserve(&file, install.content.len()).map_err(to_errno)?;
            (&file).write_all(install.content).map_err(to_errno)?;
            set_attributes(&file, install, slot)?;
            if let Some((before, _)) = slot.file.as_ref().filter(|_| inherit) {
                inherit_xattrs(&file, before)?;
            }
            new
        };
        if self.is_root_user {
            self.set_new_owner(&new, install, slot)?;
        }
        Ok(new)
    }

    /// An empty temporary file.
    fn create_empty(&self) -> rustix::io::Result<(TempFile<'_>, File)> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if let Some(pooled) = self.temp_pool.take().map(|name| self.temp_file(name))
            && let Ok(file) = sys::openat(&self.temporary, &*pooled.name, flags, Mode::empty())
        {
            return Ok((pooled, file.into()));
        }
        let new = self.temp_file(self.temporary_name());
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        let file = sys::openat(&self.temporary, &*new.name, flags, Mode::from_raw_mode(0o600))?;
        Ok((new, file.into()))
    }

    const fn temp_file(&self, name: String) -> TempFile<'_> {
        TempFile { tree: self, name, has_name: true, bytes: 0 }
    }

    fn set_new_owner(
        &self,
        new: &TempFile<'_>,
        install: &FileInstall<'_>,
        slot: &DirectorySlot<'_>,
    ) -> rustix::io::Result<()> {
        let owner = match (install.attributes.owner, &slot.file) {
            (Some(owner), _) => owner,
            (None, Some((_, before))) => (before.st_uid, before.st_gid),
            (None, None) => sys::fstat(&slot.parent).map(|stat| (stat.st_uid, stat.st_gid))?,
        };
        if owner == (0, 0) {
            return Ok(());
        }
        let (uid, gid) = (Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)));
        sys::chownat(&self.temporary, &*new.name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Sets mode and times of a new file; the mode is that of the replaced file unless given.
fn set_attributes(file: &File, install: &FileInstall<'_>, slot: &DirectorySlot<'_>) -> rustix::io::Result<()> {
    let before = slot.file.as_ref().and_then(|(_, stat)| to_stat(stat));
    let preserved_mode = before.filter(|stat| stat.kind == StatKind::File).map(|stat| stat.preserved_mode());
    let mode = install.attributes.mode.or(preserved_mode).unwrap_or(0o644) & 0o7777;
    sys::fchmod(file, Mode::from_raw_mode(with_execute_bits(mode, install.kind)))?;
    match install.attributes {
        DiskAttributes { accessed: None, modified: None, .. } => Ok(()),
        DiskAttributes { accessed, modified, .. } => sys::futimens(file, &times(accessed, modified)),
    }
}

impl TempFile<'_> {
    fn stat(&self) -> rustix::io::Result<sys::Stat> {
        sys::statat(&self.tree.temporary, &*self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn rename(&mut self, slot: &DirectorySlot<'_>, flags: RenameFlags) -> rustix::io::Result<()> {
        if flags == RenameFlags::NOREPLACE {
            rename_to_free((&self.tree.temporary, &*self.name), (&slot.parent, slot.name))?;
        } else {
            sys::renameat_with(&self.tree.temporary, &*self.name, &slot.parent, slot.name, flags)?;
        }
        self.has_name = flags == RenameFlags::EXCHANGE;
        Ok(())
    }

    /// Whether this is the file that was checked before the rename, or an expected one. Unreadable
    /// files are not.
    fn is_checked_file(&self, now: &sys::Stat, before: &sys::Stat, expected: ExpectedFile<'_>) -> bool {
        is_same(now, before) || is_expected(&self.tree.temporary, &self.name, now, expected).unwrap_or(false)
    }

    /// Exchanges the temporary file with the existing one, and back if that is not the checked one.
    fn exchange(
        &mut self,
        slot: &mut DirectorySlot<'_>,
        before: &sys::Stat,
        expected: ExpectedFile<'_>,
    ) -> rustix::io::Result<InstallResult> {
        let mut installed = self.stat()?;
        match self.rename(slot, RenameFlags::EXCHANGE) {
            // Not supported here: the time between check and rename is unprotected.
            Err(error) if is_unsupported(error) => {
                return self.rename(slot, RenameFlags::empty()).map(|()| InstallResult::Done);
            }
            outcome => outcome?,
        }
        let mut displaced = self.stat()?;
        if self.is_checked_file(&displaced, before, expected) {
            self.bytes = size(&displaced);
            slot.release();
            return Ok(InstallResult::Done);
        }
        loop {
            self.rename(slot, RenameFlags::EXCHANGE)?;
            let next = self.stat()?;
            if is_same(&next, &installed) {
                return Ok(InstallResult::ConflictingEdit);
            }
            // Edited once more in between: the newest edit wins.
            (installed, displaced) = (displaced, next);
        }
    }
}

/// Whether a file or link is expected.
fn is_expected(
    directory: &OwnedFd,
    name: &str,
    stat: &sys::Stat,
    expected: ExpectedFile<'_>,
) -> rustix::io::Result<bool> {
    let content = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => return Err(Errno::ISDIR),
        FileType::Symlink => sys::readlinkat(directory, name, Vec::new())?.into_bytes(),
        FileType::RegularFile => {
            if let Some(large) = to_stat(stat).and_then(|stat| stat.large_file()) {
                return Ok(expected.large == Some(large));
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(sys::openat(directory, name, flags, Mode::empty())?);
            let etag = etag_of(&file, size(&sys::fstat(&file)?)).map_err(to_errno)?;
            return Ok(etag.is_some_and(|etag| expected.contents.contains(&etag)));
        }
        _ => return Ok(false),
    };
    Ok(expected.contents.contains(&ETag::from_content(&content)))
}

/// The hash of a file of `size` bytes, read in blocks: memory for all of it would take as long as
/// the rest. None when the length differs, because another process is writing.
fn etag_of(mut file: &File, size: u64) -> std::io::Result<Option<ETag>> {
    let mut block = vec![0; usize::try_from(size).unwrap_or(READ_BLOCK_BYTES).clamp(1, READ_BLOCK_BYTES)];
    let (mut hasher, mut remaining) = (ETagHasher::with_length(size), size);
    loop {
        let length = match file.read(&mut block) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let is_end = length == 0;
        match remaining.checked_sub(length as u64) {
            Some(0) if is_end => return Ok(Some(hasher.finish())),
            Some(next) if !is_end => remaining = next,
            Some(_) | None => return Ok(None),
        }
        hasher.update(&block[..length]);
    }
}

/// Whether a file is the checked one, unmodified since. A rename changes ctime only.
fn is_same(now: &sys::Stat, before: &sys::Stat) -> bool {
    let identity = |stat: &sys::Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    identity(now) == identity(before)
}

fn size(stat: &sys::Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

const fn with_execute_bits(mode: u32, kind: FileKind) -> u32 {
    match kind {
        // Everyone who can read an executable file may run it, as after a git checkout.
        FileKind::Executable => mode | ((mode & 0o444) >> 2),
        FileKind::Regular | FileKind::Symlink => mode & !0o111,
    }
}

#[cfg(test)]
mod tests;
