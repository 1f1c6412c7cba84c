use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Timestamp};
use svcfs_work::Lane;

use crate::kernel::{Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Backup",
    operations: &[OperationEntry::new::<ReadBackupStatus>(), OperationEntry::new::<StartBackup>()],
};

/// Read the state of the backups of this space
///
/// Where they go, when the last one was made and verified, and the error of the last attempt. With
/// `enabled: false` there is no remote in the settings.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadBackupStatus {}

/// The state of the backups of a space.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BackupStatus {
    /// Whether `backup.remote` is set
    pub enabled: bool,
    /// The remote without passwords
    pub remote: Option<String>,
    /// Branch of the git remote; none for the name of the current branch
    pub branch: Option<String>,
    /// Time between two backups, such as `5m`
    pub interval: Option<String>,
    /// Whether commits of others are merged before a push
    pub rebase_before_push: bool,
    /// Whether a backup is being made
    pub running: bool,
    /// What it does
    pub phase: Option<String>,
    /// When the last backup started
    pub last_attempt: Option<Timestamp>,
    /// When something was last sent
    pub last_push: Option<Timestamp>,
    /// When the remote was last seen to have everything
    pub last_verified: Option<Timestamp>,
    /// Error of the last backup; none if it succeeded
    pub last_error: Option<String>,
    /// Whether the last backup was refused: it fails until a person does something
    pub refused: bool,
    /// Seconds since `last_verified`, or since the first attempt
    pub age_seconds: Option<u64>,
    /// Whether that is more than three intervals
    pub stale: bool,
    /// The newest commit of the last verified backup
    pub head: Option<String>,
    /// What the remote did not take; the backup has everything else
    pub note: Option<String>,
    /// Number of commits of others that were merged
    pub merged_commits: u64,
    /// Number of backups that ended since the process started
    pub runs: u64,
}

impl BackupStatus {
    fn of(cx: &OperationContext<'_>) -> Self {
        let (monitor, now) = (&cx.space.backup, cx.now());
        let settings = monitor.settings();
        let enabled = settings.is_enabled();
        let record = if enabled { monitor.record() } else { Default::default() };
        let interval = svcfs_base::Timestamp::UNIX_EPOCH.checked_add(settings.interval).ok();
        let interval = interval.map(|end| format!("{:#}", end.duration_since(Timestamp::UNIX_EPOCH)));
        let stale = monitor.problem_of(&record, now).is_some();
        let state = monitor.state.lock();
        Self {
            enabled,
            remote: enabled.then_some(record.remote.clone()),
            branch: settings.branch.clone(),
            interval: interval.filter(|_| enabled),
            rebase_before_push: settings.rebase_before_push,
            running: state.phase.is_some(),
            phase: state.phase.clone(),
            last_attempt: record.last_attempt,
            last_push: record.last_push,
            last_verified: record.last_verified,
            age_seconds: record.age(now).map(|age| age.as_secs()),
            stale,
            refused: state.unrecorded_error.is_none() && record.refused,
            last_error: state.unrecorded_error.clone().or(record.last_error),
            head: record.head,
            note: record.note,
            merged_commits: record.merged_commits,
            runs: state.runs,
        }
    }
}

impl Operation for ReadBackupStatus {
    const NAME: &'static str = "backup_status";
    const HTTP: &'static [Route] = &[Route::get("/backup/status"), Route::get("/sync/status")];
    const ADMIN: bool = true;
    type Output = BackupStatus;
    fn run(self, cx: &OperationContext<'_>) -> Result<BackupStatus, Fault> {
        Ok(BackupStatus::of(cx))
    }
}

/// Back up this space now
///
/// A running server starts the backup and answers immediately: `GET /backup/status` shows when
/// `runs` has grown. 501 if `backup.remote` is not set.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct StartBackup {}

impl Operation for StartBackup {
    const NAME: &'static str = "backup";
    const HTTP: &'static [Route] = &[Route::post("/backup")];
    const LANE: Lane = Lane::Slow;
    const ADMIN: bool = true;
    type Output = BackupStatus;
    fn run(self, cx: &OperationContext<'_>) -> Result<BackupStatus, Fault> {
        let monitor = &cx.space.backup;
        monitor.require_enabled()?;
        let status = BackupStatus::of(cx);
        if let Some(signal) = monitor.schedule.get() {
            signal.raise();
            return Ok(BackupStatus { running: true, ..status });
        }
        // The error is in the status.
        let _outcome = monitor.run(cx.space, (cx.now(), &|| false, None));
        Ok(BackupStatus::of(cx))
    }
}
