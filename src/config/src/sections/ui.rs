//! `[ui]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What interfaces may change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UiConfig {
    /// Whether `PUT /theme` is refused.
    pub theme_locked: bool,
}
