//! When a page is to be looked at again.

use std::cmp::Reverse;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{Index, ReviewDay};

/// How reviews are judged: on which day, and after how many days a page that was `reviewed` is due again.
#[derive(Debug, Clone, Copy)]
pub struct ReviewPolicy {
    today: Date,
    stale_days: u32,
}

/// A page whose day of review is past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverduePage {
    /// Which page
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// The day it was to be looked at again, such as `2026-01-31`
    pub review_by: String,
    /// Whole days since then
    pub days_overdue: i32,
}

impl ReviewPolicy {
    /// Judges at a moment; days are those of UTC.
    pub fn new(now: Timestamp, stale_days: u32) -> Self {
        Self { today: now.to_zoned(TimeZone::UTC).date(), stale_days }
    }

    /// The day a page was to be looked at again and the days since, when that day is past.
    pub fn check_overdue(&self, day: ReviewDay) -> Option<(Date, i32)> {
        let due = match day {
            ReviewDay::Due(due) => due,
            ReviewDay::Reviewed(reviewed) => reviewed.checked_add(i64::from(self.stale_days).days()).ok()?,
        };
        let days = self.today.since(due).ok()?.get_days();
        (days > 0).then_some((due, days))
    }
}

/// The pages that are past their day of review, longest first.
///
/// # Errors
/// Those of the index.
pub fn list_overdue(index: &Index, review: &ReviewPolicy) -> Result<Vec<OverduePage>, Fault> {
    let pages = index.pages_with_keys(&ReviewDay::KEYS)?;
    let mut found: Vec<OverduePage> = pages
        .into_iter()
        .filter_map(|page| {
            let day = ReviewDay::from_metadata(page.metadata.as_object()?)?;
            let (due, days_overdue) = review.check_overdue(day)?;
            Some(OverduePage { path: page.path, title: page.title, review_by: due.to_string(), days_overdue })
        })
        .collect();
    found.sort_by_key(|page| Reverse(page.days_overdue));
    Ok(found)
}
