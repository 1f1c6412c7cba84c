//! `[links]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What leads from one page to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Links {
    /// Keys of the frontmatter whose values name pages, one or a list, such as `[[a page]]` or `a page`: they are links like those of
    /// the text.
    pub typed_fields: Vec<String>,
}

impl Default for Links {
    fn default() -> Self {
        Self { typed_fields: vec!["contradicts".to_owned()] }
    }
}
