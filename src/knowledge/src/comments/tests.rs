#![expect(clippy::disallowed_methods, reason = "another program changes the tree beside the server")]

use serde_json::{Value, json};
use svcfs_base::{Actor, Caller, Change, Permissions, Protocol, Scope};

use crate::spaces::test_space::{TestSpace, caller, path, status_and_error};

const PAGE: &str = "# Plan\n\nfirst thing\nsecond thing\nthird thing\n";

fn space() -> TestSpace {
    TestSpace::with("", &[("docs/plan.md", PAGE), ("docs/deep/other.md", PAGE), ("top.md", PAGE)])
}

fn add(space: &TestSpace, page: &str, line: usize) -> Value {
    let ann = caller().with_actor(Actor::new("ann"));
    space.ask_as(&ann, "comments_add", json!({ "path": page, "line": line, "body": "why?" })).unwrap()
}

fn list(space: &TestSpace, page: &str) -> Vec<Value> {
    space.get("comments_list", json!({ "path": page })).as_array().unwrap().clone()
}

/// Lines of the comments on a page, and whether they are outdated.
fn lines(space: &TestSpace, page: &str) -> Vec<(u64, bool)> {
    let line = |comment: &Value| (comment["line"].as_u64().unwrap(), comment["outdated"].as_bool().unwrap());
    list(space, page).iter().map(line).collect()
}

#[test]
fn a_comment_is_a_version_by_its_author_and_is_resolved_and_deleted() {
    let space = space();
    let added = add(&space, "docs/plan.md", 4);
    let id = added["id"].as_str().unwrap();
    assert_eq!(id.len(), 24);
    assert_eq!((&added["path"], &added["line"], &added["author"]), (&json!("docs/plan.md"), &json!(4), &json!("ann")));
    assert_eq!(
        (&added["body"], &added["resolved"], &added["outdated"]),
        (&json!("why?"), &json!(false), &json!(false))
    );
    assert_eq!(added["anchor"]["quote"], "second thing");
    assert_eq!(list(&space, "docs/plan.md"), std::slice::from_ref(&added));
    let (_, author, message) = space.newest(".svc/comments/docs/plan.md.json");
    assert_eq!((author.as_str(), message), ("ann", format!("comment: docs/plan.md — {}", &id[..8])));
    assert_eq!(space.get("peek", json!({ "path": "docs/plan.md" }))["open_comments"], 1);
    for resolved in [true, false, true] {
        let changed = space.get("comments_resolve", json!({ "id": id, "resolved": resolved }));
        assert_eq!((&changed["resolved"], &changed["id"]), (&json!(resolved), &added["id"]));
    }
    assert_eq!(space.get("peek", json!({ "path": "docs/plan.md" }))["open_comments"], 0);
    let quoted = json!({ "path": "docs/plan.md", "anchor": { "quote": "thing\nthird" }, "body": "two lines" });
    assert_eq!(space.get("comments_add", quoted)["line"], 4);
    let deleted = space.get("comments_delete", json!({ "id": id, "path": "docs/plan.md" }));
    assert_eq!(deleted, json!({ "deleted": id, "path": "docs/plan.md" }));
    assert_eq!(list(&space, "docs/plan.md").len(), 1);
    assert_eq!(space.refusal("comments_delete", json!({ "id": id })).0, 404);
    let space = space.again();
    assert_eq!(lines(&space, "docs/plan.md"), [(4, false)]);
    let last = list(&space, "docs/plan.md")[0]["id"].clone();
    space.get("comments_delete", json!({ "id": last }));
    assert_eq!(space.refusal("read", json!({ "path": ".svc/comments/docs/plan.md.json" })).0, 404, "no empty file");
}

#[test]
fn bad_comments_are_refused_with_their_field() {
    let space = space();
    let long = "x".repeat(65 << 10);
    for (arguments, status, message) in [
        (json!({ "path": "docs/plan.md", "line": 1, "body": " \n" }), 400, "body is required"),
        (json!({ "path": "docs/plan.md", "line": 1, "body": long }), 413, "body has"),
        (json!({ "path": "docs/plan.md", "body": "x" }), 400, "line or anchor is required"),
        (json!({ "path": "docs/plan.md", "line": 1, "anchor": { "quote": "x" }, "body": "x" }), 400, "use either"),
        (json!({ "path": "docs/plan.md", "line": 0, "body": "x" }), 400, "`line`: 0 is not a line"),
        (json!({ "path": "docs/plan.md", "line": 6, "body": "x" }), 400, "`line`: 6 is not a line"),
        (json!({ "path": "docs/plan.md", "anchor": { "quote": "" }, "body": "x" }), 400, "anchor.quote is required"),
        (json!({ "path": "docs/plan.md", "anchor": { "quote": "no" }, "body": "x" }), 400, "`anchor.quote`: this text"),
        (json!({ "path": "none.md", "line": 1, "body": "x" }), 404, "file not found: none.md"),
        (json!({ "path": "docs", "line": 1, "body": "x" }), 404, "file not found: docs"),
        (json!({ "path": "", "line": 1, "body": "x" }), 400, "path is required"),
    ] {
        let (found, text) = space.refusal("comments_add", arguments);
        assert!(found == status && text.starts_with(message), "{found} {text}");
    }
    assert_eq!(space.refusal("comments_list", json!({ "path": "none.md" })).0, 404);
    for id in ["", "x", "../../etc/passwd", &"a".repeat(10_000)] {
        assert_eq!(space.refusal("comments_resolve", json!({ "id": id, "resolved": true })).0, 404, "{id}");
    }
}

