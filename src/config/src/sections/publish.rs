//! `[publish]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Published pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PublishConfig {
    /// Count how often each published page is read; `GET /publish/status` and `/publish/list` then
    /// have `view_count`. No addresses are stored, and what a cache in front of the server answers
    /// is not counted.
    pub count_views: bool,
}
