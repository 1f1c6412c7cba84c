use serde_json::json;

use super::*;

fn shown(view: View, answer: Value, flags: &[&str], has_colours: bool) -> (String, Vec<String>) {
    let paths = TreePaths::default();
    let has_flag = |name: &str| flags.contains(&name);
    let cx = ViewContext { paths: &paths, style: Style { has_colours }, has_flag: &has_flag };
    let Rendered { text, notes } = view(&answer, &cx).unwrap();
    (String::from_utf8(text).unwrap(), notes)
}

#[test]
fn an_empty_answer_is_a_note_and_no_output() {
    let empty = json!([]);
    for (view, answer, note) in [
        (search::results as View, empty.clone(), "no results"),
        (tree::list, empty.clone(), "no files"),
        (history::versions, empty.clone(), "no versions"),
        (history::changes, json!({ "events": [], "total": 0 }), "no changes"),
        (history::blame, empty.clone(), "no lines"),
        (history::diff, json!({ "diff": "" }), "no differences"),
        (links::links, json!({ "links_out": [], "links_broken": [] }), "no links"),
        (links::backlinks, empty, "no backlinks"),
    ] {
        assert_eq!(shown(view, answer, &[], false), (String::new(), vec![note.to_owned()]));
    }
}

#[test]
fn search_results_show_matches_as_the_page_has_them() {
    let answer = json!([{ "path": "a.md", "title": "A", "snippet": "if <mark>a</mark> &lt; b &amp;lt; c", "score": 1.0,
        "did_you_mean": "a" }]);
    let (text, notes) = shown(search::results, answer.clone(), &[], false);
    assert_eq!(text, "a.md  A\n    if a < b &lt; c\n");
    assert_eq!(notes, ["nothing has these words; results for: a"]);
    let (text, _) = shown(search::results, answer, &[], true);
    assert!(text.contains("if \u{1b}[33ma\u{1b}[0m < b"), "{text:?}");
}

#[test]
fn what_a_page_says_cannot_control_the_terminal() {
    let evil = "\u{1b}[2J\u{9b}31m\rx";
    for (view, answer) in [
        (search::results as View, json!([{ "path": evil, "title": evil, "snippet": evil, "note": evil }])),
        (tree::list, json!([{ "name": evil, "isDir": false, "size": 1 }])),
        (tree::tree, json!([{ "name": evil, "isDir": true, "children": [] }])),
        (history::versions, json!([{ "hash": evil, "author": evil, "message": evil, "timestamp": evil }])),
        (history::changes, json!({ "events": [{ "path": evil, "actor": evil, "message": evil }], "total": 1 })),
        (history::blame, json!([{ "line": 1, "content": evil, "hash": evil, "author": evil, "timestamp": evil }])),
        (links::links, json!({ "links_out": [evil], "links_broken": [evil] })),
        (links::backlinks, json!([{ "path": evil, "title": evil, "context": evil }])),
        (changes::written, json!({ "path": evil, "etag": evil })),
        (
            changes::removed,
            json!({ "deleted": evil, "dry_run": { "changes": [{ "path": evil, "change": evil, "former": evil }],
                "lint": [evil],
                "broken_links": [{ "path": evil, "target": evil, "context": evil }] } }),
        ),
        (changes::renamed, json!({ "from": evil, "to": evil })),
    ] {
        let (text, notes) = shown(view, answer, &[], false);
        let all = text + &notes.concat();
        assert!(all.chars().all(|c| c == '\n' || !c.is_control()), "{all:?}");
    }
}

#[test]
fn listings_mark_kinds_and_leave_out_hidden_names() {
    let answer = json!([
        { "name": ".obsidian", "isDir": true, "size": 0, "modified": "2026-11-28T21:02:31.7Z", "type": "directory" },
        { "name": "sub", "isDir": true, "size": 0, "modified": "2026-11-28T21:02:31.7Z", "type": "directory" },
        { "name": "a.md", "isDir": false, "size": 1536, "modified": "2026-11-28T21:02:31.7Z", "type": "file" },
        { "name": "l", "isDir": false, "size": 4, "modified": "2026-11-28T21:02:31.7Z", "type": "symlink" },
    ]);
    assert_eq!(shown(tree::list, answer.clone(), &[], false).0, "sub/\na.md\nl@\n");
    assert_eq!(shown(tree::list, answer.clone(), &["all"], false).0, ".obsidian/\nsub/\na.md\nl@\n");
    let long = "   -  2026-11-28 21:02  sub/\n1.5K  2026-11-28 21:02  a.md\n   4  2026-11-28 21:02  l@\n";
    assert_eq!(shown(tree::list, answer, &["long"], false).0, long);
}

#[test]
fn a_tree_is_drawn_with_lines_and_counted() {
    let file = |name: &str| json!({ "name": name, "isDir": false, "size": 1, "children": null });
    let answer = json!([
        { "name": "sub", "isDir": true, "children": [file("a.md"), file("b.md")] },
        file("c.md"),
    ]);
    let (text, notes) = shown(tree::tree, answer, &[], false);
    assert_eq!(text, "├── sub/\n│   ├── a.md\n│   └── b.md\n└── c.md\n\n1 directory, 3 files\n");
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn history_rows_are_aligned_and_do_not_repeat_themselves() {
    let hash = "4f2a09c1".repeat(5);
    let row = |author: &str, message: &str| json!({ "hash": hash, "author": author, "message": message, "timestamp": "2026-11-28T21:02:28Z" });
    let (text, _) =
        shown(history::versions, json!([row("ann", "ann: a.md"), row("agent:7", "tidy\n\nbody")]), &[], false);
    assert_eq!(text, "4f2a09c14f  2026-11-28 21:02  ann      a.md\n4f2a09c14f  2026-11-28 21:02  agent:7  tidy\n");
    let event = |kind: &str, path: &str, message: &str| json!({ "type": kind, "path": path, "actor": "ann", "hash": hash, "message": message, "timestamp": "2026-11-28T21:02:28Z" });
    let events = [event("write", "a.md", "ann: a.md"), event("delete", "b.md", "ann: tidy up")];
    let (text, notes) = shown(history::changes, json!({ "events": events, "total": 7 }), &[], false);
    assert_eq!(
        text,
        "4f2a09c14f  2026-11-28 21:02  ann  a.md\n4f2a09c14f  2026-11-28 21:02  ann  b.md (removed)  tidy up\n"
    );
    assert_eq!(notes, ["2 of 7 changes; use --limit and --offset for others"]);
}

#[test]
fn a_difference_has_colours_only_at_a_terminal() {
    let answer = json!({ "diff": "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n" });
    assert_eq!(shown(history::diff, answer.clone(), &[], false).0, "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n");
    let (text, _) = shown(history::diff, answer, &[], true);
    assert!(text.contains("\u{1b}[31m-x\u{1b}[0m\n\u{1b}[32m+y\u{1b}[0m\n"), "{text:?}");
}
