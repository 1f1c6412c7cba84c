use serde_json::json;
use svcfs_base::{Caller, Protocol};

use crate::spaces::test_space::TestSpace;

fn space() -> TestSpace {
    let page = |frontmatter: &str| format!("---\n{frontmatter}\n---\n\n# T\n");
    let files = [
        (
            "tasks/a.md",
            page("title: A\nstatus: open\npriority: 2\ndue: 2026-01-02\ntags: [x, y]")
                + "\n- [ ] first [due:: 2026-01-03]\n- [x] second\n",
        ),
        ("tasks/b.md", page("title: B | b\nstatus: done\npriority: 1.5\ntags: [x]")),
        ("tasks/(c).md", page("title: C\nstatus: open\npriority: 4")),
        ("index.md", "# Index\n\n[[a]]\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    TestSpace::with("[dataview]\ncustom_fields = { urgent = \"priority > 3\" }\n", &files)
}

fn text(space: &TestSpace, q: &str, format: &str) -> String {
    space.get("query", json!({ "q": q, "format": format }))["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_query_answers_with_headers_rows_and_the_true_total() {
    let space = space();
    assert_eq!(
        space.get("query", json!({ "q": "TABLE status, urgent FROM \"tasks/\" SORT priority DESC LIMIT 2" })),
        json!({
            "mode": "table", "headers": ["path", "status", "urgent"],
            "rows": [["tasks/(c).md", "open", true], ["tasks/a.md", "open", false]], "total": 3, "has_more": true,
        })
    );
    let counted = space.get("query", json!({ "query": "COUNT GROUP BY status", "limit": 1, "offset": 1 }));
    assert_eq!(
        counted,
        json!({
            "mode": "count", "headers": ["status", "count"], "rows": [["open", 2]], "total": 3, "has_more": true, "count": 4,
            "groups": [{ "key": "open", "count": 2, "rows": [["open", 2]] }],
        })
    );
    space.put("tasks/d.md", "---\nstatus: open\n---\n\n# D\n");
    assert_eq!(
        space.get("query", json!({ "q": "COUNT WHERE status = \"open\"" }))["count"],
        3,
        "what was just written counts"
    );
}

#[test]
fn answers_are_rendered_as_markdown() {
    let space = space();
    assert_eq!(
        text(&space, "TABLE title, _word_count, due, priority FROM \"tasks/\"", "table"),
        "| Path | Title | Word Count | Due | Priority |\n|---|---|---|---|---|\n\
         | tasks/(c).md | C | 1 | — | 4 |\n| tasks/a.md | A | 6 | Jan 02, 2026 | 2 |\n\
         | tasks/b.md | B \\| b | 1 | — | 1.50 |\n"
    );
    assert_eq!(
        text(&space, "LIST title, tags FROM \"tasks/\" LIMIT 2", "list"),
        "- [tasks/(c).md](<tasks/(c).md>): C: —\n- [tasks/a.md](tasks/a.md): A: x, y\n\n*Showing 2 of 3 results*\n"
    );
    assert_eq!(text(&space, "LIST WHERE status = \"none\"", "list"), "*No results*\n");
    assert_eq!(text(&space, "COUNT FROM \"tasks/\"", "count"), "**3** results\n");
    assert_eq!(text(&space, "DISTINCT status", "distinct"), "- done\n- open\n- —\n");
    assert_eq!(text(&space, "TASK", "task"), "**tasks/a.md**\n\n- [ ] first [due:: 2026-01-03]\n- [x] second\n");
    assert_eq!(text(&space, "TASK WHERE text = \"third\"", "task"), "*No tasks*\n");
    assert_eq!(
        text(&space, "LIST FROM \"tasks/\" GROUP BY status", "list"),
        "### done (1)\n\n- [tasks/b.md](tasks/b.md)\n\n### open (2)\n\n- [tasks/(c).md](<tasks/(c).md>)\n- [tasks/a.md](tasks/a.md)\n"
    );
    assert_eq!(
        text(&space, "TABLE count() AS n FROM \"tasks/\" GROUP BY status", "table"),
        "| Status | N |\n|---|---|\n| done | 1 |\n| open | 2 |\n"
    );
}

#[test]
fn values_of_a_field_are_counted_and_summed() {
    let space = space();
    assert_eq!(
        space.get(
            "aggregate",
            json!({ "group": "status", "calc": ["count", "sum:priority", "max:due"], "path_prefix": "tasks" })
        ),
        json!([
            { "status": "done", "count": 1, "sum_priority": 1.5, "max_due": null },
            { "status": "open", "count": 2, "sum_priority": 6, "max_due": "2026-01-02" },
        ])
    );
    assert_eq!(
        space.get("aggregate", json!({ "group_by": "tags", "calculate": ["count"], "where": "status != null" })),
        json!([{ "tags": "x", "count": 2 }, { "tags": "y", "count": 1 }, { "tags": null, "count": 1 }])
    );
}

#[test]
fn agents_may_compute_one_named_aggregate_and_count_by_default() {
    let space = space();
    let agent = Caller::new(Protocol::Mcp);
    let asked = |arguments| space.ask_as(&agent, "aggregate", arguments).unwrap();
    let counted = json!([{ "status": "done", "count": 1 }, { "status": "open", "count": 2 }]);
    for calculate in [json!("count"), json!(["count"]), json!(null)] {
        let told = asked(json!({ "group_by": "status", "calculate": calculate, "path_prefix": "tasks" }));
        assert_eq!(told, counted, "{calculate}");
    }
    assert_eq!(asked(json!({ "group_by": "status", "path_prefix": "tasks" })), counted);
    assert_eq!(
        asked(json!({ "group_by": "status", "calculate": "count, sum:priority", "where": "status = \"open\"" })),
        json!([{ "status": "open", "count": 2, "sum_priority": 6 }])
    );
    let why = space.ask_as(&agent, "aggregate", json!({ "group_by": "status", "calculate": 1 })).unwrap_err();
    assert_eq!(why.message(), "`calc`: expected a text or a list of texts");
}

#[test]
fn a_query_error_is_reported_with_its_position() {
    let space = space();
    for (name, arguments, message) in [
        ("query", json!({}), "q is required"),
        ("query", json!({ "q": " " }), "q is required"),
        ("query", json!({ "q": "LIST WERE x" }), "`q`: line 1, column 6: unexpected keyword \"WERE\""),
        ("query", json!({ "q": "LIST", "limit": 0 }), "`limit`: 0 is too small"),
        ("query", json!({ "q": "LIST", "format": "xml" }), "`format`: "),
        (
            "query",
            json!({ "q": "x".repeat(1 << 20) }),
            "`q`: the query is 1048576 bytes long; the limit is 65536 bytes",
        ),
        ("aggregate", json!({ "group": "a" }), "calc is required"),
        ("aggregate", json!({ "calc": ["count"] }), "group is required"),
        ("aggregate", json!({ "group": "a", "calc": [] }), "`calc`: give 1 to 32 calculations"),
        ("aggregate", json!({ "group": "a", "calc": ["avg"] }), "`calc`: `avg` needs a field"),
        ("aggregate", json!({ "group": "a", "calc": ["count"], "where": "b =" }), "`where`: line 1, column 4: "),
        ("aggregate", json!({ "group": "a", "calc": ["count"], "path_prefix": "../x" }), "path denied: "),
    ] {
        let (status, told) = space.refusal(name, arguments);
        assert!(status == 400 && told.starts_with(message), "{told}");
    }
    assert_eq!(space.get("query", json!({ "q": "COUNT" }))["count"], 4);
}

/// Shows: QRY-1
#[test]
fn a_query_sees_every_write_that_was_acknowledged_before_it() {
    let space = TestSpace::new();
    let saved = json!({ "name": "links", "query": "TABLE n, length(inlinks()) AS links, _backlink_count FROM \"d/\"" });
    space.get("views_save", saved);
    for n in 1..=20 {
        space.put("d/a.md", &format!("---\nn: {n}\n---\n"));
        space.put(&format!("other{n}.md"), "[[a]]");
        let seen = json!(["d/a.md", n, n, n]);
        assert_eq!(space.get("views_execute", json!({ "name": "links" }))["rows"], json!([seen]));
        assert_eq!(space.get("query", json!({ "q": format!("COUNT WHERE n = {n}") }))["count"], 1);
        assert_eq!(space.get("query", json!({ "q": format!("COUNT WHERE n < {n}") }))["count"], 0);
        let counted = space.get("aggregate", json!({ "group": "n", "calc": ["count"], "where": "n > 0" }));
        assert_eq!(counted, json!([{ "n": n, "count": 1 }]));
    }
    space.get("rename", json!({ "from": "d/a.md", "to": "d/b.md" }));
    assert_eq!(space.get("views_execute", json!({ "name": "links" }))["rows"], json!([["d/b.md", 20, 20, 20]]));
    space.get("delete", json!({ "path": "d/b.md" }));
    assert_eq!(space.get("views_execute", json!({ "name": "links" }))["rows"], json!([]));
}

#[test]
fn a_name_that_no_page_has_is_noted_in_responses_but_not_in_pages() {
    let view = "---\nsvc-view: true\nsvc-query: TABLE staus FROM \"sub\"\n---\n";
    let space = TestSpace::with("", &[("sub/a.md", "---\nstatus: open\n---\n"), ("view.md", view)]);
    let caller = Caller::new(Protocol::Http);
    let ask = |q: &str| {
        let cx = space.cx(&caller);
        let mut entries = crate::CATALOGUE.iter().flat_map(|area| area.operations);
        let call = entries.find(|entry| entry.name == "query").unwrap().call;
        let answer = call(json!({ "q": q, "format": "table" }), &cx).unwrap();
        (answer["text"].as_str().unwrap().to_owned(), cx.response_meta().notes)
    };
    for (q, note) in [
        ("TABLE staus FROM \"sub\"", "no page has the field `staus`; did you mean `status`?"),
        ("TABLE status FROM \"su\" OR #none", "no page is in `su`; did you mean `sub/`?"),
    ] {
        let (text, notes) = ask(q);
        assert_eq!(notes, [note], "{q}");
        assert!(text.ends_with(&format!("\n*Note: {note}*\n")), "{text}");
    }
    assert_eq!(ask("TABLE status FROM \"sub\" OR #none").1, Vec::<String>::new());
    space.get("view_refresh", json!({ "path": "view.md" }));
    assert!(!space.text("view.md").contains("no page"), "{}", space.text("view.md"));
}

#[test]
fn an_answer_that_reached_the_bound_says_so_everywhere() {
    let page = |status: &str| format!("---\nstatus: {status}\n---\n\n- [ ] task\n");
    let view = "---\nsvc-view: true\nsvc-query: LIST WHERE length(status) > 0\n---\n";
    let (open, done) = (page("open"), page("done"));
    let files = [("a.md", &*open), ("b.md", &*done), ("c.md", &*open), ("view.md", view)];
    let space = TestSpace::with("[dataview]\nmax_scan_rows = 2\nmax_auto_indexes = 0\n", &files);
    let caller = Caller::new(Protocol::Http);
    let ask = |name: &str, arguments: serde_json::Value| {
        let cx = space.cx(&caller);
        let mut entries = crate::CATALOGUE.iter().flat_map(|area| area.operations);
        let answer = (entries.find(|entry| entry.name == name).unwrap().call)(arguments, &cx).unwrap();
        (answer, cx.response_meta().notes)
    };
    let query = json!({ "q": "LIST WHERE length(status) > 0", "format": "list" });
    let (answer, notes) = ask("query", query);
    assert_eq!((&answer["truncated"], &answer["has_more"], &answer["total"]), (&json!(true), &json!(true), &json!(2)));
    assert!(
        notes.len() == 1 && notes[0].contains("only the first 2 ") && notes[0].contains("dataview.max_scan_rows"),
        "{notes:?}"
    );
    assert!(answer["text"].as_str().unwrap().contains("*Only the first 2 pages, items or tasks were scanned*"));
    let (_, notes) = ask("aggregate", json!({ "group": "_folder", "calc": "count" }));
    assert_eq!(notes.len(), 1, "{notes:?}");
    space.get("views_save", json!({ "name": "all", "query": "LIST WHERE length(status) > 0" }));
    let (answer, notes) = ask("views_execute", json!({ "name": "all" }));
    assert_eq!((&answer["truncated"], notes.len()), (&json!(true), 1));
    space.get("view_refresh", json!({ "path": "view.md" }));
    assert!(space.text("view.md").contains("Only the first 2 pages"), "{}", space.text("view.md"));
    // What the index answers has no bound.
    for (q, total) in [("LIST", 4), ("LIST WHERE _word_count > 0 LIMIT 1", 4), ("COUNT WHERE _size > 1", 4)] {
        let (answer, notes) = ask("query", json!({ "q": q }));
        assert_eq!((&answer["total"], answer.get("truncated"), notes.len()), (&json!(total), None, 0), "{q}");
    }
}

#[test]
fn dataview_queries_answer_in_the_shape_of_dql() {
    let space = space();
    let query = |q: &str| space.get("query", json!({ "q": q, "dialect": "dataview", "page": "index.md" }));
    assert_eq!(
        query("TABLE status FROM \"tasks\" WHERE priority > 1.5 SORT file.name"),
        json!({
            "mode": "table", "headers": ["path", "status"],
            "rows": [["tasks/(c).md", "open"], ["tasks/a.md", "open"]], "total": 2, "has_more": false,
        })
    );
    // A task has the fields of its page, too; the column shows its own.
    let first = json!(["tasks/a.md", "first [due:: 2026-01-03]", false, 11, [], "2026-01-03"]);
    let second = json!(["tasks/a.md", "second", true, 12, [], null]);
    assert_eq!(
        query("TASK WHERE due GROUP BY file.link"),
        json!({
            "mode": "task", "headers": ["path", "text", "completed", "line", "tags", "due"],
            "rows": [first, second], "total": 2, "has_more": false,
            "groups": [{ "key": "[[tasks/a.md|a]]", "count": 2, "rows": [first, second] }],
        })
    );
    assert_eq!(query("LIST WHERE contains(this.file.outlinks, file.link)")["rows"], json!([["tasks/a.md"]]));
    assert_eq!(query("CALENDAR due")["rows"], json!([["tasks/a.md", "2026-01-02"]]));
    let rendered = |q: &str, format: &str| {
        let answer = space.get("query", json!({ "q": q, "dialect": "dataview", "format": format }));
        answer["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        rendered("LIST rows.file.link FROM \"tasks\" WHERE due GROUP BY status", "list"),
        "- open:\n    - [a](tasks/a.md)\n"
    );
    assert_eq!(
        rendered("TABLE due AS \"Due\" FROM \"tasks\" WHERE due", "table"),
        "| File | Due |\n|---|---|\n| [a](tasks/a.md) | January 02, 2026 |\n"
    );
    assert_eq!(rendered("TASK", "task"), "**[a](tasks/a.md)**\n\n- [ ] first [due:: 2026-01-03]\n- [x] second\n");
}
