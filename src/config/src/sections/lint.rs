//! `[lint]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::Protocol;

/// What is checked and tidied when a page is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LintConfig {
    /// Tidy pages as they are written: bullets, tables, trailing spaces, one final newline.
    pub auto_format: bool,
    /// Refuse a write whose page has a lint error, through every door. Warnings never refuse.
    pub reject_errors: bool,
    /// Doors whose writes are tidied while `auto_format` is on. All others keep the bytes as they were written, because
    /// their clients compare what they stored.
    pub format_protocols: Vec<FormatProtocol>,
}

impl Default for LintConfig {
    fn default() -> Self {
        Self {
            auto_format: true,
            reject_errors: true,
            format_protocols: vec![FormatProtocol::Http, FormatProtocol::Mcp],
        }
    }
}

/// A door whose writes can be tidied.
///
/// A list of its own beside [`Door`]: only what can have an effect may be written into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormatProtocol {
    /// The REST interface, and the command line, which speaks the same operations.
    Http,
    /// The agent tools.
    Mcp,
    /// The mounted filesystem.
    Fuse,
    /// NFS.
    Nfs,
    /// S3.
    S3,
    /// WebDAV.
    WebDav,
}

/// What is checked and tidied when a page is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintSettings {
    /// Refuse a write whose page has a lint error, through every door. Warnings never refuse.
    pub reject_errors: bool,
    /// Empty while `auto_format` is off.
    format_protocols: Vec<FormatProtocol>,
}

impl LintSettings {
    /// Whether a page written through `door` is tidied (gaps.md D5).
    #[must_use]
    pub fn should_format(&self, protocol: Protocol) -> bool {
        let written_as = match protocol {
            Protocol::Http | Protocol::Cli => FormatProtocol::Http,
            Protocol::Mcp => FormatProtocol::Mcp,
            Protocol::Fuse => FormatProtocol::Fuse,
            Protocol::Nfs => FormatProtocol::Nfs,
            Protocol::WebDav => FormatProtocol::WebDav,
            Protocol::S3 => FormatProtocol::S3,
            // Already on disk, or made by svcfs itself in the form it wants.
            Protocol::Direct | Protocol::Internal => return false,
        };
        self.format_protocols.contains(&written_as)
    }
}

impl From<LintConfig> for LintSettings {
    fn from(written: LintConfig) -> Self {
        let LintConfig { auto_format, reject_errors, format_protocols } = written;
        Self { reject_errors, format_protocols: if auto_format { format_protocols } else { Vec::new() } }
    }
}
