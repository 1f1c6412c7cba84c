//! `[audit]`

use bytesize::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is kept of who asked for what, below `.svc/audit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuditConfig {
    /// Whether every request is kept: who, when, what, and the answer's status. No contents and no keys.
    pub enabled: bool,
    /// Days after which a day of it is removed.
    #[schemars(range(min = 1, max = 36_500))]
    pub keep_days: u32,
    /// The most it may take on the disk, such as `1GiB`, at least `1MiB`; the oldest goes first.
    pub max_size: String,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { enabled: false, keep_days: 90, max_size: "1GiB".to_owned() }
    }
}

/// What is kept of who asked for what, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// Days after which a day of it is removed.
    pub keep_days: u32,
    /// The most it may take on the disk, in bytes.
    pub max_bytes: u64,
}

/// With less, a busy hour would push out the one before.
const LEAST: u64 = 1 << 20;

impl AuditConfig {
    /// What holds; none within when nothing is kept.
    pub(crate) fn resolve(&self) -> Result<Option<AuditSettings>, &'static str> {
        let max_bytes = self.max_size.parse::<ByteSize>().map(|size| size.as_u64()).ok();
        let max_bytes = max_bytes
            .filter(|bytes| *bytes >= LEAST)
            .ok_or("is no size of at least 1 MiB; give one such as `100MB` or `1GiB`")?;
        Ok(self.enabled.then_some(AuditSettings { keep_days: self.keep_days, max_bytes }))
    }
}
