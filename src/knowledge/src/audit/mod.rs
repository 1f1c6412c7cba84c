//! Who asked for what, and what they were answered (contract 4.17, gaps.md 4.17).
//!
//! One rule: keeping it makes nobody wait, and what cannot be kept is never forgotten silently. Doors hand an entry to the space's
//! [`Recorder`] and go on; a task writes it within a tenth of a second. When the disk is too slow or full, entries wait in memory, at most
//! [`MAX_WAITING`]; those beyond are counted, the count stands in the next entry that is kept, in the metrics, and makes the server unready.

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

/// Entries that wait for the disk.
const MAX_WAITING: usize = 16_384;
/// Entries that are written at once.
const BATCH: usize = 1024;
/// The pause between two writes.
const PAUSE: Duration = Duration::from_millis(100);

/// What keeps the entries of one space.
#[derive(Debug)]
pub struct AuditRecorder {
    trail: AuditLog,
    waiting: Mutex<PendingEntries>,
    /// Held by whoever writes: entries stay in their order.
    writing: Mutex<()>,
    wake: Signal,
}

/// What is not written yet.
#[derive(Debug, Default)]
struct PendingEntries {
    entries: VecDeque<AuditEntry>,
    /// Entries that were given up since the last one that was taken.
    lost: u64,
    /// Entries that were given up since the start.
    lost_ever: u64,
    /// Why the last write failed, until one succeeds.
    trouble: Option<String>,
}

/// How the keeping goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecorderStatus {
    /// Entries that wait for the disk.
    pub pending: usize,
    /// Entries that were given up since the start.
    pub dropped: u64,
    /// Why the last write failed, until one succeeds.
    pub last_error: Option<String>,
}

impl AuditRecorder {
    /// The recorder of a root.
    pub fn new(root: &Path, settings: &AuditSettings) -> Self {
        let AuditSettings { keep_days, max_bytes } = *settings;
        let trail = AuditLog::new(root, RetentionLimits { days: keep_days, bytes: max_bytes });
        Self { trail, waiting: Mutex::default(), writing: Mutex::default(), wake: Signal::new() }
    }

    /// Takes an entry; never waits for the disk.
    pub fn record(&self, entry: AuditEntry) {
        let mut waiting = self.waiting.lock();
        if waiting.entries.len() < MAX_WAITING {
            let lost_before = std::mem::take(&mut waiting.lost);
            waiting.entries.push_back(AuditEntry { lost_before, ..entry });
        } else {
            if waiting.lost == 0 {
                tracing::error!(
                    "the audit log cannot be written fast enough, or at all: requests are lost to it and counted"
                );
            }
            waiting.lost += 1;
            waiting.lost_ever += 1;
        }
        drop(waiting);
        self.wake.raise();
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// What the disk said; what was not written waits on.
    pub fn flush(&self) -> Result<(), Fault> {
        let _in_order = self.writing.lock();
        loop {
            let batch = self.next_batch();
            let Some(day) = batch.first().map(|entry| day(entry.ts)) else { return Ok(()) };
            let mut lines = String::new();
            for entry in &batch {
                lines.push_str(&serde_json::to_string(entry).map_err(Fault::internal)?);
                lines.push('\n');
            }
            let outcome = self.trail.append(day, &lines);
            let mut waiting = self.waiting.lock();
            match outcome {
                Ok(()) => waiting.trouble = None,
                Err(error) => {
                    batch.into_iter().rev().for_each(|entry| waiting.entries.push_front(entry));
                    waiting.trouble = Some(error.to_string());
                    let told = "the audit log cannot be written";
                    return Err(Fault::new(Kind::Unavailable, told).with_source(error));
                }
            }
        }
    }

    /// Takes out of the queue what belongs into one file.
    fn next_batch(&self) -> Vec<AuditEntry> {
        let mut waiting = self.waiting.lock();
        let Some(first) = waiting.entries.front().map(|entry| day(entry.ts)) else { return Vec::new() };
        let together = waiting.entries.iter().take(BATCH).take_while(|entry| day(entry.ts) == first).count();
        waiting.entries.drain(..together).collect()
    }

    /// How the keeping goes.
    pub fn status(&self) -> RecorderStatus {
        let waiting = self.waiting.lock();
        let PendingEntries { entries, lost: _, lost_ever, trouble } = &*waiting;
        RecorderStatus { pending: entries.len(), dropped: *lost_ever, last_error: trouble.clone() }
    }

    /// Entries from a moment on, oldest first: the first of them, or the `newest`.
    ///
    /// # Errors
    /// What the disk said.
    fn entries(&self, since: Timestamp, limit: usize, newest: bool) -> Result<Vec<AuditEntry>, Fault> {
        // What somebody asked a moment ago is among the answers.
        self.flush()?;
        let mut found: VecDeque<AuditEntry> = VecDeque::new();
        self.trail.read(day(since), |line| {
            // What a crash tore is no entry.
            let Ok(entry) = serde_json::from_str::<AuditEntry>(line) else { return };
            if entry.ts < since || (!newest && found.len() == limit) {
                return;
            }
            if found.len() == limit {
                found.pop_front();
            }
            found.push_back(entry);
        })?;
        Ok(found.into())
    }
}

/// The day of a moment, which names a file.
fn day(moment: Timestamp) -> Date {
    moment.to_zoned(TimeZone::UTC).date()
}

/// The task that writes the entries of one space.
pub struct AuditWriter(Arc<Space>);

impl AuditWriter {
    /// The scribe of a space, and what wakes it; none where nothing is kept.
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
        // Others that come meanwhile are written together.
        stop.wait(PAUSE);
        Ok(NextStep::WhenSignalled)
    }
}
