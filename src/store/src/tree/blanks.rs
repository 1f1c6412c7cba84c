//! Empty files, made before somebody waits for them.
//!
//! A page is written into a new file that takes the old one's place. Making one costs ext4 a search for a free inode, which is the longest
//! step of putting a page in place (measured: 50 µs of 150, and 400 µs where thousands of files were removed lately; see `spares`).
//! A thread makes them while the log is flushed and while nobody writes.
//!
//! One rule: a blank is worth nothing. Where there is none its user makes a file; those that are left are swept at the next opening.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rustix::fs::{self as sys, AtFlags, Mode, OFlags};

/// What their names begin with; other files of the directory are on their way into the tree.
pub(crate) const PREFIX: &str = "blank-";
/// How many there are once somebody asked.
const MANY: usize = 32;
/// New ones are made when there are no more than these, so that a lone writer wakes the thread once in some writes.
const FEW: usize = 16;

/// A thread that makes files.
pub(super) struct Blanks {
    waiting: Arc<Mutex<VecDeque<String>>>,
    directory: Arc<OwnedFd>,
    call: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Blanks {
    /// Starts the thread; it ends with this. Nothing is made before somebody asks for the first.
    pub(super) fn start(directory: OwnedFd) -> io::Result<Self> {
        let (call, called) = sync_channel(1);
        let (waiting, directory) = (Arc::default(), Arc::new(directory));
        let work = {
            let (waiting, directory) = (Arc::clone(&waiting), Arc::clone(&directory));
            move || fill(&called, &directory, &waiting)
        };
        let thread = thread::Builder::new().name("blanks".to_owned()).spawn(work)?;
        Ok(Self { waiting, directory, call: Some(call), thread: Some(thread) })
    }

    /// The name of an empty file, which belongs to whoever takes it; none when there is none yet.
    pub(super) fn take(&self) -> Option<String> {
        let (taken, left) = {
            let mut waiting = self.waiting.lock();
            (waiting.pop_front(), waiting.len())
        };
        if left <= FEW
            && let Some(call) = &self.call
        {
            // Called already, or dead: then each makes their own.
            let _ = call.try_send(());
        }
        taken
    }
}

impl Drop for Blanks {
    fn drop(&mut self) {
        self.call = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the thread that makes files died");
        }
        for name in self.waiting.lock().drain(..) {
            // A leftover is swept at the next opening.
            let _ = sys::unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

fn fill(called: &Receiver<()>, directory: &OwnedFd, waiting: &Mutex<VecDeque<String>>) {
    let mut serial = 0_u64;
    while called.recv().is_ok() {
        while waiting.lock().len() < MANY {
            let name = format!("{PREFIX}{serial:x}");
            serial += 1;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            if sys::openat(directory, &*name, flags, Mode::from_raw_mode(0o600)).is_err() {
                // The disk is full, or the directory is gone: whoever needs a file says so.
                break;
            }
            waiting.lock().push_back(name);
        }
    }
}
