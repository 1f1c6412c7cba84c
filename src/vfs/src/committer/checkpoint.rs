//! Checkpoints: what the log made happen is flushed, and the log lets go of the contents.

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
use crate::recovery::write_anew;

/// A checkpoint on its way, on a thread of its own: writers do not wait for what it flushes.
pub(crate) struct RunningCheckpoint {
    thread: JoinHandle<()>,
    outcome: Receiver<CheckpointResult>,
    /// How far it settles the log, and how many bytes of contents that lets go of.
    target: Seq,
    bytes: usize,
    /// Whether it flushes; else it only refreshes `.git/index`.
    is_flush: bool,
    started: Instant,
}

impl RunningCheckpoint {
    pub(super) const fn is_flush(&self) -> bool {
        self.is_flush
    }
}

/// What became of a checkpoint.
struct CheckpointResult {
    /// Paths whose entry in `.git/index` was to be brought up to date, whether it was, and how long it took; none when it was
    /// not their time.
    index: Option<IndexRefresh>,
    /// Whether the log was settled; none when only the index was to be refreshed.
    settled: Option<Result<(), StoreError>>,
}

impl Committer {
    /// Begins to bring `.git/index` up to date, to flush tree and objects and to let go of contents in the log; nothing when a
    /// checkpoint is on its way or nothing has happened since the last one.
    pub(super) fn checkpoint(&mut self) {
        if self.underway.is_some() {
            return;
        }
        // Contents are let go of once their commits are flushed.
        self.close_window();
        if self.window.is_open() {
            return;
        }
        if let Err(error) = self.follow_head() {
            // Nor is it known whether git has what the log is to let go of.
            self.last_work = Instant::now();
            if self.core.trouble.lock().is_none() {
                warn!(%error, "commits of others could not be recorded; the log keeps everything until they are");
            }
            return;
        }
        if self.is_unsettled
            && self.core.tree.has_sync_failed()
            && let Err(fault) = write_anew(&self.core)
        {
            return self.not_flushed(fault);
        }
        self.begin(self.is_unsettled);
    }

    /// Begins to bring `.git/index` up to date when it is behind and its time has come, whether anybody writes or not.
    pub(super) fn refresh_index_when_due(&mut self) {
        if self.underway.is_none() && self.index.due().is_some_and(|due| due <= Instant::now()) {
            self.begin(false);
        }
    }

    /// What the disk refused until the end stays in the log for the next opening.
    fn begin(&mut self, is_flush: bool) {
        if self.left.is_some() {
            return;
        }
        self.look_at_index();
        let touched = {
            let departures = self.core.departures.lock();
            self.index.take(is_flush, |path| departures.contains_key(path))
        };
        if !is_flush && touched.is_none() {
            return;
        }
        let (core, target, head) = (Arc::clone(&self.core), self.last, self.head);
        let (tell, outcome) = channel();
        let run = move || {
            let index = touched.map(|touched| {
                let begun = Instant::now();
                let outcome = core.refresh_index(touched.iter());
                IndexRefresh { paths: touched, outcome, took: begun.elapsed() }
            });
            let settled = is_flush.then(|| flushed(&core, target, head));
            // The committer waits for this until its end.
            let _ = tell.send(CheckpointResult { index, settled });
            core.queue.nudge();
        };
        if is_flush {
            self.core.memory.start_flush();
        }
        match thread::Builder::new().name("checkpoint".to_owned()).spawn(run) {
            Ok(thread) => {
                let bytes = if is_flush { std::mem::take(&mut self.unsettled_bytes) } else { 0 };
                self.underway =
                    Some(RunningCheckpoint { thread, outcome, target, bytes, is_flush, started: Instant::now() });
            }
            Err(error) => {
                self.last_work = Instant::now();
                warn!(%error, "no thread for a checkpoint; the log keeps everything and it is tried again");
            }
        }
    }

    /// Takes notice of a checkpoint that is done; with `is_last` it is waited for.
    pub(super) fn end_checkpoint(&mut self, is_last: bool) {
        let Some(underway) = &self.underway else { return };
        let done = if is_last {
            underway.outcome.recv().ok()
        } else {
            match underway.outcome.try_recv() {
                Ok(done) => Some(done),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => None,
            }
        };
        let Some(RunningCheckpoint { thread, target, bytes, started, .. }) = self.underway.take() else { return };
        // It has the space open until its end.
        let is_whole = thread.join().is_ok();
        let Some(CheckpointResult { index, settled }) = done.filter(|_| is_whole) else {
            error!("a checkpoint died; the log keeps everything and it is tried again");
            self.unsettled_bytes += bytes;
            self.last_work = Instant::now();
            return;
        };
        if let Some(refreshed) = index {
            self.index.refreshed(refreshed, |path| self.core.may_come_back(path));
        }
        match settled {
            None => {}
            Some(Ok(())) => {
                *self.core.unflushed.lock() = None;
                self.is_unsettled = self.last > target;
                debug!(seq = %target, took_ms = started.elapsed().as_millis(), "checkpoint");
            }
            Some(Err(error)) => {
                self.unsettled_bytes += bytes;
                self.not_flushed(error.into());
            }
        }
    }

    fn not_flushed(&mut self, fault: Fault) {
        self.last_work = Instant::now();
        warn!(error = ?fault, "checkpoint failed; the log keeps everything and it is tried again");
        let text = format!("writes are safe in the log, and the disk does not take more than that: {fault}");
        *self.core.unflushed.lock() = Some(Fault::new(fault.kind(), text).with_source(fault));
    }
}

/// Flushes everything that was logged up to a position, and settles the log there.
fn flushed(core: &VfsCore, target: Seq, head: Option<CommitId>) -> Result<(), StoreError> {
    let begun = Instant::now();
    core.tree.flush(core.memory.other_disks())?;
    core.fail.hit(FailPoint::CheckpointFlushed);
    core.memory.finish_flush();
    core.log.checkpoint(target, head)?;
    core.flushed(FlushKind::Checkpoint, begun);
    Ok(())
}
