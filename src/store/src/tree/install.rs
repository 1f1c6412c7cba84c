//! Putting files in place and taking them away.
//!
//! One rule: a file that goes is looked at with its name taken already. Between a look and a rename anybody may have written, so
//! that what is in the way is exchanged (renameat2(2)), looked at, and put back when it is not what it should be. What was not
//! expected is somebody's edit and stays; programs that hold it open write on into the same file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use rustix::fs::{self as sys, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use svcfs_base::{DiskAttributes, ETag, ETagHasher, FileKind, LargeFile, TreePath};

use super::extended::inherit;
use super::stat::{StatKind, times, to_stat};
use super::{TreeResult, WorkTree, disk, reserve, to_errno};
use crate::FailPoint;
use crate::deferred_unlink::{HOLD, OpenHandle};
use crate::rename::{is_unsupported, rename_to_free};

/// How often a name is looked at anew that somebody makes and takes away all the time.
const MAX_ATTEMPTS: usize = 64;

/// So many bytes of a file are read at once.
const PIECE: usize = 256 << 10;

/// A file to put in place.
#[derive(Debug, Clone)]
pub struct FileInstall<'a> {
    /// Where.
    pub path: &'a TreePath,
    /// The whole content (of a link: its target).
    pub content: &'a [u8],
    /// What kind of file.
    pub kind: FileKind,
    /// What it gets beside its content.
    pub attributes: DiskAttributes,
}

/// What may stand where a file is put or taken away; anything else was put there by somebody else.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedFile<'a> {
    /// A file or link of one of these contents.
    pub contents: &'a [ETag],
    /// This file, too large for any version.
    pub large: Option<LargeFile>,
    /// It was removed before what is put here now, which inherits nothing of it. What is put then says its own mode and owner.
    pub is_removed: bool,
}

impl<'a> From<&'a [ETag]> for ExpectedFile<'a> {
    fn from(contents: &'a [ETag]) -> Self {
        Self { contents, large: None, is_removed: false }
    }
}

/// What became of a change of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum InstallResult {
    /// It is done.
    Done,
    /// Somebody edited what stood there; the edit stays, and nothing is done.
    ConflictingEdit,
}

/// A name in a directory that is open, and the file that has it.
pub(super) struct DirectorySlot<'a> {
    pub(super) parent: OwnedFd,
    name: &'a str,
    file: Option<(OwnedFd, sys::Stat)>,
}

impl DirectorySlot<'_> {
    /// What the file was when it was looked at.
    pub(super) fn before(&self) -> Option<sys::Stat> {
        self.file.as_ref().map(|(_, stat)| *stat)
    }
    /// Holds the file no longer, while it has a name yet: whoever comes later frees its blocks.
    fn release(&mut self) {
        self.file = None;
    }
}

/// A file in our hands, under a name of our own; taken away when this is dropped.
pub(super) struct TempFile<'t> {
    tree: &'t WorkTree,
    pub(super) name: String,
    pub(super) has_name: bool,
    /// About as many bytes of the disk are free again without it.
    bytes: u64,
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if self.has_name {
            self.tree.disposal.unlink(&self.tree.temporary, std::mem::take(&mut self.name), self.bytes);
        }
    }
}

impl WorkTree {
    /// Puts a file in place atomically, whatever stands there, making directories above it as needed. What was there keeps its
    /// owner and permission bits; a new file belongs to the owner of its directory. Nothing is flushed: the log has the bytes.
    ///
    /// # Errors
    /// `Disk` with what the system said; the old file is then still there, whole.
    pub fn install(&self, install: &FileInstall<'_>) -> TreeResult<()> {
        let spot = self.room(install.path)?;
        let done = self.written(install, &spot, true).and_then(|mut new| new.rename(&spot, RenameFlags::empty()));
        self.let_go(spot);
        done.map_err(|error| disk(install.path, error))
    }

