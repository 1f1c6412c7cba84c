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

mod counting;
mod limits;

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
        visible: None,
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

#[test]
fn a_query_sees_nothing_but_the_visible_pages() {
    let space = Space::of(&[
        ("a.md", "---\nstatus: open\nrank: 1\n---\n[[b]] [[hidden]]\n- [ ] task of a\n"),
        ("b.md", "---\nstatus: open\nrank: 2\n---\nb\n"),
        ("hidden.md", "---\nstatus: secret\nrank: 3\n---\n[[b]]\n- [ ] task of hidden\n"),
    ]);
    let paths = ["a.md", "b.md"].map(|path| svcfs_base::TreePath::parse(path).unwrap());
    let visible = std::sync::Arc::new(crate::VisiblePages::new(&paths));
    let custom = CustomFields::default();
    let limits = QueryLimits { visible: Some(&visible), ..asking(&custom) };
    for (query, expected) in [
        ("LIST", json!([["a.md"], ["b.md"]])),
        ("TABLE _backlink_count, length(outlinks()) SORT _path", json!([["a.md", 0, 1], ["b.md", 1, 0]])),
        ("LIST FROM \"hidden.md\"", json!([])),
        ("LIST WHERE status != \"open\"", json!([])),
        ("DISTINCT status", json!([["open"]])),
        ("TABLE count() AS n GROUP BY status", json!([["open", 2]])),
        ("TASK", json!([["a.md", "task of a", false, 6, [], null]])),
        ("LIST WHERE rank > 0 SORT rank DESC LIMIT 1", json!([["b.md"]])),
    ] {
        let answer = space.index.query(&DqlQuery::parse(query).unwrap(), &limits).unwrap();
        assert_eq!(json!(answer.rows), expected, "{query}");
        assert!(answer.notes.is_empty());
    }
    let count = space.index.query(&DqlQuery::parse("COUNT").unwrap(), &limits).unwrap();
    assert_eq!(count.count.unwrap_or(count.total), 2);
}
