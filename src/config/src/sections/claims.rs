//! `[claims]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Claims: write leases on pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClaimsConfig {
    /// Let actors claim pages. Without it, claims and the task queue answer 503.
    pub enabled: bool,
    /// Refuse writes to a claimed page by other actors, through every protocol. Without it they are
    /// done, with a note; only pages with `type: task` are always protected.
    pub enforce: bool,
}

impl Default for ClaimsConfig {
    fn default() -> Self {
        Self { enabled: true, enforce: false }
    }
}
