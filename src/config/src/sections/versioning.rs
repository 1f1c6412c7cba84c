//! `[versioning]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How history is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Versioning {
    /// What remembers earlier versions of a page.
    pub strategy: Strategy,
}

/// What remembers earlier versions of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// An ordinary git repository in the root: one commit per change, with the author of the change.
    #[default]
    Git,
}
