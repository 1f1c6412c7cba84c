//! Which pages fit their schema.

use serde_json::{Value, json};
use svcfs_base::{Caller, Change, Fault, Kind, Protocol};

use crate::spaces::test_space::{TestSpace, path};

const ENFORCED: &str = "[schema]\nenforce = true\n";

fn task_schema() -> String {
    json!({
        "type": "object",
        "required": ["title"],
        "properties": {
            "status": { "enum": ["open", "done"] },
            "due": { "type": "string", "format": "date" },
            "effort": { "type": "integer", "minimum": 1 },
        },
    })
    .to_string()
}

fn page(frontmatter: &str) -> String {
    format!("---\n{frontmatter}\n---\n\n# Page\n")
}

const BAD: &str = "type: task\nstatus: opn\ndue: 2026-02-30\neffort: 0";

fn put(space: &TestSpace, protocol: Protocol, name: &str, text: &str) -> Result<(), Fault> {
    space.space().vfs.apply(&Caller::new(protocol), Change::put(path(name), text.to_owned())).map(drop)
}

#[test]
fn an_enforced_schema_refuses_pages_through_every_protocol() {
    let space = TestSpace::with(ENFORCED, &[]);
    space.get("schemas_save", json!({ "type": "task", "schema": task_schema() }));
    for protocol in Protocol::ALL.iter().copied().filter(|protocol| *protocol != Protocol::Direct) {
        let fault = put(&space, protocol, "a.md", &page(BAD)).unwrap_err();
        assert_eq!(
            (fault.kind(), fault.kind().http(), fault.kind().errno()),
            (Kind::Rejected, 422, 22),
            "{protocol:?}"
        );
        let start = "validation failed for type \"task\": line 1: \"title\" is a required property; /status (line 3): \
                     \"opn\" is not one of \"open\" or \"done\"; /due (line 4): ";
        assert!(fault.message().starts_with(start), "{}", fault.message());
        let violations = fault.detail()["violations"].as_array().unwrap();
        let places: Vec<_> = violations
            .iter()
            .map(|found| (found["pointer"].as_str().unwrap(), found["line"].as_u64().unwrap()))
            .collect();
        assert_eq!(places, [("", 1), ("/status", 3), ("/due", 4), ("/effort", 5)]);
    }
    for (name, text) in [
        ("no-type.md", page("status: opn")),
        ("other.md", page("type: other\nstatus: opn")),
        ("list.md", page("type: [task]\nstatus: opn")),
        ("path.md", page("type: ../task\nstatus: opn")),
        ("fits.md", page("type: task\ntitle: A\nstatus: open\ndue: 2026-02-28\neffort: 3")),
        ("toml.md", "+++\ntype = \"task\"\ntitle = \"A\"\n+++\n".to_owned()),
        ("plain.md", "type: task\n".to_owned()),
        ("page.txt", page(BAD)),
    ] {
        put(&space, Protocol::Fuse, name, &text).unwrap();
    }
    let toml = "+++\ntype = \"task\"\ntitle = \"A\"\nstatus = \"opn\"\n+++\n";
    let fault = put(&space, Protocol::Http, "toml.md", toml).unwrap_err();
    assert_eq!(fault.detail()["violations"][0]["line"], 4);
    let (status, message) = space.refusal("append", json!({ "path": "new.md", "content": page(BAD) }));
    assert_eq!(status, 422, "{message}");
    let files = json!([{ "path": "b.md", "content": "# B\n" }, { "path": "c.md", "content": page(BAD) }]);
    let (status, message) = space.refusal("bulk_write", json!({ "files": files }));
    assert!(status == 422 && message.starts_with("files[1] (c.md): validation failed"), "{message}");
    assert_eq!(space.refusal("read", json!({ "path": "b.md" })).0, 404);
}

#[test]
fn a_schema_without_enforcement_is_a_lint_rule() {
    let space = TestSpace::new();
    let saved = space.get("schemas_save", json!({ "type": "task", "schema": task_schema() }));
    assert_eq!((&saved["status"], &saved["type"], &saved["violations"]), (&json!("ok"), &json!("task"), &json!(0)));
    space.put("tasks/a.md", &page(BAD));
    let issues =
        |space: &TestSpace| space.get("lint", json!({ "path": "tasks/a.md" }))["issues"].as_array().unwrap().clone();
    let found = issues(&space);
    assert_eq!(found.len(), 4);
    assert_eq!(
        (&found[1]["rule"], &found[1]["line"], &found[1]["severity"]),
        (&json!("schema-violation"), &json!(3), &json!("warning"))
    );
    assert!(found[1]["message"].as_str().unwrap().starts_with("type \"task\": /status: \"opn\""), "{}", found[1]);
    for (level, count, is_refused) in [("off", 0, false), ("info", 4, false), ("error", 4, true)] {
        let space =
            TestSpace::with(&format!("[lint.rules]\nschema-violation = \"{level}\"\n"), &[("tasks/a.md", &page(BAD))]);
        space.get("schemas_save", json!({ "type": "task", "schema": task_schema() }));
        assert_eq!(issues(&space).len(), count, "{level}");
        let rewritten = page(&format!("{BAD}\nnew: 1"));
        assert!(
            put(&space, Protocol::Http, "tasks/a.md", &rewritten).is_ok(),
            "{level}: the errors were there already"
        );
        assert_eq!(put(&space, Protocol::Http, "tasks/b.md", &page(BAD)).is_err(), is_refused, "{level}");
        assert!(put(&space, Protocol::WebDav, "tasks/c.md", &page(BAD)).is_ok(), "{level}: as other lint errors");
    }
}

