//! `[versioning]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How history is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Versioning {
    /// What remembers earlier versions of a page.
    pub strategy: Strategy,
    /// Answer a writer once the change is durable and visible, and make its commit a moment later: the changes of one author in
    /// that time are one commit. Off: a change is answered with its own commit made.
    pub async_commit: bool,
    /// How long a change waits for its commit at most, in milliseconds; with `async_commit` only.
    #[schemars(range(min = 1, max = 60_000))]
    pub batch_window_ms: u64,
    /// How many paths one commit has at most; with `async_commit` only. A bulk write or a rename is always one commit.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch_max_size: usize,
}

impl Default for Versioning {
    fn default() -> Self {
        Self { strategy: Strategy::default(), async_commit: false, batch_window_ms: 200, batch_max_size: 50 }
    }
}

/// What remembers earlier versions of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// An ordinary git repository in the root: one commit per change, with the author of the change.
    #[default]
    Git,
}
