//! Checkpoints: what the log made happen is flushed, and the log lets go of the contents.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use svcfs_base::{CommitId, Fault, Seq, TreePath};
use svcfs_store::{FailPoint, StoreError};
use tracing::{debug, error, info, warn};

use super::Committer;
use crate::core::Core;
use crate::opening::write_anew;

/// How long `.git/index` is left alone after somebody's lock kept it from being written; doubled each time, up to the other.
const INDEX_RETRY: Duration = Duration::from_secs(2);
const MAX_INDEX_RETRY: Duration = Duration::from_secs(60);

/// A checkpoint on its way, on a thread of its own: writers do not wait for what it flushes.
pub(crate) struct Underway {
    thread: JoinHandle<()>,
    outcome: Receiver<Done>,
    /// How far it settles the log, and how many bytes of contents that lets go of.
    target: Seq,
    bytes: usize,
    started: Instant,
}

/// What became of a checkpoint.
struct Done {
    /// Paths whose entry in `.git/index` was to be brought up to date, and whether it was; none when it was not their time.
    index: Option<(BTreeSet<TreePath>, Result<(), StoreError>)>,
    settled: Result<(), StoreError>,
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
            warn!(%error, "commits of others could not be recorded");
        }
        let is_index_due = self.index_retry.is_none_or(|(due, _)| due <= Instant::now());
        let is_indexing = is_index_due && !self.touched.is_empty();
        // What the disk refused until the end stays in the log for the next opening.
        if self.left.is_some() || !self.is_unsettled && !is_indexing {
            return;
        }
        if self.core.tree.is_doubted()
            && let Err(fault) = write_anew(&self.core)
        {
            return self.not_flushed(fault);
        }
        let touched = is_indexing.then(|| std::mem::take(&mut self.touched));
        let (core, target, head, is_unsettled) = (Arc::clone(&self.core), self.last, self.head, self.is_unsettled);
        let (tell, outcome) = channel();
        let run = move || {
            let index = touched.map(|touched| {
                let refreshed = core.memory.refresh_index(touched.iter());
                (touched, refreshed)
            });
            let settled = if is_unsettled { flushed(&core, target, head) } else { Ok(()) };
            // The committer waits for this until its end.
            let _ = tell.send(Done { index, settled });
            core.queue.nudge();
        };
        self.core.memory.flushing();
        match thread::Builder::new().name("checkpoint".to_owned()).spawn(run) {
            Ok(thread) => {
                let bytes = std::mem::take(&mut self.unsettled_bytes);
                self.underway = Some(Underway { thread, outcome, target, bytes, started: Instant::now() });
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
        let Some(Underway { thread, target, bytes, started, .. }) = self.underway.take() else { return };
        // It has the space open until its end.
        let is_whole = thread.join().is_ok();
        let Some(Done { index, settled }) = done.filter(|_| is_whole) else {
            error!("a checkpoint died; the log keeps everything and it is tried again");
            self.unsettled_bytes += bytes;
            self.last_work = Instant::now();
            return;
        };
        if let Some((touched, refreshed)) = index {
            self.index_refreshed(touched, refreshed);
        }
        match settled {
            Ok(()) => {
                *self.core.unflushed.lock() = None;
                self.is_unsettled = self.last > target;
                debug!(seq = %target, took_ms = started.elapsed().as_millis(), "checkpoint");
            }
            Err(error) => {
                self.unsettled_bytes += bytes;
                self.not_flushed(error.into());
            }
        }
    }

    fn not_flushed(&mut self, fault: Fault) {
        self.last_work = Instant::now();
        warn!(error = ?fault, "checkpoint failed; the log keeps everything and it is tried again");
        let text = format!("writes are safe in the log, and the disk does not take more than that: {fault}");
        *self.core.unflushed.lock() = Some(Fault::new(fault.kind(), text).caused_by(fault));
    }

    /// A lock of a person's git, or one that a dead one left, is told once; nothing but `git status` depends on the index.
    fn index_refreshed(&mut self, mut touched: BTreeSet<TreePath>, refreshed: Result<(), StoreError>) {
        let Err(error) = refreshed else {
            if self.index_retry.take().is_some() {
                info!("`.git/index` is up to date again");
            }
            return;
        };
        self.touched.append(&mut touched);
        let wait = match self.index_retry {
            None => {
                warn!(%error, "`.git/index` cannot be refreshed; `git status` is behind until it can. If no git is at work, \
                               `svcfs doctor` says which lock is left over");
                INDEX_RETRY
            }
            Some((_, wait)) => (wait * 2).min(MAX_INDEX_RETRY),
        };
        self.index_retry = Some((Instant::now() + wait, wait));
    }
}

/// Flushes everything that was logged up to a position, and settles the log there.
fn flushed(core: &Core, target: Seq, head: Option<CommitId>) -> Result<(), StoreError> {
    core.tree.flush()?;
    core.fail.pass(FailPoint::CheckpointFlushed);
    core.memory.flushed();
    core.log.settle(target, head)
}
