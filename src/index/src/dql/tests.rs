//! The language, asked: `tests/dql/*.txt` hold queries over the pages in `tests/dql/vault`, each
//! with what must come out.
//!
//! `?` begins a query, which goes on in lines that begin with blanks. Below it stand `!` and the
//! refusal, or `=` and mode, rows shown and total, then the headers, then the rows, one JSON list a
//! line, `@` lines for groups and `~` lines for notes. `SVCFS_WRITE_ANSWERS=1` writes what comes
//! out into the files: read the difference before committing it.
#![expect(clippy::disallowed_methods, reason = "tests write their own data files when asked to")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use svcfs_base::Timestamp;

use super::{CustomFields, DqlQuery, QueryAnswer, QueryLimits};
use crate::IndexError;
use crate::tests::Space;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dql")
}

fn pages(below: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else {
            let name = path.strip_prefix(data().join("vault")).unwrap().to_str().unwrap().to_owned();
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

fn vault() -> Space {
    let mut found = BTreeMap::new();
    pages(&data().join("vault"), &mut found);
    let found: Vec<(&str, &str)> = found.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Space::of(&found)
}

/// 2026-01-15 12:00 UTC.
fn now() -> Timestamp {
    "2026-01-15T12:00:00Z".parse().unwrap()
}

fn custom() -> CustomFields {
    CustomFields::parse([
        ("double", "default(score, 1) * 2"),
        ("shout", "upper(title) + \"!\""),
        ("nick", "lower(title)"),
    ])
    .unwrap()
}

pub(crate) fn asking(custom_fields: &CustomFields) -> QueryLimits<'_> {
    QueryLimits {
        now: now(),
        max_scan_rows: 10_000,
        timeout: Duration::from_secs(30),
        max_auto_indexes: 20,
        computed_fields: true,
        custom_fields,
        folder: None,
        limit: None,
        offset: 0,
    }
}

fn ask(space: &Space, query: &str) -> Result<QueryAnswer, IndexError> {
    space.index.query(&DqlQuery::parse(query)?, &asking(&CustomFields::default()))
}

fn cells(space: &Space, query: &str) -> Value {
    json!(ask(space, query).unwrap_or_else(|error| panic!("{query}: {error}")).rows)
}

fn told(outcome: Result<QueryAnswer, IndexError>) -> String {
    let QueryAnswer { mode, headers, rows, total, has_more, count, groups, notes, summaries: _, scanned_rows: _ } =
        match outcome {
            Ok(answer) => answer,
            Err(error) => return format!("! {error}\n"),
        };
    let more = if has_more { ", more follow" } else { "" };
    let count = count.map(|count| format!(", count {count}")).unwrap_or_default();
    let mut text = format!("= {}, {} of {total}{count}{more}\n{}\n", mode.name(), rows.len(), json!(headers));
    for row in &rows {
        text.push_str(&format!("{}\n", json!(row)));
    }
    for group in groups.iter().flatten() {
        text.push_str(&format!("@ {} {} of {}\n", group.key, group.rows.len(), group.count));
    }
    for note in notes {
        text.push_str(&format!("~ {note}\n"));
    }
    text
}

/// The questions of a file, each with the lines it was written in, and the file as it should be.
fn answered(text: &str, mut answer: impl FnMut(&str) -> String) -> (usize, String) {
    let (mut asked, mut should) = (0, String::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(first) = line.strip_prefix('?') else {
            if line.starts_with('#') {
                should.push_str(&format!("{line}\n\n"));
            }
            continue;
        };
        let mut query = first.strip_prefix(' ').unwrap_or(first).to_owned();
        while let Some(next) = lines.next_if(|next| next.starts_with(' ')) {
            query.push_str(&format!("\n{next}"));
        }
        asked += 1;
        should.push_str(&format!("? {query}\n{}\n", answer(&query)));
    }
    (asked, should)
}

#[test]
fn every_query_of_the_data_files_gives_its_expected_answer() {
    let (space, custom) = (vault(), custom());
    let is_writing = std::env::var_os("SVCFS_WRITE_ANSWERS").is_some();
    let mut all = 0;
    for entry in fs::read_dir(data()).unwrap() {
        let file = entry.unwrap().path();
        if file.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let (asked, should) = answered(&text, |query| {
            told(DqlQuery::parse(query).and_then(|query| space.index.query(&query, &asking(&custom))))
        });
        all += asked;
        if is_writing {
            fs::write(&file, &should).unwrap();
            continue;
        }
        for (number, (is, should)) in text.lines().zip(should.lines()).enumerate() {
            assert_eq!(is, should, "{}:{}", file.display(), number + 1);
        }
        assert!(text == should, "{} is longer or shorter than what comes out", file.display());
    }
    assert!(all >= 150, "only {all} queries were asked");
}

/// Shows: QRY-4
#[test]
fn an_index_of_a_field_changes_no_answer() {
    let (plain, indexed, custom) = (vault(), vault(), custom());
    for field in [
        r#"["status"]"#,
        r#"["priority"]"#,
        r#"["score"]"#,
        r#"["verified"]"#,
        r#"["tags"]"#,
        r#"["due"]"#,
        r#"["review-by"]"#,
        r#"["author","name"]"#,
        r#"["hours"]"#,
        r#"["title"]"#,
        r#"["mixed"]"#,
        r#"["created"]"#,
        r#"["zero"]"#,
        r#"["no"]"#,
        r#"["empty"]"#,
        r#"["nick"]"#,
        r#"["odd key"]"#,
        r#"["a.b"]"#,
        r#"["email"]"#,
        r#"["depends_on"]"#,
    ] {
        assert!(indexed.index.add_field_index(field, 100).unwrap(), "{field}");
    }
    for entry in fs::read_dir(data()).unwrap() {
        let file = entry.unwrap().path();
        if file.is_dir() {
            continue;
        }
        answered(&fs::read_to_string(&file).unwrap(), |query| {
            let told = |space: &Space| {
                told(DqlQuery::parse(query).and_then(|query| space.index.query(&query, &asking(&custom))))
            };
            assert_eq!(told(&indexed), told(&plain), "{query}");
            String::new()
        });
    }
}

#[test]
fn every_function_is_documented_and_used_in_a_test_query() {
    let mut text = String::new();
    for entry in fs::read_dir(data()).unwrap() {
        let file = entry.unwrap().path();
        if file.is_file() {
            text.push_str(&fs::read_to_string(&file).unwrap().to_lowercase());
        }
    }
    let missing: Vec<&str> = super::functions::TABLE
        .iter()
        .filter(|row| !["avg", "striptime"].contains(&row.name) && !text.contains(&format!("{}(", row.name)))
        .map(|row| row.name)
        .collect();
    assert_eq!(missing, [""; 0]);
    for row in super::functions::TABLE {
        let own = row.function.row();
        assert!(own.function == row.function, "{}", row.name);
    }
}

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
fn computed_fields_can_be_switched_off() {
    let (space, custom) = (vault(), CustomFields::default());
    let asking = QueryLimits { computed_fields: false, ..asking(&custom) };
    let asked = |query: &str| space.index.query(&DqlQuery::parse(query).unwrap(), &asking);
    let refused = asked("LIST WHERE _word_count > 3").unwrap_err().to_string();
    assert!(
        refused.starts_with("`q`: line 1, column 12: `_word_count`") && refused.contains("dataview.computed_fields"),
        "{refused}"
    );
    assert_eq!(asked("COUNT WHERE _name = \"auth.md\"").unwrap().total, 1);
}

#[test]
fn a_computed_field_that_cannot_be_read_is_named() {
    let refused = |text| CustomFields::parse([("good", "1"), ("bad", text)]).unwrap_err();
    assert_eq!(
        refused("1 +"),
        (
            "bad".to_owned(),
            "line 1, column 4: expected a field, a value or a function, found the end of the query".to_owned()
        )
    );
    assert!(refused("sum(hours)").1.contains("aggregates pages"));
    for circle in [vec![("a", "b + 1"), ("b", "c"), ("c", "default(a, 1)")], vec![("a", "a + 1")]] {
        let (name, why) = CustomFields::parse(circle).unwrap_err();
        assert!(name == "a" && why.contains("depends on itself"), "{name}: {why}");
    }
    let (name, why) = CustomFields::parse([("_path", "1")]).unwrap_err();
    assert!(name == "_path" && why.contains("is a built-in field"), "{name}: {why}");
}

#[test]
fn the_caller_s_limit_and_offset_beat_those_of_the_query() {
    let (space, custom) = (vault(), CustomFields::default());
    let asking = QueryLimits { limit: Some(3), offset: 2, ..asking(&custom) };
    let answer = space.index.query(&DqlQuery::parse("LIST LIMIT 1 OFFSET 1").unwrap(), &asking).unwrap();
    assert_eq!(json!(answer.rows), json!([["concepts/old.md"], ["concepts/search.md"], ["index.md"]]));
    assert!(answer.has_more && answer.total == 12);
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

/// Pieces of queries, so that what is made of them gets far into the grammar.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "TABLE",
            "LIST",
            "COUNT",
            "DISTINCT",
            "TASK",
            "CALENDAR",
            "JSON",
            "WITHOUT ID",
            "AS",
            "FROM",
            "WHERE",
            "SORT",
            "GROUP BY",
            "FLATTEN",
            "LIMIT",
            "OFFSET",
            "AND",
            "OR",
            "NOT",
            "IN",
            "LIKE",
            "BETWEEN",
            "IS NULL",
            "ASC",
            "DESC",
            "(",
            ")",
            ",",
            "=",
            "!=",
            "<",
            ">=",
            "+",
            "-",
            "*",
            "/",
            "%",
            "#tag",
            "\"text\"",
            "'",
            "`",
            "a.b[*].c",
            "status",
            "1",
            "2.5",
            "7d",
            "2026-01-31",
            "now()",
            "lower(",
            "sum(",
            "contains(tags, ",
            "join(",
            "null",
            "true",
            "[0]",
            "5m",
            "\\",
            "é",
            "//",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn no_text_makes_the_reader_panic_or_think_for_long(query in prop_oneof!["\\PC{0,80}", pieces(), pieces().prop_map(|rest| format!("LIST WHERE {rest}"))]) {
        let begun = Instant::now();
        if let Err(error) = DqlQuery::parse(&query) {
            prop_assert!(error.to_string().starts_with("`q`: line "), "{error}");
        }
        prop_assert!(begun.elapsed() < Duration::from_secs(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn every_parsable_query_executes_without_internal_error(rest in pieces(), mode in prop::sample::select(vec!["LIST WHERE", "TABLE", "DISTINCT", "TASK SORT", "COUNT FROM"])) {
        thread_local! {
            static VAULT: Space = vault();
        }
        if let Ok(query) = DqlQuery::parse(&format!("{mode} {rest}")) {
            let outcome = VAULT.with(|space| space.index.query(&query, &asking(&CustomFields::default())));
            prop_assert!(matches!(outcome, Ok(_) | Err(IndexError::Invalid { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn a_query_tells_which_pages_can_change_its_answer() {
    for (query, prefix) in [
        ("LIST FROM \"tasks/\"", Some("tasks/")),
        ("LIST FROM \"/tasks\" WHERE a = 1 SORT b", Some("tasks")),
        ("LIST", None),
        ("LIST FROM #x", None),
        ("TABLE inlinks() FROM \"tasks/\"", None),
        ("TABLE length(outlinks()) AS n FROM \"tasks/\"", None),
        ("LIST FROM \"tasks/\" WHERE _backlink_count > 2", None),
        ("LIST FROM \"tasks/\" SORT _backlink_count", None),
    ] {
        assert_eq!(DqlQuery::parse(query).unwrap().path_prefix(), prefix, "{query}");
    }
}
