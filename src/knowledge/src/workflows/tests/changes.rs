use serde_json::{Value, json};
use svcfs_base::{Caller, Change, ETag, Precondition, Protocol};

use super::TASKS;
use crate::spaces::test_space::{TestSpace, caller, expecting, path, status_and_error};

/// A space with the workflow `tasks` and these pages: path and frontmatter.
fn space_with(config: &str, pages: &[(&str, &str)]) -> TestSpace {
    let space = TestSpace::with(config, &[(".svc/workflows/tasks.json", TASKS)]);
    for (path, fields) in pages {
        space.put(path, &format!("---\n{fields}\n---\n\n# Text\n"));
    }
    space
}

fn task(state: &str) -> String {
    format!("workflow: tasks\nstate: {state}")
}

fn advance(space: &TestSpace, path: &str, state: &str) -> Value {
    space.get("workflow_advance", json!({ "path": path, "target_state": state }))
}

/// Status, message and allowed states of a refused move.
fn refused(space: &TestSpace, path: &str, state: &str) -> (u16, String, Value) {
    let fault = space.ask("workflow_advance", json!({ "path": path, "target_state": state })).unwrap_err();
    let allowed = fault.detail().get("allowed").cloned().unwrap_or_default();
    (fault.kind().http(), fault.message().to_owned(), allowed)
}

#[test]
fn definitions_are_saved_listed_and_removed() {
    let space = space_with("", &[("t/a.md", &task("backlog")), ("t/b.md", &task("gone"))]);
    let listed = space.get("workflow_list", json!({}));
    assert_eq!(listed["workflows"][0]["name"], "tasks");
    assert_eq!(
        listed["counts"],
        json!([{ "workflow": "tasks", "states": { "backlog": 1, "in_progress": 0, "done": 0, "__unmatched__": 1 } }])
    );
    assert_eq!(listed.get("errors"), None);
    let mut definition = space.get("workflow_get", json!({ "name": "tasks" }))["workflow"].take();
    definition["name"] = json!("copy");
    let saved = space.get("workflow_save", definition.clone());
    assert_eq!((&saved["status"], &saved["workflow"]), (&json!("saved"), &definition));
    assert_eq!(space.newest(".svc/workflows/copy.json").2, "workflow: copy");
    // A state that a page has stays, unless it is forced.
    let without = json!({ "name": "tasks", "states": [{ "name": "done" }], "transitions": [] });
    let (status, message) = space.refusal("workflow_save", without.clone());
    assert!(status == 409 && message.contains("`backlog` (1 pages)") && message.contains("force"), "{message}");
    let mut forced = without;
    forced["force"] = json!(true);
    space.get("workflow_save", forced);
    space.edit_behind(".svc/workflows/broken.json", "[]");
    let listed = space.get("workflow_list", json!({}));
    assert_eq!(listed["workflows"].as_array().unwrap().len(), 2);
    assert!(
        listed["errors"][0].as_str().unwrap().starts_with(".svc/workflows/broken.json: workflow `broken`: must be")
    );
    assert_eq!(
        space.get("workflow_delete", json!({ "name": "tasks" })),
        json!({ "status": "deleted", "name": "tasks" })
    );
    for (name, arguments) in [
        ("workflow_delete", json!({ "name": "tasks" })),
        ("workflow_get", json!({ "name": "tasks" })),
        ("workflow_board", json!({ "workflow": "tasks" })),
        ("workflow_advance", json!({ "path": "t/a.md", "target_state": "done" })),
        ("workflow_assign", json!({ "path": "t/a.md", "workflow": "tasks", "state": "done" })),
    ] {
        let (status, message) = space.refusal(name, arguments);
        assert!(status == 404 && message.starts_with("workflow not found: tasks"), "{name}: {message}");
    }
    for name in ["", "../x", "a/b", ".x", "x.json", "x ", "\u{e9}", &"x".repeat(129)] {
        assert_eq!(space.refusal("workflow_get", json!({ "name": name })).0, 400, "{name}");
    }
}

