//! Which errors a write adds to a page.

use super::{LintIssue, LintRule, RuleSeverities, Severity, first_error, lint_with};
use crate::changes::LineChanges;

/// The first of the `issues` of `text` that is an error and that `stored`, the text which it
/// replaces, does not have already.
///
/// An error is the same in both texts if its line is the same, or is one of the lines that replace
/// the line of the stored error.
#[must_use]
pub fn introduced_error<'i>(
    stored: &str,
    text: &str,
    issues: &'i [LintIssue],
    severities: &RuleSeverities,
) -> Option<&'i LintIssue> {
    let is_error = |issue: &&LintIssue| issue.severity == Severity::Error;
    first_error(issues)?;
    let mut stored_issues = lint_with(stored, severities);
    stored_issues.retain(|issue| is_error(&issue));
    let changes = LineChanges::new(stored, text);
    issues.iter().filter(is_error).find(|issue| {
        let lines = changes.stored_lines(issue.line - 1);
        let is_same = |stored: &LintIssue| {
            stored.rule == issue.rule && (is_of_page(issue.rule) || lines.contains(&(stored.line - 1)))
        };
        match stored_issues.iter().position(is_same) {
            Some(same) => {
                stored_issues.remove(same);
                false
            }
            None => true,
        }
    })
}

/// Whether a page has at most one issue of the rule, wherever its line is.
const fn is_of_page(rule: LintRule) -> bool {
    matches!(rule, LintRule::FrontmatterYamlInvalid | LintRule::FenceUnclosed)
}
