//! Checkpoints: what the log made happen is flushed, and the log lets go of the contents.

use std::time::{Duration, Instant};

use svcfs_store::{FailPoint, StoreError};
use tracing::{debug, info, warn};

use super::Committer;

/// How long `.git/index` is left alone after somebody's lock kept it from being written; doubled each time, up to the other.
const INDEX_RETRY: Duration = Duration::from_secs(2);
const MAX_INDEX_RETRY: Duration = Duration::from_secs(60);

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
        if self.index_retry.is_none_or(|(due, _)| due <= Instant::now()) {
            self.refresh_index();
        }
        self.core.tree.flush()?;
        self.core.fail.pass(FailPoint::CheckpointFlushed);
        self.core.history.flushed();
        self.core.log.settle(self.last, self.head)?;
        self.unsettled_bytes = 0;
        self.is_unsettled = false;
        Ok(())
    }

    /// Brings `.git/index` up to date. A lock of a person's git, or one that a dead one left, is told once; nothing but
    /// `git status` depends on it.
    pub(super) fn refresh_index(&mut self) {
        match self.core.history.refresh_index(self.touched.iter()) {
            Ok(()) => {
                self.touched.clear();
                if self.index_retry.take().is_some() {
                    info!("`.git/index` is up to date again");
                }
            }
            Err(error) => {
                let wait = match self.index_retry {
                    None => {
                        warn!(%error, "`.git/index` cannot be refreshed; `git status` is behind until it can. If no git is \
                                       at work, `svcfs doctor` says which lock is left over");
                        INDEX_RETRY
                    }
                    Some((_, wait)) => (wait * 2).min(MAX_INDEX_RETRY),
                };
                self.index_retry = Some((Instant::now() + wait, wait));
            }
        }
    }
}
