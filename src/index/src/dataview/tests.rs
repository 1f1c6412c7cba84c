use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value as Json, json};
use svcfs_base::{Timestamp, TreePath};
use svcfs_dataview::DataviewQuery;

use super::{DataviewAnswer, DataviewLimits};
use crate::IndexError;
use crate::tests::Space;

fn space() -> Space {
    Space::of(&[
        (
            "a/boat.md",
            "---\ntags: [work/wood]\nrating: 8\nowner: \"[[ann]]\"\n---\n# Boat\n\nBuilt:: 2026-02-01\n\n- [ ] paint [due:: 2026-03-01]\n    - [x] sand\n",
        ),
        ("a/sub/raft.md", "# Raft\n\n#Work/Rope and [[boat|the boat]]\n"),
        ("ab/canoe.md", "---\nrating: 3\n---\n[[ann]] (mood:: good)\n"),
        ("ann.md", "---\nrole: captain\n---\n"),
    ])
}

fn limits<'a>() -> DataviewLimits<'a> {
    DataviewLimits {
        page: None,
        now: "2026-03-15T10:30:00Z".parse::<Timestamp>().unwrap(),
        max_scan_rows: 100,
        timeout: Duration::from_secs(5),
        folder: None,
        visible: None,
        created: HashMap::new(),
    }
}

fn run(space: &Space, query: &str, limits: &DataviewLimits<'_>) -> Result<DataviewAnswer, IndexError> {
    let query = DataviewQuery::parse(query).map_err(super::to_index_error)?;
    space.index.query_dataview(&query, limits)
}

fn rows(space: &Space, query: &str, limits: &DataviewLimits<'_>) -> Json {
    let answer = run(space, query, limits).unwrap_or_else(|error| panic!("{query}: {error}"));
    answer
        .result
        .rows
        .iter()
        .map(|row| row.cells.iter().map(svcfs_dataview::Value::to_json).collect::<Json>())
        .collect()
}

#[test]
fn queries_read_everything_that_pages_contain() {
    let space = space();
    for (query, expected) in [
        ("TABLE WITHOUT ID file.name FROM \"a\"", json!([["boat"], ["raft"]])),
        ("TABLE WITHOUT ID file.name FROM \"a/boat\"", json!([["boat"]])),
        ("TABLE WITHOUT ID file.name FROM \"a/boat.md\"", json!([["boat"]])),
        ("TABLE WITHOUT ID file.name FROM #work", json!([["boat"], ["raft"]])),
        ("TABLE WITHOUT ID file.name FROM \"ab\" OR #work/rope", json!([["raft"], ["canoe"]])),
        ("TABLE WITHOUT ID file.name FROM [[ann]]", json!([["boat"], ["canoe"]])),
        ("TABLE WITHOUT ID file.name FROM outgoing([[raft]])", json!([["boat"]])),
        ("TABLE WITHOUT ID file.name WHERE built AND built < date(today)", json!([["boat"]])),
        ("TABLE WITHOUT ID owner.role, mood WHERE rating SORT rating", json!([[null, "good"], ["captain", null]])),
        ("TABLE WITHOUT ID file.inlinks FROM \"a/boat\"", json!([[["[[a/sub/raft.md|raft]]"]]])),
        ("TABLE WITHOUT ID file.outlinks FROM \"a/sub\"", json!([[["[[a/boat.md|the boat]]"]]])),
        ("TABLE WITHOUT ID file.tasks.text FROM \"a/boat\"", json!([[["paint [due:: 2026-03-01]", "sand"]]])),
        ("TASK WHERE due", json!([["paint [due:: 2026-03-01]", " ", "a/boat.md", 9], ["sand", "x", "a/boat.md", 10]])),
        ("LIST WITHOUT ID rows.file.name GROUP BY rating > 5", json!([[["raft", "canoe", "ann"]], [["boat"]]])),
    ] {
        assert_eq!(rows(&space, query, &limits()), expected, "{query}");
    }
}