    /// The same over what is `known`, or over nothing.
    ///
    /// # Errors
    /// As [`WorkTree::install`].
    pub fn replace(&self, install: &FileInstall<'_>, known: ExpectedFile<'_>) -> TreeResult<InstallResult> {
        for _ in 0..MAX_ATTEMPTS {
            let mut spot = self.room(install.path)?;
            let is_over_nothing = spot.file.is_none();
            let done = match self.is_one_of(&spot, known) {
                Ok(true) => self.written(install, &spot, !known.is_removed).and_then(|mut new| match spot.before() {
                    None => new.rename(&spot, RenameFlags::NOREPLACE).map(|()| InstallResult::Done),
                    Some(before) => new.exchange(&mut spot, &before, known),
                }),
                Ok(false) => Ok(InstallResult::ConflictingEdit),
                Err(error) => Err(error),
            };
            self.let_go(spot);
            match done {
                // Made, or taken away, since it was looked at.
                Err(Errno::EXIST) if is_over_nothing => {}
                Err(Errno::NOENT) if !is_over_nothing => {}
                done => return done.map_err(|error| disk(install.path, error)),
            }
        }
        Err(disk(install.path, Errno::AGAIN))
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn remove(&self, path: &TreePath) -> TreeResult<()> {
        self.fails_at(FailPoint::TreeRemove).map_err(|error| disk(path, error))?;
        self.unlink(path)
    }

    /// The same of a file that is not part of the tree itself.
    pub(crate) fn unlink(&self, path: &TreePath) -> TreeResult<()> {
        let spot = self.spot(path)?;
        let done = sys::unlinkat(&spot.parent, spot.name, AtFlags::empty());
        self.let_go(spot);
        done.map_err(|error| disk(path, error))
    }

    /// Removes a file or link that is `known`.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn remove_expected(&self, path: &TreePath, known: ExpectedFile<'_>) -> TreeResult<InstallResult> {
        let mut spot = self.spot(path)?;
        let done = match (spot.before(), self.is_one_of(&spot, known)) {
            (None, _) => Err(Errno::NOENT),
            (Some(before), Ok(true)) => {
                self.fails_at(FailPoint::TreeRemove).and_then(|()| self.take_away(&mut spot, &before, known))
            }
            (Some(_), Ok(false)) => Ok(InstallResult::ConflictingEdit),
            (Some(_), Err(error)) => Err(error),
        };
        self.let_go(spot);
        done.map_err(|error| disk(path, error))
    }

    fn take_away(
        &self,
        spot: &mut DirectorySlot<'_>,
        before: &sys::Stat,
        known: ExpectedFile<'_>,
    ) -> rustix::io::Result<InstallResult> {
        let mut old = TempFile { tree: self, name: self.temporary_name(), has_name: false, bytes: size(before) };
        rename_to_free((&spot.parent, spot.name), (&self.temporary, &*old.name))?;
        old.has_name = true;
        if old.is_what_was_seen(&old.stat()?, before, known) {
            spot.release();
            return Ok(InstallResult::Done);
        }
        match old.rename(spot, RenameFlags::NOREPLACE) {
            // Whoever wrote it anew in this moment has the last word.
            Ok(()) | Err(Errno::EXIST) => Ok(InstallResult::ConflictingEdit),
            Err(error) => Err(error),
        }
    }

