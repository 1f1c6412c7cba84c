//! The queries of `tests/dataview` over REST. All of them run against the evaluator itself in
//! `src/dataview`; here those whose result does not depend on the times of the files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::space::client::{Client, endpoint};
use crate::space::{TestSpace, folder};

/// Queries with these words depend on the clock, the times of the files or their sizes.
const VOLATILE: &[&str] =
    &["ctime", "cday", "mtime", "mday", "today", "now", "tomorrow", "week", "som", "eoy", "size", "date("];

fn oracle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dataview")
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// True for values that REST shows as the oracle does: no links, dates, durations or objects.
fn is_plain(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().all(is_plain),
        Json::Object(_) => false,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
    }
}

/// True for tables whose first column is an expression of the query, without links.
fn is_comparable(expected: &Json) -> bool {
    let first_header = expected["headers"][0].as_str();
    expected["type"] == "table" && !matches!(first_header, Some("File" | "Group")) && is_plain(&expected["rows"])
}

/// What differs from the expected result; `None` if the query is not comparable over REST.
fn compare(client: &Client, query: &Json, expected: &Json) -> Option<Result<(), String>> {
    let text = query["query"].as_str().unwrap();
    let is_refusal = expected["error"] == Json::Bool(true);
    if VOLATILE.iter().any(|word| text.contains(word)) || !(is_refusal || is_comparable(expected)) {
        return None;
    }
    let mut fields = vec![("dialect", "dataview"), ("q", text), ("limit", "200")];
    fields.extend(query["page"].as_str().map(|page| ("page", page)));
    let reply = client.get(&endpoint("/query", &fields));
    let is_right =
        if is_refusal { reply.status == 400 } else { reply.status == 200 && reply.json()["rows"] == expected["rows"] };
    Some(if is_right { Ok(()) } else { Err(format!("{}: {text}\n  {}", query["id"], reply.text())) })
}

#[test]
fn dataview_queries_give_the_same_tables_over_rest() {
    let folder = folder();
    copy_tree(&oracle().join("vault"), &folder.path().join("root"));
    let space = TestSpace::served(folder);
    let client = space.client();
    space.settle();
    let (mut count, mut differences) = (0, Vec::new());
    for entry in fs::read_dir(oracle().join("queries")).unwrap().map(Result::unwrap) {
        let expected = json(&oracle().join("expected").join(entry.file_name()));
        for query in json(&entry.path()).as_array().unwrap() {
            let Some(outcome) = compare(&client, query, &expected[query["id"].as_str().unwrap()]) else { continue };
            count += 1;
            differences.extend(outcome.err());
        }
    }
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(count > 500, "only {count} queries are comparable");
}