#[test]
fn pages_that_violate_a_schema_are_listed_and_counted() {
    let files: Vec<(String, String)> = (0..5).map(|at| (format!("tasks/{at}.md"), page(BAD))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let space = TestSpace::with("", &files);
    space.put("tasks/good.md", &page("type: task\ntitle: A"));
    space.put("other.md", &page("type: tasks\nstatus: opn"));
    let schema = task_schema();
    let saved = space.get("schemas_save", json!({ "type": "task", "schema": schema }));
    assert_eq!(saved["violations"], 5);
    assert_eq!(space.get("schemas_list", json!({})), json!(["task"]));
    assert_eq!(space.get("schemas_get", json!({ "type": "task" })), json!({ "schema": schema }));
    let listed = space.get("schemas_get", json!({ "type": "task", "violations": true, "limit": 2, "offset": 1 }));
    assert_eq!((&listed["total"], &listed["pages"][0]["path"]), (&json!(5), &json!("tasks/1.md")));
    assert_eq!(listed["pages"].as_array().unwrap().len(), 2);
    let first = &listed["pages"][0]["violations"][1];
    assert_eq!((&first["pointer"], &first["line"]), (&json!("/status"), &json!(3)));
    let report = space.get("janitor", json!({}));
    assert_eq!(report["schema_violations"], 5, "{report:#}");
    let group = report["groups"].as_array().unwrap().iter().find(|group| group["kind"] == "schema_violation").unwrap();
    assert_eq!((&group["count"], &group["severity"]), (&json!(5), &json!("warning")));
    let checked = space.get("health_check", json!({ "path": "tasks/1.md" }));
    let kinds: Vec<&Value> = checked["issues"].as_array().unwrap().iter().map(|issue| &issue["type"]).collect();
    assert!(kinds.contains(&&json!("schema_violation")), "{checked}");
    assert_eq!(space.get("schemas_delete", json!({ "type": "task" })), json!({ "status": "deleted" }));
    for (operation, arguments) in [
        ("schemas_get", json!({ "type": "task" })),
        ("schemas_get", json!({ "type": "task", "violations": true })),
        ("schemas_delete", json!({ "type": "task" })),
    ] {
        assert_eq!(space.refusal(operation, arguments), (404, "schema not found: task".to_owned()), "{operation}");
    }
    assert_eq!(space.get("janitor", json!({}))["schema_violations"], 0);
}

#[test]
fn a_schema_saved_anywhere_applies_to_the_next_write() {
    let space = TestSpace::with(ENFORCED, &[]);
    let write =
        |status: &str| put(&space, Protocol::Http, "a.md", &page(&format!("type: task\nstatus: {status}"))).is_ok();
    let schema = |status: &str| json!({ "properties": { "status": { "const": status } } }).to_string();
    assert!(write("a") && write("b"));
    for protocol in [Protocol::Fuse, Protocol::WebDav, Protocol::S3, Protocol::Nfs, Protocol::Remote, Protocol::Http] {
        let name = protocol.name();
        put(&space, protocol, ".svc/schemas/task.json", &schema(name)).unwrap();
        assert!(write(name) && !write("a"), "{protocol:?}");
        let fault = put(&space, protocol, ".svc/schemas/task.json", "{ \"type\": 1 }").unwrap_err();
        assert_eq!((fault.kind().http(), fault.kind().errno()), (400, 22), "{protocol:?}");
        assert!(write(name) && !write("a"), "{protocol:?}: the old schema stays");
    }
    // Renamed into the folder.
    put(&space, Protocol::Fuse, "draft.json", "{ \"type\": 1 }").unwrap();
    let rename = |from: &str| {
        let change = Change::Move {
            from: path(from),
            to: path(".svc/schemas/task.json"),
            precondition: svcfs_base::Precondition::Any,
        };
        space.space().vfs.apply(&Caller::new(Protocol::Fuse), change).map(drop)
    };
    assert_eq!(rename("draft.json").unwrap_err().kind(), Kind::Invalid);
    put(&space, Protocol::Fuse, "draft.json", &schema("renamed")).unwrap();
    rename("draft.json").unwrap();
    assert!(write("renamed") && !write("a"));
    // Edited beside the server; one that cannot be used checks nothing.
    space.edit_behind(".svc/schemas/task.json", &schema("edited"));
    assert!(write("edited") && !write("a"));
    space.edit_behind(".svc/schemas/task.json", "{");
    assert!(write("a"));
    assert_eq!(space.refusal("schemas_get", json!({ "type": "task", "violations": true })).0, 400);
    assert_eq!(space.get("janitor", json!({}))["schema_violations"], 1);
}

#[test]
fn a_page_of_every_size_gets_a_bounded_answer() {
    let space = TestSpace::with(ENFORCED, &[]);
    let schema = json!({ "properties": { "list": { "items": { "type": "integer" } } }, "maxProperties": 3 });
    space.get("schemas_save", json!({ "type": "x", "schema": schema.to_string() }));
    let list: String = (0..5_000).map(|at| format!("  - t{at}\n")).collect();
    let fault = put(&space, Protocol::Http, "a.md", &page(&format!("type: x\nlist:\n{list}"))).unwrap_err();
    assert_eq!(fault.detail()["violations"].as_array().unwrap().len(), 200);
    assert!(fault.message().len() < 3_000, "{}", fault.message().len());
    let long = page(&format!("type: x\na: {}\nb: 2\nc: 3", "x".repeat(30_000)));
    let fault = put(&space, Protocol::Http, "a.md", &long).unwrap_err();
    assert!(fault.message().len() < 1_000, "{}", fault.message().len());
    let deep = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    let fault = put(&space, Protocol::Http, "a.md", &page(&format!("type: x\na: {deep}"))).unwrap_err();
    assert!(fault.message().contains("levels deep"), "{}", fault.message());
}
