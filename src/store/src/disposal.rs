//! Letting go of files that lost their names.
//!
//! Whoever takes the last name or handle of a file waits until its blocks are free; on a disk that is told of every free block
//! (`discard`, ext4(5)) that is a round trip to the device, several times as long as a rename. Files that are replaced or removed
//! while somebody waits are therefore held open, and closed by a thread of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::fs::{Mode, OFlags};

/// So many files may wait to be closed; beyond that, they are closed at once. Each is an open descriptor.
const MAX_WAITING: usize = 64;

/// Holds a file without opening it.
pub(crate) const HOLD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A thread that closes files.
pub(crate) struct Disposal {
    sender: Option<SyncSender<OwnedFd>>,
    thread: Option<JoinHandle<()>>,
}

/// A file to be let go of; without its name it is gone once this is disposed of.
#[must_use = "pass it to `Disposal::of` once its name is gone"]
pub(crate) struct Held(Option<OwnedFd>);

impl Held {
    /// Holds a file that is about to lose its name; nothing when there is none.
    pub(crate) fn at(file: &Path) -> Self {
        Self(rustix::fs::open(file, HOLD, Mode::empty()).ok())
    }
}

impl From<Option<OwnedFd>> for Held {
    fn from(file: Option<OwnedFd>) -> Self {
        Self(file)
    }
}

impl Disposal {
    /// Starts the thread; it ends with this.
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, files) = sync_channel::<OwnedFd>(MAX_WAITING);
        let thread =
            thread::Builder::new().name("disposal".to_owned()).spawn(move || files.into_iter().for_each(drop))?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// Lets go of a file.
    pub(crate) fn of(&self, file: Held) {
        if let (Some(sender), Some(file)) = (&self.sender, file.0) {
            match sender.try_send(file) {
                // Closed here, by being dropped.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

impl Drop for Disposal {
    /// Waits: what was removed is gone when its owner is closed.
    fn drop(&mut self) {
        drop(self.sender.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the thread that lets go of files died");
        }
    }
}
