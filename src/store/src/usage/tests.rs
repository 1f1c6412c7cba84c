use svcfs_base::{Timestamp, TreePath};

use super::{BucketSize, HourRange, UsageCounts};

/// 2026-01-01T00:00:00Z
const BEGIN: i64 = 1_767_225_600;

fn after(minutes: i64) -> Timestamp {
    Timestamp::from_second(BEGIN + minutes * 60).unwrap()
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn day() -> HourRange {
    HourRange::new(after(0), after(23 * 60))
}

#[test]
fn pages_are_counted_by_who_read_them_and_when() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("usage.db");
    let usage = UsageCounts::open(&file).unwrap();
    usage.record_view(&path("a.md"), "http", after(1));
    usage.record_view(&path("a.md"), "mcp", after(61));
    usage.record_view(&path("b.md"), "http", after(2));
    assert_eq!(usage.totals(day()).unwrap().views, 0, "it is written late");
    usage.flush(after(62)).unwrap();
    usage.record_view(&path("a.md"), "http", after(3));
    usage.flush(after(63)).unwrap();
    drop(usage);
    let usage = UsageCounts::open(&file).unwrap();
    let totals = usage.totals(day()).unwrap();
    assert_eq!((totals.views, totals.pages), (4, 2));
    let pages = usage.top_pages(day(), (None, None), 10).unwrap();
    let told: Vec<_> =
        pages.iter().map(|page| (page.path.as_str(), page.count, page.first_seen, page.last_seen)).collect();
    assert_eq!(told, [("a.md", 3, after(1), after(61)), ("b.md", 1, after(2), after(2))]);
    assert_eq!(usage.top_pages(day(), (Some(&path("b.md")), None), 10).unwrap().len(), 1);
    assert_eq!(usage.top_pages(day(), (None, Some("mcp")), 10).unwrap()[0].count, 1);
    assert_eq!(usage.top_pages(day(), (None, None), 1).unwrap().len(), 1);
    assert_eq!(usage.sources(day()).unwrap(), [("http".to_owned(), 3), ("mcp".to_owned(), 1)]);
    let series = usage.view_series(day(), (None, None), BucketSize::Hour).unwrap();
    let hours: Vec<_> = series.iter().map(|counted| (counted.timestamp, counted.count)).collect();
    assert_eq!(hours, [(after(0), 3), (after(60), 1)]);
    assert_eq!(usage.view_series(day(), (None, None), BucketSize::Day).unwrap().len(), 1);
    assert_eq!(usage.totals(day().previous()).unwrap().views, 0);
}

#[test]
fn a_gap_is_a_search_that_found_nothing_and_finds_nothing_since() {
    let directory = tempfile::tempdir().unwrap();
    let usage = UsageCounts::open(&directory.path().join("usage.db")).unwrap();
    usage.record_search("  Helm   charts ", "search", false, after(1));
    usage.record_search("helm charts", "search", false, after(2));
    usage.record_search("vault", "search", false, after(3));
    usage.record_search("vault", "verified", true, after(70));
    usage.record_search("   ", "search", false, after(4));
    usage.record_search("later gone", "search", true, after(5));
    usage.record_search("later gone", "search", false, after(70));
    usage.flush(after(71)).unwrap();
    let names = |found: Vec<super::SearchCount>| -> Vec<(String, i64)> {
        found.into_iter().map(|searched| (searched.query, searched.count)).collect()
    };
    let owned = |list: &[(&str, i64)]| -> Vec<(String, i64)> {
        list.iter().map(|(query, count)| ((*query).to_owned(), *count)).collect()
    };
    let failures = names(usage.failed_searches(day(), 10).unwrap());
    assert_eq!(failures, owned(&[("helm charts", 2), ("later gone", 1), ("vault", 1)]));
    assert_eq!(names(usage.content_gaps(day(), 10).unwrap()), owned(&[("helm charts", 2), ("later gone", 1)]));
    usage.dismiss("HELM charts", "search").unwrap();
    usage.dismiss("HELM charts", "search").unwrap();
    assert_eq!(names(usage.content_gaps(day(), 10).unwrap()), owned(&[("later gone", 1)]));
    let totals = usage.totals(day()).unwrap();
    assert_eq!((totals.searches, totals.successes), (6, 2));
    assert_eq!(usage.search_series(day(), BucketSize::Hour).unwrap().len(), 2);
}

#[test]
fn counts_expire_after_four_hundred_days_and_a_bad_file_resets() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("usage.db");
    let usage = UsageCounts::open(&file).unwrap();
    usage.record_view(&path("a.md"), "http", after(0));
    usage.flush(after(0)).unwrap();
    let later = after(401 * 24 * 60);
    usage.record_view(&path("b.md"), "http", later);
    usage.flush(later).unwrap();
    assert_eq!(usage.totals(HourRange::new(after(0), later)).unwrap().views, 1);
    drop(usage);
    std::fs::write(&file, "no database, whatever its name says".repeat(100)).unwrap();
    let usage = UsageCounts::open(&file).unwrap();
    assert_eq!(usage.totals(HourRange::new(after(0), later)).unwrap().views, 0);
    usage.record_view(&path("a.md"), "http", after(0));
    usage.flush(after(0)).unwrap();
    assert_eq!(usage.totals(day()).unwrap().views, 1);
}

#[test]
fn a_flood_of_odd_questions_does_not_fill_the_memory() {
    let directory = tempfile::tempdir().unwrap();
    let usage = UsageCounts::open(&directory.path().join("usage.db")).unwrap();
    for number in 0..super::MAX_PENDING + 10 {
        usage.record_search(&format!("{number} {}", "x".repeat(1_000)), "search", false, after(0));
    }
    assert_eq!(usage.pending.lock().len(), super::MAX_PENDING);
    usage.flush(after(0)).unwrap();
    assert_eq!(usage.totals(day()).unwrap().searches, i64::try_from(super::MAX_PENDING).unwrap());
    assert!(usage.failed_searches(day(), 1).unwrap()[0].query.chars().count() <= 200);
}
