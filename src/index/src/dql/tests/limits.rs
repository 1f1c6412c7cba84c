//! Limits of queries: rows, time, sizes.

use super::*;

/// Shows: QRY-3
#[test]
fn a_query_that_reaches_the_bound_answers_with_what_it_found() {
    let (space, custom) = (vault(), CustomFields::default());
    let bounded = |query: &str, scan_rows| {
        let asking = QueryLimits { max_scan_rows: scan_rows, max_auto_indexes: 0, ..asking(&custom) };
        space
            .index
            .query(&DqlQuery::parse(query).unwrap(), &asking)
            .map(|answer| (answer.total, answer.scanned_rows, answer.has_more))
            .unwrap()
    };
    assert_eq!(bounded("LIST WHERE hours > 0", 12), (3, None, false));
    let (total, looked_at, has_more) = bounded("LIST WHERE hours > 0", 11);
    assert!((2..=3).contains(&total) && looked_at == Some(11) && has_more, "{total}");
    let of_tasks = bounded("LIST FROM \"tasks/\" WHERE hours > 0", 3);
    assert_eq!(of_tasks, (3, None, false), "what FROM leaves out is not looked at");
    assert_eq!(bounded("COUNT", 1), (12, None, false), "what only has to be counted is not looked at");
    assert_eq!(bounded("LIST LIMIT 1", 1), (12, None, true), "nor is what is not shown");
    assert_eq!(bounded("COUNT FLATTEN tags", 12).1, None);
    assert_eq!(bounded("COUNT FLATTEN tags", 1).1, Some(1));
}

#[test]
fn one_row_of_a_long_expression_respects_the_query_timeout() {
    let (space, custom) = (vault(), CustomFields::default());
    let asking = QueryLimits { timeout: Duration::from_millis(200), ..asking(&custom) };
    let sixteen = "a".repeat(16);
    let long = (0..4).fold(format!("\"{sixteen}\""), |text, _| format!("replace({text}, \"a\", \"{sixteen}\")"));
    let query = DqlQuery::parse(&format!("COUNT WHERE length({long}{}) > 1", "+\"\"".repeat(4_000))).unwrap();
    let begun = Instant::now();
    let refused = space.index.query(&query, &asking).unwrap_err().to_string();
    assert!(refused.contains("dataview.query_timeout"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Shows: QRY-3
#[test]
fn a_query_that_takes_too_long_is_refused() {
    let (space, custom) = (vault(), CustomFields::default());
    let asking = QueryLimits { timeout: Duration::ZERO, ..asking(&custom) };
    let refused = space.index.query(&DqlQuery::parse("LIST").unwrap(), &asking).unwrap_err().to_string();
    assert!(refused.contains("dataview.query_timeout"), "{refused}");
}

#[test]
fn a_text_that_grows_without_end_is_refused() {
    let space = vault();
    let twelve = (0..12).fold("\"aaaaaaaa\"".to_owned(), |inner, _| format!("replace({inner}, \"a\", \"aaaaaaaa\")"));
    let refused = ask(&space, &format!("TABLE {twelve} FROM \"index\"")).unwrap_err().to_string();
    assert_eq!(refused, "`q`: computes a text of more than 1 MiB; the limit is 1 MiB");
    let refused = ask(&space, "TABLE dateformat(now(), \"%Q%!\") FROM \"index\"").unwrap_err().to_string();
    assert!(refused.contains("line 1, column 25") && refused.contains("`%Q%!` is not a date format"), "{refused}");
    let made = ask(&space, "TABLE dateformat(now(), \"%\" + \"!\") FROM \"index\"").unwrap_err().to_string();
    assert!(made.starts_with("`q`: dateformat cannot use this format"), "{made}");
}

#[test]
fn hostile_sizes_are_refused_early_and_never_exhaust_the_stack() {
    let deep =
        |open: &str, close: &str, depth: usize| format!("LIST WHERE {}1{}", open.repeat(depth), close.repeat(depth));
    for query in [
        deep("(", ")", 20_000),
        deep("NOT ", "", 16_000),
        deep("-", "", 60_000),
        deep("lower(", ")", 9_000),
        deep("1 IN (", ")", 9_000),
        deep("!", "", 60_000),
        deep("[", "]", 20_000),
        format!("LIST FROM {}#a{}", "(".repeat(20_000), ")".repeat(20_000)),
        format!("LIST FROM {}#a", "-".repeat(60_000)),
        format!("LIST WHERE a{}", ".b".repeat(30_000)),
        format!("LIST WHERE {}1", "1 + ".repeat(15_000)),
        format!("LIST WHERE {}1", "a OR ".repeat(12_000)),
        format!("TABLE {}a", "a, ".repeat(20_000)),
        format!("LIST SORT {}a", "a, ".repeat(20_000)),
        format!("LIST WHERE a = \"{}", "\\\"".repeat(30_000)),
    ] {
        let begun = Instant::now();
        let outcome = DqlQuery::parse(&query);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?} for {}…", &query[..40]);
        if let Ok(query) = outcome {
            drop(query.clone());
        }
    }
    let space = vault();
    assert_eq!(cells(&space, &format!("COUNT WHERE {}false", "false OR ".repeat(6_000))), json!([[0]]));
    assert_eq!(
        cells(&space, &format!("TABLE {}1 FROM \"index\"", "1 + ".repeat(10_000))),
        json!([["index.md", 10_001]])
    );
    assert_eq!(cells(&space, &deep("(", ")", 60).replace("LIST", "COUNT")), json!([[12]]));
    let refused = DqlQuery::parse(&deep("(", ")", 65)).unwrap_err().to_string();
    assert_eq!(refused, "`q`: line 1, column 77: nests deeper than 64");
    let refused = DqlQuery::parse(&"x".repeat(1 << 20)).unwrap_err().to_string();
    assert_eq!(refused, "`q`: the query is 1048576 bytes long; the limit is 65536 bytes");
}
