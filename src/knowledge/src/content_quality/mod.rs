//! Content quality of a tree: stale, orphaned, empty, duplicate or contradicting pages and broken
//! links.
//!
//! Invariant: a finding follows from the text of pages alone; fixing the text removes it.

mod disputes;
mod findings;
mod groups;
mod janitor;
mod linked_files;
mod lint_errors;
mod messages;
mod operations;
mod page;
mod review;
mod survey;
#[cfg(test)]
mod tests;

pub use disputes::{PageDispute, find_disputes};
pub use findings::{FindingKind, FindingSeverity, PageFinding};
pub use groups::FindingGroup;
pub use janitor::JanitorTask;
pub use operations::AREA;
pub use page::{PageHealth, check_page};
pub use review::{OverduePage, ReviewPolicy, list_overdue};
pub use survey::{SurveyCache, TreeSurvey};

const MAX_ISSUES: usize = 1000;