    pub(super) fn spot<'a>(&self, path: &'a TreePath) -> TreeResult<DirectorySlot<'a>> {
        let (parent, name) = self.parent_of(path)?;
        let file = match sys::openat(&parent, name, HOLD, Mode::empty()) {
            Ok(file) => {
                let stat = sys::fstat(&file).map_err(|error| disk(path, error))?;
                Some((file, stat))
            }
            Err(Errno::NOENT) => None,
            Err(error) => return Err(disk(path, error)),
        };
        Ok(DirectorySlot { parent, name, file })
    }

    /// The same, with the directories above it made where they are missing.
    fn room<'a>(&self, path: &'a TreePath) -> TreeResult<DirectorySlot<'a>> {
        match self.spot(path) {
            Err(error) if error.is_missing() || error.is_type_conflict() => {
                self.make_parents(path)?;
                self.spot(path)
            }
            found => found,
        }
    }

    fn let_go(&self, spot: DirectorySlot<'_>) {
        self.disposal.of(OpenHandle::from(spot.file.map(|(file, _)| file)));
    }

    /// Whether what stands there is nothing, or known.
    fn is_one_of(&self, spot: &DirectorySlot<'_>, known: ExpectedFile<'_>) -> rustix::io::Result<bool> {
        match &spot.file {
            Some((_, stat)) => is_known(&spot.parent, spot.name, stat, known),
            None => Ok(true),
        }
    }

    pub(super) fn temporary_name(&self) -> String {
        format!("{:x}", self.counter.fetch_add(1, Ordering::Relaxed))
    }

    /// A file under a name of our own, written now if it was not before.
    fn written(
        &self,
        install: &FileInstall<'_>,
        spot: &DirectorySlot<'_>,
        inherits: bool,
    ) -> rustix::io::Result<TempFile<'_>> {
        self.fails_at(FailPoint::TreeWrite)?;
        let new = match self.ready.take(install, spot).filter(|_| inherits) {
            Some(name) => self.own(name),
            None => self.made(install, spot, inherits)?,
        };
        self.fails_at(FailPoint::TreeRename)?;
        Ok(new)
    }

    pub(super) fn made(
        &self,
        install: &FileInstall<'_>,
        spot: &DirectorySlot<'_>,
        inherits: bool,
    ) -> rustix::io::Result<TempFile<'_>> {
        let new = if install.kind == FileKind::Symlink {
            let link = self.own(self.temporary_name());
            sys::symlinkat(OsStr::from_bytes(install.content), &self.temporary, &*link.name)?;
            link
        } else {
            let (new, file) = self.empty()?;
            reserve(&file, install.content.len()).map_err(to_errno)?;
            (&file).write_all(install.content).map_err(to_errno)?;
            set_attributes(&file, install, spot)?;
            if let Some((before, _)) = spot.file.as_ref().filter(|_| inherits) {
                inherit(&file, before)?;
            }
            new
        };
        if self.is_root_user {
            self.set_new_owner(&new, install, spot)?;
        }
        Ok(new)
    }

    /// An empty file of our own.
    fn empty(&self) -> rustix::io::Result<(TempFile<'_>, File)> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if let Some(blank) = self.blanks.take().map(|name| self.own(name))
            && let Ok(file) = sys::openat(&self.temporary, &*blank.name, flags, Mode::empty())
        {
            return Ok((blank, file.into()));
        }
        let new = self.own(self.temporary_name());
        let flags = flags | OFlags::CREATE | OFlags::EXCL;
        let file = sys::openat(&self.temporary, &*new.name, flags, Mode::from_raw_mode(0o600))?;
        Ok((new, file.into()))
    }

    const fn own(&self, name: String) -> TempFile<'_> {
        TempFile { tree: self, name, has_name: true, bytes: 0 }
    }

    fn set_new_owner(
        &self,
        new: &TempFile<'_>,
        install: &FileInstall<'_>,
        spot: &DirectorySlot<'_>,
    ) -> rustix::io::Result<()> {
        let owner = match (install.attributes.owner, &spot.file) {
            (Some(owner), _) => owner,
            (None, Some((_, before))) => (before.st_uid, before.st_gid),
            (None, None) => sys::fstat(&spot.parent).map(|stat| (stat.st_uid, stat.st_gid))?,
        };
        if owner == (0, 0) {
            return Ok(());
        }
        let (uid, gid) = (Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)));
        sys::chownat(&self.temporary, &*new.name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Gives a new file its mode, which is that of the file before it unless said, and its time.
fn set_attributes(file: &File, install: &FileInstall<'_>, spot: &DirectorySlot<'_>) -> rustix::io::Result<()> {
    let before = spot.file.as_ref().and_then(|(_, stat)| to_stat(stat));
    let kept = before.filter(|stat| stat.kind == StatKind::File).map(|stat| stat.preserved_mode());
    let wanted = install.attributes.mode.or(kept).unwrap_or(0o644) & 0o7777;
    sys::fchmod(file, Mode::from_raw_mode(with_execute_bits(wanted, install.kind)))?;
    match install.attributes {
        DiskAttributes { accessed: None, modified: None, .. } => Ok(()),
        DiskAttributes { accessed, modified, .. } => sys::futimens(file, &times(accessed, modified)),
    }
}

impl TempFile<'_> {
    fn stat(&self) -> rustix::io::Result<sys::Stat> {
        sys::statat(&self.tree.temporary, &*self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn rename(&mut self, spot: &DirectorySlot<'_>, flags: RenameFlags) -> rustix::io::Result<()> {
        if flags == RenameFlags::NOREPLACE {
            rename_to_free((&self.tree.temporary, &*self.name), (&spot.parent, spot.name))?;
        } else {
            sys::renameat_with(&self.tree.temporary, &*self.name, &spot.parent, spot.name, flags)?;
        }
        self.has_name = flags == RenameFlags::EXCHANGE;
        Ok(())
    }

    /// Whether this is the file that was looked at before it was renamed, or one like it. What cannot be read is not.
    fn is_what_was_seen(&self, now: &sys::Stat, before: &sys::Stat, known: ExpectedFile<'_>) -> bool {
        is_same(now, before) || is_known(&self.tree.temporary, &self.name, now, known).unwrap_or(false)
    }

    /// Changes places with a file, which is in our hands then, and is given its name back when it is not the one that was looked at.
    fn exchange(
        &mut self,
        spot: &mut DirectorySlot<'_>,
        before: &sys::Stat,
        known: ExpectedFile<'_>,
    ) -> rustix::io::Result<InstallResult> {
        let mut placed = self.stat()?;
        match self.rename(spot, RenameFlags::EXCHANGE) {
            // This disk cannot: nobody watches the moment between the look and the rename.
            Err(error) if is_unsupported(error) => {
                return self.rename(spot, RenameFlags::empty()).map(|()| InstallResult::Done);
            }
            outcome => outcome?,
        }
        let mut taken = self.stat()?;
        if self.is_what_was_seen(&taken, before, known) {
            self.bytes = size(&taken);
            spot.release();
            return Ok(InstallResult::Done);
        }
        loop {
            self.rename(spot, RenameFlags::EXCHANGE)?;
            let next = self.stat()?;
            if is_same(&next, &placed) {
                return Ok(InstallResult::ConflictingEdit);
            }
            // Edited once more in between: the newest has the last word.
            (placed, taken) = (taken, next);
        }
    }
}

/// Whether a file or link is one of those.
fn is_known(directory: &OwnedFd, name: &str, stat: &sys::Stat, known: ExpectedFile<'_>) -> rustix::io::Result<bool> {
    let content = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => return Err(Errno::ISDIR),
        FileType::Symlink => sys::readlinkat(directory, name, Vec::new())?.into_bytes(),
        FileType::RegularFile => {
            if let Some(large) = to_stat(stat).and_then(|stat| stat.large_file()) {
                return Ok(known.large == Some(large));
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(sys::openat(directory, name, flags, Mode::empty())?);
            let etag = etag_of(&file, size(&sys::fstat(&file)?)).map_err(to_errno)?;
            return Ok(etag.is_some_and(|etag| known.contents.contains(&etag)));
        }
        _ => return Ok(false),
    };
    Ok(known.contents.contains(&ETag::from_content(&content)))
}

/// The hash of the so many bytes that a file has, read a piece at a time: room for all of them takes as long as the rest. None where it has more
/// or fewer, because somebody is writing into it.
fn etag_of(mut file: &File, size: u64) -> std::io::Result<Option<ETag>> {
    let mut piece = vec![0; usize::try_from(size).unwrap_or(PIECE).clamp(1, PIECE)];
    let (mut hashing, mut left) = (ETagHasher::with_length(size), size);
    loop {
        let length = match file.read(&mut piece) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let is_end = length == 0;
        match left.checked_sub(length as u64) {
            Some(0) if is_end => return Ok(Some(hashing.finish())),
            Some(rest) if !is_end => left = rest,
            Some(_) | None => return Ok(None),
        }
        hashing.update(&piece[..length]);
    }
}

/// Whether a file is still the one that was looked at, and nobody wrote to it since. A rename changes the time of the last change
/// of attributes, and no other.
fn is_same(now: &sys::Stat, before: &sys::Stat) -> bool {
    let identity = |stat: &sys::Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    identity(now) == identity(before)
}

fn size(stat: &sys::Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

const fn with_execute_bits(mode: u32, kind: FileKind) -> u32 {
    match kind {
        // Whoever may read an executable file may run it, as git does on checkout.
        FileKind::Executable => mode | ((mode & 0o444) >> 2),
        FileKind::Regular | FileKind::Symlink => mode & !0o111,
    }
}

#[cfg(test)]
mod tests;
