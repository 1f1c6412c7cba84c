//! Letting go of files that lost their names, or are about to.
//!
//! Whoever takes the last name or handle of a file waits until its blocks are free; on a disk that is told of every free block
//! (`discard`, ext4(5)) that is a round trip to the device, several times as long as a rename: half of the time of a change of thousands of
//! pages, as measured. Files that are replaced or removed while somebody waits are therefore given to a helper.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use svcfs_work::SerialExecutor;

/// So many files may wait to be closed; beyond that, they are closed at once. Each is an open descriptor.
const MAX_HELD: usize = 64;
/// So many files may wait to be unlinked; beyond that, they are unlinked at once. Closing the root waits for them, for some seconds at most.
const MAX_NAMED: usize = 8192;
/// So much of the disk they may keep from others.
const MAX_NAMED_BYTES: u64 = 256 << 20;

/// So few wait for the helper without its being woken.
const FEW: usize = 8;

/// Holds a file without opening it.
pub(crate) const HOLD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Closes and unlinks files. What was removed is gone when this is.
#[derive(Default)]
pub(crate) struct Reclaimer {
    queue: Arc<ReclaimQueue>,
    helper: SerialExecutor,
    /// So many are in a hurry.
    hurried: AtomicUsize,
}

/// While this lives, files are let go of once it does not, or there are many.
#[must_use = "it is over when this is dropped"]
pub struct DeferGuard<'d>(&'d Reclaimer);

impl Drop for DeferGuard<'_> {
    fn drop(&mut self) {
        self.0.hurried.fetch_sub(1, Ordering::Relaxed);
        self.0.helper.kick();
    }
}

/// What waits for the helper.
#[derive(Default)]
struct ReclaimQueue {
    held: AtomicUsize,
    named: AtomicUsize,
    named_bytes: AtomicU64,
}

/// A file with a name of our own, the last it has.
struct NamedFile {
    directory: Arc<OwnedFd>,
    name: String,
}

impl NamedFile {
    fn unlink(self) {
        // A leftover is swept at the next opening.
        let _ = rustix::fs::unlinkat(&self.directory, self.name, AtFlags::empty());
    }
}

/// A file to be let go of; without its name it is gone once this is disposed of.
#[must_use = "pass it to `Disposal::of` once its name is gone"]
pub(crate) struct OpenHandle(Option<OwnedFd>);

impl OpenHandle {
    /// Holds a file that is about to lose its name; nothing when there is none.
    pub(crate) fn at(file: &Path) -> Self {
        Self(rustix::fs::open(file, HOLD, Mode::empty()).ok())
    }
}

impl From<Option<OwnedFd>> for OpenHandle {
    fn from(file: Option<OwnedFd>) -> Self {
        Self(file)
    }
}

impl Reclaimer {
    /// For somebody who has others waiting: the helper is not woken meanwhile, which takes as long as a rename.
    pub(crate) fn hurry(&self) -> DeferGuard<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        DeferGuard(self)
    }

    /// Gives something to the helper that so many wait for already.
    fn give(&self, waiting: usize, job: impl FnOnce() + Send + 'static) {
        if self.hurried.load(Ordering::Relaxed) > 0 && waiting < FEW {
            self.helper.enqueue_lazily(job);
        } else {
            self.helper.submit(job);
        }
    }

    /// Lets go of a file.
    pub(crate) fn of(&self, file: OpenHandle) {
        let Some(file) = file.0 else { return };
        let held = self.queue.held.load(Ordering::Relaxed);
        if held < MAX_HELD {
            self.queue.held.fetch_add(1, Ordering::Relaxed);
            let queue = Arc::clone(&self.queue);
            self.give(held, move || {
                drop(file);
                queue.held.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // Else closed here, by being dropped.
    }

    /// Waits until everything that was given so far is gone.
    pub(crate) fn rest(&self) {
        self.helper.wait_idle();
    }

    /// Takes away the name of a file of so many bytes that nobody holds open: the sooner, the more wait already.
    pub(crate) fn unlink(&self, directory: &Arc<OwnedFd>, name: String, bytes: u64) {
        let named = NamedFile { directory: Arc::clone(directory), name };
        let waiting = self.queue.named_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let count = self.queue.named.fetch_add(1, Ordering::Relaxed);
        if count >= MAX_NAMED || waiting > MAX_NAMED_BYTES {
            self.queue.named.fetch_sub(1, Ordering::Relaxed);
            return named.unlink();
        }
        self.queue.named_bytes.fetch_add(bytes, Ordering::Relaxed);
        let queue = Arc::clone(&self.queue);
        self.give(count, move || {
            named.unlink();
            queue.named.fetch_sub(1, Ordering::Relaxed);
            queue.named_bytes.fetch_sub(bytes, Ordering::Relaxed);
        });
    }
}
