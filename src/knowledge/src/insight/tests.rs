use serde_json::json;
use svcfs_base::Timestamp;

use super::TimePeriod;
use crate::spaces::test_space::{TestSpace, from_run};

#[test]
fn changing_pages_are_hot_and_deleted_pages_only_counted() {
    let space = TestSpace::new();
    for text in ["1\n", "2\n", "3\n"] {
        space.put("a.md", text);
    }
    space.put("b.md", "1\n");
    space.put("notes/c.md", "1\n");
    space.ask_as(&from_run("Zoë", ""), "write", json!({ "path": "notes/c.md", "content": "2\n" })).unwrap();
    space.put("gone.md", "1\n");
    space.get("delete", json!({ "path": "gone.md" }));
    space.put("picture.svg", "<svg/>");
    let hidden = svcfs_base::Change::put(crate::spaces::test_space::path(".hidden/d.md"), "1\n");
    space.space().vfs.apply(&svcfs_base::Caller::new(svcfs_base::Protocol::Fuse), hidden).unwrap();
    let report = space.get("velocity", json!({}));
    assert_eq!(
        report,
        json!({
            "period": "30d",
            "total_changes": 8,
            "hot_spots": [
                { "path": "a.md", "changes": 3 },
                { "path": "notes/c.md", "changes": 2 },
                { "path": "b.md", "changes": 1 },
            ],
            "cold_spots": [],
            "bursts": [{ "date": "2026-01-01", "changes": 7, "actor": "anonymous" }],
            "single_author_pages": ["a.md", "b.md"],
        })
    );
    let below = space.get("velocity", json!({ "path_prefix": "notes", "period": "2w", "limit": 1 }));
    assert_eq!((&below["period"], &below["total_changes"]), (&json!("2w"), &json!(2)));
    assert_eq!(below["bursts"], json!([]));
    assert_eq!(space.get("velocity", json!({ "limit": 1 }))["hot_spots"].as_array().unwrap().len(), 1);
}

#[test]
fn pages_unchanged_in_the_period_are_cold_oldest_first() {
    // Commits of a person, of long ago.
    let space = TestSpace::adopted(&[
        ("2025-11-02T12:00:00Z", "old.md"),
        ("2025-12-30T12:00:00Z", "new.md"),
        ("2025-06-01T00:00:00Z", "older.md"),
    ]);
    let report = space.get("velocity", json!({}));
    assert_eq!(report["hot_spots"], json!([{ "path": "new.md", "changes": 1 }]));
    assert_eq!(
        report["cold_spots"],
        json!([
            { "path": "older.md", "changes": 0, "days_since_update": 214 },
            { "path": "old.md", "changes": 0, "days_since_update": 59 },
        ])
    );
    assert_eq!(report["total_changes"], 1);
    assert_eq!(report["single_author_pages"], json!(["new.md"]));
    let year = space.get("velocity", json!({ "period": "12m" }));
    assert_eq!((&year["total_changes"], &year["cold_spots"]), (&json!(3), &json!([])));
}

#[test]
fn a_period_is_a_number_of_days_weeks_or_months() {
    let now = Timestamp::from_second(1_767_225_600).unwrap();
    for (text, days) in [("30d", 30), ("1d", 1), ("2w", 14), ("6m", 180), ("007d", 7), ("36500d", 36_500)] {
        let period = TimePeriod::parse(text).unwrap();
        assert_eq!((period.days(), period.as_str()), (days, text));
        assert_eq!(now.as_second() - period.start_before(now).as_second(), i64::from(days) * 86_400);
    }
    assert_eq!(TimePeriod::default(), TimePeriod::parse("30d").unwrap());
    let space = TestSpace::new();
    for text in [
        "",
        "d",
        "30",
        "30 d",
        "30D",
        "-3d",
        "+3d",
        "0d",
        "1y",
        "3d3",
        "36501d",
        "99999999999d",
        "4294967295m",
        "٣d",
        "3ä",
    ] {
        let (status, message) = space.refusal("velocity", json!({ "period": text }));
        assert!(status == 400 && message.starts_with("`period`"), "{text}: {status} {message}");
    }
    assert!(space.refusal("velocity", json!({ "limit": 0 })).1.contains("limit"));
    assert_eq!(space.refusal("velocity", json!({ "period": 30 })).0, 400);
}

#[test]
fn an_empty_tree_has_no_velocity() {
    let report = TestSpace::new().get("velocity", json!({ "period": "1d" }));
    assert_eq!(report["total_changes"], 0);
    for list in ["hot_spots", "cold_spots", "bursts", "single_author_pages"] {
        assert_eq!(report[list], json!([]), "{list}");
    }
}
