//! Files too large to be recorded: on the disk of the root, and nobody's but the disk's.
//!
//! One rule: a new one is written under a name of our own and put in place whole; one that is in place is changed there.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{self as sys, AtFlags, FallocateFlags, Gid, Mode, OFlags, RenameFlags, SeekFrom, Uid, XattrFlags};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use svcfs_base::{DiskAttributes, LargeFile, MAX_FILE_BYTES, TreePath};

use super::stat::{times, to_any_stat};
use super::writeback::WritebackHint;
use super::{FileStat, StatKind, TreeResult, WorkTree, blocks, disk};
use crate::StoreError;
use crate::deferred_unlink::{HOLD, OpenHandle};

/// Bits that a file loses when its content changes.
const PRIVILEGES: u32 = 0o6000;

/// A file that is open, wherever its name goes meanwhile.
#[derive(Debug)]
pub struct OpenFile(File);

/// A file that is written under a name of our own; taken away when this is dropped.
#[derive(Debug)]
pub struct LargeFileStaging {
    file: OpenFile,
    directory: Arc<OwnedFd>,
    name: Option<String>,
    writing_back: WritebackHint,
}

impl FileStat {
    /// Whether it is a file too large to be recorded.
    pub const fn is_large(&self) -> bool {
        matches!(self.kind, StatKind::File) && self.size > MAX_FILE_BYTES as u64
    }

    /// What tells its contents apart, of such a file.
    pub fn large_file(&self) -> Option<LargeFile> {
        self.is_large().then_some(LargeFile { size: self.size, modified: self.modified })
    }
}

impl OpenFile {
    /// What the disk says of it; 0 names where it was removed.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn stat(&self) -> TreeResult<FileStat> {
        let stat = sys::fstat(&self.0).map_err(io::Error::from)?;
        Ok(to_any_stat(&stat).ok_or(io::ErrorKind::InvalidData).map_err(io::Error::from)?)
    }

    /// Bytes at an offset; fewer at the end.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn read_at(&self, offset: u64, length: usize) -> TreeResult<Bytes> {
        Ok(read_up_to(&self.0, offset, length)?)
    }

    /// The same of what the system has in memory, fewer where it has not all of them: nobody waits for the disk. None when it has nothing,
    /// at the end, and on disks that cannot tell.
    pub fn read_cached(&self, offset: u64, length: usize) -> Option<Bytes> {
        let read = blocks::filled(length, |memory| {
            preadv2(&self.0, &mut [IoSliceMut::new(memory)], offset, ReadWriteFlags::NOWAIT)
        });
        read.ok().filter(|read| !read.is_empty())
    }

    /// Writes at an offset. Whoever was trusted with more (set-user-id, set-group-id) wrote something else.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> TreeResult<()> {
        let mode = self.stat()?.mode;
        if mode & PRIVILEGES != 0 {
            sys::fchmod(&self.0, Mode::from_raw_mode(mode & !PRIVILEGES)).map_err(io::Error::from)?;
        }
        Ok(self.0.write_all_at(data, offset)?)
    }

    /// Gives it another length; what is new is zeros and takes no room.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn resize(&self, size: u64) -> TreeResult<()> {
        Ok(self.0.set_len(size)?)
    }

    /// Makes a part zeros, which takes its room back.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn punch_hole(&self, offset: u64, length: u64) -> TreeResult<()> {
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(sys::fallocate(&self.0, flags, offset, length).map_err(io::Error::from)?)
    }

    /// Where the next data, or the next hole, begins; none behind the last.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn seek(&self, offset: u64, to_hole: bool) -> TreeResult<Option<u64>> {
        let to = if to_hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        match sys::seek(&self.0, to) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Sets an extended attribute, whether it is there or not.
    pub(super) fn set_extended(&self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        sys::fsetxattr(&self.0, name, value, XattrFlags::empty())
    }

    /// Takes an extended attribute away.
    pub(super) fn remove_extended(&self, name: &[u8]) -> rustix::io::Result<()> {
        sys::fremovexattr(&self.0, name)
    }

    /// Brings its bytes, and its name where it has one, to the disk.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn flush(&self) -> TreeResult<()> {
        Ok(self.0.sync_all()?)
    }
}