#[test]
fn comments_move_and_go_with_their_pages_in_the_same_commit() {
    let space = space();
    add(&space, "docs/plan.md", 4);
    add(&space, "docs/deep/other.md", 5);
    space.get("rename", json!({ "from": "docs/plan.md", "to": "moved.md" }));
    assert_eq!(lines(&space, "moved.md"), [(4, false)]);
    assert_eq!(space.newest("moved.md").0, space.newest(".svc/comments/moved.md.json").0, "one commit");
    let fuse = Caller::new(Protocol::Fuse);
    for (from, to) in [("moved.md", "docs/back.md"), ("docs", "renamed"), ("renamed", "a/b/c")] {
        space.space().vfs.apply(&fuse, Change::rename(path(from), path(to))).unwrap();
    }
    assert_eq!(lines(&space, "a/b/c/back.md"), [(4, false)]);
    assert_eq!(lines(&space, "a/b/c/deep/other.md"), [(5, false)]);
    space.get("rename_dir", json!({ "from": "a/b/c", "to": "docs" }));
    assert_eq!(
        (lines(&space, "docs/back.md"), lines(&space, "docs/deep/other.md")),
        (vec![(4, false)], vec![(5, false)])
    );
    let id = list(&space, "docs/back.md")[0]["id"].clone();
    assert_eq!(space.get("comments_resolve", json!({ "id": id, "resolved": true }))["path"], "docs/back.md");
    space.get("delete", json!({ "path": "docs/back.md" }));
    assert_eq!(space.refusal("read", json!({ "path": ".svc/comments/docs/back.md.json" })).0, 404);
    space.put("docs/back.md", PAGE);
    assert!(list(&space, "docs/back.md").is_empty(), "a new page under an old name");
    assert_eq!(lines(&space.again(), "docs/deep/other.md"), [(5, false)]);
}

#[test]
fn comments_stay_with_a_page_that_an_editor_replaces() {
    let space = space();
    add(&space, "top.md", 4);
    let fuse = Caller::new(Protocol::Fuse);
    let edited = format!("new\n{PAGE}");
    let apply = |change: Change| space.space().vfs.apply(&fuse, change).unwrap();
    apply(Change::put(path("temporary.md"), edited.clone()));
    apply(Change::rename(path("temporary.md"), path("top.md")));
    assert_eq!(lines(&space, "top.md"), [(5, false)], "renamed over");
    apply(Change::rename(path("top.md"), path("top.md~")));
    apply(Change::put(path("top.md"), PAGE));
    assert_eq!(lines(&space, "top.md"), [(4, false)], "with a backup");
}

#[test]
fn comments_stay_with_a_page_that_is_written_after_a_backup() {
    let space = space();
    add(&space, "top.md", 4);
    let fuse = Caller::new(Protocol::Fuse);
    let apply = |change: Change| space.space().vfs.apply(&fuse, change).unwrap();
    apply(Change::rename(path("top.md"), path("top.md.bak")));
    assert_eq!(lines(&space, "top.md.bak"), [(4, false)], "by its former name");
    apply(Change::put(path("top.md"), format!("new\n{PAGE}")));
    assert_eq!(lines(&space, "top.md"), [(5, false)]);
    assert_eq!(lines(&space, "top.md.bak"), []);
}

#[test]
fn comments_of_a_page_in_the_trash_are_removed() {
    let space = space();
    add(&space, "docs/plan.md", 4);
    let mut cleanup = super::CommentCleanup::new(space.spaces().list_open().remove(0));
    let fuse = Caller::new(Protocol::Fuse);
    space.space().vfs.apply(&fuse, Change::rename(path("docs"), path(".Trash-0"))).unwrap();
    assert_eq!(cleanup.follow().unwrap(), 1);
    space.put("docs/plan.md", PAGE);
    assert!(list(&space, "docs/plan.md").is_empty());
    assert_eq!(cleanup.follow().unwrap(), 0);
}

