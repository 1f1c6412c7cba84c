use std::time::Duration;

use serde_json::json;
use svcfs_base::{Caller, Permissions, Scope};

use super::space;
use crate::spaces::test_space::{TestSpace, caller, from_run, path, status_and_error};

fn page(frontmatter: &str) -> String {
    format!("---\nsvc-view: true\n{frontmatter}\n---\n\n# Report\n")
}

const OPEN: &str = "svc-query: TABLE hours FROM \"tasks/\" WHERE status = \"open\" SORT hours";

/// Waits until the text of a page holds something.
#[track_caller]
fn shows(space: &TestSpace, path: &str, part: &str) -> String {
    let feed = space.space().vfs.feed();
    loop {
        let last = feed.last_seq();
        let text = space.text(path);
        if text.contains(part) {
            return text;
        }
        assert!(feed.wait(last, Duration::from_secs(30)), "`{path}` never shows {part:?}: {text}");
    }
}

fn versions(space: &TestSpace, path: &str) -> usize {
    space.get("versions", json!({ "path": path })).as_array().unwrap().len()
}

/// Shows: QRY-5
#[test]
fn a_computed_page_holds_its_answer_and_updates_when_it_changes() {
    let space = space();
    space.put("reports/open.md", &page(OPEN));
    let text = shows(&space, "reports/open.md", "tasks/b.md");
    let block = "<!-- svc:auto -->\n\n| Path       | Hours |\n| ---------- | ----- |\n| tasks/a.md | 4     |\n| tasks/b.md | 12    |\n\n<!-- /svc-view -->\n";
    assert_eq!(text, page(OPEN).replace("# Report", &format!("{block}\n# Report")));
    let (_, author, message) = space.newest("reports/open.md");
    assert_eq!((author.as_str(), message.as_str()), ("svc", "svc: refresh reports/open.md"));

    space.put("tasks/d.md", "---\nstatus: open\nhours: 7\n---\n");
    assert!(shows(&space, "reports/open.md", "tasks/d.md").ends_with("-->\n\n# Report\n"), "the rest stays");
    space.get("delete", json!({ "path": "tasks/b.md" }));
    space.get("rename", json!({ "from": "tasks/d.md", "to": "tasks/e.md" }));
    shows(&space, "reports/open.md", "| tasks/a.md | 4     |\n| tasks/e.md | 7     |\n\n");
    // A page that is no computed one any more stays as it is.
    let plain = "---\nsvc-view: false\n---\n\n# Report\n";
    space.put("reports/open.md", plain);
    space.put("reports/z.md", &page(OPEN));
    shows(&space, "reports/z.md", "tasks/e.md");
    assert_eq!(space.text("reports/open.md"), plain);
}

/// Shows: QRY-6
#[test]
fn what_a_refresh_writes_sets_off_no_other_refresh() {
    let space = space();
    // Pages that look at each other's size and at their own have another answer after each of their
    // versions.
    let sizes = page("svc-query: TABLE _size, _updated");
    space.put("a.md", &sizes);
    space.put("b.md", &sizes);
    // The last one in path order shows when all of them were asked.
    space.put("z.md", &page(OPEN));
    shows(&space, "z.md", "tasks/a.md");
    let before = (versions(&space, "a.md"), versions(&space, "b.md"), versions(&space, "z.md"));
    for n in 1..=2 {
        space.put(&format!("tasks/n{n}.md"), "---\nstatus: open\nhours: 7\n---\n");
        shows(&space, "z.md", &format!("tasks/n{n}.md"));
    }
    let after = (versions(&space, "a.md"), versions(&space, "b.md"), versions(&space, "z.md"));
    assert_eq!(after, (before.0 + 2, before.1 + 2, before.2 + 2));
    assert_eq!(space.get("view_refresh", json!({ "path": "z.md" }))["status"], "unchanged");
    assert_eq!(versions(&space, "z.md"), after.2, "the same answer is no version");
}

/// Shows: QRY-5
#[test]
fn a_requested_refresh_is_authored_by_the_requester() {
    let space = space();
    space.stop_refreshing();
    space.put("r.md", &page(OPEN));
    let ask = |arguments| space.ask_as(&from_run("ann", "run:1"), "view_refresh", arguments).unwrap();
    let first = ask(json!({ "path": "r.md" }));
    assert_eq!(
        (&first["path"], &first["status"], &first["refreshed"]),
        (&json!("r.md"), &json!("regenerated"), &json!(1))
    );
    let (_, author, message) = space.newest("r.md");
    assert_eq!((author.as_str(), message.as_str()), ("ann", "ann: refresh r.md"));
    assert_eq!(ask(json!({ "path": "r.md" }))["status"], "unchanged");
    assert_eq!(versions(&space, "r.md"), 2);

    space.put("broken.md", &page("svc-query: TABEL x"));
    space.put("quoted.md", "---\nsvc-view: \"true\"\nsvc-query: LIST\n---\n");
    space.put("tasks/a.md", "---\nstatus: open\nhours: 5\n---\n");
    let all = ask(json!({}));
    assert_eq!(all["refreshed"], 1);
    assert_eq!(all["failed"][0]["path"], "broken.md");
    assert_eq!(all["failed"].as_array().unwrap().len(), 1, "who says \"true\" in quotes does not mean it");
    assert!(all["duration_ms"].is_u64() && all.get("path").is_none());
    assert!(space.text("r.md").contains("| tasks/a.md | 5     |"));
}