impl LargeFileStaging {
    /// The file itself.
    pub const fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Writes at an offset. The disk begins with what is written while more comes, so that a flush at the end has less to wait for.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> TreeResult<()> {
        self.file.write_at(offset, data)?;
        self.writing_back.wrote(&self.file.0, data.len());
        Ok(())
    }
}

impl Drop for LargeFileStaging {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // A leftover is swept at the next opening.
            let _ = sys::unlinkat(&self.directory, &**name, AtFlags::empty());
        }
    }
}

impl WorkTree {
    /// Begins an empty file that is nowhere in the tree.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn stage_large(&self) -> TreeResult<LargeFileStaging> {
        let directory = Arc::clone(&self.temporary);
        let name = self.temporary_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = sys::openat(&directory, &*name, flags, Mode::from_raw_mode(0o600)).map_err(io::Error::from)?;
        let writing_back = WritebackHint::by(&self.helper);
        Ok(LargeFileStaging { file: OpenFile(file.into()), directory, name: Some(name), writing_back })
    }

    /// Puts a draft in place over whatever file stands there, with what it gets beside its content.
    ///
    /// # Errors
    /// `Disk` with what the system said; the draft is as it was then.
    pub fn install_large(
        &self,
        draft: &mut LargeFileStaging,
        path: &TreePath,
        attributes: DiskAttributes,
    ) -> TreeResult<OpenFile> {
        self.make_parents(path)?;
        let (parent, place) = self.parent_of(path)?;
        // To free the blocks of as large a file takes a while.
        let old = sys::openat(&parent, place, HOLD, Mode::empty()).ok();
        let done = || -> rustix::io::Result<File> {
            let file = &draft.file.0;
            if let Some((uid, gid)) = attributes.owner.filter(|_| self.is_root_user) {
                sys::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            }
            // After the owner, whose change takes bits away.
            if let Some(mode) = attributes.mode {
                sys::fchmod(file, Mode::from_raw_mode(mode))?;
            }
            sys::futimens(file, &times(attributes.accessed, attributes.modified))?;
            let placed = file.try_clone().map_err(super::to_errno)?;
            if let Some(name) = &draft.name {
                sys::renameat_with(&draft.directory, &**name, &parent, place, RenameFlags::empty())?;
            }
            Ok(placed)
        };
        let placed = done().map_err(|error| disk(path, error))?;
        self.disposal.of(OpenHandle::from(old));
        draft.name = None;
        Ok(OpenFile(placed))
    }

    /// Opens a file to read, whatever becomes of its name.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn open_to_read(&self, path: &TreePath) -> TreeResult<OpenFile> {
        Ok(OpenFile(self.open_file(path)?))
    }

    /// Opens a file to be written where it is, and to read only where the disk allows no more.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn open_to_write(&self, path: &TreePath) -> TreeResult<OpenFile> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = self.open_at(path, OFlags::RDWR | flags);
        match opened {
            Err(StoreError::Disk { source, .. }) if is_for_readers(source.kind()) => self.open_to_read(path),
            outcome => Ok(OpenFile(outcome?.into())),
        }
    }
}

/// Whether what was refused to a writer may be granted to a reader.
const fn is_for_readers(refusal: io::ErrorKind) -> bool {
    use io::ErrorKind as E;
    matches!(refusal, E::PermissionDenied | E::ReadOnlyFilesystem | E::ExecutableFileBusy)
}

/// Bytes of a file at an offset; fewer at its end.
pub(super) fn read_up_to(file: &File, offset: u64, length: usize) -> io::Result<Bytes> {
    blocks::filled(length, |memory| {
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut memory[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    })
}
