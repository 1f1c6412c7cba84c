//! Empty files, made before somebody waits for them.
//!
//! A page is written into a new file that takes the old one's place. Making one costs ext4 a search for a free inode, among those that lie
//! where the directory does, and it looks at each that was removed there in the last minutes (`spares`): 7 µs where none were, 130 µs where some
//! thousands were (measured). So a helper makes them while the log is flushed and while nobody writes, in rooms: directories that are left
//! behind when they had their number of files, and that the disk is asked to put far from each other (`chattr +T`).
//!
//! One rule: a blank is worth nothing. Where there is none its user makes a file; those that are left are swept at the next opening.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{self as sys, AtFlags, IFlags, Mode, OFlags};
use rustix::io::Errno;
use svcfs_work::SerialExecutor;

/// What their names begin with; other files of the directory are on their way into the tree.
pub(crate) const PREFIX: &str = "blank-";
/// How many there are once somebody asked.
const MANY: usize = 32;
/// New ones are made when there are no more than these, so that a lone writer asks for them once in some writes.
const FEW: usize = 16;
/// So many are made in one room.
const ROOM: u64 = 256;

/// Has files made.
pub(super) struct TempFilePool {
    stock: Arc<PoolStock>,
    helper: SerialExecutor,
}

struct PoolStock {
    directory: Arc<OwnedFd>,
    waiting: Mutex<VecDeque<String>>,
    rooms: Mutex<PoolDirs>,
    is_called: AtomicBool,
}

impl TempFilePool {
    /// Nothing is made before somebody asks for the first.
    pub(super) fn of(directory: &Arc<OwnedFd>) -> Self {
        // Disks that know nothing of it put the rooms where they like.
        let _ = sys::ioctl_getflags(directory).and_then(|flags| sys::ioctl_setflags(directory, flags | IFlags::TOPDIR));
        let stock = PoolStock {
            directory: Arc::clone(directory),
            waiting: Mutex::default(),
            rooms: Mutex::new(PoolDirs::of(Arc::clone(directory))),
            is_called: AtomicBool::new(false),
        };
        Self { stock: Arc::new(stock), helper: SerialExecutor::new() }
    }

    /// The name of an empty file, below the directory, which belongs to whoever takes it; none when there is none yet.
    pub(super) fn take(&self) -> Option<String> {
        let (taken, left) = {
            let mut waiting = self.stock.waiting.lock();
            (waiting.pop_front(), waiting.len())
        };
        if left <= FEW && !self.stock.is_called.swap(true, Ordering::Relaxed) {
            let stock = Arc::clone(&self.stock);
            self.helper.submit(move || stock.fill());
        }
        taken
    }
}

impl TempFilePool {
    /// Takes away those that are left, once the last is made.
    pub(super) fn clear(&self) {
        self.helper.wait_idle();
        // A leftover of these is swept at the next opening.
        for name in self.stock.waiting.lock().drain(..) {
            let _ = sys::unlinkat(&self.stock.directory, name, AtFlags::empty());
        }
        self.stock.rooms.lock().leave();
    }
}

impl Drop for TempFilePool {
    fn drop(&mut self) {
        self.clear();
    }
}

impl PoolStock {
    fn fill(&self) {
        self.is_called.store(false, Ordering::Relaxed);
        let mut rooms = self.rooms.lock();
        while self.waiting.lock().len() < MANY {
            // The disk is full, or the directory is gone: whoever needs a file says so.
            let Ok(name) = rooms.make() else { break };
            self.waiting.lock().push_back(name);
        }
    }
}

/// The directories in which files are made.
struct PoolDirs {
    directory: Arc<OwnedFd>,
    serial: u64,
    made: u64,
    /// The newest last; the others are full, and removed once all that was made in them has gone.
    names: Vec<String>,
}

impl PoolDirs {
    const fn of(directory: Arc<OwnedFd>) -> Self {
        Self { directory, serial: 0, made: 0, names: Vec::new() }
    }

    /// Makes an empty file; gives its name below the directory.
    fn make(&mut self) -> rustix::io::Result<String> {
        if self.made.is_multiple_of(ROOM) || self.names.is_empty() {
            self.next()?;
        }
        let made = self.file();
        // Somebody swept the directory.
        if made == Err(Errno::NOENT) {
            self.next()?;
            return self.file();
        }
        made
    }

    fn file(&mut self) -> rustix::io::Result<String> {
        let room = self.names.last().map_or("", String::as_str);
        let name = format!("{room}/{PREFIX}{:x}", self.made);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        sys::openat(self.directory.as_fd(), &*name, flags, Mode::from_raw_mode(0o600))?;
        self.made += 1;
        Ok(name)
    }

    fn next(&mut self) -> rustix::io::Result<()> {
        self.leave();
        let name = format!("room-{:x}", self.serial);
        self.serial += 1;
        sys::mkdirat(self.directory.as_fd(), &*name, Mode::from_raw_mode(0o700))?;
        self.names.push(name);
        Ok(())
    }

    /// Removes the rooms that have nothing in them.
    fn leave(&mut self) {
        let directory = self.directory.as_fd();
        self.names.retain(|room| sys::unlinkat(directory, &**room, AtFlags::REMOVEDIR) == Err(Errno::NOTEMPTY));
    }
}
