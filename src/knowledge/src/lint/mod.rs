//! The lint gate: checks that written pages must pass.
//!
//! Invariant: a write is refused only for a lint error that it adds to a page, and only through the
//! protocols in `lint.reject_protocols`. The others store the page, as out-of-band edits do; its
//! issues are reported in `.svc/lint/`, `user.svc.lint`, the event `lint` and the janitor.
//!
//! Only full texts by one writer are formatted. Operations know which ones are, and format them
//! before they write (an append or a rewritten link leaves the rest of a page unchanged). File
//! protocols have no operations, so the gate formats for those in `lint.format_protocols`.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;
use svcfs_base::{Caller, ETag, Fault, Protocol, TreePath};
use svcfs_config::{LintSettings, RuleLevel, RuleLevels};
use svcfs_text::lint::{LintIssue, LintRule, RuleSeverities, Severity, introduced_error, lint_with, reject_message};
use svcfs_vfs::{ProposedFile, WriteGate};

use crate::append_only;
use crate::kernel::Space;
use crate::schemas::lint_page;

/// Formats and checks pages before they are written.
#[derive(Debug, Clone)]
pub struct LintGate {
    settings: LintSettings,
    severities: RuleSeverities,
}

impl LintGate {
    /// A gate with the settings `[lint]`.
    pub fn new(settings: LintSettings) -> Self {
        let severities = severities(&settings.rules);
        Self { settings, severities }
    }
}

impl WriteGate for LintGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        if !proposal.path.is_page() {
            return Ok(());
        }
        // Binary content has no lint rules: operations refuse it earlier, file protocols store it.
        let Ok(text) = std::str::from_utf8(&proposal.content) else {
            return Ok(());
        };
        let old_text = proposal.old_content.as_deref().and_then(|old| std::str::from_utf8(old).ok());
        if caller.protocol.is_filesystem()
            && self.settings.should_format(caller.protocol)
            && let Cow::Owned(formatted) = format_text(old_text, text)
        {
            proposal.content = Bytes::from(formatted);
        }
        if !self.settings.should_reject(caller.protocol) {
            return Ok(());
        }
        let text = std::str::from_utf8(&proposal.content).unwrap_or_default();
        let issues = lint_with(text, &self.severities);
        let Some(error) = introduced_error(old_text.unwrap_or_default(), text, &issues, &self.severities) else {
            return Ok(());
        };
        Err(refusal(error, &issues).with_detail("path", proposal.path.as_str()))
    }
}

/// The formatted text of a page that replaces a stored text, if there is one; borrowed if nothing
/// changes.
pub fn format_text<'t>(stored: Option<&str>, text: &'t str) -> Cow<'t, str> {
    match stored {
        Some(stored) => svcfs_text::format::format_changes(stored, text),
        None => svcfs_text::format::format(text),
    }
}

/// The severities that the settings `[lint.rules]` give the lint rules.
pub fn severities(levels: &RuleLevels) -> RuleSeverities {
    RuleSeverities::new(|rule| {
        let level = match rule {
            LintRule::FrontmatterYamlInvalid => levels.frontmatter_yaml_invalid,
            LintRule::TableColumnMismatch => levels.table_column_mismatch,
            LintRule::TableNoSeparator => levels.table_no_separator,
            LintRule::FenceUnclosed => levels.fence_unclosed,
            LintRule::FenceMermaidInvalid => levels.fence_mermaid_invalid,
            LintRule::FrontmatterMissingRequired => levels.frontmatter_missing_required,
            LintRule::FrontmatterDateInvalid => levels.frontmatter_date_invalid,
            LintRule::HeadingDuplicateSlug => levels.heading_duplicate_slug,
            LintRule::HeadingSkipLevel => levels.heading_skip_level,
            LintRule::LinkImageBroken => levels.link_image_broken,
            LintRule::SchemaViolation => levels.schema_violation,
            LintRule::AppendOnlyViolation => levels.append_only_violation,
        };
        match level {
            RuleLevel::Off => None,
            RuleLevel::Info => Some(Severity::Info),
            RuleLevel::Warning => Some(Severity::Warning),
            RuleLevel::Error => Some(Severity::Error),
        }
    })
}

/// The issues of a page, if one of them is an error and the page is still stored with this content.
/// With the hash of the text that an external edit replaced, also whether it changed an append-only
/// page.
pub fn stored_issues(
    space: &Space,
    path: &TreePath,
    etag: ETag,
    externally_replaced: Option<ETag>,
) -> Option<Vec<LintIssue>> {
    let file = space.vfs.read(Protocol::Internal, path).ok().filter(|file| path.is_page() && file.etag == etag)?;
    let text = std::str::from_utf8(&file.content).ok()?;
    let mut issues = lint_page(space, text).ok()?;
    let rewrite = externally_replaced.and_then(|old| append_only::rewrite_of(space, old, text));
    let is_reported = rewrite.is_some() || issues.iter().any(|issue| issue.severity == Severity::Error);
    issues.extend(rewrite);
    is_reported.then_some(issues)
}

/// The refusal of a page for an error, with all issues of the page as details.
fn refusal(error: &LintIssue, issues: &[LintIssue]) -> Fault {
    let fault = Fault::rejected(reject_message(error));
    fault.with_detail("issues", serde_json::to_value(issues).unwrap_or(Value::Null))
}