#[test]
fn a_page_gives_this_and_a_folder_limits_what_is_seen() {
    let space = space();
    let (ann, folder) = (TreePath::parse("ann.md").unwrap(), TreePath::parse("a").unwrap());
    let of_ann = DataviewLimits { page: Some(&ann), ..limits() };
    assert_eq!(
        rows(&space, "TABLE WITHOUT ID file.name, this.role FROM [[]]", &of_ann),
        json!([["boat", "captain"], ["canoe", "captain"]])
    );
    let inside = DataviewLimits { folder: Some(&folder), ..limits() };
    assert_eq!(
        rows(&space, "TABLE WITHOUT ID file.name, owner.role, file.inlinks.file.name", &inside),
        json!([["boat", null, ["raft"]], ["raft", null, []]])
    );
    let paths = ["a/boat.md", "ab/canoe.md"].map(|path| TreePath::parse(path).unwrap());
    let visible = std::sync::Arc::new(crate::VisiblePages::new(&paths));
    let of_two = DataviewLimits { visible: Some(&visible), ..limits() };
    for (query, expected) in [
        (
            "TABLE WITHOUT ID file.name, owner.role, file.inlinks.file.name",
            json!([["boat", null, []], ["canoe", null, []]]),
        ),
        ("TABLE WITHOUT ID length(rows) GROUP BY true", json!([[2]])),
        ("TABLE WITHOUT ID file.name FROM \"a\"", json!([["boat"]])),
    ] {
        assert_eq!(rows(&space, query, &of_two), expected, "{query}");
    }
    let missing = DataviewLimits { page: Some(&ann), folder: Some(&folder), ..limits() };
    assert_eq!(run(&space, "LIST", &missing).unwrap_err().to_string(), "`page`: no page at `ann.md`");
}

#[test]
fn limited_readers_see_no_link_of_a_stored_result() {
    let view = "[[own]]\n\n<!-- svc:auto -->\n- [secret](/secret.md)\n<!-- /svc-view -->\n";
    let space = Space::of(&[("view.md", view), ("own.md", ""), ("secret.md", "")]);
    let paths = [TreePath::parse("view.md").unwrap()];
    let visible = std::sync::Arc::new(crate::VisiblePages::new(&paths));
    let limited = DataviewLimits { visible: Some(&visible), ..limits() };
    let query = "TABLE WITHOUT ID length(file.outlinks) WHERE file.name = \"view\"";
    assert_eq!(rows(&space, query, &limits()), json!([[2]]));
    assert_eq!(rows(&space, query, &limited), json!([[1]]));
}

#[test]
fn refusals_say_where_and_what_to_write() {
    let space = space();
    for (query, message) in [
        ("LIST WHERE file.nam", "`q`: line 1, column 17: there is no field `file.nam`; did you mean `name`?"),
        (
            "LIST\nWHERE contain(a, 1)",
            "`q`: line 2, column 7: there is no function `contain`; did you mean `contains`?",
        ),
        (
            "LIST ORDER BY a",
            "`q`: line 1, column 12: `BY` is no clause: expected FROM, WHERE, SORT, GROUP BY, FLATTEN or LIMIT; write SORT or GROUP BY",
        ),
        (
            "LIST a ORDER BY b",
            "`q`: line 1, column 8: `ORDER` is no clause: expected FROM, WHERE, SORT, GROUP BY, FLATTEN or LIMIT; write SORT",
        ),
        (
            "dataviewjs",
            "`q`: line 1, column 1: `dataviewjs` is JavaScript and is not run; write the query as TABLE, LIST, TASK or CALENDAR",
        ),
        (
            "LIST WHERE this.a",
            "`q`: the query refers to its own page (`this` or `[[]]`); say which page it is in with `page`",
        ),
        ("LIST FROM [[nowhere]]", "`q`: FROM names the page `nowhere`, which does not exist"),
    ] {
        assert_eq!(run(&space, query, &limits()).unwrap_err().to_string(), message, "{query}");
    }
    let answer = run(&space, "TABLE raiting", &limits()).unwrap();
    assert_eq!(answer.result.notes, ["no page has the field `raiting`, so it is null; did you mean `rating`?"]);
    let few = DataviewLimits { max_scan_rows: 2, ..limits() };
    assert_eq!(run(&space, "LIST", &few).unwrap().scanned_rows, Some(2));
}
