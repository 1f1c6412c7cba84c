//! Metrics of the write path: queue lengths and flush durations.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use svcfs_store::StatePaths;

use crate::Vfs;
use crate::core::VfsCore;

/// Pending work of the write path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueLoad {
    /// Change sets in the queue.
    pub queued_sets: usize,
    /// Their size in bytes.
    pub queued_bytes: usize,
    /// Change sets accepted but not yet applied or refused, including queued ones.
    pub pending_sets: u64,
    /// Content bytes in the log since the last checkpoint.
    pub uncheckpointed_bytes: u64,
    /// Size of the log files in bytes.
    pub log_bytes: u64,
}

/// What was flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushKind {
    /// One log transaction: every acknowledged write waits for one.
    Log,
    /// A checkpoint: flushes tree and history, after which the log drops contents.
    Checkpoint,
}

impl FlushKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Log, Self::Checkpoint];
    /// Name of the kind in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// Called with each completed flush and its duration; must not block.
pub type OnFlush = Box<dyn Fn(FlushKind, Duration) + Send + Sync>;

impl Vfs {
    /// The current load.
    pub fn queue_load(&self) -> QueueLoad {
        let (queued_sets, queued_bytes, pending_sets) = self.core.queue.depth();
        let paths = StatePaths::new(&self.core.root);
        let mut wal = paths.log().into_os_string();
        wal.push("-wal");
        let files = [paths.log(), wal.into()];
        let log_bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
        let uncheckpointed_bytes = self.core.uncheckpointed_bytes.load(Ordering::Relaxed);
        QueueLoad { queued_sets, queued_bytes, pending_sets, uncheckpointed_bytes, log_bytes }
    }

    /// Registers the one observer of flushes; later ones are ignored.
    pub fn on_flush(&self, observer: OnFlush) {
        let _only_the_first = self.core.on_flush.set(observer);
    }
}

impl VfsCore {
    pub(crate) fn report_flush(&self, kind: FlushKind, started: Instant) {
        if let Some(observer) = self.on_flush.get() {
            observer(kind, started.elapsed());
        }
    }
}
