//! `[mcp]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// MCP, the protocol of agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    /// Tools that `/mcp` and `svcfs mcp` list: `core` (about 20), `read`, `memory`, `tasks`, or
    /// `full` (all, with the schemas of their results). Agents can run unlisted tools by name. A
    /// client chooses another profile by its URL, such as `/mcp/x/core`, or with `--profile`.
    pub profile: McpProfile,
}

/// A list of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum McpProfile {
    /// The tools that most agents need.
    Core,
    /// Tools that read.
    Read,
    /// Tools to remember and to recall.
    Memory,
    /// Tools for tasks, claims and workflows.
    Tasks,
    /// All tools.
    #[default]
    Full,
}

impl McpProfile {
    /// All profiles, the smallest first.
    pub const ALL: [Self; 5] = [Self::Core, Self::Read, Self::Memory, Self::Tasks, Self::Full];

    /// The name in settings and URLs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Read => "read",
            Self::Memory => "memory",
            Self::Tasks => "tasks",
            Self::Full => "full",
        }
    }
}
