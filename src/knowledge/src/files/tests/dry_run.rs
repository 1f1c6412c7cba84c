//! Dry runs: what would happen, and that nothing does.

use serde_json::{Value, json};
use svcfs_base::{Caller, Permissions, Precondition, Protocol, Scope};

use crate::spaces::test_space::{TestSpace, caller, expecting, status_and_error};

fn space() -> TestSpace {
    TestSpace::with(
        "",
        &[
            ("a.md", "# A\n\nSee [[b]].\n"),
            ("b.md", "# B\n\ntext\n"),
            ("c.md", "# C\n\n[b](b.md)\n"),
            ("d/e.md", "# E\n"),
        ],
    )
}

/// Everything that a write would change.
fn state(space: &TestSpace) -> (Value, u64, Value) {
    let paths = ["a.md", "b.md", "c.md", "d/e.md"].map(|path| space.text(path));
    (json!(paths), space.space().vfs.last_seq().0, space.get("timeline", json!({})))
}

#[test]
fn a_dry_run_shows_the_changes_and_makes_none() {
    let space = space();
    let before = state(&space);
    let report = |name: &str, mut arguments: Value| {
        arguments["dry_run"] = json!(true);
        space.get(name, arguments)["dry_run"].clone()
    };
    let written = report("write", json!({ "path": "b.md", "content": "# B\n\n### Skipped\n" }));
    assert_eq!(written["changes"], json!([{ "path": "b.md", "change": "modified" }]));
    assert!(written["diff"].as_str().unwrap().contains("-text\n+### Skipped\n"), "{written}");
    assert!(written["lint"][0].as_str().unwrap().starts_with("b.md:3: warning: "), "{written}");
    let new = report("write", json!({ "path": "new/n.md", "content": "# N\n" }));
    assert_eq!(new["changes"], json!([{ "path": "new/n.md", "change": "added" }]));
    let same = report("write", json!({ "path": "b.md", "content": "# B\n\ntext\n" }));
    assert_eq!((&same["changes"], &same["diff"]), (&json!([]), &json!("")));
    let removed = report("delete", json!({ "path": "b.md" }));
    assert_eq!(removed["changes"], json!([{ "path": "b.md", "change": "removed" }]));
    assert_eq!(
        removed["broken_links"],
        json!([
            { "path": "a.md", "target": "b.md", "context": "See [[b]]." },
            { "path": "c.md", "target": "b.md", "context": "[b](b.md)" },
        ])
    );
    let renamed = report("rename", json!({ "from": "b.md", "to": "z.md" }));
    assert_eq!(renamed["changes"][0], json!({ "path": "z.md", "former": "b.md", "change": "renamed" }));
    assert_eq!(renamed["changes"].as_array().unwrap().len(), 3, "{renamed}");
    assert!(renamed["diff"].as_str().unwrap().contains("+See [[z]].\n") && renamed.get("broken_links").is_none());
    let alone = report("rename", json!({ "from": "b.md", "to": "z.md", "update_links": false }));
    assert_eq!((alone["changes"].as_array().unwrap().len(), alone["broken_links"].as_array().unwrap().len()), (1, 2));
    let mount = report("rename", json!({ "from": "b.md", "to": "z.md", "as_mount": true }));
    assert_eq!(mount["broken_links"].as_array().unwrap().len(), 2, "{mount}");
    let replaced = report("rename", json!({ "from": "d/e.md", "to": "b.md", "replacing": "*" }));
    assert!(replaced["diff"].as_str().unwrap().contains("-# B\n"), "{replaced}");
    let directory = report("rename_dir", json!({ "from": "d", "to": "f" }));
    assert_eq!(directory["changes"], json!([{ "path": "f/e.md", "former": "d/e.md", "change": "renamed" }]));
    let bulk = report(
        "bulk_write",
        json!({ "files": [{ "path": "a.md", "content": "# A\n" }, { "path": "n.md", "content": "# N\n" }] }),
    );
    assert_eq!(bulk["changes"].as_array().unwrap().len(), 2, "{bulk}");
    let edited = report("edit", json!({ "path": "a.md", "edits": [{ "old": "See", "new": "Read" }] }));
    assert!(edited["diff"].as_str().unwrap().contains("+Read [[b]].\n"), "{edited}");
    assert_eq!(state(&space), before);
    assert!(space.get("write", json!({ "path": "b.md", "content": "# B\n" })).get("dry_run").is_none());
}

