use schemars::JsonSchema;
use serde::Deserialize;
use svcfs_base::{AuditEntry, Fault, Kind, Limit, Timestamp};
use svcfs_work::Lane;

use crate::kernel::{Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea { title: "Audit", operations: &[OperationEntry::new::<ReadAuditLog>()] };

const DEFAULT_PERIOD: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Read the audit log: who requested what
///
/// Every request of this space except health, readiness and metrics, and every change through the
/// mount or NFS, oldest first. Requests that belong to no space are in the log of the first space.
/// Without `since`: the newest entries of the last 24 hours. With `since`: the first entries from
/// that time on; to continue, pass the last `ts` as `since`. 501 if `audit.enabled` is not set.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadAuditLog {
    /// Only entries from this time on (RFC 3339)
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Maximum number of entries; default 100, capped at 10000
    #[serde(default)]
    pub limit: Limit<100, 10_000>,
}

impl Operation for ReadAuditLog {
    const NAME: &'static str = "audit";
    const HTTP: &'static [Route] = &[Route::get("/audit")];
    const LANE: Lane = Lane::Slow;
    const ADMIN: bool = true;
    type Output = Vec<AuditEntry>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<AuditEntry>, Fault> {
        let disabled = || Fault::new(Kind::Disabled, "audit log disabled; set `audit.enabled = true` in the settings");
        let recorder = cx.space.audit.as_ref().ok_or_else(disabled)?;
        let default_since = || cx.now().checked_sub(DEFAULT_PERIOD).unwrap_or(Timestamp::MIN);
        recorder.entries(self.since.unwrap_or_else(default_since), self.limit.get(), self.since.is_none())
    }
}
