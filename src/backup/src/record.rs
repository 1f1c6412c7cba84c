//! What is known about the backups of a root: `.svc/state/backup/record.json`, and the lock.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use svcfs_base::Timestamp;
use svcfs_store::{FileRights, StatePaths, replace_file};

use crate::error::BackupError;
use crate::git::RunContext;
use crate::target::{identity, shown};

const DIRECTORY: &str = "backup";
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The last backups to one remote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupRecord {
    /// The remote without passwords.
    pub remote: String,
    /// When the first backup was tried.
    pub since: Option<Timestamp>,
    /// When the last backup started.
    pub last_attempt: Option<Timestamp>,
    /// When something was last sent to the remote.
    pub last_push: Option<Timestamp>,
    /// When the remote was last seen to have everything.
    pub last_verified: Option<Timestamp>,
    /// The error of the last backup; none if it succeeded.
    pub last_error: Option<String>,
    /// Whether the last backup was refused: it fails until a person does something.
    pub refused: bool,
    /// The newest commit that the remote is known to have.
    pub head: Option<String>,
    /// What the remote did not take; it has everything else.
    pub note: Option<String>,
    /// Number of commits of others that were merged so far.
    pub merged_commits: u64,
    /// Every ref that the remote is known to have, as it was sent.
    pub refs: BTreeMap<String, String>,
}

impl BackupRecord {
    /// The record of a remote; an empty one if there is none or it cannot be read.
    #[must_use]
    pub fn load(root: &Path, remote: &str) -> Self {
        let read = fs::read(record_file(root, remote)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        read.unwrap_or_else(|| Self { remote: shown(remote), ..Self::default() })
    }

    pub(crate) fn save(&self, root: &Path, remote: &str) -> Result<(), BackupError> {
        let file = record_file(root, remote);
        let text = serde_json::to_vec_pretty(self).map_err(|error| BackupError::failed(error.to_string()))?;
        replace_file(&file, &text, FileRights::Mode(0o600)).map_err(|error| BackupError::io("write", &file, &error))
    }

    /// The time since the remote was last seen to have everything, or since the first attempt.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        let since = self.last_verified.or(self.since)?;
        Some(Duration::try_from(now.duration_since(since)).unwrap_or_default())
    }
}

/// A remote that was tried out does not change the record of another one.
fn record_file(root: &Path, remote: &str) -> PathBuf {
    let id = svcfs_base::to_hex(&Sha256::digest(identity(remote))[..4]);
    directory(root).join(format!("{id}.json"))
}

/// The directory of backups in the state of a root.
pub(crate) fn directory(root: &Path) -> PathBuf {
    StatePaths::new(root).directory().join(DIRECTORY)
}

/// The lock of all backups of a root; ends with the process.
pub(crate) struct BackupLock {
    _file: File,
}

impl BackupLock {
    /// Waits until no other process backs up the root.
    ///
    /// # Errors
    /// When another process still does after `timeout`, the run is to stop, or the state directory
    /// cannot be written.
    pub fn acquire(root: &Path, timeout: Duration, context: RunContext<'_>) -> Result<Self, BackupError> {
        let directory = directory(root);
        fs::create_dir_all(&directory).map_err(|error| BackupError::io("create", &directory, &error))?;
        let path = directory.join("lock");
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|error| BackupError::io("open", &path, &error))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if started.elapsed() < timeout => {
                    context.check()?;
                    std::thread::park_timeout(LOCK_POLL_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(BackupError::failed("another process backs up this root; try again when it has ended"));
                }
                Err(TryLockError::Error(error)) => return Err(BackupError::io("lock", &path, &error)),
            }
        }
    }
}
