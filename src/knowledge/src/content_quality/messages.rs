use jiff::civil::Date;

pub(super) const STALE: &str = "is past its review date";
pub(super) const GENERATED_PAGE: &str = "links to `.html` pages that no page of the tree is the source of";
pub(super) const REST: &str = "others of this kind, each with a reason of its own";
pub(super) const ORPHAN: &str = "is linked to by no other page";
pub(super) const EMPTY: &str = "has no text";
pub(super) const MISSING_FRONTMATTER: &str = "has no valid frontmatter";

pub(super) fn stale(due: Date, days: i32) -> String {
    format!("was due for review on {due}, {days} days ago")
}

pub(super) fn broken_link(target: &str) -> String {
    format!("links to `{target}`, which does not exist")
}

pub(super) fn shared_title(title: &str) -> String {
    format!("has the title `{title}`, like other pages")
}

pub(super) fn duplicate(others: usize) -> String {
    format!("has the title of {others} other {}", if others == 1 { "page" } else { "pages" })
}

pub const SCHEMA_VIOLATION: &str = "its frontmatter does not fit the schema of its type";
