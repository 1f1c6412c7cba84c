mod groups;
mod incremental;

use std::sync::Arc;

use serde_json::{Value, json};
use svcfs_base::{SystemClock, Timestamp};
use svcfs_work::{NextStep, StopToken, Task};

use super::JanitorTask;
use crate::spaces::test_space::TestSpace;

/// Of the pages here some are ill, each in a way of its own. It is 2026-01-01.
fn space() -> TestSpace {
    TestSpace::with(
        "",
        &[
            (
                "index.md",
                "---\ntitle: Home\n---\n[[good]] [[old]] [[empty]] [there](gone.md) ![p](picture.png) [[nowhere]]\n",
            ),
            ("good.md", "---\ntitle: Good\nreview-by: 2026-02-01\n---\nText, see [[index]] and [[put-away]].\n"),
            ("old.md", "---\ntitle: Old\nreview-by: 2025-12-01\n---\nText.\n"),
            ("reviewed.md", "---\ntitle: Reviewed\nreviewed: 2025-09-01\n---\nText.\n"),
            ("put-away.md", "---\ntitle: Put away\nreview-by: 2020-01-01\nstatus: archived\n---\nText.\n"),
            ("empty.md", "---\ntitle: Empty\n---\n"),
            ("bare.md", "# Bare\n\nNo frontmatter.\n"),
            ("twin.md", "---\ntitle: GOOD\n---\nText.\n"),
            ("truth/a.md", "---\ntitle: A\nsource-of-truth: true\ntags: [Deploy, x]\n---\nBy hand.\n"),
            ("truth/b.md", "---\ntitle: B\nsource-of-truth: true\ntags: deploy\n---\nBy robot.\n"),
            ("truth/c.md", "---\ntitle: C\ncontradicts: \"[[a]]\"\n---\nNot at all.\n"),
            ("picture.png", "not really"),
        ],
    )
}

fn messages(answer: &Value, path: &str) -> Vec<String> {
    let issues = answer["issues"].as_array().unwrap().iter().filter(|issue| issue["path"] == path);
    issues.map(|issue| format!("{}: {}", issue["kind"].as_str().unwrap(), issue["message"].as_str().unwrap())).collect()
}

#[test]
fn a_content_check_finds_problems_and_suggests_repairs() {
    let found = space().get("janitor", json!({}));
    let count = |name: &str| found[name].as_u64().unwrap();
    assert_eq!((count("scanned"), count("healthy")), (11, 1), "{found}");
    assert_eq!((count("stale"), count("broken_links"), count("empty"), count("missing_frontmatter")), (2, 2, 1, 1));
    assert_eq!((count("duplicates"), count("contradictions")), (2, 3));
    // Nobody links to these, also not by `contradicts`; nobody has to link to an index.
    assert_eq!(count("orphans"), 5);
    assert_eq!(
        messages(&found, "index.md"),
        [
            "broken_link: links to `gone.md`, which does not exist",
            "broken_link: links to `nowhere`, which does not exist"
        ]
    );
    assert_eq!(messages(&found, "empty.md"), ["empty: has no text"]);
    assert_eq!(messages(&found, "good.md"), ["duplicate: has the title of 1 other page"]);
    let advice = found["recommendations"].as_array().unwrap();
    assert_eq!(advice.len(), 7);
    assert_eq!(advice[0], "2 links are broken: fix the target, or write the page");
    let few = space().get("janitor", json!({ "limit": 2 }));
    let kinds: Vec<&Value> = few["issues"].as_array().unwrap().iter().map(|issue| &issue["severity"]).collect();
    assert_eq!(kinds, ["error", "error"], "the worst come first");
}

#[test]
fn a_finding_on_hundreds_of_pages_names_ten_and_counts_all() {
    let text = "---\ntitle: Untitled\nsource-of-truth: true\ntags: deploy\n---\nText.\n";
    let pages: Vec<String> = (0..300).map(|number| format!("{number:03}.md")).collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|name| (name.as_str(), text)).collect();
    let found = TestSpace::with("", &pages).get("janitor", json!({ "limit": 1000 }));
    assert_eq!((&found["duplicates"], &found["contradictions"]), (&json!(300), &json!(300)));
    let related = |kind: &str, path: &str| {
        let issues = found["issues"].as_array().unwrap();
        issues.iter().find(|issue| issue["kind"] == kind && issue["path"] == path).unwrap()["related"].clone()
    };
    let first = |places: [usize; 10]| json!(places.map(|place| pages[place].0));
    for kind in ["duplicate", "contradiction"] {
        assert_eq!(related(kind, "299.md"), first([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), "{kind}");
        assert_eq!(related(kind, "003.md"), first([0, 1, 2, 4, 5, 6, 7, 8, 9, 10]), "{kind}: all but itself");
    }
    assert_eq!(
        messages(&found, "003.md")[..2],
        [
            "contradiction: 300 pages with the tag `deploy` have `source-of-truth: true`",
            "duplicate: has the title of 299 other pages"
        ]
    );
}

