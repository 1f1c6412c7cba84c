//! Flushing the disk, and what it means that it failed.
//!
//! One rule: a flush that succeeds after one that failed says nothing. Linux tells once that something could not be written, and
//! takes it for written from then on (fsync(2), "errors"); it may be read back from memory for as long as nobody needs the room. So
//! what was written since the last good flush is written anew first, from the log. A mark in the state directory keeps the next
//! process from trusting it, too.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use parking_lot::Mutex;
use tracing::warn;

use super::{TreeResult, WorkTree};
use crate::{FailPoint, StoreError};

/// Whether what was written since the last flush is as it seems.
pub(super) struct SyncState {
    mark: PathBuf,
    state: Mutex<FlushState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FlushState {
    /// No flush failed since the last one that did not.
    Whole,
    /// One failed.
    Doubted,
    /// One failed, and everything since the last good one was written anew.
    Renewed,
}

impl SyncState {
    /// What the last process left.
    pub(super) fn read(mark: PathBuf) -> Self {
        // Where nobody can say, it may have.
        let state = if mark.try_exists().unwrap_or(true) { FlushState::Doubted } else { FlushState::Whole };
        Self { mark, state: Mutex::new(state) }
    }
}

impl WorkTree {
    /// Flushes everything written below the root, and the directories that name it, to the disk; `elsewhere` are folders on other disks, which are
    /// flushed with it.
    ///
    /// # Errors
    /// `State` with what the system said: nothing may be taken for flushed then, also not when the next flush succeeds. It is
    /// refused until [`WorkTree::renewed`].
    pub fn flush(&self, elsewhere: &[File]) -> TreeResult<()> {
        if self.has_sync_failed() {
            let text = "what was written before a flush failed has to be written anew first";
            return Err(StoreError::State(io::Error::other(text)));
        }
        let flushed = self.fail.check(FailPoint::CheckpointFlush);
        let mut disks = elsewhere.iter().map(AsFd::as_fd).chain([self.temporary.as_fd()]);
        let flushed = flushed.and_then(|()| Ok(disks.try_for_each(rustix::fs::syncfs)?));
        let mut state = self.trust.state.lock();
        let marked = match (&flushed, *state) {
            (Ok(()), FlushState::Whole) => Ok(()),
            (Ok(()), FlushState::Renewed | FlushState::Doubted) => fs::remove_file(&self.trust.mark),
            (Err(_), _) => File::create(&self.trust.mark).and_then(|mark| mark.sync_all()),
        };
        *state = if flushed.is_ok() { FlushState::Whole } else { FlushState::Doubted };
        match marked {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // This process knows; the next one does when the disk takes it.
                warn!(mark = %self.trust.mark.display(), %error, "the mark of a failed flush could not be kept up to date");
            }
            Ok(()) | Err(_) => {}
        }
        Ok(flushed?)
    }

    /// Whether a flush failed, and what was written before it was not written anew.
    pub fn has_sync_failed(&self) -> bool {
        *self.trust.state.lock() == FlushState::Doubted
    }

    /// Says that everything since the last good flush was written anew: the next flush tells the truth.
    pub fn mark_rewritten(&self) {
        let mut state = self.trust.state.lock();
        if *state == FlushState::Doubted {
            *state = FlushState::Renewed;
        }
    }
}
