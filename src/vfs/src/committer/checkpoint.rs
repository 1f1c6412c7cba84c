//! Checkpoints: what the log made happen is flushed, and the log lets go of the contents.

use std::time::Instant;

use svcfs_store::StoreError;
use tracing::{debug, warn};

use super::Committer;

impl Committer {
    /// Flushes tree and objects, brings `.git/index` up to date, and lets go of contents in the log.
    pub(super) fn checkpoint(&mut self) {
        if let Err(error) = self.follow_head() {
            warn!(%error, "commits of others could not be recorded");
        }
        // What the disk refused until the end stays in the log for the next opening.
        if !self.is_unsettled || self.left.is_some() {
            return;
        }
        let started = Instant::now();
        let outcome = self.try_checkpoint();
        self.last_work = Instant::now();
        match outcome {
            Ok(()) => debug!(seq = %self.last, took_ms = started.elapsed().as_millis(), "checkpoint"),
            Err(error) => warn!(%error, "checkpoint failed; the log keeps everything and it is tried again"),
        }
    }

    fn try_checkpoint(&mut self) -> Result<(), StoreError> {
        match self.core.history.refresh_index(self.touched.iter()) {
            Ok(()) => self.touched.clear(),
            // A person's git holds the index; it is refreshed at the next checkpoint.
            Err(error) => warn!(%error, "`.git/index` could not be refreshed"),
        }
        self.core.tree.flush()?;
        self.core.log.settle(self.last, self.head)?;
        self.unsettled_bytes = 0;
        self.is_unsettled = !self.touched.is_empty();
        Ok(())
    }
}
