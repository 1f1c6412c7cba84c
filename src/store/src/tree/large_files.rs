//! Files too large to have versions: they exist on the disk of the root only.
//!
//! Invariant: a new one is written under a temporary name and installed complete; an existing one
//! is changed in place.

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
use crate::deferred_unlink::{OpenHandle, PATH_ONLY};

/// Set-user-id and set-group-id, which a file loses when its content changes.
const SETID_BITS: u32 = 0o6000;

/// An open file, independent of its name.
/// Methods fail with `StoreError::State` and the system error.
#[derive(Debug)]
pub struct OpenFile(File);

/// A file that is written under a temporary name; removed on drop.
#[derive(Debug)]
pub struct LargeFileStaging {
    file: OpenFile,
    directory: Arc<OwnedFd>,
    name: Option<String>,
    writeback: WritebackHint,
}

impl FileStat {
    /// Whether it is a file too large to have versions.
    pub const fn is_large(&self) -> bool {
        matches!(self.kind, StatKind::File) && self.size > MAX_FILE_BYTES as u64
    }

    /// Size and modification time, which identify the content of such a file.
    pub fn large_file(&self) -> Option<LargeFile> {
        self.is_large().then_some(LargeFile { size: self.size, modified: self.modified })
    }
}

impl OpenFile {
    /// The stat of the file; 0 links when it was removed.
    pub fn stat(&self) -> TreeResult<FileStat> {
        let stat = sys::fstat(&self.0).map_err(io::Error::from)?;
        Ok(to_any_stat(&stat).ok_or(io::ErrorKind::InvalidData).map_err(io::Error::from)?)
    }

    /// Reads bytes at an offset; fewer at the end.
    pub fn read_at(&self, offset: u64, length: usize) -> TreeResult<Bytes> {
        Ok(read_up_to(&self.0, offset, length)?)
    }

    /// Reads from the page cache without waiting for the disk; fewer bytes where not all are
    /// cached. None when nothing is cached, at the end, and on file systems without `RWF_NOWAIT`.
    pub fn read_cached(&self, offset: u64, length: usize) -> Option<Bytes> {
        let read = blocks::read_block(length, |memory| {
            preadv2(&self.0, &mut [IoSliceMut::new(memory)], offset, ReadWriteFlags::NOWAIT)
        });
        read.ok().filter(|read| !read.is_empty())
    }

    /// Writes at an offset. Set-user-id and set-group-id are removed: they were granted to other
    /// content.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> TreeResult<()> {
        let mode = self.stat()?.mode;
        if mode & SETID_BITS != 0 {
            sys::fchmod(&self.0, Mode::from_raw_mode(mode & !SETID_BITS)).map_err(io::Error::from)?;
        }
        Ok(self.0.write_all_at(data, offset)?)
    }

    /// Sets the length; new space is zero and sparse.
    pub fn resize(&self, size: u64) -> TreeResult<()> {
        Ok(self.0.set_len(size)?)
    }

    /// Zeroes a range and frees its blocks.
    pub fn punch_hole(&self, offset: u64, length: u64) -> TreeResult<()> {
        if length == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(sys::fallocate(&self.0, flags, offset, length).map_err(io::Error::from)?)
    }

    /// The offset of the next data or the next hole; none after the last.
    pub fn seek(&self, offset: u64, to_hole: bool) -> TreeResult<Option<u64>> {
        let to = if to_hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        match sys::seek(&self.0, to) {
            Ok(position) => Ok(Some(position)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Sets an extended attribute, whether it exists or not.
    pub(super) fn set_extended(&self, name: &[u8], value: &[u8]) -> rustix::io::Result<()> {
        sys::fsetxattr(&self.0, name, value, XattrFlags::empty())
    }

    /// Removes an extended attribute.
    pub(super) fn remove_extended(&self, name: &[u8]) -> rustix::io::Result<()> {
        sys::fremovexattr(&self.0, name)
    }

    /// Flushes its content, and its name if it has one.
    pub fn flush(&self) -> TreeResult<()> {
        Ok(self.0.sync_all()?)
    }
}

impl LargeFileStaging {
    /// The file.
    pub const fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Writes at an offset. Writeback starts while more data arrives, so that the final flush is
    /// shorter.
    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> TreeResult<()> {
        self.file.write_at(offset, data)?;
        self.writeback.record(&self.file.0, data.len());
        Ok(())
    }
}

impl Drop for LargeFileStaging {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // A leftover is removed by the sweep at the next open.
            let _ = sys::unlinkat(&self.directory, &**name, AtFlags::empty());
        }
    }
}

