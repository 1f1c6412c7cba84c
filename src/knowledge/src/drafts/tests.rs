use serde_json::{Value, json};
use svcfs_base::{Actor, Caller, ETag, Permissions, Precondition, Protocol};

use crate::spaces::test_space::{TestSpace, caller, path, status_and_error};

const PAGE: &str = "---\nstatus: draft\nowner: ann\n---\n\n# Title\n\none\n\ntwo\n\nthree\n\nfour\n\nfive\n";

fn named(actor: &str) -> Caller {
    caller().with_actor(Actor::new(actor))
}

fn open(space: &TestSpace) -> String {
    space.get("draft_create", json!({}))["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn write(space: &TestSpace, id: &str, path: &str, content: &str) {
    let arguments = json!({ "id": id, "path": path, "content": content });
    space.ask_as(&named("agent"), "draft_write", arguments).unwrap();
}

fn remove(space: &TestSpace, id: &str, path: &str) {
    space.ask_as(&named("agent"), "draft_delete", json!({ "id": id, "path": path })).unwrap();
}

fn hunks(space: &TestSpace, id: &str) -> (Vec<Value>, Value) {
    let answer = space.get("draft_diff", json!({ "id": id, "format": "hunks" }));
    (answer["hunks"].as_array().unwrap().clone(), answer["etag"].clone())
}

fn merge(space: &TestSpace, id: &str, mut arguments: Value) -> Result<Value, svcfs_base::Fault> {
    arguments["id"] = id.into();
    space.ask_as(&named("reviewer"), "draft_merge", arguments)
}

#[test]
fn a_draft_is_changed_reviewed_and_merged() {
    let space = TestSpace::new();
    space.put("a.md", PAGE);
    space.put("gone.md", "# Gone\n");
    let created = space.ask_as(&named("ann"), "draft_create", json!({ "actor": "bob" })).unwrap();
    let id = created["id"].as_str().unwrap();
    assert_eq!((created["actor"].as_str(), created["branch"].as_str()), (Some("bob"), Some(&*format!("draft/{id}"))));
    write(&space, id, "a.md", &PAGE.replace("one", "uno").replace("status: draft", "status: final"));
    write(&space, id, "new/b.md", "# New\n");
    remove(&space, id, "gone.md");
    // Someone else changes another place meanwhile.
    space
        .ask_as(&named("carol"), "write", json!({ "path": "a.md", "content": PAGE.replace("five", "cinco") }))
        .unwrap();
    let listed = space.get("draft_list", json!({}));
    assert_eq!(listed[0]["paths"], json!(["a.md", "gone.md", "new/b.md"]));
    assert_eq!((&listed[0]["ahead"], &listed[0]["behind"]), (&json!(3), &json!(1)));
    assert_eq!(space.get("draft_get", json!({ "id": id })), listed[0]);
    let diff = space.get("draft_diff", json!({ "id": id }));
    let diff = diff["diff"].as_str().unwrap();
    for line in ["-one\n+uno\n", "-status: draft\n+status: final\n", "+# New\n", "-# Gone\n"] {
        assert!(diff.contains(line), "{diff}");
    }
    let stat = space.get("draft_diff", json!({ "id": id, "stat": true }));
    assert_eq!(stat["stat"][0], json!({ "path": "a.md", "change": "modified", "added": 2, "removed": 2 }));
    let read = space.get("draft_read", json!({ "id": id, "path": "new/b.md" }));
    assert_eq!(read["content"], "# New\n");
    let tree = space.get("draft_tree", json!({ "id": id }));
    let names: Vec<&str> = tree.as_array().unwrap().iter().map(|node| node["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["a.md", "new"]);
    let merged = merge(&space, id, json!({})).unwrap();
    assert_eq!((&merged["status"], &merged["remaining"]), (&json!("merged"), &json!([])));
    assert_eq!(merged["paths"].as_array().unwrap().len(), 3);
    let expected = PAGE.replace("one", "uno").replace("status: draft", "status: final").replace("five", "cinco");
    assert_eq!((space.text("a.md"), space.text("new/b.md")), (expected, "# New\n".to_owned()));
    assert_eq!(space.refusal("read", json!({ "path": "gone.md" })).0, 404);
    let (hash, author, message) = space.newest("a.md");
    assert_eq!((Some(&*hash), &*author), (merged["version"].as_str(), "agent"));
    assert!(message.starts_with(&format!("agent: merge draft {id} — 3 files")), "{message}");
    assert!(message.contains("Merged-by: reviewer <svc@internal>"), "{message}");
    assert_eq!(space.newest("new/b.md").0, hash, "one commit");
    assert_eq!(space.get("draft_list", json!({})), json!([]));
    assert_eq!(space.refusal("draft_get", json!({ "id": id })), (404, "draft not found".to_owned()));
}

#[test]
fn parts_of_a_draft_are_merged_by_hunks_and_paths() {
    let space = TestSpace::new();
    space.put("a.md", PAGE);
    let id = open(&space);
    write(&space, &id, "a.md", &PAGE.replace("one", "uno").replace("three", "tres\ncuatro").replace("\nfive\n", ""));
    write(&space, &id, "b.md", "# B\n");
    write(&space, &id, "c/d.md", "# D\n");
    let (listed, etag) = hunks(&space, &id);
    let short = |hunk: &Value| {
        (hunk["id"].as_u64().unwrap(), hunk["path"].as_str().unwrap().to_owned(), hunk["base_start"].as_u64().unwrap())
    };
    let expected = [
        (1, "a.md".to_owned(), 8),
        (2, "a.md".into(), 12),
        (3, "a.md".into(), 15),
        (4, "b.md".into(), 1),
        (5, "c/d.md".into(), 1),
    ];
    assert_eq!(listed.iter().map(short).collect::<Vec<_>>(), expected);
    assert_eq!(listed[1]["text"], "@@ -9,7 +9,8 @@\n \n two\n \n-three\n+tres\n+cuatro\n \n four\n \n");
    assert_eq!((&listed[0]["author"], &listed[3]["change"]), (&json!("agent"), &json!("added")));
    // Others change a line that is not accepted.
    space.put("a.md", &PAGE.replace("five", "cinco"));
    let merged = merge(&space, &id, json!({ "hunks": [2, 4], "etag": etag })).unwrap();
    assert_eq!((&merged["paths"], &merged["remaining"]), (&json!(["a.md", "b.md"]), &json!(["a.md", "c/d.md"])));
    let accepted = PAGE.replace("five", "cinco").replace("three", "tres\ncuatro");
    assert_eq!(space.text("a.md"), accepted);
    // Another state of the draft has other hunks.
    let fault = merge(&space, &id, json!({ "hunks": [1], "etag": etag })).unwrap_err();
    let (rest, etag) = hunks(&space, &id);
    assert_eq!((fault.kind().http(), &fault.detail()["current_etag"]), (409, &etag));
    assert_eq!(
        rest.iter().map(short).collect::<Vec<_>>(),
        [(1, "a.md".into(), 8), (2, "a.md".into(), 16), (3, "c/d.md".into(), 1)]
    );
    merge(&space, &id, json!({ "hunks": [1], "paths": ["c"], "etag": etag })).unwrap();
    assert_eq!(space.text("a.md"), accepted.replace("one", "uno"));
    // What remains is in conflict.
    let fault = merge(&space, &id, json!({})).unwrap_err();
    assert_eq!(fault.detail()["conflicts"][0]["theirs"], "");
    for (arguments, status) in [
        (json!({ "hunks": [2] }), 400),
        (json!({ "hunks": [0] }), 400),
        (json!({ "hunks": [] }), 400),
        (json!({ "paths": ["b.md"] }), 404),
        (json!({ "resolve": { "b.md": "ours" } }), 400),
        (json!({ "resolve": { "a.md": "mine" } }), 400),
        (json!({ "etag": "rubbish" }), 400),
    ] {
        assert_eq!(status_and_error(merge(&space, &id, arguments.clone())).0, status, "{arguments}");
    }
    let merged = merge(&space, &id, json!({ "resolve": { "a.md": "ours" } })).unwrap();
    assert_eq!((&merged["paths"], merged.get("version")), (&json!([]), None));
    assert_eq!(space.text("a.md"), accepted.replace("one", "uno"));
    assert_eq!(space.get("draft_list", json!({})), json!([]));
}

#[test]
fn a_hunk_is_shown_after_more_removed_lines_than_its_context() {
    let space = TestSpace::new();
    space.put("a.md", "a\nb\nc\nd\n# T\n\nold\n");
    let id = open(&space);
    write(&space, &id, "a.md", "# T\n\nnew\n");
    let texts: Vec<Value> = hunks(&space, &id).0.iter().map(|hunk| hunk["text"].clone()).collect();
    let removed = "@@ -1,7 +1,3 @@\n-a\n-b\n-c\n-d\n # T\n \n old\n";
    assert_eq!(texts, [removed, "@@ -4,4 +1,4 @@\n d\n # T\n \n-old\n+new\n"]);
}

#[test]
fn what_both_changed_is_a_conflict_until_it_is_resolved() {
    let changed = PAGE.replace("one", "uno").replace("ann", "bob").replace("four", "quatro");
    for (resolution, line, owner) in [("ours", "eins", "carol"), ("theirs", "uno", "bob")] {
        let space = TestSpace::new();
        for name in ["a.md", "removed_here.md", "removed_there.md"] {
            space.put(name, PAGE);
        }
        let id = open(&space);
        write(&space, &id, "a.md", &changed);
        write(&space, &id, "removed_here.md", &changed);
        remove(&space, &id, "removed_there.md");
        write(&space, &id, "added.md", "# Mine\n");
        space.put("a.md", &PAGE.replace("one", "eins").replace("ann", "carol").replace("five", "fünf"));
        space.get("delete", json!({ "path": "removed_here.md" }));
        space.put("removed_there.md", "# Still used\n");
        space.put("added.md", "# Theirs\n");
        let before = space.space().vfs.last_seq();
        let fault = merge(&space, &id, json!({})).unwrap_err();
        assert_eq!(fault.kind().http(), 409);
        assert!(fault.message().starts_with("merge conflict"), "{fault}");
        let conflicts = fault.detail()["conflicts"].as_array().unwrap();
        let paths: Vec<&str> = conflicts.iter().map(|conflict| conflict["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["a.md", "a.md", "added.md", "removed_here.md", "removed_there.md"]);
        assert_eq!(conflicts[0]["key"], "owner");
        assert_eq!(conflicts[3]["reason"], "removed or renamed in the tree");
        assert_eq!(conflicts[4]["reason"], "removed in the draft");
        assert_eq!(
            conflicts[1],
            json!({ "path": "a.md", "start": 8, "end": 8, "base": "one\n", "ours": "eins\n", "theirs": "uno\n", "headings": ["Title"] })
        );
        assert_eq!(space.space().vfs.last_seq(), before, "nothing is merged");
        assert_eq!(space.get("draft_list", json!({}))[0]["ahead"], 4);
        let resolve = json!({ "a.md": resolution, "added.md": resolution, "removed_here.md": resolution, "removed_there.md": resolution });
        merge(&space, &id, json!({ "resolve": resolve })).unwrap();
        let expected =
            PAGE.replace("one", line).replace("ann", owner).replace("four", "quatro").replace("five", "fünf");
        assert_eq!(space.text("a.md"), expected, "{resolution}: only conflicts are resolved");
        let exists = |name: &str| space.ask("read", json!({ "path": name })).is_ok();
        assert_eq!(
            (exists("removed_here.md"), exists("removed_there.md")),
            (resolution == "theirs", resolution == "ours")
        );
    }
}

#[test]
fn a_merge_that_was_interrupted_completes() {
    let space = TestSpace::new();
    space.put("a.md", PAGE);
    let id = open(&space);
    write(&space, &id, "a.md", "# Mine\n");
    write(&space, &id, "b.md", "# B\n");
    // As after a kill between the commit and the end of the draft.
    space.put("a.md", "# Mine\n");
    space.put("b.md", "# B\n");
    let before = space.space().vfs.last_seq();
    assert_eq!(merge(&space, &id, json!({})).unwrap()["paths"], json!([]));
    assert_eq!(space.space().vfs.last_seq(), before);
    assert_eq!(space.refusal("draft_merge", json!({ "id": id })).0, 404);
    // A draft without changes.
    let id = open(&space);
    assert_eq!(merge(&space, &id, json!({})).unwrap()["status"], "merged");
}

#[test]
fn the_author_of_most_pages_is_the_author_of_the_merge() {
    let space = TestSpace::with("", &[("index.md", "x\n")]);
    let id = open(&space);
    for (author, name) in [("zoe", "a.md"), ("ann", "b.md"), ("zoe", "c.md")] {
        let arguments = json!({ "id": id, "path": name, "content": "x\n" });
        space.ask_as(&named(author), "draft_write", arguments).unwrap();
    }
    merge(&space, &id, json!({})).unwrap();
    let (_, author, message) = space.newest("b.md");
    assert_eq!(author, "zoe");
    assert!(message.ends_with("Co-authored-by: ann <svc@internal>\nMerged-by: reviewer <svc@internal>"), "{message}");
}

#[test]
fn of_several_authors_the_owner_is_the_author_of_the_merge() {
    let space = TestSpace::with("", &[("index.md", "x\n")]);
    let opened = space.ask_as(&named("ann"), "draft_create", json!({})).unwrap();
    for (author, name) in [("zoe", "a.md"), ("ann", "b.md")] {
        let arguments = json!({ "id": opened["id"], "path": name, "content": "x\n" });
        space.ask_as(&named(author), "draft_write", arguments).unwrap();
    }
    space.get("draft_merge", json!({ "id": opened["id"] }));
    assert_eq!(space.newest("a.md").1, "ann");
}

#[test]
fn writes_in_a_draft_pass_the_gates() {
    let space = TestSpace::with("[lint]\nformat_protocols = [\"http\"]\n", &[("index.md", "x\n")]);
    let id = open(&space);
    let ask = |name: &str, arguments: Value| status_and_error(space.ask(name, arguments));
    let put = |path: &str, content: &str| json!({ "id": id, "path": path, "content": content });
    assert_eq!(ask("draft_write", put("a.md", "# A\n\n```mermaid\n```\n")).0, 422);
    assert_eq!(ask("draft_write", put(".hidden.md", "x")).0, 400);
    assert_eq!(ask("draft_write", put("/etc/passwd", "x")).0, 400);
    assert_eq!(ask("draft_write", put("", "x")).0, 400);
    assert_eq!(ask("draft_delete", json!({ "id": id, "path": "missing.md" })).0, 404);
    assert_eq!(ask("draft_read", json!({ "id": id, "path": "missing.md" })).0, 404);
    assert_eq!(ask("draft_tree", json!({ "id": id, "path": "missing" })).0, 404);
    let written = space.get("draft_write", put("a.md", "# A\ntext"));
    let read = space.get("draft_read", json!({ "id": id, "path": "a.md" }));
    assert_eq!((&read["etag"], read["content"].as_str().unwrap().ends_with('\n')), (&written["etag"], true));
    let stale = Caller { precondition: Precondition::OneOf(vec![ETag::from_content(b"old")]), ..caller() };
    assert_eq!(status_and_error(space.ask_as(&stale, "draft_write", put("a.md", "x\n"))).0, 409);
    assert_eq!(space.get("draft_diff", json!({ "id": id, "format": "hunks" }))["hunks"][0]["author"], "draft-api");
    let agent = Caller::new(Protocol::Mcp);
    let arguments = json!({ "draft_id": id, "path": "a.md", "content": "# B\n" });
    space.ask_as(&agent, "draft_write", arguments).unwrap();
    assert_eq!(space.get("draft_diff", json!({ "id": id, "format": "hunks" }))["hunks"][0]["author"], "mcp-agent");
    for id in ["", "0", "../../etc", "00000000", "%2e%2e", &id.to_uppercase().repeat(2)] {
        assert_eq!(ask("draft_diff", json!({ "id": id })), (404, "draft not found".to_owned()), "{id}");
    }
}

#[test]
fn a_key_with_a_folder_sees_its_part_of_a_draft() {
    let space = TestSpace::with("", &[("index.md", "x\n")]);
    let id = open(&space);
    write(&space, &id, "team/a.md", "x\n");
    write(&space, &id, "secret.md", "x\n");
    let permissions = Permissions { folder: Some(path("team")), ..Permissions::FULL };
    let limited = Caller { permissions, ..named("ann") };
    let ask = |name: &str, arguments: Value| space.ask_as(&limited, name, arguments);
    assert_eq!(ask("draft_list", json!({})).unwrap()[0]["paths"], json!(["team/a.md"]));
    assert!(!ask("draft_diff", json!({ "id": id })).unwrap()["diff"].as_str().unwrap().contains("secret"));
    for (name, arguments) in [
        ("draft_read", json!({ "id": id, "path": "secret.md" })),
        ("draft_write", json!({ "id": id, "path": "secret.md", "content": "y" })),
        ("draft_merge", json!({ "id": id })),
        ("draft_discard", json!({ "id": id })),
    ] {
        let (status, message) = status_and_error(ask(name, arguments.clone()));
        assert_eq!(status, 403, "{name}");
        assert!(arguments["path"] == "secret.md" || !message.contains("secret"), "{name}: {message}");
    }
    let merged = ask("draft_merge", json!({ "id": id, "paths": ["team"] })).unwrap();
    assert_eq!(merged["paths"], json!(["team/a.md"]));
}

#[test]
fn the_name_of_credentials_cannot_be_replaced() {
    let space = TestSpace::with("", &[("index.md", "x\n")]);
    let named_by_key = Caller { is_actor_fixed: true, ..named("ann") };
    let ask = |name: &str, arguments: Value| space.ask_as(&named_by_key, name, arguments).unwrap();
    assert_eq!(ask("draft_create", json!({ "actor": "boss" }))["actor"], "ann");
    ask("bulk_write", json!({ "files": [{ "path": "index.md", "content": "y\n" }], "actor": "boss" }));
    assert_eq!(space.newest("index.md").1, "ann");
    ask("undo", json!({ "actor": "ann", "dry_run": false, "author": "boss" }));
    let (_, author, message) = space.newest("index.md");
    assert_eq!((space.text("index.md"), &*author), ("x\n".to_owned(), "ann"));
    assert!(message.starts_with("ann: undo"), "{message}");
}

#[test]
fn an_empty_owner_is_none() {
    let space = TestSpace::with("", &[("index.md", "x\n")]);
    assert_eq!(space.get("draft_create", json!({ "actor": "" }))["actor"], "api");
    assert_eq!(space.ask_as(&named("ann"), "draft_create", json!({ "actor": " " })).unwrap()["actor"], "ann");
}

#[test]
fn an_append_only_page_cannot_be_removed_in_a_draft() {
    let space = TestSpace::new();
    let page = "---\nappend_only: true\n---\n\n- a\n";
    space.put("log.md", page);
    let id = open(&space);
    assert_eq!(space.refusal("draft_delete", json!({ "id": id, "path": "log.md" })).0, 409);
    // One that only the draft has can.
    write(&space, &id, "new.md", page);
    remove(&space, &id, "new.md");
}

#[test]
fn drafts_can_be_disabled_and_are_limited() {
    let space = TestSpace::with("[drafts]\nenabled = false\n", &[("a.md", "x\n")]);
    for name in ["draft_create", "draft_list"] {
        assert_eq!(space.refusal(name, json!({})).0, 501);
    }
    for name in ["draft_get", "draft_diff", "draft_merge", "draft_discard", "draft_tree"] {
        assert_eq!(space.refusal(name, json!({ "id": "00000000" })).0, 501);
    }
    let space = TestSpace::with("[drafts]\nmax_active = 1\n", &[("a.md", "x\n")]);
    let id = open(&space);
    let (status, message) = space.refusal("draft_create", json!({}));
    assert!(status == 409 && message.starts_with("maximum active drafts reached"), "{message}");
    space.get("draft_discard", json!({ "id": id }));
    open(&space);
    let space = TestSpace::with("[versioning]\nstrategy = \"none\"\n", &[("a.md", "x\n")]);
    assert_eq!(space.refusal("draft_create", json!({})).0, 501);
}

#[test]
fn drafts_without_changes_are_discarded() {
    // The clock advances at each reading, and the first check is immediate.
    let space = TestSpace::with("[drafts]\nauto_discard = \"1h\"\n", &[("a.md", "x\n")]);
    let id = open(&space);
    let now = space.space().vfs.draft(svcfs_base::DraftId::parse(&id).unwrap()).unwrap().changed_at();
    let vfs = &space.space().vfs;
    assert!(vfs.discard_old_drafts(now).unwrap().is_empty());
    let later = now + std::time::Duration::from_secs(3601);
    assert_eq!(vfs.discard_old_drafts(later).unwrap().len(), 1);
    assert_eq!(space.get("draft_list", json!({})), json!([]));
}

#[test]
fn a_page_that_git_ignores_since_stays_in_its_draft() {
    let space = TestSpace::new();
    space.put("a.md", "# A\n");
    let id = open(&space);
    write(&space, &id, "a.md", "# B\n");
    write(&space, &id, "late/x.md", "# X\n");
    space.edit_behind(".gitignore", "late/\n");
    let (status, message) = status_and_error(merge(&space, &id, json!({})));
    assert!(status == 409 && message.starts_with("`late/x.md` cannot be merged: git ignores it"), "{message}");
    let merged = merge(&space, &id, json!({ "paths": ["a.md"] })).unwrap();
    assert_eq!(merged["remaining"], json!(["late/x.md"]));
    space.edit_behind(".gitignore", "");
    merge(&space, &id, json!({})).unwrap();
    assert_eq!(space.text("late/x.md"), "# X\n");
}
