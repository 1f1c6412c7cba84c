//! Checkpoints: flush tree and git, after which the log drops contents.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use svcfs_base::{CommitId, Fault, Seq};
use svcfs_store::{FailPoint, StoreError};
use tracing::{debug, error, warn};

use super::Committer;
use super::index::IndexRefresh;
use crate::core::VfsCore;
use crate::queue_load::FlushKind;
use crate::recovery::rewrite_unsynced;

/// A checkpoint on a thread of its own: writers do not wait for its flushes.
pub(crate) struct RunningCheckpoint {
    thread: JoinHandle<()>,
    outcome: Receiver<CheckpointResult>,
    /// The position up to which the log drops contents, and their size in bytes.
    target: Seq,
    bytes: usize,
    /// Whether it flushes; otherwise it only refreshes `.git/index`.
    is_flush: bool,
    started: Instant,
}

impl RunningCheckpoint {
    pub(super) const fn is_flush(&self) -> bool {
        self.is_flush
    }
}

struct CheckpointResult {
    /// The refresh of `.git/index`; none when it was not due.
    index_refresh: Option<IndexRefresh>,
    /// The flush; none when only the index was refreshed.
    flush_outcome: Option<Result<(), StoreError>>,
}

impl Committer {
    /// Starts a checkpoint: refreshes `.git/index`, flushes tree and objects, drops contents from
    /// the log. Does nothing while one is running, or when nothing has changed.
    pub(super) fn checkpoint(&mut self) {
        if self.running_checkpoint.is_some() {
            return;
        }
        // Contents are dropped only once their commits are flushed.
        self.close_window();
        if self.window.is_open() {
            return;
        }
        if let Err(error) = self.follow_head() {
            // It is unknown whether git has the contents that the log would drop.
            self.last_work = Instant::now();
            if self.core.write_error.lock().is_none() {
                warn!(%error, "external commits could not be recorded; no checkpoint until they are");
            }
            return;
        }
        if self.needs_checkpoint
            && self.core.tree.has_sync_failed()
            && let Err(fault) = rewrite_unsynced(&self.core)
        {
            return self.checkpoint_failed(fault);
        }
        self.start_checkpoint(self.needs_checkpoint);
    }

    /// Starts a refresh of `.git/index` when it is due, with or without writes.
    pub(super) fn refresh_index_when_due(&mut self) {
        if self.running_checkpoint.is_none() && self.git_index.due().is_some_and(|due| due <= Instant::now()) {
            self.start_checkpoint(false);
        }
    }

    /// Not with unapplied sets: their contents stay in the log for recovery.
    fn start_checkpoint(&mut self, is_flush: bool) {
        if self.unapplied_tip.is_some() {
            return;
        }
        self.check_index();
        let touched = {
            let pending_removals = self.core.pending_removals.lock();
            self.git_index.take_due(is_flush, |path| pending_removals.contains_key(path))
        };
        if !is_flush && touched.is_none() {
            return;
        }
        let (core, target, head) = (Arc::clone(&self.core), self.last_seq, self.head);
        let (sender, outcome) = channel();
        let run = move || {
            let index = touched.map(|touched| {
                let started = Instant::now();
                let outcome = core.refresh_index(touched.iter());
                IndexRefresh { paths: touched, outcome, took: started.elapsed() }
            });
            let flush_outcome = is_flush.then(|| flush_and_truncate_log(&core, target, head));
            // The committer keeps the receiver until the thread ends.
            let _ = sender.send(CheckpointResult { index_refresh: index, flush_outcome });
            core.queue.wake_idle();
        };
        if is_flush {
            self.core.versions.start_flush();
        }
        match thread::Builder::new().name("checkpoint".to_owned()).spawn(run) {
            Ok(thread) => {
                let bytes = if is_flush { std::mem::take(&mut self.uncheckpointed_bytes) } else { 0 };
                self.running_checkpoint =
                    Some(RunningCheckpoint { thread, outcome, target, bytes, is_flush, started: Instant::now() });
            }
            Err(error) => {
                self.last_work = Instant::now();
                warn!(%error, "cannot start a checkpoint thread; retrying, the log keeps its contents");
            }
        }
    }

    /// Collects the result of a finished checkpoint; with `must_wait`, waits for it.
    pub(super) fn collect_checkpoint(&mut self, must_wait: bool) {
        let Some(underway) = &self.running_checkpoint else { return };
        let result = if must_wait {
            underway.outcome.recv().ok()
        } else {
            match underway.outcome.try_recv() {
                Ok(result) => Some(result),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => None,
            }
        };
        let Some(RunningCheckpoint { thread, target, bytes, started, .. }) = self.running_checkpoint.take() else {
            return;
        };
        // The thread uses the space until it ends.
        let has_finished = thread.join().is_ok();
        let Some(CheckpointResult { index_refresh: index, flush_outcome }) = result.filter(|_| has_finished) else {
            error!("the checkpoint thread panicked; retrying, the log keeps its contents");
            self.uncheckpointed_bytes += bytes;
            self.last_work = Instant::now();
            return;
        };
        if let Some(refreshed) = index {
            self.git_index.record_refresh(refreshed, |path| self.core.may_reappear(path));
        }
        match flush_outcome {
            None => {}
            Some(Ok(())) => {
                *self.core.checkpoint_error.lock() = None;
                self.needs_checkpoint = self.last_seq > target;
                debug!(seq = %target, took_ms = started.elapsed().as_millis(), "checkpoint");
            }
            Some(Err(error)) => {
                self.uncheckpointed_bytes += bytes;
                self.checkpoint_failed(error.into());
            }
        }
    }

    fn checkpoint_failed(&mut self, fault: Fault) {
        self.last_work = Instant::now();
        warn!(error = ?fault, "checkpoint failed; retrying, the log keeps its contents");
        let text = format!("checkpoint failed, writes are safe in the log: {fault}");
        *self.core.checkpoint_error.lock() = Some(Fault::new(fault.kind(), text).with_source(fault));
    }
}

/// Flushes everything logged up to `target`, and lets the log drop contents up to there.
fn flush_and_truncate_log(core: &VfsCore, target: Seq, head: Option<CommitId>) -> Result<(), StoreError> {
    let started = Instant::now();
    core.tree.flush(core.versions.other_disks())?;
    core.fail_points.hit(FailPoint::CheckpointFlushed);
    core.versions.finish_flush();
    core.log.checkpoint(target, head)?;
    core.report_flush(FlushKind::Checkpoint, started);
    Ok(())
}
