//! How much is on its way to the disk, and how long that takes, for whoever watches over the server.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use svcfs_store::StatePaths;

use crate::Vfs;
use crate::core::VfsCore;

/// What waits at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueLoad {
    /// Change sets that are accepted and that the committer has not taken yet.
    pub queued_sets: usize,
    /// What they bring, in bytes.
    pub queued_bytes: usize,
    /// Change sets that are accepted and neither in place nor refused, the queued ones included.
    pub pending_sets: u64,
    /// What the log holds until the next checkpoint, in bytes.
    pub uncheckpointed_bytes: u64,
    /// The log's files on the disk, in bytes.
    pub log_bytes: u64,
}

/// What the disk was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushKind {
    /// One transaction of the log: what every acknowledged write waits for.
    Log,
    /// A checkpoint: tree and history are flushed, the log lets go of contents.
    Checkpoint,
}

impl FlushKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Log, Self::Checkpoint];
    /// The kind in a word, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// Told of each flush that the disk took, and how long it took; must not block.
pub type OnFlush = Box<dyn Fn(FlushKind, Duration) + Send + Sync>;

impl Vfs {
    /// What waits at this moment.
    pub fn queue_load(&self) -> QueueLoad {
        let (queued_sets, queued_bytes, pending_sets) = self.core.queue.depth();
        let paths = StatePaths::new(&self.core.root);
        let mut ahead = paths.log().into_os_string();
        ahead.push("-wal");
        let files = [paths.log(), ahead.into()];
        let log_bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
        let unsettled_bytes = self.core.unsettled_bytes.load(Ordering::Relaxed);
        QueueLoad { queued_sets, queued_bytes, pending_sets, uncheckpointed_bytes: unsettled_bytes, log_bytes }
    }

    /// Has somebody told of each flush from here on; only the first who asks is.
    pub fn on_flush(&self, told: OnFlush) {
        let _only_the_first = self.core.on_flush.set(told);
    }
}

impl VfsCore {
    /// Tells of a flush that began at `begun` and that the disk took.
    pub(crate) fn flushed(&self, what: FlushKind, begun: Instant) {
        if let Some(told) = self.on_flush.get() {
            told(what, begun.elapsed());
        }
    }
}
