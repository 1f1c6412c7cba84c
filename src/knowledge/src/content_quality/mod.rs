//! How a tree is doing: what is out of date, cut off, broken, empty, said twice or disputed (contract 4.16).
//!
//! One rule: a finding is what the text of the pages says, never a guess about its meaning. Whoever mends the text is rid of it.

mod disputes;
mod findings;
mod janitor;
mod linked_files;
mod messages;
mod operations;
mod page;
mod review;
mod survey;
#[cfg(test)]
mod tests;

pub use disputes::{PageDispute, find_disputes};
pub use findings::{FindingKind, FindingSeverity, PageFinding};
pub use janitor::JanitorTask;
pub use operations::AREA;
pub use page::{PageHealth, check_page};
pub use review::{OverduePage, ReviewPolicy, list_overdue};
pub use survey::{SurveyCache, TreeSurvey};

/// Findings that one answer lists at most.
const MAX_ISSUES: usize = 1000;
