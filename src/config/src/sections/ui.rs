//! `[ui]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// User interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UiConfig {
    /// Reject `PUT /theme`.
    pub theme_locked: bool,
}
