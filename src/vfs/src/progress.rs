//! Progress of opening a space.
//!
//! Invariant: a listener has no effect on opening; it gets copies, at a rate for humans.

use std::time::{Duration, Instant};

const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// Progress of [`Vfs::open`](crate::Vfs::open).
///
/// Stages come in this order; empty ones are omitted. Within a stage counts never decrease, start
/// at 0 and end at the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenProgress {
    /// Rebuilding the commits of records since the last checkpoint.
    Replaying {
        /// Records whose commit is rebuilt.
        records: usize,
        /// All such records.
        total: usize,
    },
    /// Installing the missing files of those records.
    Restoring {
        /// Files installed.
        files: usize,
        /// All missing files.
        total: usize,
    },
    /// Reading external commits; their number is unknown.
    ReadingHistory,
    /// Comparing the tree on disk with history; the amount is unknown.
    Comparing,
    /// Scanning files that may differ from history and recording those that do, at the same time.
    Adopting {
        /// Files read, or found missing.
        scanned_files: usize,
        /// Of those, files that history has by now; grows by up to 10,000 at a time.
        recorded_files: usize,
        /// All files that may differ.
        total: usize,
    },
}

/// Called with the progress on the thread that opens: at the start and end of each stage, in
/// between at most 20 times a second and for each commit. It should return immediately.
pub type OnProgress = Box<dyn Fn(OpenProgress) + Send>;

/// Reports to a listener, if there is one.
pub(crate) struct ProgressReporter {
    listener: Option<OnProgress>,
    last_report: Option<Instant>,
}

impl ProgressReporter {
    pub(crate) const fn new(listener: Option<OnProgress>) -> Self {
        Self { listener, last_report: None }
    }

    /// Without a listener.
    pub(crate) const fn silent() -> Self {
        Self::new(None)
    }

    /// Reports immediately: for starts, ends and rare events.
    pub(crate) fn report(&mut self, progress: OpenProgress) {
        if let Some(listener) = &self.listener {
            listener(progress);
            self.last_report = Some(Instant::now());
        }
    }

    /// Reports unless a report was made recently: for each of many items.
    pub(crate) fn report_throttled(&mut self, progress: OpenProgress) {
        if self.listener.is_some()
            && self.last_report.is_none_or(|last_report| last_report.elapsed() >= REPORT_INTERVAL)
        {
            self.report(progress);
        }
    }
}

#[cfg(test)]
mod tests;
