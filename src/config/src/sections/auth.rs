//! `[auth]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// How callers prove who they are.
    #[serde(rename = "type")]
    pub kind: AuthType,
}

/// How callers prove who they are (contract 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// Everybody who can reach the server may do everything; meant for the loopback address.
    #[default]
    None,
}
