//! `[audit]`

use bytesize::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Audit log of all requests, in `.svc/audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuditConfig {
    /// Record every request: caller, time, operation and status. Contents and keys are not
    /// recorded.
    pub enabled: bool,
    /// Days after which the records of a day are deleted.
    #[schemars(range(min = 1, max = 36_500))]
    pub keep_days: u32,
    /// Maximum size on disk, such as `1GiB`; at least `1MiB`. The oldest records are deleted first.
    pub max_size: String,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { enabled: false, keep_days: 90, max_size: "1GiB".to_owned() }
    }
}

/// Validated settings of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// Days after which the records of a day are deleted.
    pub keep_days: u32,
    /// Maximum size on disk, in bytes.
    pub max_bytes: u64,
}

/// With less, records would not last for an hour of high load.
const MIN_BYTES: u64 = 1 << 20;

impl AuditConfig {
    /// Validates the settings; none when the log is disabled.
    pub(crate) fn resolve(&self) -> Result<Option<AuditSettings>, &'static str> {
        const MESSAGE: &str = "must be a size of at least 1 MiB, such as `100MB` or `1GiB`";
        let size = self.max_size.parse::<ByteSize>().map(|size| size.as_u64()).ok();
        let max_bytes = size.filter(|bytes| *bytes >= MIN_BYTES).ok_or(MESSAGE)?;
        Ok(self.enabled.then_some(AuditSettings { keep_days: self.keep_days, max_bytes }))
    }
}
