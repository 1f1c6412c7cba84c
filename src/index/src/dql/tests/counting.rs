//! Counts and sums.

use super::*;

/// A tree with values of every kind, in more pages than a short list has.
fn mixed() -> Space {
    let pages: Vec<(String, String)> = (0..300)
        .map(|number| {
            let frontmatter = match number % 6 {
                0 => format!("status: draft\npriority: {}", number % 7),
                1 => format!("status: done\npriority: {}.5", number % 7),
                2 => "status: [draft, done]\npriority: \"3\"".to_owned(),
                3 => format!("status: 2026-01-{:02}\npriority: true", number % 28 + 1),
                4 => "status:\npriority: null".to_owned(),
                _ => String::new(),
            };
            let head = if frontmatter.is_empty() { frontmatter } else { format!("---\n{frontmatter}\n---\n") };
            let links = "[a](p000.md) ".repeat(number % 4);
            let text = format!("{head}\n# Title\n\n{}{links}\n", "word ".repeat(number % 23));
            (format!("{}/p{number:03}.md", ["a", "b", "ab"][number % 3]), text)
        })
        .collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let space = Space::of(&pages);
    for field in [r#"["status"]"#, r#"["priority"]"#] {
        assert!(space.index.add_field_index(field, 20).unwrap());
    }
    space
}

/// Shows: QRY-3
#[test]
fn what_the_index_counts_is_what_a_scan_finds() {
    let space = mixed();
    // True of every page, and nothing that SQL decides.
    let scanned = "length(_path) > 0";
    for condition in [
        "_word_count > 10",
        "_word_count >= 10.5 AND _word_count < 20",
        "5 < _size",
        "_link_count = 2 OR _heading_count != 1",
        "NOT _link_count = 2",
        "_word_count BETWEEN 3 AND 7",
        "_word_count NOT BETWEEN 3 AND 7",
        "_has_frontmatter",
        "NOT _has_frontmatter",
        "_has_frontmatter = false",
        "status = \"draft\"",
        "NOT status = \"draft\"",
        "status > \"d\" AND _word_count > 4",
        "status = \"draft\" OR priority = 3",
        "priority = 3",
        "priority >= 2.5",
        "priority < 3",
        "priority BETWEEN 1 AND 3",
        "priority NOT BETWEEN 1 AND 3",
        "priority = true",
        "status = 2026-01-05",
        "priority = \"3\"",
        "_word_count = \"3\"",
        "status != \"draft\"",
        "status = null",
        "_updated > 1970-01-01",
    ] {
        for rest in
            ["", "SORT _word_count DESC", "SORT _link_count, _size DESC", "SORT _updated DESC, _has_frontmatter"]
        {
            for (source, window) in
                [("", "LIMIT 7"), ("FROM \"a\"", "LIMIT 7 OFFSET 5"), ("FROM -\"ab/\"", "LIMIT 200")]
            {
                let ask = |condition: &str| {
                    told(ask(&space, &format!("TABLE status, _word_count {source} WHERE {condition} {rest} {window}")))
                };
                let with_scan = ask(&format!("({condition}) AND {scanned}"));
                assert_eq!(ask(condition), with_scan, "{source} {condition} {rest} {window}");
            }
        }
        let count = |condition: &str| told(ask(&space, &format!("COUNT WHERE {condition}")));
        assert_eq!(count(condition), count(&format!("({condition}) AND {scanned}")), "{condition}");
    }
}

