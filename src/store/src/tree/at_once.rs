//! Small files that the system has in memory: read without waiting for the disk.
//!
//! One rule: whoever asks here may be a thread that many others wait for. What would have to be waited for is not there, and is read by somebody
//! else, who has the time.

use std::io::IoSliceMut;

use bytes::Bytes;
use rustix::fs::{self as sys, Mode, OFlags, ResolveFlags};
use rustix::io::{ReadWriteFlags, preadv2};
use svcfs_base::TreePath;

use super::stat::to_stat;
use super::{INSIDE, Stat, StatKind, WorkTree, extended};

/// Bytes that are copied and hashed in less time than it takes to wake a thread for them, or little more.
const AT_ONCE: usize = 64 << 10;

/// A regular file, as it was at one moment.
#[derive(Debug)]
pub struct AtOnce {
    /// All of its content.
    pub content: Bytes,
    /// What the disk says of it.
    pub stat: Stat,
    /// The extended attribute that was asked for; none where the file does not have it.
    pub extended: Option<Vec<u8>>,
}

impl WorkTree {
    /// A regular file of at most 64 KiB, with one of its extended attributes. None when not all of it is in memory or may be had, when it is no
    /// such file, and when a link stands at its path: [`WorkTree::read`] tells then what there is.
    ///
    /// Its path and bytes come from the system's caches alone (`RESOLVE_CACHED`, openat2(2); `RWF_NOWAIT`, preadv2(2)); an attribute that does not
    /// fit into the inode may be waited for.
    pub fn read_at_once(&self, path: &TreePath, extended: Option<&[u8]>) -> Option<AtOnce> {
        let resolve = INSIDE | ResolveFlags::CACHED;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = sys::openat2(&self.root, path.as_str(), flags, Mode::empty(), resolve).ok()?;
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
        Some(AtOnce { content: content.into(), stat, extended })
    }
}