#[test]
fn a_page_moves_along_the_transitions() {
    let space = space_with("", &[]);
    let text = "---\n# why\ntitle: 'A'   # kept\nworkflow: tasks\nstate: \"backlog\"\ntags: [x,  y]\n---\n\n# A\n";
    space.put("t/a.md", text);
    let moved = advance(&space, "t/a.md", " In_Progress ");
    assert_eq!((&moved["from_state"], &moved["to_state"]), (&json!("backlog"), &json!("in_progress")));
    let written = space.text("t/a.md");
    let modified = written.lines().find(|line| line.starts_with("modified: ")).unwrap();
    assert_eq!(written.replace(&format!("{modified}\n"), ""), text.replace("\"backlog\"", "in_progress"));
    assert_eq!(moved["etag"], ETag::from_content(written.as_bytes()).to_string());
    let (_, author, message) = space.newest("t/a.md");
    assert_eq!((author.as_str(), message.as_str()), ("system", "system: t/a.md backlog → in_progress"));
    let again = advance(&space, "t/a.md", "in_progress");
    assert_eq!((&again["noop"], &again["etag"]), (&json!(true), &moved["etag"]));
    let done = space.get("workflow_advance", json!({ "path": "t/a.md", "target_state": "done", "actor": "bob" }));
    assert_eq!(done["to_state"], "done");
    assert_eq!(space.newest("t/a.md").1, "bob");
    assert!(!space.text("t/a.md").contains("status"), "only a task has a status");
    space.put("t/b.md", "---\ntype: task\nstatus: doing\nworkflow: tasks\nstate: in_progress\n---\n");
    advance(&space, "t/b.md", "done");
    assert!(space.text("t/b.md").contains("status: done\n"), "{}", space.text("t/b.md"));
    space.get("workflow_assign", json!({ "path": "t/b.md", "workflow": "tasks", "state": "backlog" }));
    assert!(space.text("t/b.md").contains("status: todo\n"), "{}", space.text("t/b.md"));
}

