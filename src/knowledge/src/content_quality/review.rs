use std::cmp::Reverse;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{Index, ReviewDay};

/// The current day, and the days after which a page with `reviewed` is due again.
#[derive(Debug, Clone, Copy)]
pub struct ReviewPolicy {
    today: Date,
    stale_days: u32,
}

/// A page past its review date.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverduePage {
    /// Path of the page
    pub path: TreePath,
    /// Title of the page
    pub title: String,
    /// Review date, such as `2026-01-31`
    pub review_by: String,
    /// Full days since the review date
    pub days_overdue: i32,
}

impl ReviewPolicy {
    /// Judges by the UTC day of `now`.
    pub fn new(now: Timestamp, stale_days: u32) -> Self {
        Self { today: now.to_zoned(TimeZone::UTC).date(), stale_days }
    }

    /// The review date and the days since, if it is past.
    pub fn check_overdue(&self, day: ReviewDay) -> Option<(Date, i32)> {
        let due = match day {
            ReviewDay::Due(due) => due,
            ReviewDay::Reviewed(reviewed) => reviewed.checked_add(i64::from(self.stale_days).days()).ok()?,
        };
        let days = self.today.since(due).ok()?.get_days();
        (days > 0).then_some((due, days))
    }
}

/// The pages past their review date, most overdue first.
pub fn list_overdue(index: &Index, review: &ReviewPolicy) -> Result<Vec<OverduePage>, Fault> {
    let pages = index.pages_with_keys(&ReviewDay::KEYS)?;
    let mut overdue: Vec<OverduePage> = pages
        .into_iter()
        .filter_map(|page| {
            let day = ReviewDay::from_metadata(page.metadata.as_object()?)?;
            let (due, days_overdue) = review.check_overdue(day)?;
            Some(OverduePage { path: page.path, title: page.title, review_by: due.to_string(), days_overdue })
        })
        .collect();
    overdue.sort_by_key(|page| Reverse(page.days_overdue));
    Ok(overdue)
}
