//! `[agents]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What agents may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AgentsConfig {
    pub(crate) limits: AgentLimits,
}

/// Limits for each agent: callers of agent tools, and keys with `limits = true`; never admin keys,
/// mounts and file protocols. More is refused with 429, and can be proposed in a draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Pages that an agent may delete in a minute; 0 for no limit.
    #[schemars(range(max = 100_000))]
    pub deletes_per_minute: u32,
    /// Percentage of the pages that an agent may rewrite in an hour; 0 for no limit. Pages that the
    /// agent made in that hour do not count.
    #[schemars(range(max = 100))]
    pub rewritten_percent_per_hour: u32,
    /// Number of pages that an agent may rewrite in an hour in any case, so that small trees can be
    /// worked on.
    #[schemars(range(max = 100_000))]
    pub min_rewritten_pages: u32,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { deletes_per_minute: 50, rewritten_percent_per_hour: 10, min_rewritten_pages: 20 }
    }
}
