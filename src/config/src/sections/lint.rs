//! `[lint]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::Protocol;

/// Checks and formatting of written pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LintConfig {
    /// Format pages when they are written: bullets, tables, trailing spaces, one final newline.
    pub auto_format: bool,
    /// Reject a write if the page has a lint error, through every protocol. Warnings never reject.
    pub reject_errors: bool,
    /// Protocols whose writes are formatted while `auto_format` is on. All others store the exact
    /// bytes, because their clients compare what they stored.
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

/// A protocol whose writes can be formatted.
///
/// Separate from [`Protocol`]: the file may contain only values that have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FormatProtocol {
    /// The REST interface and the command line, which uses the same operations.
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

/// Validated settings for checks and formatting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintSettings {
    /// Whether a lint error rejects a write.
    pub reject_errors: bool,
    /// Empty while `auto_format` is off.
    format_protocols: Vec<FormatProtocol>,
}

impl LintSettings {
    /// Whether a page written through `protocol` is formatted.
    #[must_use]
    pub fn should_format(&self, protocol: Protocol) -> bool {
        let format_protocol = match protocol {
            Protocol::Http | Protocol::Cli => FormatProtocol::Http,
            Protocol::Mcp => FormatProtocol::Mcp,
            Protocol::Fuse => FormatProtocol::Fuse,
            Protocol::Nfs => FormatProtocol::Nfs,
            Protocol::WebDav => FormatProtocol::WebDav,
            Protocol::S3 => FormatProtocol::S3,
            // Already on disk, or created by svcfs in its final form.
            Protocol::Direct | Protocol::Internal => return false,
        };
        self.format_protocols.contains(&format_protocol)
    }
}

impl From<LintConfig> for LintSettings {
    fn from(config: LintConfig) -> Self {
        let LintConfig { auto_format, reject_errors, format_protocols } = config;
        Self { reject_errors, format_protocols: if auto_format { format_protocols } else { Vec::new() } }
    }
}
