//! When a page is to be looked at again.

use std::cmp::Reverse;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{Index, day_of};

/// Keys that say when a page is to be looked at again (contract 2.1, gaps.md D18), the first that is there counts.
const NEXT: [&str; 2] = ["review-by", "next-review"];
/// Keys that say when it was looked at last.
const LAST: [&str; 2] = ["reviewed", "last-reviewed"];
/// What says that nobody needs to look at a page again.
const PUT_AWAY: [&str; 2] = ["archived", "deprecated"];

/// How reviews are judged: on which day, and after how many days a page that was `reviewed` is due again.
#[derive(Debug, Clone, Copy)]
pub struct Review {
    today: Date,
    stale_days: u32,
}

/// A page whose day of review is past.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Overdue {
    /// Which page
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// The day it was to be looked at again, such as `2026-01-31`
    pub review_by: String,
    /// Whole days since then
    pub days_overdue: i32,
}

impl Review {
    /// Judges at a moment; days are those of UTC.
    pub fn at(now: Timestamp, stale_days: u32) -> Self {
        Self { today: now.to_zoned(TimeZone::UTC).date(), stale_days }
    }

    /// The day a page was to be looked at again and the days since, when that day is past.
    pub fn overdue(&self, metadata: &Value) -> Option<(Date, i32)> {
        let status = metadata.get("status").and_then(Value::as_str).unwrap_or_default();
        if PUT_AWAY.iter().any(|away| status.eq_ignore_ascii_case(away)) {
            return None;
        }
        let of = |keys: [&str; 2]| keys.into_iter().find_map(|key| day_of(metadata.get(key)?.as_str()?.trim()));
        let due = match of(NEXT) {
            Some(due) => due,
            None => of(LAST)?.checked_add(i64::from(self.stale_days).days()).ok()?,
        };
        let days = self.today.since(due).ok()?.get_days();
        (days > 0).then_some((due, days))
    }
}

/// The pages that are past their day of review, longest first.
///
/// # Errors
/// Those of the index.
pub fn overdue(index: &Index, review: &Review) -> Result<Vec<Overdue>, Fault> {
    let pages = index.having(&[NEXT, LAST].concat())?;
    let mut found: Vec<Overdue> = pages
        .into_iter()
        .filter_map(|page| {
            let (due, days_overdue) = review.overdue(&page.metadata)?;
            Some(Overdue { path: page.path, title: page.title, review_by: due.to_string(), days_overdue })
        })
        .collect();
    found.sort_by_key(|page| Reverse(page.days_overdue));
    Ok(found)
}