#[test]
fn a_page_whose_query_cannot_be_read_says_so_until_it_can() {
    let space = space();
    space.put("r.md", "---\nsvc-view: true\nsvc-query: TABEL [[x]]\n---\n\nBelow.\n");
    shows(&space, "r.md", "This page is not computed:");
    let told = space.text("r.md");
    assert!(told.contains("`svc-query` of `r.md`: ") && told.contains("TABEL") && told.ends_with("Below.\n"), "{told}");
    assert_eq!(space.get("peek", json!({ "path": "r.md" }))["links_broken"], json!([]));
    let before = versions(&space, "r.md");
    space.put("tasks/new.md", "---\nstatus: open\n---\n");
    space.put("z.md", &page(OPEN));
    shows(&space, "z.md", "tasks/new.md");
    assert_eq!(versions(&space, "r.md"), before, "it is said once");
    space.put("r.md", &told.replace("TABEL [[x]]", "LIST FROM \"tasks/\""));
    shows(&space, "r.md", "tasks/new.md");
    assert!(!space.text("r.md").contains("not computed"));
}

#[test]
fn an_answer_has_the_requested_form_or_that_of_the_query() {
    let space = space();
    space.stop_refreshing();
    for (asked, block) in [
        ("svc-query: LIST FROM \"tasks/\" LIMIT 1", "- [tasks/a.md](/tasks/a.md)\n\n*Showing 1 of 3 results*\n"),
        ("svc-query: LIST FROM \"tasks/c\"\nsvc-format: table", "| Path       |\n| ---------- |\n| tasks/c.md |\n"),
        ("svc-query: COUNT FROM \"tasks/\"", "**3** results\n"),
        ("svc-query: DISTINCT status FROM \"tasks/\"", "- done\n- open\n"),
        ("svc-query: LIST FROM \"nowhere/\"", "*No results*\n"),
        (
            "svc-query: COUNT FROM \"tasks/\"\nsvc-format: json",
            "```json\n{\n  \"mode\": \"count\",\n  \"headers\": [\n    \"count\"\n  ],\n",
        ),
    ] {
        space.put("deep/r.md", &page(asked));
        space.get("view_refresh", json!({ "path": "deep/r.md" }));
        let text = space.text("deep/r.md");
        assert!(text.contains(&format!("<!-- svc:auto -->\n\n{block}")), "{asked}: {text}");
        assert_eq!(space.get("view_refresh", json!({ "path": "deep/r.md" }))["status"], "unchanged", "{asked}");
    }
    let links = space.get("peek", json!({ "path": "deep/r.md" }));
    assert_eq!(links["links_broken"], json!([]));
}

#[test]
fn a_page_that_cannot_be_computed_is_refused_with_the_reason() {
    let space = space();
    space.stop_refreshing();
    for (path, asked) in [
        ("bad/flag.md", "---\nsvc-query: LIST\n---\n"),
        ("bad/none.md", "---\nsvc-view: true\n---\n"),
        ("bad/number.md", "---\nsvc-view: true\nsvc-query: 7\n---\n"),
        ("bad/query.md", "---\nsvc-view: true\nsvc-query: \"TABLE '); DROP TABLE pages\"\n---\n"),
        ("bad/form.md", "---\nsvc-view: true\nsvc-query: LIST\nsvc-format: chart\n---\n"),
        ("bad/open.md", "---\nsvc-view: true\nsvc-query: LIST\n---\n<!-- svc:auto -->\nby hand\n"),
        ("bad/head.md", "no frontmatter\n"),
    ] {
        space.put(path, asked);
    }
    for (path, expected) in [
        (
            "bad/flag.md",
            "`path`: `bad/flag.md` is not a computed page; set `svc-view: true` and `svc-query` in its frontmatter",
        ),
        ("bad/none.md", "`path`: `bad/none.md` has no `svc-query` and no block ```dataview; add a query such as "),
        ("bad/number.md", "`path`: `bad/number.md` has no `svc-query` and no block ```dataview; "),
        ("bad/query.md", "`path`: `svc-query` of `bad/query.md`: "),
        ("bad/form.md", "`path`: `svc-format` of `bad/form.md` is \"chart\"; use `table`, `list`, "),
        ("bad/open.md", "`path`: `bad/open.md` has a line `<!-- svc:auto -->` without `<!-- /svc-view -->` after it"),
        ("bad/head.md", "`path`: `bad/head.md` is not a computed page; "),
        ("nowhere.md", "`path`: no page at `nowhere.md`"),
        ("bad", "`path`: no page at `bad`"),
        (".svc/config.toml", "`path`: no page at `.svc/config.toml`"),
        (".svc/templates/x.md", "`path`: no page at "),
    ] {
        let before = path.starts_with("bad/").then(|| space.text(path));
        let (status, message) = space.refusal("view_refresh", json!({ "path": path }));
        assert!(status == 400 && message.starts_with(expected), "{path}: {message}");
        assert_eq!(path.starts_with("bad/").then(|| space.text(path)), before);
    }
    for path in [json!("../x.md"), json!(7), json!("a\u{0}.md"), json!(["a.md"])] {
        assert_eq!(space.refusal("view_refresh", json!({ "path": path })).0, 400, "{path}");
    }
}

