//! The wire shape of the audit log.

use schemars::JsonSchema;
use serde::Deserialize;
use svcfs_base::{AuditEntry, Fault, Kind, Limit, Timestamp};
use svcfs_work::Lane;

use crate::kernel::{Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea { title: "Audit", operations: &[OperationEntry::new::<ReadAuditLog>()] };

/// How far back one looks who does not say.
const USUAL: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Read who asked for what
///
/// Every request of this space but those for health, readiness and metrics, and every change through the mount or NFS, oldest first; requests that
/// belong to no space are with the first one's. Without `since` the newest of the last 24 hours; with it the first ones from that moment on, so that who asks again with the last
/// `ts` misses none. 501 while `audit.enabled` is not set.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadAuditLog {
    /// From this moment on (RFC 3339)
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// At most this many; 100 when absent, lowered to 10000 when larger
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
        let usual = || cx.now().checked_sub(USUAL).unwrap_or(Timestamp::MIN);
        recorder.entries(self.since.unwrap_or_else(usual), self.limit.get(), self.since.is_none())
    }
}
