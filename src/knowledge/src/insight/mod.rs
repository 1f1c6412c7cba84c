//! Statistics of changes: how fast a knowledge base changes, where, and by which actors.
//!
//! Invariant: the numbers are exact counts from the history of existing pages, without sampling.

mod operations;
mod period;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use svcfs_base::{Actor, Fault, Timestamp, TreePath};
use svcfs_vfs::{DayActivity, PageActivity, Vfs};

pub use operations::AREA;
pub use period::TimePeriod;

const SECONDS_PER_DAY: i64 = 86_400;
/// A burst is a day with more than this many times the daily average, by one actor.
const BURST_FACTOR: f64 = 3.0;
const MIN_BURST_CHANGES: u32 = 5;

/// Changes of a tree in a period.
#[derive(Debug)]
pub struct TreeVelocity {
    /// Number of changes of pages.
    pub total: u64,
    /// Changed pages, most changes first.
    pub hot: Vec<PageActivity>,
    /// Unchanged pages, oldest last change first.
    pub cold: Vec<PageActivity>,
    /// Days with unusually many changes by one actor, most first.
    pub bursts: Vec<DayActivity>,
    /// Pages whose changes are all by one actor, in path order.
    pub single_author: Vec<TreePath>,
}

/// Measures changes of the pages at or below a path (default: all) in a period that ends at `now`;
/// each list has at most `max` entries.
pub fn measure_velocity(
    vfs: &Vfs,
    (period, now): (&TimePeriod, Timestamp),
    below: Option<&TreePath>,
    max: usize,
) -> Result<TreeVelocity, Fault> {
    let activity = vfs.activity(period.start_before(now), below)?;
    let daily_average = activity.changes as f64 / f64::from(period.days());
    let is_burst =
        |day: &DayActivity| day.changes >= MIN_BURST_CHANGES && f64::from(day.changes) > BURST_FACTOR * daily_average;
    let mut bursts: Vec<DayActivity> = activity.days.into_iter().filter(is_burst).collect();
    bursts.sort_by_key(|burst| Reverse((burst.changes, burst.day)));
    bursts.truncate(max);
    let existing = activity.pages.into_iter().filter(|page| page.is_there);
    let (hot, cold): (Vec<_>, Vec<_>) = existing.partition(|page| page.changes > 0);
    let single_author =
        hot.iter().filter(|page| page.has_single_author).map(|page| page.path.clone()).take(max).collect();
    Ok(TreeVelocity {
        total: activity.changes,
        hot: first(hot, max, |page| Reverse((page.changes, page.newest))),
        cold: first(cold, max, |page| page.newest),
        bursts,
        single_author,
    })
}

/// The first `max` pages by a key, then by path.
fn first<K: Ord>(mut pages: Vec<PageActivity>, max: usize, key: impl Fn(&PageActivity) -> K) -> Vec<PageActivity> {
    let order = |a: &PageActivity, b: &PageActivity| key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path));
    if pages.len() > max {
        // Avoids sorting all pages.
        pages.select_nth_unstable_by(max, order);
        pages.truncate(max);
    }
    pages.sort_unstable_by(order);
    pages
}

/// Full days between two timestamps; 0 if the first is later.
fn days_between(earlier: Timestamp, now: Timestamp) -> i64 {
    (now.as_second() - earlier.as_second()).max(0) / SECONDS_PER_DAY
}

fn burst_parts(burst: DayActivity) -> (String, Actor, u32) {
    (burst.day.strftime("%Y-%m-%d").to_string(), burst.actor, burst.changes)
}