/// Shows: QRY-6
#[test]
fn a_write_during_a_refresh_is_never_written_over() {
    let space = space();
    let text = |n: usize| page(OPEN).replace("# Report", &format!("# Report {n}"));
    space.put("r.md", &text(0));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            for n in 0..100 {
                space.put("tasks/a.md", &format!("---\nstatus: open\nhours: {n}\n---\n"));
                match space.ask("view_refresh", json!({ "path": "r.md" })) {
                    Ok(_) => {}
                    Err(fault) => assert_eq!(fault.kind().http(), 409, "{fault:?}"),
                }
            }
        });
        for n in 1..=100 {
            let read = space.text("r.md");
            assert!(read.contains(&format!("# Report {}\n", n - 1)), "{n}: {read}");
            space.put("r.md", &text(n));
        }
        asking.join().unwrap();
    });
    assert!(shows(&space, "r.md", "| tasks/a.md | 99    |").contains("# Report 100\n"));
}

/// Shows: QRY-7
#[test]
fn who_is_limited_to_a_folder_has_nothing_answered_beyond_it() {
    let space = space();
    let limited = Permissions { scope: Scope::Write, folder: Some(path("team")) };
    let ann = Caller { permissions: limited, ..caller() };
    let write = |query: &str| {
        let text = format!("---\nsvc-view: true\nsvc-query: '{query}'\n---\n");
        space.ask_as(&ann, "write", json!({ "path": "team/r.md", "content": text }))
    };
    for query in
        ["LIST", "LIST FROM \"tasks/\"", "LIST FROM \"team\"", "LIST FROM #x", "TABLE inlinks() FROM \"team/\""]
    {
        let (status, told) = status_and_error(write(query));
        assert!(
            status == 403 && told.starts_with("path outside key scope: the query of `team/r.md` reads pages outside"),
            "{query}: {told}"
        );
    }
    write("LIST FROM \"team/\" WHERE status = \"open\"").unwrap();
    write("no query at all").unwrap();
    // What somebody with a longer reach wrote there stays as it is, and may be written around.
    space.put("team/r.md", &page("svc-query: COUNT"));
    let around = page("svc-query: COUNT").replace("# Report", "# Team");
    space.ask_as(&ann, "write", json!({ "path": "team/r.md", "content": around })).unwrap();
    // Pages that the server answers anyway may be answered at once; those elsewhere are not
    // touched.
    space.put("tasks/r.md", &page("svc-query: COUNT"));
    let all = space.get("view_refresh", json!({}))["refreshed"].clone();
    assert_eq!((&all, &space.ask_as(&ann, "view_refresh", json!({})).unwrap()["refreshed"]), (&json!(2), &json!(1)));
    assert_eq!(status_and_error(space.ask_as(&ann, "view_refresh", json!({ "path": "tasks/r.md" }))).0, 403);
}

#[test]
fn dataview_blocks_of_a_computed_page_show_their_results() {
    let space = space();
    let blocks = "```dataview\nLIST FROM \"tasks\" WHERE status = \"open\" SORT file.name\n```\n\nand\n\n```dataview\nTABLE WITHOUT ID this.file.name AS Here\nLIMIT 1\n```\n";
    let text = format!("---\nsvc-view: true\n---\n\n{blocks}\nafter\n");
    space.put("reports/blocks.md", &text);
    let shown = shows(&space, "reports/blocks.md", "tasks/b.md");
    let result = "<!-- svc:auto -->\n\n- [a](/tasks/a.md)\n- [b](/tasks/b.md)\n\n| Here   |\n| ------ |\n| blocks |\n\n<!-- /svc-view -->\n";
    assert_eq!(shown, text.replace("\nafter", &format!("\n{result}\nafter")));
    space.put("reports/blocks.md", &text.replace("LIST FROM", "LIST FORM"));
    shows(&space, "reports/blocks.md", "the block on line 2 of");
}
