//! What the system has in memory: looked at and read without waiting for the disk.
//!
//! One rule: whoever asks here may be a thread that many others wait for. What would have to be waited for is not there, and is read by somebody
//! else, who has the time.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{self as sys, Mode, OFlags, ResolveFlags};
use rustix::io::{ReadWriteFlags, preadv2};
use svcfs_base::TreePath;

use super::stat::to_stat;
use super::{FileStat, INSIDE, StatKind, WorkTree, blocks, extended};

/// Bytes that are copied and hashed in less time than it takes to wake a thread for them, or little more.
const AT_ONCE: usize = 64 << 10;

/// A regular file, as it was at one moment.
#[derive(Debug)]
pub struct CachedFile {
    /// All of its content.
    pub content: Bytes,
    /// What the disk says of it.
    pub stat: FileStat,
    /// The extended attribute that was asked for; none where the file does not have it.
    pub xattr: Option<Vec<u8>>,
}

impl WorkTree {
    /// A regular file of at most 64 KiB, with one of its extended attributes. None when not all of it is in memory or may be had, when it is no
    /// such file, and when a link stands at its path: [`WorkTree::read`] tells then what there is.
    ///
    /// Its path and bytes come from the system's caches alone (`RESOLVE_CACHED`, openat2(2); `RWF_NOWAIT`, preadv2(2)); an attribute that does not
    /// fit into the inode may be waited for.
    pub fn try_read_cached(&self, path: &TreePath, extended: Option<&[u8]>) -> Option<CachedFile> {
        let file = self.open_at_once(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = to_stat(&sys::fstat(&file).ok()?).filter(|stat| stat.kind == StatKind::File)?;
        let size = usize::try_from(stat.size).ok().filter(|size| *size <= AT_ONCE)?;
        // One byte more, so that a file that grew since is not taken for whole.
        let mut content = vec![0; size + 1];
        let read = preadv2(&file, &mut [IoSliceMut::new(&mut content)], 0, ReadWriteFlags::NOWAIT).ok()?;
        if read != size {
            return None;
        }
        content.truncate(size);
        let extended = match extended {
            Some(name) => extended::of_open(&file, name).ok()?,
            None => None,
        };
        Some(CachedFile { content: content.into(), stat, xattr: extended })
    }
    /// What stands at a path, as [`WorkTree::stat`] has it, as far as the system has it in memory.
    pub fn try_stat_cached(&self, path: &TreePath) -> Option<FileStat> {
        let there = self.open_at_once(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        to_stat(&sys::fstat(&there).ok()?)
    }

    /// The same of a regular file, and its bytes at an offset: as many as are asked for and are there. None when not all of them are in memory.
    pub fn try_read_range(&self, path: &TreePath, (offset, length): (u64, usize)) -> Option<(FileStat, Bytes)> {
        // A pipe or a device is not opened: whoever waits at the other end would hear of it.
        self.try_stat_cached(path).filter(|stat| stat.kind == StatKind::File)?;
        let file = self.open_at_once(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)?;
        let stat = to_stat(&sys::fstat(&file).ok()?).filter(|stat| stat.kind == StatKind::File)?;
        let length = usize::try_from(stat.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(length);
        if length == 0 {
            return Some((stat, Bytes::new()));
        }
        let read = blocks::filled(length, |memory| {
            preadv2(&file, &mut [IoSliceMut::new(memory)], offset, ReadWriteFlags::NOWAIT)
        });
        read.ok().filter(|read| read.len() == length).map(|read| (stat, read))
    }

    fn open_at_once(&self, path: &TreePath, flags: OFlags) -> Option<OwnedFd> {
        let text = if path.is_root() { "." } else { path.as_str() };
        let resolve = INSIDE | ResolveFlags::CACHED;
        sys::openat2(&self.root, text, flags | OFlags::CLOEXEC, Mode::empty(), resolve).ok()
    }
}
