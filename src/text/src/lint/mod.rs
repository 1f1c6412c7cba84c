//! What is wrong with a page (gaps.md, "Write-time lint and format").
//!
//! An *error* is something a reader of the page would see broken, so a write can be refused for it; it is reported only where
//! GitHub's rules for markdown leave no doubt. A *warning* never refuses anything.

mod rules;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;

/// One thing that is wrong with a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LintIssue {
    /// Which rule was broken.
    pub rule: LintRule,
    /// Line in the page, from 1.
    pub line: usize,
    /// Column in that line, from 1, in characters.
    pub column: usize,
    /// What is wrong, in words.
    pub message: String,
    /// Does it refuse a write?
    pub severity: Severity,
}

/// How bad an issue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Refuses a write while `lint.reject_errors` is on.
    Error,
    /// Only reported.
    Warning,
}

/// The rules, under the names the contract gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LintRule {
    /// The frontmatter cannot be read.
    FrontmatterYamlInvalid,
    /// A row of a table has another number of columns than its header.
    TableColumnMismatch,
    /// Rows without a line of dashes under the first.
    TableNoSeparator,
    /// A code fence is never closed.
    FenceUnclosed,
    /// A mermaid block is empty or of no known kind.
    FenceMermaidInvalid,
    /// The frontmatter has no `title`.
    FrontmatterMissingRequired,
    /// `created`, `updated` or `last-reviewed` is not an ISO 8601 date.
    FrontmatterDateInvalid,
    /// Two headings have the same anchor.
    HeadingDuplicateSlug,
    /// A heading is more than one level below the one before.
    HeadingSkipLevel,
    /// An image without a target.
    LinkImageBroken,
}

impl LintRule {
    /// Its name in answers and messages.
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
        }
    }

    /// How bad it is to break the rule.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::FrontmatterYamlInvalid
            | Self::TableColumnMismatch
            | Self::TableNoSeparator
            | Self::FenceUnclosed
            | Self::FenceMermaidInvalid => Severity::Error,
            Self::FrontmatterMissingRequired
            | Self::FrontmatterDateInvalid
            | Self::HeadingDuplicateSlug
            | Self::HeadingSkipLevel
            | Self::LinkImageBroken => Severity::Warning,
        }
    }
}

impl std::fmt::Display for LintRule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

/// Look for everything that is wrong with a page; issues come in order of their place.
#[must_use]
pub fn lint(text: &str) -> Vec<LintIssue> {
    let mut page = rules::CheckedPage::new(text);
    page.frontmatter();
    page.blocks();
    page.headings();
    let mut issues = page.issues;
    issues.sort_by_key(|issue| (issue.line, issue.column));
    issues
}

/// The first issue that refuses a write; `None` when the page may be written.
#[must_use]
pub fn first_error(issues: &[LintIssue]) -> Option<&LintIssue> {
    issues.iter().find(|issue| issue.severity == Severity::Error)
}

/// What the writer is told when an issue refuses the write: `<rule> (line N): <message>`.
#[must_use]
pub fn reject_message(issue: &LintIssue) -> String {
    format!("{} (line {}): {}", issue.rule, issue.line, issue.message)
}