#[test]
fn a_dry_run_is_refused_as_the_change_is() {
    let space = space();
    let stale = expecting(Precondition::OneOf(vec![svcfs_base::ETag::from_content(b"other")]));
    let readers = Permissions { scope: Scope::Read, ..Permissions::FULL };
    let reader = Caller { permissions: readers, ..caller() };
    let before = state(&space);
    for (caller, name, arguments) in [
        (&stale, "write", json!({ "path": "a.md", "content": "x\n" })),
        (&stale, "delete", json!({ "path": "a.md" })),
        (&stale, "rename", json!({ "from": "a.md", "to": "z.md" })),
        (&stale, "edit", json!({ "path": "a.md", "edits": [{ "old": "none", "new": "" }] })),
        (&reader, "write", json!({ "path": "a.md", "content": "x\n" })),
        (&caller(), "write", json!({ "path": "d", "content": "x\n" })),
        (&caller(), "write", json!({ "path": ".git/x", "content": "x\n" })),
        (&caller(), "write", json!({ "path": "a.md", "content": "---\ntitle: [\n---\n" })),
        (&caller(), "delete", json!({ "path": "none.md" })),
        (&caller(), "delete", json!({ "path": "d" })),
        (&caller(), "rename", json!({ "from": "a.md", "to": "b.md" })),
        (&caller(), "rename_dir", json!({ "from": "d", "to": "d/x" })),
        (
            &caller(),
            "bulk_write",
            json!({ "files": [{ "path": "a.md", "content": "x\n", "if_match": "0".repeat(40) }] }),
        ),
    ] {
        let mut dry = arguments.clone();
        dry["dry_run"] = json!(true);
        let shown = status_and_error(space.ask_as(caller, name, dry));
        assert_eq!(state(&space), before, "{name} {arguments}");
        let made = status_and_error(space.ask_as(caller, name, arguments.clone()));
        assert_eq!(shown.0, made.0, "{name} {arguments}: {shown:?} {made:?}");
        if name != "delete" || arguments["path"] != "d" {
            assert_eq!(shown, made, "{name} {arguments}");
        }
    }
}

#[test]
fn a_proposing_caller_sees_its_draft_and_opens_none() {
    let space = space();
    let permissions = Permissions { scope: Scope::Propose, ..Permissions::FULL };
    let proposer = Caller { permissions, ..Caller::new(Protocol::Http) };
    let dry = |path: &str, content: &str| {
        space.ask_as(&proposer, "write", json!({ "path": path, "content": content, "dry_run": true })).unwrap()["dry_run"].clone()
    };
    assert_eq!(dry("a.md", "# New\n")["changes"], json!([{ "path": "a.md", "change": "modified" }]));
    assert_eq!(space.get("draft_list", json!({})), json!([]), "no draft was opened");
    space.ask_as(&proposer, "write", json!({ "path": "a.md", "content": "# Mine\n" })).unwrap();
    assert!(dry("a.md", "# New\n")["diff"].as_str().unwrap().contains("-# Mine\n+# New\n"));
    let renamed = json!({ "from": "a.md", "to": "z.md", "dry_run": true });
    let renamed = space.ask_as(&proposer, "rename", renamed).unwrap();
    assert_eq!(renamed["dry_run"]["changes"], json!([{ "path": "z.md", "former": "a.md", "change": "renamed" }]));
    assert_eq!(space.ask_as(&proposer, "read", json!({ "path": "a.md" })).unwrap()["content"], "# Mine\n");
}

#[test]
fn a_long_diff_is_cut_and_says_so() {
    let space = space();
    let long = "line\n".repeat(60_000);
    let report = space.get("write", json!({ "path": "a.md", "content": long, "dry_run": true }))["dry_run"].clone();
    assert_eq!((report["diff"].as_str().unwrap().len(), &report["diff_is_cut"]), (100 << 10, &json!(true)));
    let huge = "x".repeat(5 << 20);
    let report = space.get("write", json!({ "path": "a.md", "content": huge, "dry_run": true }))["dry_run"].clone();
    assert_eq!((&report["diff"], &report["changes"][0]["change"]), (&json!(""), &json!("modified")));
}
