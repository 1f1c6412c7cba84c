//! Backups of a space: at start, at intervals and at shutdown, and what is known about them.
//!
//! Invariant: a backup that no one checked does not count. [`BackupMonitor`] reports the age of the
//! last verified one, and a problem when it is older than three intervals.

mod operations;
mod task;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use svcfs_backup::{BackupError, BackupOutcome, BackupRecord, EmptyRemote, RunContext};
use svcfs_base::{Fault, Kind, Timestamp};
use svcfs_config::BackupSettings;
use svcfs_work::Signal;

use crate::kernel::Space;

pub use operations::{AREA, BackupStatus};
pub use task::BackupTask;

/// Name of the event when the last verified backup is too old.
pub const STALE_EVENT: &str = "backup.stale";
/// A backup is stale after this many intervals.
const STALE_INTERVALS: u32 = 3;
/// How long a backup waits for another process that does the same.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the backup at shutdown; systemd kills the server after 30 s.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The backups of a space.
pub struct BackupMonitor {
    settings: BackupSettings,
    root: PathBuf,
    opened: Instant,
    state: Mutex<MonitorState>,
    /// Wakes the task; none in a process that does not back up by itself.
    schedule: OnceLock<Signal>,
}

#[derive(Default)]
struct MonitorState {
    /// What is being done; none between two backups.
    phase: Option<String>,
    /// Number of backups that ended in this process.
    runs: u64,
    /// The error of the last backup of this process, if it is not in the record: another process
    /// had the lock, or the disk is full.
    unrecorded_error: Option<String>,
    /// Whether the event of a stale backup was sent and no backup succeeded since.
    is_stale_announced: bool,
}

impl BackupMonitor {
    /// The backups of a root.
    pub(crate) fn new(root: &Path, settings: &BackupSettings) -> Self {
        let (state, schedule) = Default::default();
        Self { settings: settings.clone(), root: root.to_owned(), opened: Instant::now(), state, schedule }
    }

    /// The settings; they may contain a password.
    pub const fn settings(&self) -> &BackupSettings {
        &self.settings
    }

    /// What is known about the last backups; another process may have made them.
    fn record(&self) -> BackupRecord {
        BackupRecord::load(&self.root, self.settings.remote())
    }

    /// The signal that starts a backup of the task; the first call makes the space one with a task.
    pub(crate) fn schedule(&self) -> Signal {
        self.schedule.get_or_init(Signal::new).clone()
    }

    /// Seconds since the last verified backup, or since the first attempt; none without backups.
    pub(crate) fn age(&self, now: Timestamp) -> Option<Duration> {
        if !self.settings.is_enabled() {
            return None;
        }
        self.record().age(now)
    }

    /// The problem of a backup that is too old; none before the first attempt of this process,
    /// unless that takes too long, too.
    pub(crate) fn problem(&self, now: Timestamp) -> Option<String> {
        let record = self.settings.is_enabled().then(|| self.record())?;
        self.problem_of(&record, now)
    }

    fn problem_of(&self, record: &BackupRecord, now: Timestamp) -> Option<String> {
        let age = record.age(now)?;
        let limit = self.settings.interval * STALE_INTERVALS;
        let is_starting = self.state.lock().runs == 0 && self.opened.elapsed() <= limit;
        if is_starting || age <= limit {
            return None;
        }
        let verified = match record.last_verified {
            Some(verified) => format!("the last verified backup is of {verified:.0}"),
            None => "there is no backup yet".to_owned(),
        };
        let error = record.last_error.as_deref().unwrap_or("the last one has not ended");
        Some(format!("{verified}: {error}"))
    }

    /// Backs up now and waits for the end.
    ///
    /// # Errors
    /// Why the remote does not have everything.
    pub(crate) fn run(
        &self,
        space: &Space,
        (now, is_stopped, deadline): (Timestamp, &dyn Fn() -> bool, Option<Instant>),
    ) -> Result<BackupOutcome, BackupError> {
        self.enter("starting");
        // Commits that wait for others are made now. A stalled disk does not prevent a backup of
        // what git has.
        if let Err(fault) = space.vfs.wait_committed() {
            tracing::warn!(space = space.name, error = ?fault, "the newest changes are not in this backup");
        }
        let on_phase = |phase: &str| self.enter(phase);
        let context = RunContext { is_stopped, deadline, on_phase: &on_phase };
        let outcome = svcfs_backup::run(&self.root, (&self.settings, EmptyRemote::Refuse), (context, LOCK_TIMEOUT));
        let recorded = self.record().last_error;
        let error = outcome.as_ref().err().map(ToString::to_string);
        let mut state = self.state.lock();
        state.unrecorded_error = error.filter(|error| recorded.as_ref() != Some(error));
        state.phase = None;
        state.runs += 1;
        state.is_stale_announced &= outcome.is_err();
        drop(state);
        match &outcome {
            Ok((done, record)) => {
                if done.sent_refs > 0 || done.merged_commits > 0 {
                    tracing::info!(
                        space = space.name,
                        remote = record.remote,
                        sent = done.sent_refs,
                        merged = done.merged_commits,
                        "backed up"
                    );
                }
                if let Some(note) = &done.note {
                    tracing::warn!(space = space.name, "{note}");
                }
            }
            Err(error) => tracing::warn!(space = space.name, %error, "the backup failed"),
        }
        if outcome.is_err() {
            self.announce_stale(space, now);
        }
        outcome.map(|(outcome, _)| outcome)
    }

    fn enter(&self, phase: &str) {
        self.state.lock().phase = Some(phase.to_owned());
    }

    /// Sends the event once per series of failures.
    fn announce_stale(&self, space: &Space, now: Timestamp) {
        let record = self.record();
        let Some(reason) = self.problem_of(&record, now) else { return };
        if std::mem::replace(&mut self.state.lock().is_stale_announced, true) {
            return;
        }
        let age = record.age(now).unwrap_or_default().as_secs();
        tracing::error!(space = space.name, age_seconds = age, "the backup is stale: {reason}");
        let data = json!({ "op": STALE_EVENT, "age_seconds": age, "last_verified": record.last_verified,
                           "error": record.last_error, "timestamp": now });
        space.notices.publish(STALE_EVENT, data);
    }

    /// The last backup of a process that ends; only if something changed since the one before.
    pub fn finish(&self, space: &Space, now: Timestamp) {
        if self.schedule.get().is_none() {
            return;
        }
        let deadline = Some(Instant::now() + SHUTDOWN_TIMEOUT);
        let context = RunContext { is_stopped: &|| false, deadline, on_phase: &|_| {} };
        if !svcfs_backup::is_up_to_date(&self.root, &self.settings, context) {
            // The error is recorded and logged.
            let _outcome = self.run(space, (now, &|| false, deadline));
        }
    }

    fn require_enabled(&self) -> Result<(), Fault> {
        if self.settings.is_enabled() {
            return Ok(());
        }
        Err(Fault::new(Kind::Disabled, "backups are off; set `backup.remote` in the settings"))
    }
}
