//! Long calls of agents that go on after their request was answered.
//!
//! Invariant: a job that a client learned of has a record on disk. A record that says "running" and
//! is not running in this process is of one that ended: such a job has failed, with the reason.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Timestamp};
use svcfs_store::JobFiles;

use crate::kernel::random_hex;

/// How long a record stays.
pub const JOB_TTL: Duration = Duration::from_hours(24);

/// Maximum number of records in a space.
const MAX_RECORDS: usize = 1_000;

/// Maximum number of jobs that run at a time in a space.
const MAX_RUNNING: usize = 16;

/// Why a job has failed whose process ended.
const INTERRUPTED: &str = "the server ended while this call ran, so its outcome is unknown; look at the newest changes \
                           before you repeat it";

/// How a job ended, or that it has not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum JobState {
    /// It runs.
    Running,
    /// It has ended; the result, which may describe a refusal.
    Finished {
        /// The result of the call.
        result: Value,
    },
    /// It ended without a result.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: String,
    /// The operation.
    pub operation: String,
    /// The caller that may see it.
    owner: String,
    /// When it began.
    pub created: Timestamp,
    /// When its state changed.
    pub updated: Timestamp,
    /// Its state.
    #[serde(flatten)]
    pub state: JobState,
}

/// The jobs of a space.
#[derive(Debug)]
pub struct JobRegistry {
    files: JobFiles,
    running: Mutex<HashSet<String>>,
}

impl JobRegistry {
    /// The jobs whose records are in a state directory.
    pub fn new(state_directory: &Path) -> Self {
        Self { files: JobFiles::new(&state_directory.join("jobs")), running: Mutex::default() }
    }

    /// Records a job that runs.
    ///
    /// # Errors
    /// `Unavailable` when too many run; those of the disk.
    pub fn start(&self, operation: &str, owner: &str, now: Timestamp) -> Result<Job, Fault> {
        let (operation, owner) = (operation.to_owned(), owner.to_owned());
        let job =
            Job { id: random_hex::<16>()?, operation, owner, created: now, updated: now, state: JobState::Running };
        {
            let mut running = self.running.lock();
            if running.len() >= MAX_RUNNING {
                return Err(Fault::unavailable(format!("{MAX_RUNNING} long calls run already; try again later")));
            }
            running.insert(job.id.clone());
        }
        if let Err(error) = self.files.prune(JOB_TTL, MAX_RECORDS) {
            tracing::warn!(%error, "cannot remove old records of long calls");
        }
        match self.write(&job) {
            Ok(()) => Ok(job),
            Err(fault) => {
                self.running.lock().remove(&job.id);
                Err(fault)
            }
        }
    }

    /// Records how a job ended. Where the disk takes nothing, the job counts as interrupted.
    pub fn finish(&self, job: Job, state: JobState, now: Timestamp) {
        let job = Job { state, updated: now, ..job };
        if let Err(fault) = self.write(&job) {
            tracing::error!(job = job.id, error = ?fault, "cannot record the end of a long call");
        }
        self.running.lock().remove(&job.id);
    }

    /// The job of this id and caller; none for the jobs of others.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn find(&self, id: &str, owner: &str) -> Result<Option<Job>, Fault> {
        // Before the record is read: it may end meanwhile.
        let is_running = self.running.lock().contains(id);
        let record = self.files.read(id).map_err(Fault::internal)?;
        let Some(mut job) = record.and_then(|record| serde_json::from_slice::<Job>(&record).ok()) else {
            return Ok(None);
        };
        if job.owner != owner {
            return Ok(None);
        }
        if job.state == JobState::Running && !is_running {
            job.state = JobState::Failed { reason: INTERRUPTED.to_owned() };
        }
        Ok(Some(job))
    }

    fn write(&self, job: &Job) -> Result<(), Fault> {
        let record = serde_json::to_vec(job).map_err(Fault::internal)?;
        self.files.write(&job.id, &record).map_err(Fault::internal)
    }
}
