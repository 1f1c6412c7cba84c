use serde_json::{Value, json};

use crate::spaces::test_space::TestSpace;

fn space() -> TestSpace {
    TestSpace::with(
        "",
        &[("a.md", "---\n_source: notion\n---\nWords of wisdom.\n"), ("b.md", "More words.\n"), ("p.png", "x")],
    )
}

fn read(space: &TestSpace, path: &str, times: usize) {
    for _ in 0..times {
        space.get("read", json!({ "path": path }));
    }
}

#[test]
fn page_reads_and_search_words_are_counted() {
    let space = space();
    read(&space, "a.md", 3);
    read(&space, "b.md", 1);
    read(&space, "p.png", 1);
    space.get("search", json!({ "q": "wisdom" }));
    space.get("search_verified", json!({ "q": "folly" }));
    let overview = space.get("analytics_overview", json!({}));
    assert_eq!(
        overview,
        json!({
            "period": "30d",
            "total_views": 4,
            "views_delta_percent": 100.0,
            "total_searches": 2,
            "searches_delta_percent": 100.0,
            "search_success_rate": 50.0,
            "success_rate_delta_pp": 50.0,
            "unique_pages_viewed": 2,
            "unique_pages_delta_percent": 100.0,
        })
    );
    let views = space.get("analytics_views", json!({ "limit": 1, "period": "1d" }));
    assert_eq!((&views["pages"][0]["path"], &views["pages"][0]["count"]), (&json!("a.md"), &json!(3)));
    assert_eq!(views["pages"].as_array().unwrap().len(), 1);
    let over_time = space.get("analytics_views_v2", json!({ "path": "b.md" }));
    assert_eq!(over_time["time_series"], json!([{ "timestamp": "2026-01-01T00:00:00Z", "count": 1 }]));
    assert_eq!(over_time["top_pages"].as_array().unwrap().len(), 1);
    assert_eq!(space.get("analytics_views_v2", json!({ "source": "mcp" }))["top_pages"], json!([]));
    let trends = space.get("analytics_trends", json!({}));
    assert_eq!(
        trends["trending"][0],
        json!({ "path": "a.md", "current_views": 3, "previous_views": 0, "delta_percent": 100.0 })
    );
    assert_eq!(trends["declining"], json!([]));
    let sources = space.get("analytics_sources", json!({}));
    assert_eq!((&sources["sources"], &sources["views"]), (&json!({ "notion": 1 }), &json!({ "http": 4 })));
}

#[test]
fn trends_are_of_all_pages_however_many_are_read() {
    let space = TestSpace::new();
    let now = svcfs_base::Timestamp::from_second(1_767_225_600).unwrap();
    let usage = &space.space().usage;
    let before = now - std::time::Duration::from_secs(40 * 24 * 3600);
    let busy = (0..1_001).map(|number| crate::spaces::test_space::path(&format!("p{number:04}.md")));
    for page in busy.flat_map(|page| [page.clone(), page]) {
        usage.record_view(&page, "http", now);
        usage.record_view(&page, "http", before);
    }
    let rare = crate::spaces::test_space::path("rare.md");
    usage.record_view(&rare, "http", now);
    let trends = space.get("analytics_trends", json!({}));
    assert_eq!(trends["declining"], json!([]));
    assert_eq!(trends["trending"][0]["path"], "rare.md", "{trends}");
}

#[test]
fn an_unanswered_search_is_a_gap_until_found_or_dismissed() {
    let space = space();
    for q in ["helm charts", "Helm  Charts", "vault", "words"] {
        space.get("search", json!({ "q": q }));
    }
    let queries = |name: &str, list: &str| -> Vec<Value> {
        let found = space.get(name, json!({}));
        found[list].as_array().unwrap().iter().map(|searched| searched["query"].clone()).collect()
    };
    // What is not in one folder, or not on a second page of answers, is not missing; nor is what
    // asks for no word.
    for narrow in [
        json!({ "q": "words", "path_prefix": "elsewhere" }),
        json!({ "q": "words", "offset": 50 }),
        json!({ "q": "*" }),
    ] {
        assert_eq!(space.get("search", narrow), json!([]));
    }
    assert_eq!(queries("content_gaps", "results"), ["helm charts", "vault"]);
    assert_eq!(queries("failed_searches", "results"), ["helm charts", "vault"]);
    assert_eq!(queries("analytics_searches", "top_failed"), ["helm charts", "vault"]);
    assert_eq!(space.get("dismiss_content_gap", json!({ "query": "vault" })), json!({ "dismissed": "vault" }));
    assert_eq!(queries("content_gaps", "results"), ["helm charts"]);
    let later = space.get("failed_searches", json!({ "since": "2026-01-02T00:00:00Z" }));
    assert_eq!(later["results"], json!([]));
    let (status, why) = space.refusal("dismiss_content_gap", json!({ "query": " " }));
    assert_eq!(status, 400);
    assert!(why.contains("`query`"), "{why}");
    assert_eq!(space.refusal("dismiss_content_gap", json!({ "query": "x", "search_type": "grep" })).0, 400);
    assert_eq!(space.get("dismiss_content_gap", json!({ "query": "x", "search_type": "semantic" }))["dismissed"], "x");
    assert_eq!(space.refusal("content_gaps", json!({ "limit": 0 })).0, 400);
    assert_eq!(space.refusal("analytics_trends", json!({ "period": "7 days" })).0, 400);
    assert_eq!(space.refusal("failed_searches", json!({ "since": "yesterday" })).0, 400);
}