#[test]
fn comments_come_back_with_a_restored_page_and_move_with_a_merged_rename() {
    let space = space();
    add(&space, "top.md", 4);
    space.get("delete", json!({ "path": "top.md" }));
    let trash = space.get("trash", json!({}));
    assert_eq!((&trash["total"], &trash["pages"][0]["path"]), (&json!(1), &json!("top.md")));
    space.get("restore", json!({ "path": "top.md" }));
    assert_eq!(lines(&space, "top.md"), [(4, false)]);
    let changes = vec![Change::remove(path("top.md")), Change::put(path("new.md"), PAGE)];
    space.space().vfs.apply(&Caller::new(Protocol::Http), svcfs_base::ChangeSet::new(changes)).unwrap();
    assert_eq!(lines(&space, "new.md"), [(4, false)]);
    let changes = vec![
        Change::remove(path("new.md")),
        Change::put(path("x.md"), "x\n"),
        Change::put(path("edited.md"), format!("new\n{PAGE}")),
    ];
    space.space().vfs.apply(&Caller::new(Protocol::Http), svcfs_base::ChangeSet::new(changes)).unwrap();
    assert_eq!((lines(&space, "edited.md"), lines(&space, "x.md")), (vec![(5, false)], vec![]));
}

#[test]
fn comments_are_exchanged_with_their_pages() {
    let space = space();
    add(&space, "top.md", 4);
    let other = format!("other\n{PAGE}");
    space.put("other.md", &other);
    let exchange = |a: &str, b: &str| {
        let [old_a, old_b] = [a, b].map(|page| space.text(page));
        let changes = vec![Change::put(path(a), old_b), Change::put(path(b), old_a)];
        space.space().vfs.apply(&Caller::new(Protocol::Fuse), svcfs_base::ChangeSet::new(changes)).unwrap();
    };
    exchange("top.md", "other.md");
    assert_eq!((lines(&space, "top.md"), lines(&space, "other.md")), (vec![], vec![(4, false)]));
    add(&space, "top.md", 3);
    exchange("other.md", "top.md");
    assert_eq!((lines(&space, "top.md"), lines(&space, "other.md")), (vec![(4, false)], vec![(2, false)]));
    // An editor that saves by an exchange with a temporary file.
    space.put("temporary", &format!("new\n{PAGE}"));
    exchange("top.md", "temporary");
    assert_eq!(lines(&space, "top.md"), [(5, false)]);
}

#[test]
fn a_comment_file_that_cannot_move_does_not_refuse_the_rename_of_its_page() {
    let space = space();
    add(&space, "top.md", 4);
    add(&space, "docs/plan.md", 4);
    let fuse = Caller::new(Protocol::Fuse);
    let apply = |change: Change| space.space().vfs.apply(&fuse, change).unwrap();
    // `.svc/comments/docs/plan.md.json` is a file.
    apply(Change::rename(path("top.md"), path("docs/plan.md.json/top.md")));
    assert_eq!(lines(&space, "docs/plan.md.json/top.md"), [(4, false)]);
    apply(Change::symlink(path(".svc/comments/docs/other.md.json"), "plan.md.json"));
    space.put("docs/other.md", PAGE);
    apply(Change::rename(path("docs/other.md"), path("docs/moved.md")));
    assert_eq!(space.refusal("read", json!({ "path": ".svc/comments/docs/moved.md.json" })).0, 404);
}

#[test]
fn comments_follow_a_rename_beside_the_server_and_undo() {
    let space = space();
    let id = add(&space, "top.md", 4)["id"].clone();
    std::fs::rename(space.root().join("top.md"), space.root().join("there.md")).unwrap();
    space.space().vfs.rescan().unwrap();
    assert_eq!(lines(&space, "there.md"), [(4, false)]);
    let answer = json!({ "path": "there.md", "line": 3, "body": "moves the file" });
    space.get("comments_add", answer);
    assert_eq!(lines(&space, "there.md"), [(4, false), (3, false)]);
    assert_eq!(space.refusal("read", json!({ "path": ".svc/comments/top.md.json" })).0, 404);
    assert_eq!(space.get("comments_resolve", json!({ "id": id, "resolved": true }))["path"], "there.md");
    space.ask_as(&caller().with_actor(Actor::new("eve")), "delete", json!({ "path": "there.md" })).unwrap();
    space.get("revert", json!({ "actor": "eve" }));
    assert_eq!(list(&space, "there.md").len(), 2, "undo brings the page back with its comments");
}