#[test]
fn a_move_that_is_not_allowed_says_what_is() {
    let pages = [
        ("t/a.md", task("backlog")),
        ("t/done.md", task("done")),
        ("t/lost.md", task("lost")),
        ("t/waits.md", task("backlog") + "\nblocked_by: [a]"),
        ("t/free.md", task("backlog") + "\nblocked_by: [done, nowhere]"),
        ("t/self.md", task("backlog") + "\nblocked_by: [self]"),
        ("t/x.md", task("backlog") + "\nblocked_by: [y]"),
        ("t/y.md", task("backlog") + "\ndepends_on: [\"[[x]]\"]"),
        ("t/none.md", "title: none".to_owned()),
        ("t/stateless.md", "workflow: tasks".to_owned()),
    ];
    let pages: Vec<(&str, &str)> = pages.iter().map(|(path, fields)| (*path, fields.as_str())).collect();
    let space = space_with("", &pages);
    for (path, state, status, why, allowed) in [
        ("t/a.md", "done", 409, "no transition from `backlog` to `done`", json!(["in_progress"])),
        ("t/a.md", "nope", 409, "`nope` is not a state of workflow `tasks`", json!(["in_progress"])),
        ("t/done.md", "backlog", 409, "`done` is a terminal state", json!([])),
        ("t/lost.md", "done", 409, "its state `lost` is not a state", json!([])),
        ("t/waits.md", "in_progress", 409, "it waits for `t/a.md`", json!(["in_progress"])),
        ("t/self.md", "in_progress", 409, "`t/self.md` would wait for itself", json!(null)),
        ("t/x.md", "in_progress", 409, "t/x.md ← t/y.md ← t/x.md", json!(null)),
        ("t/none.md", "done", 400, "`t/none.md` has no `workflow`", json!(null)),
        ("t/stateless.md", "done", 400, "`t/stateless.md` has no `state`", json!(null)),
        ("t/gone.md", "done", 404, "file not found: t/gone.md", json!(null)),
        ("t", "done", 400, "`t` is not a page", json!(null)),
        ("", "done", 400, "path is required", json!(null)),
    ] {
        let (actual, message, choices) = refused(&space, path, state);
        assert_eq!((actual, &choices), (status, &allowed), "{path} {message}");
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(advance(&space, "t/free.md", "in_progress")["to_state"], "in_progress");
    let other = json!({ "path": "t/a.md", "target_state": "in_progress", "workflow": "other" });
    assert_eq!(space.refusal("workflow_advance", other).0, 409);
    let cyclic = json!({ "path": "t/x.md", "workflow": "tasks", "state": "done" });
    assert_eq!(space.refusal("workflow_assign", cyclic).0, 409);
    let stale = expecting(Precondition::OneOf(vec![ETag::from_content(b"old")]));
    let moved = json!({ "path": "t/a.md", "target_state": "in_progress" });
    assert_eq!(status_and_error(space.ask_as(&stale, "workflow_advance", moved)).0, 409);
    space.put("t/broken.md", "# no frontmatter\n");
    space.edit_behind("t/broken.md", "---\nstate: [\n---\n");
    assert_eq!(refused(&space, "t/broken.md", "done").0, 400);
}

#[test]
fn a_state_with_a_limit_takes_no_more_pages() {
    let names: Vec<String> = (0..6).map(|n| format!("t/{n}.md")).collect();
    let fields = task("backlog");
    let pages: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), fields.as_str())).collect();
    let space = space_with("", &pages);
    let moved = std::thread::scope(|scope| {
        let moves: Vec<_> = (names.iter())
            .map(|name| {
                let space = &space;
                scope.spawn(move || {
                    space.ask("workflow_advance", json!({ "path": name, "target_state": "in_progress" })).is_ok()
                })
            })
            .collect();
        moves.into_iter().map(|thread| thread.join().unwrap()).filter(|is_moved| *is_moved).count()
    });
    assert_eq!(moved, 2);
    let waiting = names.iter().find(|name| space.text(name).contains("backlog")).unwrap();
    let (status, message, _) = refused(&space, waiting, "in_progress");
    assert!(status == 409 && message.contains("has 2 pages, its limit is 2"), "{message}");
}

#[test]
fn a_page_is_assigned_to_any_state() {
    let space = space_with("", &[("t/a.md", "title: A")]);
    let assigned = space.get(
        "workflow_assign",
        json!({ "path": "t/a.md", "workflow": "tasks", "state": "DONE", "ordinal": 7, "actor": "bob" }),
    );
    assert_eq!((&assigned["state"], &assigned["workflow"]), (&json!("done"), &json!("tasks")));
    assert!(space.text("t/a.md").contains("workflow: tasks\nstate: done\n"), "{}", space.text("t/a.md"));
    assert!(space.text("t/a.md").contains("ordinal: 7\n"));
    let again = space.get("workflow_assign", json!({ "path": "t/a.md", "workflow": "tasks", "state": "done" }));
    assert_eq!((&again["noop"], &again["etag"]), (&json!(true), &assigned["etag"]));
    for (arguments, status) in [
        (json!({ "path": "t/a.md", "workflow": "tasks", "state": "nope" }), 400),
        (json!({ "path": "t/a.md", "workflow": "nope", "state": "done" }), 404),
        (json!({ "path": "t/a.md", "workflow": "../tasks", "state": "done" }), 400),
        (json!({ "path": "gone.md", "workflow": "tasks", "state": "done" }), 404),
        (json!({ "path": "a.txt", "workflow": "tasks", "state": "done" }), 400),
        (json!({ "path": "t/a.md", "workflow": "tasks" }), 400),
    ] {
        assert_eq!(space.refusal("workflow_assign", arguments.clone()).0, status, "{arguments}");
    }
}