/// Shows: QRY-3
#[test]
fn pages_without_the_fields_of_a_sum_are_counted_and_not_read() {
    let space = mixed();
    let custom = CustomFields::default();
    let asking = QueryLimits { max_scan_rows: 250, max_auto_indexes: 0, ..asking(&custom) };
    let all = QueryLimits { max_scan_rows: 10_000, ..asking.clone() };
    for (group, calculations) in [
        ("status", &["count"][..]),
        ("status", &["count", "avg:priority", "sum:priority", "min:priority", "max:priority", "count:priority"]),
        ("priority", &["count:status"]),
        ("nowhere", &["count"]),
    ] {
        for prefix in [None, Some("a"), Some("ab/")] {
            for condition in [None, Some("priority > 2"), Some("NOT priority > 2"), Some("status = null")] {
                let calculations: Vec<String> = calculations.iter().map(|one| (*one).to_owned()).collect();
                let ask = |condition: Option<&str>, asking: &QueryLimits<'_>| {
                    let query = DqlQuery::aggregate(group, &calculations, condition, prefix).unwrap();
                    space.index.query(&query, asking).unwrap()
                };
                let found = ask(condition, &asking);
                let scanned =
                    condition.map_or("length(_path) > 0".to_owned(), |one| format!("({one}) AND length(_path) > 0"));
                assert_eq!(found, ask(Some(&scanned), &all), "{group} {calculations:?} {prefix:?} {condition:?}");
            }
        }
    }
    // Where every page has one of the fields, the bound holds.
    let query = DqlQuery::aggregate("_folder", &["count".to_owned()], None, None).unwrap();
    assert_eq!(space.index.query(&query, &asking).unwrap().scanned_rows, Some(250));
    let grouped = space.index.query(&DqlQuery::parse("COUNT GROUP BY status").unwrap(), &asking).unwrap();
    assert_eq!((grouped.count, grouped.scanned_rows), (Some(300), None));
}

#[test]
fn sums_and_counts_over_the_values_of_a_field() {
    let space = vault();
    let custom = CustomFields::default();
    let aggregate = |group: &str, calc: &[&str], condition: Option<&str>, prefix: Option<&str>| {
        let calc: Vec<String> = calc.iter().map(|calc| (*calc).to_owned()).collect();
        let query = DqlQuery::aggregate(group, &calc, condition, prefix).map_err(|error| error.to_string())?;
        let answer = space.index.query(&query, &asking(&custom)).map_err(|error| error.to_string())?;
        Ok::<_, String>(json!([answer.headers, answer.rows]))
    };
    assert_eq!(
        aggregate("status", &["count", "avg:hours", "max:due"], None, Some("tasks/")).unwrap(),
        json!([
            ["status", "count", "avg_hours", "max_due"],
            [["done", 1, 8.0, "2025-12-24"], ["open", 2, 3.25, "2026-01-31T08:00:00+02:00"]]
        ])
    );
    assert_eq!(
        aggregate("tags", &["count"], Some("hours > 3"), None).unwrap(),
        json!([["tags", "count"], [["area/ops", 1], ["ops", 1], ["urgent", 2], ["work", 2]]])
    );
    assert_eq!(
        aggregate("author.name", &["sum:priority"], None, Some("concepts/")).unwrap(),
        json!([["author.name", "count", "sum_priority"], [["Ann", 1, 3], ["Bob", 1, 1], [null, 2, 10]]])
    );
    for (group, calc, condition, message) in [
        (
            "",
            "count",
            None,
            "`group`: line 1, column 1: expected a field, a value or a function, found the end of the query",
        ),
        ("1 + 1", "count", None, "`group`: `1 + 1` is no field"),
        ("a", "median:b", None, "`calc`: there is no calculation `median`; there are count, avg, sum, min, max"),
        (
            "a",
            "summ:b",
            None,
            "`calc`: there is no calculation `summ`; there are count, avg, sum, min, max; did you mean `sum`?",
        ),
        ("a", "avg", None, "`calc`: `avg` needs a field, such as `avg:priority`"),
        (
            "a",
            "sum:'); DROP TABLE pages; --",
            None,
            "`calc`: line 1, column 1: the text that starts here has no closing '",
        ),
        (
            "a",
            "count",
            Some("x ="),
            "`where`: line 1, column 4: expected a field, a value or a function, found the end of the query",
        ),
        ("a", "count", Some("sum(x) > 1"), "`where`: an aggregate function cannot select pages"),
    ] {
        assert_eq!(aggregate(group, &[calc], condition, None).unwrap_err(), message);
    }
}
