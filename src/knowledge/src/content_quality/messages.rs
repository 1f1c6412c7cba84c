use jiff::civil::Date;
use svcfs_text::lint::LintRule;

pub(super) const ORPHAN: &str = "is linked to by no other page";
pub(super) const EMPTY: &str = "has no text";
pub(super) const MISSING_FRONTMATTER: &str = "has no valid frontmatter";

/// Whether a lint error says that the frontmatter cannot be read.
pub(super) fn is_about_frontmatter(lint_error: &str) -> bool {
    lint_error.starts_with(LintRule::FrontmatterYamlInvalid.name())
}

pub(super) fn stale(due: Date, days: i32) -> String {
    format!("was due for review on {due}, {days} days ago")
}

pub(super) fn broken_link(target: &str) -> String {
    format!("links to `{target}`, which does not exist")
}

pub(super) fn duplicate(others: usize) -> String {
    format!("has the title of {others} other {}", if others == 1 { "page" } else { "pages" })
}
