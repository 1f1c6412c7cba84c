//! `[render]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Pages as HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RenderConfig {
    /// Show images of other servers in rendered, published and shared pages. Those servers see the
    /// address of every reader. Without it, their alternative text is shown.
    pub external_images: bool,
}

impl Default for RenderConfig {
    fn default() -> Self {
        Self { external_images: true }
    }
}
