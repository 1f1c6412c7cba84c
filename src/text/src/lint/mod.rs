//! The linter for pages.
//!
//! An *error* is visibly broken for a reader, so that a write can be rejected for it; it is
//! reported only if GitHub Flavored Markdown is unambiguous. A *warning* never rejects a write.

mod introduced;
mod rules;
mod severities;
#[cfg(test)]
mod tests;

pub use introduced::introduced_error;
use schemars::JsonSchema;
use serde::Serialize;
pub use severities::RuleSeverities;

use crate::frontmatter::ParseError;

/// One issue in a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LintIssue {
    /// The violated rule.
    pub rule: LintRule,
    /// Line in the page, from 1.
    pub line: usize,
    /// Column in that line, from 1, in characters.
    pub column: usize,
    /// Description of the issue.
    pub message: String,
    /// Whether the issue rejects a write.
    pub severity: Severity,
}

/// Severity of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Rejects a write while `lint.reject_errors` is on.
    Error,
    /// Reported only.
    Warning,
    /// Reported only, for information.
    Info,
}

/// The lint rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LintRule {
    /// The frontmatter is not valid YAML or TOML, or not closed.
    FrontmatterYamlInvalid,
    /// A row of a table and its header have different numbers of columns.
    TableColumnMismatch,
    /// The first row of a table is not followed by a separator.
    TableNoSeparator,
    /// A code fence is never closed.
    FenceUnclosed,
    /// A mermaid block is empty or of unknown type.
    FenceMermaidInvalid,
    /// The frontmatter has no `title`.
    FrontmatterMissingRequired,
    /// `created`, `updated` or `last-reviewed` is not an ISO 8601 date.
    FrontmatterDateInvalid,
    /// Two headings have the same anchor.
    HeadingDuplicateSlug,
    /// A heading is more than one level below the previous one.
    HeadingSkipLevel,
    /// An image without a target.
    LinkImageBroken,
    /// The frontmatter does not fit the schema of its type.
    SchemaViolation,
    /// An external edit changed text of an append-only page.
    AppendOnlyViolation,
}

impl LintRule {
    /// Every rule.
    pub const ALL: [Self; 12] = [
        Self::FrontmatterYamlInvalid,
        Self::TableColumnMismatch,
        Self::TableNoSeparator,
        Self::FenceUnclosed,
        Self::FenceMermaidInvalid,
        Self::FrontmatterMissingRequired,
        Self::FrontmatterDateInvalid,
        Self::HeadingDuplicateSlug,
        Self::HeadingSkipLevel,
        Self::LinkImageBroken,
        Self::SchemaViolation,
        Self::AppendOnlyViolation,
    ];

    /// Name in responses and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FrontmatterYamlInvalid => "frontmatter-yaml-invalid",
            Self::TableColumnMismatch => "table-column-mismatch",
            Self::TableNoSeparator => "table-no-separator",
            Self::FenceUnclosed => "fence-unclosed",
            Self::FenceMermaidInvalid => "fence-mermaid-invalid",
            Self::FrontmatterMissingRequired => "frontmatter-missing-required",
            Self::FrontmatterDateInvalid => "frontmatter-date-invalid",
            Self::HeadingDuplicateSlug => "heading-duplicate-slug",
            Self::HeadingSkipLevel => "heading-skip-level",
            Self::LinkImageBroken => "link-image-broken",
            Self::SchemaViolation => "schema-violation",
            Self::AppendOnlyViolation => "append-only-violation",
        }
    }
}

impl std::fmt::Display for LintRule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// Checks a page with the default severities; returns the issues in page order.
#[must_use]
pub fn lint(text: &str) -> Vec<LintIssue> {
    lint_with(text, &RuleSeverities::default())
}

/// Checks a page; returns the issues in page order, without those of rules that are off.
#[must_use]
pub fn lint_with(text: &str, severities: &RuleSeverities) -> Vec<LintIssue> {
    let mut page = rules::CheckedPage::new(text, severities);
    page.frontmatter();
    page.blocks();
    page.headings();
    let mut issues = page.issues;
    issues.sort_by_key(|issue| (issue.line, issue.column));
    issues
}

/// The first error of a page whose frontmatter is parsed already, without the rules that only warn.
#[must_use]
pub fn first_error_of_page(text: &str, frontmatter_error: Option<&ParseError>) -> Option<LintIssue> {
    let severities = RuleSeverities::default();
    if let Some(issue) = frontmatter_error.and_then(|error| rules::frontmatter_issue(error, &severities)) {
        return Some(issue);
    }
    let mut page = rules::CheckedPage::new(text, &severities);
    if page.has_blocks() {
        page.blocks();
    }
    let errors = page.issues.into_iter().filter(|issue| issue.severity == Severity::Error);
    errors.min_by_key(|issue| (issue.line, issue.column))
}

/// The first issue that rejects a write.
#[must_use]
pub fn first_error(issues: &[LintIssue]) -> Option<&LintIssue> {
    issues.iter().find(|issue| issue.severity == Severity::Error)
}

/// The error message for an issue that rejects the write: `<rule> (line N): <message>`.
#[must_use]
pub fn reject_message(issue: &LintIssue) -> String {
    format!("{} (line {}): {}", issue.rule, issue.line, issue.message)
}

/// The rule that a message of [`reject_message`] names.
#[must_use]
pub fn rule_of_message(message: &str) -> Option<LintRule> {
    let name = message.split_once(' ')?.0;
    LintRule::ALL.into_iter().find(|rule| rule.name() == name)
}