impl WorkTree {
    /// Creates an empty file outside the served tree.
    pub fn stage_large(&self) -> TreeResult<LargeFileStaging> {
        let directory = Arc::clone(&self.temporary);
        let name = self.temporary_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = sys::openat(&directory, &*name, flags, Mode::from_raw_mode(0o600)).map_err(io::Error::from)?;
        let writeback = WritebackHint::new(&self.helper);
        Ok(LargeFileStaging { file: OpenFile(file.into()), directory, name: Some(name), writeback })
    }

    /// Installs a staged file over any existing file, with its attributes.
    ///
    /// # Errors
    /// `Disk` with the system error; the staged file is unchanged then.
    pub fn install_large(
        &self,
        staging: &mut LargeFileStaging,
        path: &TreePath,
        attributes: DiskAttributes,
    ) -> TreeResult<OpenFile> {
        self.make_parents(path)?;
        let (parent, name_in_parent) = self.parent_of(path)?;
        // Keeps the old file open: freeing its blocks takes a while and is left to the reclaimer.
        let replaced = sys::openat(&parent, name_in_parent, PATH_ONLY, Mode::empty()).ok();
        let install = || -> rustix::io::Result<File> {
            let file = &staging.file.0;
            if let Some((uid, gid)) = attributes.owner.filter(|_| self.is_root_user) {
                sys::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            }
            // After the owner, because chown clears bits.
            if let Some(mode) = attributes.mode {
                sys::fchmod(file, Mode::from_raw_mode(mode))?;
            }
            sys::futimens(file, &times(attributes.accessed, attributes.modified))?;
            let installed = file.try_clone().map_err(super::to_errno)?;
            if let Some(name) = &staging.name {
                sys::renameat_with(&staging.directory, &**name, &parent, name_in_parent, RenameFlags::empty())?;
            }
            Ok(installed)
        };
        let installed = install().map_err(|error| disk(path, error))?;
        self.reclaimer.close(OpenHandle::from(replaced));
        staging.name = None;
        Ok(OpenFile(installed))
    }

    /// Opens a file for reading, independent of its name.
    pub fn open_to_read(&self, path: &TreePath) -> TreeResult<OpenFile> {
        Ok(OpenFile(self.open_file(path)?))
    }

    /// Opens a file for writing in place, or for reading where the disk permits no more.
    pub fn open_to_write(&self, path: &TreePath) -> TreeResult<OpenFile> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = self.open_at(path, OFlags::RDWR | flags);
        match opened {
            Err(StoreError::Disk { source, .. }) if allows_reading(source.kind()) => self.open_to_read(path),
            outcome => Ok(OpenFile(outcome?.into())),
        }
    }
}

/// Whether reading may be permitted where writing was refused.
const fn allows_reading(error: io::ErrorKind) -> bool {
    use io::ErrorKind as E;
    matches!(error, E::PermissionDenied | E::ReadOnlyFilesystem | E::ExecutableFileBusy)
}

/// Reads bytes of a file at an offset; fewer at the end.
pub(super) fn read_up_to(file: &File, offset: u64, length: usize) -> io::Result<Bytes> {
    blocks::read_block(length, |memory| {
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
