//! Asynchronous close and unlink.
//!
//! Dropping the last name or handle of a file waits until its blocks are free. With online
//! `discard` (ext4(5)) that is a device round trip of several rename times: half of the time of a
//! change of thousands of pages (measured). Files that are replaced or removed while a writer waits
//! are therefore passed to a helper.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use svcfs_work::SerialExecutor;

/// More files are closed on the calling thread. Each is an open descriptor.
const MAX_OPEN_FILES: usize = 64;
/// More files are unlinked on the calling thread. Closing the root waits for the queue, some
/// seconds at most.
const MAX_UNLINKS: usize = 8192;
/// Disk space that the queue may occupy, in bytes.
const MAX_UNLINK_BYTES: u64 = 256 << 20;

/// With fewer queued jobs the helper is not woken while a guard lives.
const MIN_WAKE_JOBS: usize = 8;

/// Opens a file without access to its contents, to keep its inode alive.
pub(crate) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Closes and unlinks files. Dropping it waits for the queue.
#[derive(Default)]
pub(crate) struct Reclaimer {
    queue: Arc<ReclaimQueue>,
    helper: SerialExecutor,
    /// Number of live guards.
    guards: AtomicUsize,
}

/// While it lives, the helper is woken only for a long queue.
#[must_use = "dropping it ends the postponement"]
pub struct DeferGuard<'d>(&'d Reclaimer);

impl Drop for DeferGuard<'_> {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::Relaxed);
        self.0.helper.kick();
    }
}

/// Counters of what is queued.
#[derive(Default)]
struct ReclaimQueue {
    open_files: AtomicUsize,
    unlinks: AtomicUsize,
    unlink_bytes: AtomicU64,
}

/// A file with a name of our own, the last it has.
struct NamedFile {
    directory: Arc<OwnedFd>,
    name: String,
}

impl NamedFile {
    fn unlink(self) {
        // A leftover is removed by the sweep at the next open.
        let _ = rustix::fs::unlinkat(&self.directory, self.name, AtFlags::empty());
    }
}

/// An open file. Once its name is removed, closing it frees the blocks.
#[must_use = "pass it to `Reclaimer::close` once its name is removed"]
pub(crate) struct OpenHandle(Option<OwnedFd>);

impl OpenHandle {
    /// Opens a file that is about to lose its name; empty when it does not exist.
    pub(crate) fn at(file: &Path) -> Self {
        Self(rustix::fs::open(file, PATH_ONLY, Mode::empty()).ok())
    }
}

impl From<Option<OwnedFd>> for OpenHandle {
    fn from(file: Option<OwnedFd>) -> Self {
        Self(file)
    }
}

impl Reclaimer {
    /// Postpones waking the helper while writers wait: a wake-up takes as long as a rename.
    pub(crate) fn defer_wakeups(&self) -> DeferGuard<'_> {
        self.guards.fetch_add(1, Ordering::Relaxed);
        DeferGuard(self)
    }

    /// Queues a job behind `waiting` others.
    fn enqueue(&self, waiting: usize, job: impl FnOnce() + Send + 'static) {
        if self.guards.load(Ordering::Relaxed) > 0 && waiting < MIN_WAKE_JOBS {
            self.helper.enqueue_lazily(job);
        } else {
            self.helper.submit(job);
        }
    }

    /// Closes a file, asynchronously unless too many are queued.
    pub(crate) fn close(&self, file: OpenHandle) {
        let Some(file) = file.0 else { return };
        let waiting = self.queue.open_files.load(Ordering::Relaxed);
        if waiting < MAX_OPEN_FILES {
            self.queue.open_files.fetch_add(1, Ordering::Relaxed);
            let queue = Arc::clone(&self.queue);
            self.enqueue(waiting, move || {
                drop(file);
                queue.open_files.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // Otherwise the drop closes it here.
    }

    /// Waits until the queue is empty.
    pub(crate) fn wait_idle(&self) {
        self.helper.wait_idle();
    }

    /// Unlinks a file of `bytes` bytes that is not open: asynchronously, unless the queue is full.
    pub(crate) fn unlink(&self, directory: &Arc<OwnedFd>, name: String, bytes: u64) {
        let file = NamedFile { directory: Arc::clone(directory), name };
        let waiting = self.queue.unlink_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let count = self.queue.unlinks.fetch_add(1, Ordering::Relaxed);
        if count >= MAX_UNLINKS || waiting > MAX_UNLINK_BYTES {
            self.queue.unlinks.fetch_sub(1, Ordering::Relaxed);
            return file.unlink();
        }
        self.queue.unlink_bytes.fetch_add(bytes, Ordering::Relaxed);
        let queue = Arc::clone(&self.queue);
        self.enqueue(count, move || {
            file.unlink();
            queue.unlinks.fetch_sub(1, Ordering::Relaxed);
            queue.unlink_bytes.fetch_sub(bytes, Ordering::Relaxed);
        });
    }
}
