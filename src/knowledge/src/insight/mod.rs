//! What a knowledge base is like as a whole: how fast it changes, where, and through whom (contract 4.6).
//!
//! One rule: counted is what history recorded of pages that are there now. Nothing is sampled, nothing is estimated.

mod operations;
mod period;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use svcfs_base::{Actor, Fault, Timestamp, TreePath};
use svcfs_vfs::{DayActivity, PageActivity, Vfs};

pub use operations::AREA;
pub use period::TimePeriod;

const SECONDS_A_DAY: i64 = 86_400;
/// A day has a burst of one name when that name changed more than this many times what is usual in the whole tree.
const UNUSUAL: f64 = 3.0;
/// Fewer changes than this on one day are no burst, however quiet the tree is otherwise.
const LEAST_BURST: u32 = 5;

/// How a tree changed in a period.
#[derive(Debug)]
pub struct TreeVelocity {
    /// Changes of pages in the period.
    pub total: u64,
    /// Pages that changed, most often changed first.
    pub hot: Vec<PageActivity>,
    /// Pages that did not change, longest untouched first.
    pub cold: Vec<PageActivity>,
    /// Days on which one name changed unusually much, most first.
    pub bursts: Vec<DayActivity>,
    /// Pages that changed, all by one name, in path order.
    pub single_author: Vec<TreePath>,
}

/// How the pages at or below a path, or all, changed in a period that ends at `now`; each list has at most `max` entries.
///
/// # Errors
/// `Internal` when the log cannot be read.
pub fn measure_velocity(
    vfs: &Vfs,
    (period, now): (&TimePeriod, Timestamp),
    below: Option<&TreePath>,
    max: usize,
) -> Result<TreeVelocity, Fault> {
    let activity = vfs.activity(period.start_before(now), below)?;
    let usual = activity.changes as f64 / f64::from(period.days());
    let is_burst = |day: &DayActivity| day.changes >= LEAST_BURST && f64::from(day.changes) > UNUSUAL * usual;
    let mut bursts: Vec<DayActivity> = activity.days.into_iter().filter(is_burst).collect();
    bursts.sort_by_key(|burst| Reverse((burst.changes, burst.day)));
    bursts.truncate(max);
    let there = activity.pages.into_iter().filter(|page| page.is_there);
    let (hot, cold): (Vec<_>, Vec<_>) = there.partition(|page| page.changes > 0);
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

/// The first `max` pages by a key; those of one key in path order.
fn first<K: Ord>(mut pages: Vec<PageActivity>, max: usize, key: impl Fn(&PageActivity) -> K) -> Vec<PageActivity> {
    let order =
        |one: &PageActivity, other: &PageActivity| key(one).cmp(&key(other)).then_with(|| one.path.cmp(&other.path));
    if pages.len() > max {
        // Of 100,000 pages only those that are told are put in order.
        pages.select_nth_unstable_by(max, order);
        pages.truncate(max);
    }
    pages.sort_unstable_by(order);
    pages
}

/// Whole days between two moments; none are counted for a moment to come.
fn days_between(then: Timestamp, now: Timestamp) -> i64 {
    (now.as_second() - then.as_second()).max(0) / SECONDS_A_DAY
}

/// The day of a burst, and whose it was.
fn day_of(burst: DayActivity) -> (String, Actor, u32) {
    (burst.day.strftime("%Y-%m-%d").to_string(), burst.actor, burst.changes)
}
