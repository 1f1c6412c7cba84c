//! The audit log: who requested what, and with which status it ended.
//!
//! Invariant: recording never blocks a request, and no entry is lost silently. A protocol hands an
//! entry to the space's [`AuditRecorder`] and continues; a task writes it within 100 ms. If the
//! disk is too slow or full, up to 16,384 entries wait in memory. Entries beyond that are
//! counted: the count is in the next stored entry and in the metrics, and the server is unready.

mod filesystem_changes;
mod operations;
mod request;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use svcfs_base::{AuditEntry, Fault, Kind, Timestamp};
use svcfs_config::AuditSettings;
use svcfs_store::{AuditLog, RetentionLimits};
use svcfs_work::{NextStep, Signal, StopToken, Task, TaskFailure};

use crate::kernel::Space;
pub(crate) use filesystem_changes::follow;
pub use operations::AREA;
pub use request::{RequestHead, RequestNotes, TrackedRequest};

const MAX_PENDING: usize = 16_384;
const MAX_BATCH: usize = 1024;
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

/// Records the requests of one space.
#[derive(Debug)]
pub struct AuditRecorder {
    log: AuditLog,
    pending: Mutex<PendingEntries>,
    /// Held during a write, so that entries keep their order.
    write_lock: Mutex<()>,
    wake: Signal,
}

#[derive(Debug, Default)]
struct PendingEntries {
    entries: VecDeque<AuditEntry>,
    unreported_drops: u64,
    total_drops: u64,
    write_error: Option<String>,
}

/// The state of an [`AuditRecorder`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecorderStatus {
    /// Entries that wait for the disk.
    pub pending: usize,
    /// Entries dropped since the start.
    pub dropped: u64,
    /// The error of the last write, until one succeeds.
    pub last_error: Option<String>,
}

impl AuditRecorder {
    /// The recorder of a root.
    pub fn new(root: &Path, settings: &AuditSettings) -> Self {
        let AuditSettings { keep_days, max_bytes } = *settings;
        let log = AuditLog::new(root, RetentionLimits { days: keep_days, bytes: max_bytes });
        Self { log, pending: Mutex::default(), write_lock: Mutex::default(), wake: Signal::new() }
    }

    /// Queues an entry; never waits for the disk.
    pub fn record(&self, entry: AuditEntry) {
        let mut pending = self.pending.lock();
        if pending.entries.len() < MAX_PENDING {
            let lost_before = std::mem::take(&mut pending.unreported_drops);
            pending.entries.push_back(AuditEntry { lost_before, ..entry });
        } else {
            if pending.unreported_drops == 0 {
                tracing::error!("cannot write the audit log fast enough: entries are dropped and counted");
            }
            pending.unreported_drops += 1;
            pending.total_drops += 1;
        }
        drop(pending);
        self.wake.raise();
    }

    /// Writes the queued entries.
    ///
    /// # Errors
    /// `Unavailable` on I/O errors; unwritten entries stay queued.
    pub fn flush(&self) -> Result<(), Fault> {
        let _in_order = self.write_lock.lock();
        loop {
            let batch = self.next_batch();
            let Some(day) = batch.first().map(|entry| day(entry.ts)) else { return Ok(()) };
            let mut lines = String::new();
            for entry in &batch {
                lines.push_str(&serde_json::to_string(entry).map_err(Fault::internal)?);
                lines.push('\n');
            }
            let outcome = self.log.append(day, &lines);
            let mut pending = self.pending.lock();
            match outcome {
                Ok(()) => pending.write_error = None,
                Err(error) => {
                    batch.into_iter().rev().for_each(|entry| pending.entries.push_front(entry));
                    pending.write_error = Some(error.to_string());
                    let message = "cannot write the audit log";
                    return Err(Fault::new(Kind::Unavailable, message).with_source(error));
                }
            }
        }
    }

    /// Takes the next entries that belong into the same file out of the queue.
    fn next_batch(&self) -> Vec<AuditEntry> {
        let mut pending = self.pending.lock();
        let Some(first) = pending.entries.front().map(|entry| day(entry.ts)) else { return Vec::new() };
        let count = pending.entries.iter().take(MAX_BATCH).take_while(|entry| day(entry.ts) == first).count();
        pending.entries.drain(..count).collect()
    }

    /// The current state.
    pub fn status(&self) -> RecorderStatus {
        let pending = self.pending.lock();
        let PendingEntries { entries, unreported_drops: _, total_drops, write_error } = &*pending;
        RecorderStatus { pending: entries.len(), dropped: *total_drops, last_error: write_error.clone() }
    }

    /// Entries since a timestamp, oldest first: the first `limit` of them, or the `newest`.
    fn entries(&self, since: Timestamp, limit: usize, newest: bool) -> Result<Vec<AuditEntry>, Fault> {
        // Recent requests must be in the answer.
        self.flush()?;
        let mut entries: VecDeque<AuditEntry> = VecDeque::new();
        self.log.read(day(since), |line| {
            // A line that was torn by a crash does not parse.
            let Ok(entry) = serde_json::from_str::<AuditEntry>(line) else { return };
            if entry.ts < since || (!newest && entries.len() == limit) {
                return;
            }
            if entries.len() == limit {
                entries.pop_front();
            }
            entries.push_back(entry);
        })?;
        Ok(entries.into())
    }
}

/// The UTC day, which names the file of an entry.
fn day(timestamp: Timestamp) -> Date {
    timestamp.to_zoned(TimeZone::UTC).date()
}

/// The task that writes the entries of one space.
pub struct AuditWriter(Arc<Space>);

impl AuditWriter {
    /// The writer task of a space and the signal that wakes it; none if the audit log is disabled.
    pub fn for_space(space: &Arc<Space>) -> Option<(Self, Signal)> {
        let wake = space.audit.as_ref()?.wake.clone();
        Some((Self(Arc::clone(space)), wake))
    }
}

impl Task for AuditWriter {
    const NAME: &'static str = "audit";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        if let Some(audit) = &self.0.audit {
            audit.flush()?;
        }
        // Entries that arrive during the pause are written together.
        stop.wait(WRITE_INTERVAL);
        Ok(NextStep::WhenSignalled)
    }
}
