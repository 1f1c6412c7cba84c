//! A pool of empty files, created in advance.
//!
//! A page is written into a new file that replaces the old one. To create it, ext4 searches a free
//! inode near the directory and checks each recently removed one (see `recycled_files`): 7 µs
//! without removals, 130 µs after some thousands (measured). So a helper creates files during the
//! log's flush and in idle time, in directories of a limited number of files that the file system
//! spreads out (`chattr +T`).
//!
//! Invariant: the pool is an optimization. When it is empty, the caller creates a file; leftovers
//! are removed by the sweep at the next open.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{self as sys, AtFlags, IFlags, Mode, OFlags};
use rustix::io::Errno;
use svcfs_work::SerialExecutor;

/// Start of their names; other files of the directory are to be installed.
pub(crate) const FILE_PREFIX: &str = "blank-";
/// Number of files in the full pool.
const POOL_SIZE: usize = 32;
/// The pool is refilled at this level, so that a lone writer requests it once in several writes.
const LOW_WATERMARK: usize = 16;
/// Number of files per directory.
const FILES_PER_DIRECTORY: u64 = 256;

/// Provides empty files.
pub(super) struct TempFilePool {
    inner: Arc<PoolInner>,
    helper: SerialExecutor,
}

struct PoolInner {
    directory: Arc<OwnedFd>,
    files: Mutex<VecDeque<String>>,
    directories: Mutex<PoolDirs>,
    is_refilling: AtomicBool,
}

impl TempFilePool {
    /// Nothing is created before the first request.
    pub(super) fn new(directory: &Arc<OwnedFd>) -> Self {
        // Other file systems ignore or refuse the flag.
        let _ = sys::ioctl_getflags(directory).and_then(|flags| sys::ioctl_setflags(directory, flags | IFlags::TOPDIR));
        let inner = PoolInner {
            directory: Arc::clone(directory),
            files: Mutex::default(),
            directories: Mutex::new(PoolDirs::new(Arc::clone(directory))),
            is_refilling: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner), helper: SerialExecutor::new() }
    }

    /// The name of an empty file below the directory, which the caller owns; none when the pool is
    /// empty.
    pub(super) fn take(&self) -> Option<String> {
        let (file, remaining) = {
            let mut files = self.inner.files.lock();
            (files.pop_front(), files.len())
        };
        if remaining <= LOW_WATERMARK && !self.inner.is_refilling.swap(true, Ordering::Relaxed) {
            let inner = Arc::clone(&self.inner);
            self.helper.submit(move || inner.refill());
        }
        file
    }
}

impl TempFilePool {
    /// Waits for the helper and removes the remaining files.
    pub(super) fn clear(&self) {
        self.helper.wait_idle();
        // A leftover is removed by the sweep at the next open.
        for name in self.inner.files.lock().drain(..) {
            let _ = sys::unlinkat(&self.inner.directory, name, AtFlags::empty());
        }
        self.inner.directories.lock().remove_empty();
    }
}

impl Drop for TempFilePool {
    fn drop(&mut self) {
        self.clear();
    }
}

impl PoolInner {
    fn refill(&self) {
        self.is_refilling.store(false, Ordering::Relaxed);
        let mut directories = self.directories.lock();
        while self.files.lock().len() < POOL_SIZE {
            // The disk is full, or the directory is missing: the next writer reports it.
            let Ok(name) = directories.create() else { break };
            self.files.lock().push_back(name);
        }
    }
}

/// The directories of the pool.
struct PoolDirs {
    directory: Arc<OwnedFd>,
    next_number: u64,
    created: u64,
    /// The newest last; earlier ones are full, and removed when empty.
    names: Vec<String>,
}

impl PoolDirs {
    const fn new(directory: Arc<OwnedFd>) -> Self {
        Self { directory, next_number: 0, created: 0, names: Vec::new() }
    }

    /// Creates an empty file; returns its name below the directory.
    fn create(&mut self) -> rustix::io::Result<String> {
        if self.created.is_multiple_of(FILES_PER_DIRECTORY) || self.names.is_empty() {
            self.add_directory()?;
        }
        let outcome = self.file();
        // The directory was removed externally.
        if outcome == Err(Errno::NOENT) {
            self.add_directory()?;
            return self.file();
        }
        outcome
    }

    fn file(&mut self) -> rustix::io::Result<String> {
        let directory_name = self.names.last().map_or("", String::as_str);
        let name = format!("{directory_name}/{FILE_PREFIX}{:x}", self.created);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        sys::openat(self.directory.as_fd(), &*name, flags, Mode::from_raw_mode(0o600))?;
        self.created += 1;
        Ok(name)
    }

    fn add_directory(&mut self) -> rustix::io::Result<()> {
        self.remove_empty();
        let directory_name = format!("room-{:x}", self.next_number);
        self.next_number += 1;
        sys::mkdirat(self.directory.as_fd(), &*directory_name, Mode::from_raw_mode(0o700))?;
        self.names.push(directory_name);
        Ok(())
    }

    /// Removes empty directories of the pool.
    fn remove_empty(&mut self) {
        let pool = self.directory.as_fd();
        self.names.retain(|directory_name| {
            sys::unlinkat(pool, &**directory_name, AtFlags::REMOVEDIR) == Err(Errno::NOTEMPTY)
        });
    }
}
