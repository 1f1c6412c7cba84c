//! Recycling of removed files.
//!
//! ext4 does not reuse the inode of a removed file for minutes, and checks each such inode when it
//! searches for a free one. After some thousands of removals, creating a file takes a millisecond
//! (measured; `recently_deleted` in the kernel). Writing and compacting packs removes three files
//! for each write, so they are overwritten instead.
//!
//! Invariant: no other process sees a recycled file change. Its name is private, it has no other
//! links (a clone on the same disk has links to our packs), and the kernel confirms that it is not
//! open or mapped elsewhere: it grants a write lease (fcntl(2)) only then. Without a lease, files
//! are created and removed as usual.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::deferred_unlink::{OpenHandle, Reclaimer};

/// Number of files in a pool.
const MAX_FILES: usize = 24;
/// Larger files are not recycled, in bytes: their space is worth more than their inode.
const MAX_BYTES: u64 = 1 << 20;
/// Selects the signal of a broken lease (fcntl(2)); `libc` has no name for it.
const F_SETSIG: libc::c_int = 10;

/// Removed files that wait to be overwritten. Dropping the pool removes them.
pub(crate) struct RecyclePool {
    /// Start of their names.
    prefix: PathBuf,
    serial: AtomicU64,
    /// Oldest first, so that remaining readers have time to finish.
    files: Mutex<VecDeque<PathBuf>>,
}

impl RecyclePool {
    /// An empty pool. File names start with `prefix`, in a directory on the same disk. When the
    /// directory is missing, files are removed as usual.
    pub(crate) fn named(prefix: PathBuf) -> Self {
        Self { prefix, serial: AtomicU64::new(0), files: Mutex::default() }
    }

    /// Moves a file into the pool, or removes it when the pool is full. A missing file is no error.
    pub(crate) fn recycle(&self, file: &Path, reclaimer: &Reclaimer) -> io::Result<()> {
        let mut files = self.files.lock();
        if files.len() < MAX_FILES {
            let mut name = self.prefix.clone().into_os_string();
            name.push(self.serial.fetch_add(1, Ordering::Relaxed).to_string());
            if fs::rename(file, &name).is_ok() {
                files.push_back(name.into());
                return Ok(());
            }
        }
        match remove_file(file, reclaimer) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// Takes a file that is not open elsewhere, with its name. The caller overwrites and truncates
    /// it.
    pub(crate) fn take(&self, reclaimer: &Reclaimer) -> Option<(PathBuf, File)> {
        loop {
            let name = self.files.lock().pop_front()?;
            match try_exclusive(&name) {
                Ok(Some(file)) => return Some((name, file)),
                // It is still open elsewhere, or unusable.
                Ok(None) | Err(_) => drop(remove_file(&name, reclaimer)),
            }
        }
    }

    /// Removes all files. After a failed flush none may be overwritten: the page cache may treat a
    /// block as written that never reached the disk, and a later flush would succeed without
    /// writing it (`log/cache_drop.rs`).
    pub(crate) fn clear(&self) {
        for name in self.files.lock().drain(..) {
            // A leftover is removed by the sweep at the next open.
            let _ = fs::remove_file(name);
        }
    }
}

impl Drop for RecyclePool {
    fn drop(&mut self) {
        self.clear();
    }
}

fn remove_file(file: &Path, reclaimer: &Reclaimer) -> io::Result<()> {
    let handle = OpenHandle::at(file);
    fs::remove_file(file)?;
    reclaimer.close(handle);
    Ok(())
}

/// Opens a recycled file unless another process may see it change.
fn try_exclusive(name: &Path) -> io::Result<Option<File>> {
    let open = || OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(name);
    let file = match open() {
        // Packs are read-only, also for their owner.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let mode = fs::symlink_metadata(name)?.permissions().mode();
            fs::set_permissions(name, PermissionsExt::from_mode(mode | 0o200))?;
            let file = open()?;
            file.set_permissions(PermissionsExt::from_mode(mode))?;
            file
        }
        opened => opened?,
    };
    let stat = file.metadata()?;
    let is_usable = stat.is_file() && stat.nlink() == 1 && stat.len() <= MAX_BYTES;
    Ok((is_usable && is_exclusive(file.as_raw_fd())).then_some(file))
}

/// Whether no other open file description, in any process, refers to this file.
#[expect(unsafe_code, reason = "leases are in no crate that wraps fcntl(2)")]
fn is_exclusive(file: RawFd) -> bool {
    // SAFETY: calls without pointers on an open descriptor. A process that opens the file while the
    // lease exists makes the kernel send a signal. SIGURG is ignored by default; the default signal
    // would end the process.
    unsafe {
        libc::fcntl(file, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(file, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

#[cfg(test)]
mod tests;