#[test]
fn an_invalid_comment_file_is_named_and_does_not_affect_its_page() {
    let space = space();
    add(&space, "top.md", 4);
    add(&space, "docs/plan.md", 4);
    let many = format!("[{}]", "[".repeat(100_000));
    let large = format!("\"{}\"", "x".repeat(10 << 20));
    for text in ["", "{}", "not JSON", "[1]", "[{}]", "\u{0}", "[{\"id\": 1}]", many.as_str(), large.as_str()] {
        space.edit_behind(".svc/comments/top.md.json", text);
        for (name, arguments) in [
            ("comments_list", json!({ "path": "top.md" })),
            ("comments_add", json!({ "path": "top.md", "line": 1, "body": "x" })),
        ] {
            let (status, message) = space.refusal(name, arguments);
            assert!(
                status == 422 && message.contains("`.svc/comments/top.md.json` is not a list"),
                "{status} {message}"
            );
        }
        assert_eq!(space.text("top.md"), PAGE);
        let peek = space.get("peek", json!({ "path": "top.md" }));
        assert_eq!(peek["open_comments"], 0);
    }
    space.get("delete", json!({ "path": "top.md" }));
    let foreign = r#"[{"id":"a1","body":"by hand","createdAt":"2026-01-01T00:00:00Z","mood":"good"}]"#;
    space.edit_behind(".svc/comments/docs/plan.md.json", foreign);
    assert_eq!(lines(&space, "docs/plan.md"), [(1, false)]);
    space.get("comments_resolve", json!({ "id": "a1", "resolved": true }));
    let text = space.text(".svc/comments/docs/plan.md.json");
    assert!(text.contains("\"mood\": \"good\""), "fields of others stay: {text}");
}

#[test]
fn a_key_of_a_folder_sees_the_comments_of_its_folder_only() {
    let space = space();
    let (inside, outside) = (add(&space, "docs/plan.md", 4), add(&space, "top.md", 4));
    let key = |scope| Caller { permissions: Permissions { scope, folder: Some(path("docs")) }, ..caller() };
    let writer = key(Scope::Write);
    let listed = space.ask_as(&writer, "comments_list", json!({ "path": "docs/plan.md" })).unwrap();
    assert_eq!(listed, json!([inside]));
    space.ask_as(&writer, "comments_add", json!({ "path": "docs/plan.md", "line": 1, "body": "x" })).unwrap();
    let resolve = |id: &Value| space.ask_as(&writer, "comments_resolve", json!({ "id": id, "resolved": true }));
    resolve(&inside["id"]).unwrap();
    assert_eq!(status_and_error(resolve(&outside["id"])).0, 404);
    let hinted = json!({ "id": outside["id"], "path": "top.md" });
    assert_eq!(status_and_error(space.ask_as(&writer, "comments_delete", hinted)).0, 403);
    for name in ["comments_list", "comments_add"] {
        let arguments = json!({ "path": "top.md", "line": 1, "body": "x" });
        assert_eq!(status_and_error(space.ask_as(&writer, name, arguments)).0, 403, "{name}");
    }
    let reader = key(Scope::Read);
    assert!(space.ask_as(&reader, "comments_list", json!({ "path": "docs/plan.md" })).is_ok());
}

#[test]
fn comments_at_the_same_time_are_all_stored() {
    let space = space();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..5).for_each(|_| drop(add(&space, "top.md", 4))));
        }
    });
    assert_eq!(list(&space, "top.md").len(), 20);
    space.settle();
    let hits = space.get("search", json!({ "query": "why" }));
    assert!(!hits.to_string().contains("comments"), "search does not find comments: {hits}");
}

/// A key that may only propose changes comments as any other, on the tree and on its draft.
#[test]
fn a_proposing_key_comments_and_changes_no_page() {
    let space = space();
    let permissions = Permissions { scope: Scope::Propose, folder: None };
    let agent = Caller { permissions, ..caller().with_actor(Actor::new("agent")) };
    space.ask_as(&agent, "write", json!({ "path": "new.md", "content": PAGE })).unwrap();
    for page in ["docs/plan.md", "new.md"] {
        let comment = json!({ "path": page, "line": 4, "body": "why?" });
        let added = space.ask_as(&agent, "comments_add", comment).unwrap();
        assert_eq!((&added["author"], &added["anchor"]["quote"]), (&json!("agent"), &json!("second thing")));
        let (_, author, _) = space.newest(&format!(".svc/comments/{page}.json"));
        assert_eq!(author, "agent");
        let id = &added["id"];
        let resolved = space.ask_as(&agent, "comments_resolve", json!({ "id": id, "resolved": true })).unwrap();
        assert_eq!(resolved["resolved"], true);
        space.ask_as(&agent, "comments_delete", json!({ "id": id })).unwrap();
        assert_eq!(space.ask_as(&agent, "comments_list", json!({ "path": page })).unwrap(), json!([]));
    }
    assert_eq!(space.refusal("read", json!({ "path": "new.md" })).0, 404);
}
