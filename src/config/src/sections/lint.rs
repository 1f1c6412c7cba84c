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
    /// Reject a write that adds a lint error to a page, through the protocols in
    /// `reject_protocols`. Errors that the stored page has already and warnings never reject.
    pub reject_errors: bool,
    /// Protocols through which lint errors reject a write. The others store the page and report its
    /// issues: in `.svc/lint/`, `user.svc.lint`, the event `lint` and the janitor.
    pub reject_protocols: Vec<LintProtocol>,
    /// Protocols whose writes are formatted while `auto_format` is on. All others store the exact
    /// bytes, because their clients compare what they stored.
    pub format_protocols: Vec<LintProtocol>,
    /// Severity of each rule.
    pub rules: RuleLevels,
}

impl Default for LintConfig {
    fn default() -> Self {
        Self {
            auto_format: true,
            reject_errors: true,
            reject_protocols: vec![LintProtocol::Http, LintProtocol::Mcp],
            format_protocols: vec![LintProtocol::Http, LintProtocol::Mcp],
            rules: RuleLevels::default(),
        }
    }
}

/// A protocol whose writes can be formatted or rejected.
///
/// Separate from [`Protocol`]: the file may contain only values that have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LintProtocol {
    /// The REST interface and the command line, which uses the same operations.
    Http,
    /// The agent tools.
    Mcp,
    /// The mounted filesystem, here or on another machine.
    Fuse,
    /// NFS.
    Nfs,
    /// S3.
    S3,
    /// WebDAV.
    WebDav,
}

impl LintProtocol {
    /// None for files that are already on disk, or created by svcfs in their final form.
    const fn of(protocol: Protocol) -> Option<Self> {
        Some(match protocol {
            Protocol::Http | Protocol::Cli => Self::Http,
            Protocol::Mcp => Self::Mcp,
            Protocol::Fuse | Protocol::Remote => Self::Fuse,
            Protocol::Nfs => Self::Nfs,
            Protocol::WebDav => Self::WebDav,
            Protocol::S3 => Self::S3,
            Protocol::Direct | Protocol::Internal => return None,
        })
    }
}

/// How a lint rule is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleLevel {
    /// Not checked.
    Off,
    /// Reported, for information.
    Info,
    /// Reported, should be fixed.
    Warning,
    /// Reported; rejects a write that adds it.
    Error,
}

/// Severity of each lint rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleLevels {
    /// The frontmatter is not valid YAML.
    pub frontmatter_yaml_invalid: RuleLevel,
    /// A table row and its header have different numbers of columns.
    pub table_column_mismatch: RuleLevel,
    /// The first row of a table is not followed by a separator.
    pub table_no_separator: RuleLevel,
    /// A code fence is never closed.
    pub fence_unclosed: RuleLevel,
    /// A mermaid block is empty or of unknown type.
    pub fence_mermaid_invalid: RuleLevel,
    /// The frontmatter has no `title`.
    pub frontmatter_missing_required: RuleLevel,
    /// `created`, `updated` or `last-reviewed` is not a date.
    pub frontmatter_date_invalid: RuleLevel,
    /// Two headings have the same anchor.
    pub heading_duplicate_slug: RuleLevel,
    /// A heading is more than one level below the previous one.
    pub heading_skip_level: RuleLevel,
    /// An image has no target.
    pub link_image_broken: RuleLevel,
    /// The frontmatter does not fit the schema of its `type`. An error while `schema.enforce` is
    /// on.
    pub schema_violation: RuleLevel,
    /// An edit beside the server changed text of an append-only page.
    pub append_only_violation: RuleLevel,
}

impl Default for RuleLevels {
    fn default() -> Self {
        Self {
            frontmatter_yaml_invalid: RuleLevel::Error,
            table_column_mismatch: RuleLevel::Error,
            table_no_separator: RuleLevel::Error,
            fence_unclosed: RuleLevel::Error,
            fence_mermaid_invalid: RuleLevel::Error,
            frontmatter_missing_required: RuleLevel::Off,
            frontmatter_date_invalid: RuleLevel::Warning,
            heading_duplicate_slug: RuleLevel::Warning,
            heading_skip_level: RuleLevel::Warning,
            link_image_broken: RuleLevel::Warning,
            schema_violation: RuleLevel::Warning,
            append_only_violation: RuleLevel::Warning,
        }
    }
}

/// Validated settings for checks and formatting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LintSettings {
    /// Empty while `reject_errors` is off.
    reject_protocols: Vec<LintProtocol>,
    /// Empty while `auto_format` is off.
    format_protocols: Vec<LintProtocol>,
    /// Severity of each rule.
    pub rules: RuleLevels,
}

impl LintSettings {
    /// Whether a page written through `protocol` is formatted.
    #[must_use]
    pub fn should_format(&self, protocol: Protocol) -> bool {
        LintProtocol::of(protocol).is_some_and(|protocol| self.format_protocols.contains(&protocol))
    }

    /// Whether a lint error rejects a write through `protocol`.
    #[must_use]
    pub fn should_reject(&self, protocol: Protocol) -> bool {
        LintProtocol::of(protocol).is_some_and(|protocol| self.reject_protocols.contains(&protocol))
    }
}

impl From<LintConfig> for LintSettings {
    fn from(config: LintConfig) -> Self {
        let LintConfig { auto_format, reject_errors, reject_protocols, format_protocols, rules } = config;
        let listed = |is_on: bool, protocols| if is_on { protocols } else { Vec::new() };
        Self {
            reject_protocols: listed(reject_errors, reject_protocols),
            format_protocols: listed(auto_format, format_protocols),
            rules,
        }
    }
}
