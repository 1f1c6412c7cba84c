//! Flushing the disk, and handling a failed flush.
//!
//! Invariant: a flush that succeeds after a failed one proves nothing. Linux reports a write error
//! once and then treats the page as clean (fsync(2), "errors"); reads may return it from the cache
//! for a while. So everything since the last good flush is rewritten from the log first. A marker
//! file keeps the next process from trusting it, too.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use parking_lot::Mutex;
use tracing::warn;

use super::{TreeResult, WorkTree};
use crate::{FailPoint, StoreError};

/// Whether what was written since the last flush can be trusted.
pub(super) struct SyncState {
    marker: PathBuf,
    state: Mutex<FlushState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FlushState {
    /// No flush has failed since the last good one.
    Clean,
    /// A flush failed.
    Failed,
    /// A flush failed, and everything since the last good one was rewritten.
    Rewritten,
}

impl SyncState {
    /// Reads the state of the last process.
    pub(super) fn read(marker: PathBuf) -> Self {
        // When the marker cannot be checked, assume a failure.
        let state = if marker.try_exists().unwrap_or(true) { FlushState::Failed } else { FlushState::Clean };
        Self { marker, state: Mutex::new(state) }
    }
}

impl WorkTree {
    /// Flushes everything below the root, and the directories above it; `other_disks` are
    /// directories on other disks to flush as well.
    ///
    /// # Errors
    /// `State` with the system error. Nothing counts as flushed then, and flushes are refused until
    /// [`WorkTree::mark_rewritten`].
    pub fn flush(&self, other_disks: &[File]) -> TreeResult<()> {
        if self.has_sync_failed() {
            let text = "an earlier flush failed; the data before it must be rewritten first";
            return Err(StoreError::State(io::Error::other(text)));
        }
        let flushed = self.fail.check(FailPoint::CheckpointFlush);
        let mut disks = other_disks.iter().map(AsFd::as_fd).chain([self.temporary.as_fd()]);
        let flushed = flushed.and_then(|()| Ok(disks.try_for_each(rustix::fs::syncfs)?));
        let mut state = self.sync.state.lock();
        let marker_result = match (&flushed, *state) {
            (Ok(()), FlushState::Clean) => Ok(()),
            (Ok(()), FlushState::Rewritten | FlushState::Failed) => fs::remove_file(&self.sync.marker),
            (Err(_), _) => File::create(&self.sync.marker).and_then(|marker| marker.sync_all()),
        };
        *state = if flushed.is_ok() { FlushState::Clean } else { FlushState::Failed };
        match marker_result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // This process knows the state; the next one learns it only if the marker can be
                // written.
                warn!(marker = %self.sync.marker.display(), %error, "the marker of a failed flush (`.svc/state/unflushed`) could not be updated");
            }
            Ok(()) | Err(_) => {}
        }
        Ok(flushed?)
    }

    /// Whether a flush failed and the data before it was not rewritten.
    pub fn has_sync_failed(&self) -> bool {
        *self.sync.state.lock() == FlushState::Failed
    }

    /// Records that everything since the last good flush was rewritten: the next flush can be
    /// trusted.
    pub fn mark_rewritten(&self) {
        let mut state = self.sync.state.lock();
        if *state == FlushState::Failed {
            *state = FlushState::Rewritten;
        }
    }
}
