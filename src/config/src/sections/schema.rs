//! `[schema]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schemas for the frontmatter of pages, in `.svc/schemas/`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SchemaConfig {
    /// Refuse a write, through any protocol, after which a page does not fit the schema of its
    /// `type`. Otherwise violations are lint warnings.
    pub enforce: bool,
}
