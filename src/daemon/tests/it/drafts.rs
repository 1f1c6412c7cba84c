//! `svcfs drafts`, with and without a server.

use serde_json::{Value, json};

use crate::harness::{Place, Running, json_of, program, svcfs};

const PAGE: &str = "# Tides\n\none\n\ntwo\n\nthree\n\nfour\n";

/// Calls an operation of the root.
#[track_caller]
fn call(root: &str, operation: &str, arguments: &Value) -> Value {
    let given = arguments.as_object().unwrap().iter();
    let given = given.map(|(name, value)| format!("{name}={}", value.as_str().unwrap()));
    let line: Vec<String> = ["call", operation].map(str::to_owned).into_iter().chain(given).collect();
    let line: Vec<&str> = line.iter().map(String::as_str).chain(["--root", root]).collect();
    json_of(&line)
}

/// A draft that changes three lines of a page, the last of which the tree changes, too.
fn conflicting_draft(root: &str) -> String {
    call(root, "write", &json!({ "path": "a.md", "content": PAGE }));
    let draft = call(root, "draft_create", &json!({ "actor": "agent" }))["id"].as_str().unwrap().to_owned();
    let text = PAGE.replace("one", "uno").replace("two", "dos").replace("four", "quatro");
    call(root, "draft_write", &json!({ "id": draft, "path": "a.md", "content": text }));
    call(root, "write", &json!({ "path": "a.md", "content": PAGE.replace("four", "vier") }));
    draft
}

#[test]
fn a_refused_merge_prints_its_conflicts_as_json() {
    let place = Place::with_root();
    let root = place.at("kb");
    let draft = conflicting_draft(&root);
    let check = || {
        let output = program().args(["drafts", "merge", &draft, "--json", "--root", &root]).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let conflict = &answer["conflicts"][0];
        assert_eq!((&conflict["path"], &conflict["start"]), (&json!("a.md"), &json!(9)), "{answer}");
        assert!(answer["error"].as_str().unwrap().starts_with("merge conflict"), "{answer}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("svcfs: merge conflict"));
        assert_eq!(output.status.code(), Some(3));
    };
    check();
    let server = Running::serve(&root, &[]);
    check();
    server.stop();
}

#[test]
fn a_range_of_hunks_is_merged_and_the_list_has_readable_times() {
    let place = Place::with_root();
    let root = place.at("kb");
    let draft = conflicting_draft(&root);
    let print = |line: &[&str]| {
        let output = svcfs(line).args(["--root", &root]).assert().success().get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    let list = print(&["drafts", "list"]);
    let time = list.split('\t').nth(2).unwrap();
    assert!(time.len() == "2026-11-28 21:02".len() && time.as_bytes()[10] == b' ', "{list}");
    assert_eq!(print(&["drafts", "merge", &draft, "--hunks", "1-2"]), "merged a.md\nstill open a.md\n");
    let text = print(&["read", "a.md"]);
    assert!(text.contains("uno\n\ndos\n\nthree\n\nvier"), "{text}");
}
