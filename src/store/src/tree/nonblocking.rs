//! Reads from the kernel's caches, without waiting for the disk.
//!
//! Invariant: the caller may be a thread that many others wait for. Whatever would block is
//! reported as not cached; a worker thread reads it then.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{self as sys, Mode, OFlags, ResolveFlags};
use rustix::io::{ReadWriteFlags, preadv2};
use svcfs_base::TreePath;

use super::stat::to_stat;
use super::{FileStat, RESOLVE_FLAGS, StatKind, WorkTree, blocks, extended};

/// Size in bytes that is copied and hashed about as fast as a thread is woken.
const MAX_CACHED_READ_BYTES: usize = 64 << 10;

/// A regular file at one point in time.
#[derive(Debug)]
pub struct CachedFile {
    /// Its full content.
    pub content: Bytes,
    /// Its stat.
    pub stat: FileStat,
    /// The requested extended attribute; none where the file does not have it.
    pub xattr: Option<Vec<u8>>,
}

impl WorkTree {
    /// Reads a regular file of at most 64 KiB, with one of its extended attributes. None when it is
    /// not fully cached, not accessible, not a regular file, or behind a link: [`WorkTree::read`]
    /// reports the reason.
    ///
    /// Path and content come from the kernel's caches only (`RESOLVE_CACHED`, openat2(2);
    /// `RWF_NOWAIT`, preadv2(2)); an attribute outside the inode may still wait for the disk.
    pub fn try_read_cached(&self, path: &TreePath, extended: Option<&[u8]>) -> Option<CachedFile> {
        let file = self.open_cached(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = to_stat(&sys::fstat(&file).ok()?).filter(|stat| stat.kind == StatKind::File)?;
        let size = usize::try_from(stat.size).ok().filter(|size| *size <= MAX_CACHED_READ_BYTES)?;
        // One byte more, to notice a file that has grown.
        let mut content = vec![0; size + 1];
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut content)], 0, ReadWriteFlags::NOWAIT).ok()?;
        if read != size {
            return None;
        }
        content.truncate(size);
        let extended = match extended {
            Some(name) => extended::read_xattr(&file, name).ok()?,
            None => None,
        };
        Some(CachedFile { content: content.into(), stat, xattr: extended })
    }
    /// The cached stat of a path, as [`WorkTree::stat`].
    pub fn try_stat_cached(&self, path: &TreePath) -> Option<FileStat> {
        let descriptor = self.open_cached(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        to_stat(&sys::fstat(&descriptor).ok()?)
    }

    /// The cached stat of a regular file, and up to `length` bytes at an offset. None when not all
    /// are cached.
    pub fn try_read_range(&self, path: &TreePath, (offset, length): (u64, usize)) -> Option<(FileStat, Bytes)> {
        // A pipe or device is not opened: its other end would notice.
        self.try_stat_cached(path).filter(|stat| stat.kind == StatKind::File)?;
        let file = self.open_cached(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)?;
        let stat = to_stat(&sys::fstat(&file).ok()?).filter(|stat| stat.kind == StatKind::File)?;
        let length = usize::try_from(stat.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(length);
        if length == 0 {
            return Some((stat, Bytes::new()));
        }
        let read = blocks::read_block(length, |memory| {
            preadv2(&file, &mut [IoSliceMut::new(memory)], offset, ReadWriteFlags::NOWAIT)
        });
        read.ok().filter(|read| read.len() == length).map(|read| (stat, read))
    }

    fn open_cached(&self, path: &TreePath, flags: OFlags) -> Option<OwnedFd> {
        let text = if path.is_root() { "." } else { path.as_str() };
        let resolve = RESOLVE_FLAGS | ResolveFlags::CACHED;
        sys::openat2(&self.root, text, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    }
}