#[test]
fn a_content_check_is_cached_until_the_tree_changes() {
    let space = space();
    let first = space.get("janitor", json!({}));
    assert_eq!(first["timestamp"], space.get("janitor", json!({}))["timestamp"]);
    space.put("gone.md", "---\ntitle: Back\n---\n[[index]]\n");
    let then = space.get("janitor", json!({}));
    assert_ne!(first["timestamp"], then["timestamp"]);
    assert_eq!((&first["broken_links"], &then["broken_links"]), (&json!(2), &json!(1)));
    // Another rule is another question.
    assert_eq!(space.get("janitor", json!({ "stale_days": 1000 }))["stale"], 1);
}

#[test]
fn a_tree_in_numbers() {
    let space = space();
    let found = space.get("analytics", json!({ "limit": 1 }));
    assert_eq!(found["total_pages"], 11);
    assert_eq!(found["orphan_pages"], 5);
    assert_eq!(found["pages_without_frontmatter"], 1);
    // Of `index` six, of `good` two, of `truth/c` one; two of all lead nowhere.
    assert_eq!(found["link_coverage_pct"], 77.8);
    assert_eq!(found["recently_updated"].as_array().unwrap().len(), 1);
    let all = space.get("analytics", json!({ "limit": 100 }));
    // As moments: as texts those whose last digit is a zero, which is left out, would stand
    // elsewhere.
    let moment = |page: &Value| page["updated"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let moments = all["recently_updated"].as_array().unwrap().iter().map(moment);
    assert!(moments.clone().is_sorted_by(|one, other| one >= other), "{all}");
    assert_eq!(moments.count(), 11);
    let nothing = TestSpace::new().get("analytics", json!({}));
    assert_eq!((&nothing["total_pages"], &nothing["link_coverage_pct"]), (&json!(0), &json!(100.0)));
}

#[test]
fn pages_past_their_day_are_listed_longest_first() {
    let space = space();
    let listed = json!([
        { "path": "old.md", "title": "Old", "review_by": "2025-12-01", "days_overdue": 31 },
        { "path": "reviewed.md", "title": "Reviewed", "review_by": "2025-11-30", "days_overdue": 32 },
    ]);
    let mut longest_first = listed.as_array().unwrap().clone();
    longest_first.reverse();
    assert_eq!(space.get("stale", json!({})), Value::from(longest_first));
    let patient = space.get("stale", json!({ "days": 200 }));
    assert_eq!(patient, json!([listed[0]]));
    space.put("old.md", "---\ntitle: Old\nnext-review: 2026-01-01T09:00:00Z\n---\nLooked at.\n");
    assert_eq!(space.get("stale", json!({ "days": 200 })), json!([]), "a day is past when it is over");
    space.put("old.md", "---\ntitle: Old\nnext-review: soon\n---\nLooked at.\n");
    assert_eq!(space.get("stale", json!({ "days": 200 })), json!([]), "what is no date says nothing");
    for days in [json!(0), json!(40_000)] {
        let (status, why) = space.refusal("stale", json!({ "days": days }));
        assert_eq!(status, 400, "{why}");
        assert!(why.contains("`days`") && why.contains("1 to 36500"), "{why}");
    }
}

#[test]
fn contradicting_pages_are_named_with_their_claims() {
    let space = space();
    let truth = json!({
        "pages": ["truth/a.md", "truth/b.md"],
        "claim": "source of truth for `deploy`",
        "details": "2 pages with the tag `deploy` have `source-of-truth: true`",
    });
    let said = json!({
        "pages": ["truth/a.md", "truth/c.md"],
        "claim": "contradicts",
        "details": "`truth/c.md` says that it contradicts `truth/a.md`",
    });
    assert_eq!(space.get("contradictions", json!({})), json!([said, truth]));
    assert_eq!(space.get("contradictions", json!({ "path": "truth/b.md" })), json!([truth]));
    assert_eq!(space.get("contradictions", json!({ "path": "nowhere.md" })), json!([]));
    space.put("truth/b.md", "---\nsource-of-truth: true\ntags: deploy\nstatus: Deprecated\n---\nBy robot.\n");
    assert_eq!(space.get("contradictions", json!({})), json!([said]));
}

#[test]
fn a_page_check_reports_all_findings_of_that_page() {
    let space = space();
    let found = space.get("health_check", json!({ "path": "index.md" }));
    assert_eq!((&found["link_count"], &found["backlink_count"]), (&json!(6), &json!(1)));
    assert_eq!(found["issues"].as_array().unwrap().len(), 2);
    assert_eq!(
        found["issues"][0],
        json!({ "type": "broken_link", "message": "links to `gone.md`, which does not exist" })
    );
    let kinds = |path: &str| -> Vec<Value> {
        let issues = space.get("health_check", json!({ "path": path }))["issues"].as_array().unwrap().clone();
        issues.into_iter().map(|issue| issue["type"].clone()).collect()
    };
    assert_eq!(kinds("reviewed.md"), ["stale", "orphan"]);
    assert_eq!(kinds("truth/a.md"), ["contradiction", "contradiction"]);
    assert_eq!(kinds("bare.md"), ["orphan", "missing_frontmatter"]);
    assert_eq!(kinds("good.md"), [] as [Value; 0]);
    assert_eq!(space.refusal("health_check", json!({ "path": "" })), (400, "path is required".to_owned()));
    assert_eq!(space.refusal("health_check", json!({ "path": "x.md" })), (404, "file not found: x.md".to_owned()));
    assert_eq!(space.refusal("health_check", json!({})).0, 400);
}

#[test]
fn the_janitor_runs_at_startup_when_configured() {
    let space = TestSpace::with("[janitor]\nstartup_scan = true\n", &[("a.md", "[[nowhere]]\n")]);
    let begun = std::time::Instant::now();
    while space.space().survey_cache.finding_count().is_none() {
        assert!(begun.elapsed().as_secs() < 20, "the janitor does not look");
        std::thread::yield_now();
    }
    // Broken link, no frontmatter, nobody's link.
    assert_eq!(space.space().survey_cache.finding_count(), Some(3));
    assert_eq!(TestSpace::new().space().survey_cache.finding_count(), None);
}

#[test]
fn the_janitor_waits_for_the_index_and_then_for_its_interval() {
    let space = TestSpace::with("", &[("a.md", "[[nowhere]]\n")]);
    space.settle();
    let shared = space.spaces().first();
    let mut janitor = JanitorTask::new(Arc::clone(shared), Arc::new(SystemClock), shared.settings.janitor.clone());
    let mut step = || janitor.step(&StopToken::new()).unwrap();
    // Where it does not begin at once, it begins an interval later.
    if !shared.settings.janitor.startup_scan {
        step();
    }
    let usual = shared.settings.janitor.interval.map_or(NextStep::WhenSignalled, NextStep::After);
    assert_eq!(step(), usual);
    assert_eq!(shared.survey_cache.finding_count(), Some(3));
    space.stop_indexing();
    space.put("b.md", "Text.\n");
    assert_ne!(step(), usual, "the index is behind");
}

#[test]
fn a_file_that_is_no_page_mends_the_links_to_it() {
    let space = TestSpace::with("", &[("a.md", "![](d/p.png) [d](d) [[d]]\n")]);
    let broken = || space.get("janitor", json!({}))["broken_links"].clone();
    assert_eq!(broken(), 3);
    space.put("d/p.png", "not really");
    assert_eq!(broken(), 1, "a wiki link means a page");
    space.put("d/q.png", "not really");
    space.get("delete", json!({ "path": "d/p.png" }));
    assert_eq!(broken(), 2);
}

#[test]
fn a_page_with_broken_frontmatter_is_listed_with_its_line() {
    // such pages come from edits in the root and from file protocols
    let space = TestSpace::with(
        "[lint]\nreject_errors = false\n",
        &[
            ("index.md", "---\ntitle: Home\n---\n[[broken]], [[rule]]\n"),
            ("broken.md", "---\nowner: x\ntitle: Part 1: start\n---\nText, see [[index]].\n"),
            ("rule.md", "---\n\nA sentence.\n\n---\n\n[[index]]\n"),
        ],
    );
    let found = space.get("janitor", json!({}));
    assert_eq!((&found["lint_errors"], &found["broken_links"]), (&json!(1), &json!(0)), "{found}");
    let listed = messages(&found, "broken.md");
    assert_eq!(listed.len(), 1, "not missing frontmatter as well: {listed:?}");
    assert!(listed[0].starts_with("lint_error: frontmatter-yaml-invalid (line 3): "), "{listed:?}");
    assert_eq!(messages(&found, "rule.md"), ["missing_frontmatter: has no valid frontmatter"]);
    let page = space.get("health_check", json!({ "path": "broken.md" }));
    assert_eq!(page["issues"][0]["type"], "lint_error", "{page}");
    let moved = space.get("rename", json!({ "from": "index.md", "to": "start.md" }));
    assert_eq!(moved["updated_links"], 2, "{moved}");
    let text = space.text("broken.md");
    assert!(text.contains("[[start]]"), "{text}");
}