#[test]
fn pages_of_a_state_are_ordered() {
    let (a, b) = (task("backlog"), task("backlog"));
    let space = space_with("", &[("t/a.md", &a), ("t/b.md", &b), ("t/c.md", &a), ("t/d.md", &task("done"))]);
    let order = |space: &TestSpace| -> Vec<String> {
        let board = space.get("workflow_board", json!({ "workflow": "tasks" }));
        let cards = board["board"]["backlog"].as_array().unwrap().clone();
        cards.iter().map(|card| card["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(order(&space), ["t/a.md", "t/b.md", "t/c.md"]);
    let wanted = json!({ "workflow": "tasks", "state": "backlog", "paths": ["t/c.md", "t/a.md"] });
    let ordered = space.get("workflow_reorder", wanted.clone());
    assert_eq!(ordered["pages"][0]["ordinal"], 1000);
    assert_eq!(order(&space), ["t/c.md", "t/a.md", "t/b.md"], "a page without a position comes last");
    assert_eq!(space.newest("t/c.md").0, space.newest("t/a.md").0, "one commit");
    assert_eq!(space.get("workflow_reorder", wanted)["noop"], true);
    let one = space.get("workflow_reorder", json!({ "path": "t/b.md", "ordinal": 1500 }));
    assert_eq!(one["etag"], ETag::from_content(space.text("t/b.md").as_bytes()).to_string());
    assert_eq!(order(&space), ["t/c.md", "t/b.md", "t/a.md"]);
    for (arguments, status) in [
        (json!({ "workflow": "tasks", "state": "backlog", "paths": ["t/a.md", "t/d.md"] }), 409),
        (json!({ "workflow": "tasks", "state": "backlog", "paths": ["t/a.md", "t/a.md"] }), 400),
        (json!({ "workflow": "tasks", "state": "nope", "paths": [] }), 400),
        (json!({ "workflow": "nope", "state": "backlog", "paths": [] }), 404),
        (json!({ "workflow": "tasks", "state": "backlog", "paths": ["gone.md"] }), 404),
        (json!({ "path": "t/a.md" }), 400),
        (json!({}), 400),
        (json!({ "path": "t/a.md", "ordinal": 1, "workflow": "tasks" }), 400),
    ] {
        assert_eq!(space.refusal("workflow_reorder", arguments.clone()).0, status, "{arguments}");
    }
}

#[test]
fn a_board_has_every_state_and_its_cards() {
    let space = space_with(
        "",
        &[
            (
                "t/a.md",
                "workflow: tasks\nstate: backlog\ntitle: First\npriority: 2\nlabels: [x]\ndue: 2026-01-01\nauthor: bob\nassignee: eve\ndepends_on: [b]\ndescription: Why\nordinal: 5",
            ),
            ("t/b.md", &task("in_progress")),
            ("t/c.md", &(task("lost") + "\nblocked_by: [d]")),
            ("t/d.md", &task("done")),
            ("t/e.md", "workflow: other\nstate: backlog"),
        ],
    );
    let answer = space.get("workflow_board", json!({ "workflow": "tasks" }));
    assert_eq!(answer["workflow"]["name"], "tasks");
    let columns: Vec<&String> = answer["board"].as_object().unwrap().keys().collect();
    assert_eq!(columns, ["backlog", "in_progress", "done", "__unmatched__"]);
    let mut card = answer["board"]["backlog"][0].clone();
    card.as_object_mut().unwrap().remove("modified").unwrap();
    assert_eq!(
        card,
        json!({
            "path": "t/a.md", "state": "backlog", "title": "First", "priority": 2, "tags": ["x"], "due": "2026-01-01",
            "author": "bob", "assignee": "eve", "ordinal": 5, "blocked": true, "block_reason": "waits for t/b.md",
            "depends_on": ["b"], "description": "Why",
        })
    );
    assert_eq!(answer["board"]["__unmatched__"][0]["blocked"], false, "a page in a terminal state blocks none");
    assert_eq!(answer["counts"]["backlog"], 1);
    let cut = space.get("workflow_board", json!({ "name": "tasks", "limit": 1 }));
    assert_eq!(cut["board"], answer["board"]);
    let below = Caller {
        permissions: svcfs_base::Permissions { folder: Some(path("u")), ..caller().permissions },
        ..Caller::new(Protocol::Http)
    };
    let hidden = space.ask_as(&below, "workflow_board", json!({ "workflow": "tasks" })).unwrap();
    assert_eq!(hidden["counts"], json!({ "backlog": 0, "in_progress": 0, "done": 0 }));
}

#[test]
fn a_key_of_a_folder_gets_no_paths_of_blockers_elsewhere() {
    let space = space_with(
        "",
        &[
            ("t/a.md", &(task("backlog") + "\nblocked_by: [Hidden]")),
            ("t/c.md", &(task("backlog") + "\nblocked_by: [u/d]")),
            ("u/b.md", "title: Hidden"),
            ("u/d.md", "blocked_by: [c]"),
        ],
    );
    let limited = Caller {
        permissions: svcfs_base::Permissions { folder: Some(path("t")), ..caller().permissions },
        ..Caller::new(Protocol::Http)
    };
    let all = space.get("workflow_board", json!({ "workflow": "tasks" }));
    assert_eq!(all["board"]["backlog"][0]["block_reason"], "waits for u/b.md");
    let board = space.ask_as(&limited, "workflow_board", json!({ "workflow": "tasks" })).unwrap();
    let card = &board["board"]["backlog"][0];
    assert_eq!((&card["blocked"], &card["block_reason"]), (&json!(true), &json!("waits for other pages")));
    assert!(!board.to_string().contains("u/b.md"), "{board}");
    for (page, expected) in [
        ("t/a.md", "it waits for pages outside the folder of this key; finish these first"),
        ("t/c.md", "t/c.md ← … ← t/c.md"),
    ] {
        let moved = json!({ "path": page, "target_state": "in_progress" });
        let (status, message) = status_and_error(space.ask_as(&limited, "workflow_advance", moved));
        assert_eq!(status, 409, "{message}");
        assert!(message.contains(expected) && !message.contains("u/"), "{message}");
    }
}

#[test]
fn tasks_in_a_terminal_state_are_neither_eligible_nor_blockers() {
    let space = TestSpace::with(
        "",
        &[(
            ".svc/workflows/tasks.json",
            r#"{"states":[{"name":"a"},{"name":"shipped","terminal":true}],"transitions":[{"from":"a","to":"shipped"}]}"#,
        )],
    );
    space.put("a.md", "---\nstatus: todo\nworkflow: tasks\nstate: Shipped\n---\n");
    space.put("b.md", "---\nstatus: todo\nblocked_by: [a]\n---\n");
    space.put("c.md", "---\nstatus: todo\nblocked_by: [b]\n---\n");
    let eligible = space.get("eligible", json!({}));
    let paths: Vec<&str> =
        eligible["tasks"].as_array().unwrap().iter().map(|task| task["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["b.md"]);
}

#[test]
fn enforced_transitions_apply_to_every_write() {
    let config = "[workflow]\nenforce_transitions = true\n[lint]\nformat_protocols = []\n";
    for protocol in [Protocol::Http, Protocol::Mcp, Protocol::Fuse, Protocol::Nfs, Protocol::WebDav, Protocol::S3] {
        let space = space_with(config, &[]);
        let vfs = &space.space().vfs;
        let put = |page: &str, fields: &str| {
            let text = format!("---\n{fields}\n---\n\n# Text\n");
            vfs.apply(&Caller::new(protocol), Change::put(path(page), text)).map(drop)
        };
        for (page, fields, why) in [
            ("a.md", "workflow: tasks\nstate: backlog", ""),
            ("a.md", "workflow: tasks\nstate: Backlog\ntitle: A", ""),
            ("a.md", "workflow: tasks\nstate: done", "no transition from `backlog` to `done`"),
            ("a.md", "workflow: tasks", "cannot lose its `state`"),
            ("a.md", "workflow: tasks\nstate: nope", "`nope` is not a state"),
            ("a.md", "workflow: tasks\nstate: in_progress", ""),
            ("a.md", "workflow: tasks\nstate: done", ""),
            ("a.md", "workflow: tasks\nstate: backlog", "`done` is a terminal state"),
            ("b.md", "workflow: tasks\nstate: nope", "`nope` is not a state"),
            ("b.md", "workflow: tasks\nstate: done", ""),
            ("c.md", "workflow: gone\nstate: x", "workflow not found: gone"),
            ("d.md", "state: anything", ""),
            ("self.md", "workflow: tasks\nstate: backlog", ""),
        ] {
            match put(page, fields) {
                Ok(()) => assert_eq!(why, "", "{protocol:?} {page} {fields}"),
                Err(fault) => {
                    let message = fault.message();
                    assert!(!why.is_empty() && message.contains(why), "{protocol:?} {page} {fields}: {message}");
                    assert_eq!((fault.kind().http(), fault.kind().errno()), (409, 22));
                }
            }
        }
        space.settle();
        let fault = put("self.md", "workflow: tasks\nstate: backlog\nblocked_by: [self]").unwrap_err();
        assert!(fault.message().contains("would wait for itself"), "{}", fault.message());
        // Entering the workflow is free, leaving a terminal state by `assign` is not.
        let assign = json!({ "path": "a.md", "workflow": "tasks", "state": "backlog" });
        assert_eq!(space.refusal("workflow_assign", assign).0, 409);
        assert_eq!(
            space.get("workflow_assign", json!({ "path": "d.md", "workflow": "tasks", "state": "done" }))["state"],
            "done"
        );
    }
}

#[test]
fn configured_transitions_apply_to_the_status_of_other_pages() {
    let config = "[workflow]\ntransitions = [\"todo->doing\", \"doing -> done\", \"*->cancelled\"]\n";
    let space = space_with(config, &[]);
    let put = |page: &str, fields: &str| {
        let text = format!("---\n{fields}\n---\n\n# Text\n");
        space.ask("write", json!({ "path": page, "content": text }))
    };
    for (page, fields, why) in [
        ("a.md", "status: todo", ""),
        ("a.md", "status: done", "`status` cannot change from `todo` to `done`; allowed: `doing`, `cancelled`"),
        ("a.md", "title: A", "`status` cannot be removed while it is `todo`"),
        ("a.md", "status: TODO\ntitle: A", ""),
        ("a.md", "status: Doing", ""),
        ("a.md", "status: done", ""),
        ("a.md", "status: cancelled", ""),
        ("a.md", "status: todo", "cannot change from `cancelled` to `todo`; allowed: `cancelled`"),
        ("b.md", "title: B", ""),
        ("b.md", "status: done", ""),
        ("c.md", "workflow: tasks\nstatus: done", ""),
        ("c.md", "workflow: tasks\nstatus: todo", ""),
    ] {
        match put(page, fields) {
            Ok(_) => assert_eq!(why, "", "{page} {fields}"),
            Err(fault) => {
                assert!(!why.is_empty() && fault.message().contains(why), "{page} {fields}: {}", fault.message());
                assert_eq!(fault.kind().http(), 409);
            }
        }
    }
}

#[test]
fn a_definition_is_replaced_only_in_the_version_that_was_read() {
    let space = space_with("", &[]);
    let read = || space.get("workflow_get", json!({ "name": "tasks" }));
    let etag = read()["etag"].as_str().unwrap().to_owned();
    let save = |precondition: Precondition, limit: u32| {
        let mut definition = read()["workflow"].clone();
        definition["states"][1]["wip_limit"] = json!(limit);
        let caller = Caller { precondition, ..caller() };
        space.ask_as(&caller, "workflow_save", definition).map_err(|fault| fault.kind().http())
    };
    let of = |etag: &str| Precondition::OneOf(vec![ETag::parse("etag", etag).unwrap()]);
    let saved = save(of(&etag), 5).unwrap();
    assert_eq!(saved["etag"], read()["etag"]);
    assert_ne!(saved["etag"], etag);
    assert_eq!((save(of(&etag), 6), save(Precondition::Absent, 6)), (Err(409), Err(412)));
    assert_eq!(read()["workflow"]["states"][1]["wip_limit"], 5);
    save(of(saved["etag"].as_str().unwrap()), 7).unwrap();
    save(Precondition::Any, 8).unwrap();
}
