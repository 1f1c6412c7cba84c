//! `[lint]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is checked and tidied when a page is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lint {
    /// Tidy pages as they are written: bullets, tables, trailing spaces, one final newline.
    pub auto_format: bool,
    /// Refuse a write whose page has a lint error, through every door. Warnings never refuse.
    pub reject_errors: bool,
    /// Doors whose writes are tidied while `auto_format` is on. All others keep the bytes as they were written, because
    /// their clients compare what they stored.
    pub format_doors: Vec<Door>,
}

impl Default for Lint {
    fn default() -> Self {
        Self {
            auto_format: true,
            reject_errors: true,
            format_doors: vec![Door::Http, Door::Mcp],
        }
    }
}

/// A way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// The REST interface, and the command line that speaks the same operations.
    Http,
    /// The agent tools.
    Mcp,
    /// The mounted filesystem.
    Fuse,
}
