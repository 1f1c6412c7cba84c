//! How far the opening of a space is, told to whoever waits for it.
//!
//! One rule: who listens changes nothing. What is told is a copy, and often enough for a person and no more.

use std::time::{Duration, Instant};

/// Counts are told at most this often; a person sees nothing faster.
const INTERVAL: Duration = Duration::from_millis(50);

/// How far [`Vfs::open`](crate::Vfs::open) is.
///
/// Stages come in the order they stand here, those with nothing to do are left out. Within a stage counts never fall, begin
/// at 0 and end at the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenProgress {
    /// Commits of what was logged and not settled when the last process ended are built again.
    Replaying {
        /// Log records whose commit is there.
        records: usize,
        /// All that were not settled.
        total: usize,
    },
    /// The files of those records that were not found in place are put there again.
    Restoring {
        /// Files that are in place by now.
        files: usize,
        /// All that were not.
        total: usize,
    },
    /// Commits that others made on the branch are read; how many there are is not known.
    ReadingHistory,
    /// The tree on disk is compared with history; how much there is is not known.
    Comparing,
    /// Files that may differ from history are read, and recorded where they do. Both go on at the same time.
    Adopting {
        /// Files that were read, or found missing.
        scanned_files: usize,
        /// Those of them that history has by now as the disk has them; grows by up to 10,000 at once.
        recorded_files: usize,
        /// All that may differ.
        total: usize,
    },
}

/// Hears how far an opening is, on the thread that opens: at the beginning and end of each stage, and in between at most 20
/// times a second and for each commit. It should return at once.
pub type OnProgress = Box<dyn Fn(OpenProgress) + Send>;

/// Tells a listener, if there is one.
pub(crate) struct ProgressReporter {
    listener: Option<OnProgress>,
    told: Option<Instant>,
}

impl ProgressReporter {
    pub(crate) const fn new(listener: Option<OnProgress>) -> Self {
        Self { listener, told: None }
    }

    /// For what nobody waits for.
    pub(crate) const fn silent() -> Self {
        Self::new(None)
    }

    /// Tells at once: for beginnings, ends and what is rare.
    pub(crate) fn tell(&mut self, progress: OpenProgress) {
        if let Some(listener) = &self.listener {
            listener(progress);
            self.told = Some(Instant::now());
        }
    }

    /// Tells unless something was told a moment ago: for each of many.
    pub(crate) fn pass(&mut self, progress: OpenProgress) {
        if self.listener.is_some() && self.told.is_none_or(|told| told.elapsed() >= INTERVAL) {
            self.tell(progress);
        }
    }
}

#[cfg(test)]
mod tests;
