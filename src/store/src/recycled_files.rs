//! Files that lost their use, kept for the next ones that are made.
//!
//! ext4 does not give the inode of a removed file out again for minutes, and looks at each such inode on its way to a free one: where
//! some thousands were removed, making a file takes a millisecond (measured; `recently_deleted` in the kernel). A committer that
//! makes and merges packs removes three files a write. So it writes into those instead of removing them.
//!
//! One rule: nobody else sees a spare change. It has a name that nobody asks for, no further names (a clone on the same disk has
//! links to our packs), and the kernel says that nobody has it open, mapped files included: it grants a write lease (fcntl(2)) only then.
//! Where it grants none, files are made and removed as ever.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::deferred_unlink::{OpenHandle, Reclaimer};

/// More are not kept.
const MAX_SPARES: usize = 24;
/// Larger ones are not used again, in bytes: their room is worth more than their inode.
const MAX_BYTES: u64 = 1 << 20;
/// Which signal tells of a broken lease (fcntl(2)); `libc` has no name for it.
const F_SETSIG: libc::c_int = 10;

/// Files that wait to be used again. They go with this.
pub(crate) struct RecyclePool {
    /// What their names begin with.
    prefix: PathBuf,
    serial: AtomicU64,
    /// Longest unused first: whoever still reads one has that much time.
    waiting: Mutex<VecDeque<PathBuf>>,
}

impl RecyclePool {
    /// None yet. Their names begin with `prefix`, in a directory on the disk of the files that will be kept. Where it is missing,
    /// files are removed as ever.
    pub(crate) fn named(prefix: PathBuf) -> Self {
        Self { prefix, serial: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// Takes a file out of sight and keeps it, or removes it when there are enough. A file that is gone is no error.
    pub(crate) fn keep(&self, file: &Path, disposal: &Reclaimer) -> io::Result<()> {
        let mut waiting = self.waiting.lock();
        if waiting.len() < MAX_SPARES {
            let mut name = self.prefix.clone().into_os_string();
            name.push(self.serial.fetch_add(1, Ordering::Relaxed).to_string());
            if fs::rename(file, &name).is_ok() {
                waiting.push_back(name.into());
                return Ok(());
            }
        }
        match removed(file, disposal) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    /// A file that nobody else has open, with its name; what is in it is to be written over and cut off.
    pub(crate) fn take(&self, disposal: &Reclaimer) -> Option<(PathBuf, File)> {
        loop {
            let name = self.waiting.lock().pop_front()?;
            match usable(&name) {
                Ok(Some(file)) => return Some((name, file)),
                // Somebody reads it still; or it is of no use, for whatever reason.
                Ok(None) | Err(_) => drop(removed(&name, disposal)),
            }
        }
    }

    /// Removes all of them. After a failed flush none may be written over: memory may take a place of theirs for filled that the disk
    /// never filled, and what is written there is flushed with success and lost (`log/doubt.rs`).
    pub(crate) fn clear(&self) {
        for name in self.waiting.lock().drain(..) {
            // A leftover is swept at the next opening.
            let _ = fs::remove_file(name);
        }
    }
}

impl Drop for RecyclePool {
    fn drop(&mut self) {
        self.clear();
    }
}

fn removed(file: &Path, disposal: &Reclaimer) -> io::Result<()> {
    let held = OpenHandle::at(file);
    fs::remove_file(file)?;
    disposal.of(held);
    Ok(())
}

/// Opens a spare, unless somebody else may see it change.
fn usable(name: &Path) -> io::Result<Option<File>> {
    let open = || OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(name);
    let file = match open() {
        // Packs are for reading, also to their owner.
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
    let is_fit = stat.is_file() && stat.nlink() == 1 && stat.len() <= MAX_BYTES;
    Ok((is_fit && is_ours_alone(file.as_raw_fd())).then_some(file))
}

/// Whether no other open file, of this process or another, is this one.
#[expect(unsafe_code, reason = "leases are in no crate that wraps fcntl(2)")]
fn is_ours_alone(file: RawFd) -> bool {
    // SAFETY: calls without pointers on a descriptor that is open. Whoever opens the file in the moment of the lease makes the
    // kernel send a signal: one that does nothing unless asked for, instead of the usual one, which ends the process.
    unsafe {
        libc::fcntl(file, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(file, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

#[cfg(test)]
mod tests;
