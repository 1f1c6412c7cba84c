//! Workers, their claims, and the pages they change.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svcfs_base::{Actor, Caller};

use crate::spaces::test_space::{TestSpace, caller, path, status_and_error};

fn named(actor: &str) -> Caller {
    caller().with_actor(Actor::new(actor))
}

fn next(space: &TestSpace, actor: &str, arguments: Value) -> Value {
    space.ask_as(&named(actor), "task_next", arguments).unwrap()
}

fn create(space: &TestSpace, arguments: Value) -> Value {
    space.ask_as(&named("ann"), "task_create", arguments).unwrap()
}

fn fields(space: &TestSpace, page: &str) -> Value {
    svcfs_text::frontmatter::parse(&space.text(page)).map.into()
}

fn task(space: &TestSpace, name: &str, lines: &str) {
    space.put(name, &format!("---\ntype: task\nstatus: todo\n{lines}\n---\n\n# Task\n"));
}

#[test]
fn workers_get_different_tasks_in_order() {
    let space = TestSpace::new();
    task(&space, "t/low.md", "priority: 5\nlabels: [docs]");
    task(&space, "t/high.md", "priority: 1");
    task(&space, "t/waits.md", "priority: 0\nblocked_by: t/high.md");
    task(&space, "other/x.md", "priority: 2\ntags: \"#Docs #code\"");
    let path_of = |answer: &Value| answer["task"]["path"].as_str().map(str::to_owned);
    let first = next(&space, "w1", json!({ "path_prefix": "t" }));
    assert_eq!(path_of(&first).as_deref(), Some("t/high.md"));
    assert_eq!((&first["attempt"], &first["claim"]["claimed_by"]), (&json!(1), &json!("w1")));
    // The same worker gets another task, too.
    assert_eq!(path_of(&next(&space, "w1", json!({ "path_prefix": "t" }))).as_deref(), Some("t/low.md"));
    assert_eq!(next(&space, "w2", json!({ "path_prefix": "t" })), json!({ "task": null }));
    let claimed = |space: &TestSpace| space.get("eligible", json!({}))["tasks"].as_array().unwrap().len();
    assert_eq!(claimed(&space), 1);
    let labelled = next(&space, "w2", json!({ "labels": ["#docs", "Code"] }));
    assert_eq!(path_of(&labelled).as_deref(), Some("other/x.md"));
    let done =
        json!({ "path": "t/high.md", "fence": first["claim"]["fence"], "result": "It works.", "artifacts": ["a"] });
    let ended = space.ask_as(&named("w1"), "task_done", done.clone()).unwrap();
    assert_eq!((&ended["status"], &ended["state"]), (&json!("done"), &json!(null)));
    assert!(space.text("t/high.md").ends_with("# Task\n\n## Result\n\nIt works.\n"));
    assert_eq!(path_of(&next(&space, "w2", json!({}))).as_deref(), Some("t/waits.md"));
    let (status, message) = status_and_error(space.ask_as(&named("w1"), "task_done", done));
    assert_eq!(status, 409);
    assert!(message.starts_with("claim_lost: `t/high.md` has no claim with fence"), "{message}");
    space.ask_as(&named("w1"), "release", json!({ "path": "t/low.md" })).unwrap();
    assert_eq!(path_of(&next(&space, "w3", json!({}))).as_deref(), Some("t/low.md"));
}

#[test]
fn a_created_task_is_a_page_in_the_workflow() {
    let space = TestSpace::new();
    space.put("parent.md", "# Parent\n");
    let created = create(
        &space,
        json!({ "title": "Fix: the *door*!", "description": "Really.", "priority": 2, "labels": ["a", "b"],
                "parent": "parent.md", "assignee": "bob", "artifacts": ["x.png"], "due": "2026-12-31" }),
    );
    assert_eq!(created["path"], "tasks/fix-the-door.md");
    assert_eq!(
        space.text("tasks/fix-the-door.md"),
        "---\ntype: task\ntitle: \"Fix: the *door*!\"\nworkflow: tasks\nstate: backlog\nstatus: todo\npriority: 2\nassignee: bob\nlabels:\n- a\n- b\nparent: parent.md\nartifacts:\n- x.png\ndue: \"2026-12-31\"\n---\n# Fix: the *door*!\n\nReally.\n"
    );
    // In the same commit.
    assert_eq!(space.newest(".svc/workflows/tasks.json"), space.newest("tasks/fix-the-door.md"));
    assert_eq!(create(&space, json!({ "title": "Fix the door" }))["path"], "tasks/fix-the-door-2.md");
    assert_eq!(create(&space, json!({ "title": "!!!" }))["path"], "tasks/task.md");
    let mine = create(&space, json!({ "title": "Mine", "claim": true, "priority": 1 }));
    assert_eq!(mine["claim"]["claimed_by"], "ann");
    assert_eq!(next(&space, "bob", json!({}))["task"]["path"], "tasks/fix-the-door.md");
    let done = json!({ "path": "tasks/mine.md", "fence": mine["claim"]["fence"], "outcome": "blocked" });
    assert_eq!(space.ask_as(&named("ann"), "task_done", done).unwrap()["state"], "blocked");
    assert_eq!(fields(&space, "tasks/mine.md")["status"], "blocked");
}

#[test]
fn tasks_that_cannot_be_created_are_refused() {
    let space = TestSpace::new();
    space.put("a.md", "---\nblocked_by: tasks/b.md\n---\n");
    space.put("notes/c.md", "# C\n");
    for (arguments, status, text) in [
        (json!({}), 400, "title is required"),
        (json!({ "title": " \t" }), 400, "title is required"),
        (json!({ "title": "a\nb" }), 400, "`title`: must be one line"),
        (json!({ "title": "x".repeat(501) }), 400, "`title`: must be one line"),
        (json!({ "title": "x", "priority": 6 }), 400, "`priority`: must be 1"),
        (json!({ "title": "x", "blocked_by": ["none.md"] }), 404, "`blocked_by`: file not found: none.md"),
        (json!({ "title": "x", "parent": "none.md" }), 404, "`parent`: file not found: none.md"),
        (json!({ "title": "x", "blocked_by": ["notes"] }), 400, "`blocked_by`: `notes` is not a page"),
        (json!({ "title": "x", "due": "soon" }), 400, "`due`: must be a day"),
        (json!({ "title": "x", "due": "2026-13-45" }), 400, "`due`: must be a day"),
        (json!({ "title": "b", "blocked_by": ["a.md"] }), 409, "`blocked_by`: `a.md` waits for `tasks/b.md` already"),
    ] {
        let (got, message) = status_and_error(space.ask_as(&named("ann"), "task_create", arguments.clone()));
        assert_eq!(got, status, "{arguments} {message}");
        assert!(message.starts_with(text), "{arguments} {message}");
    }
    assert_eq!(space.refusal("task_create", json!({ "title": "x", "claim": true })).0, 400);
    assert!(space.space().vfs.stat(svcfs_base::Protocol::Http, &path("tasks")).is_err());
}

#[test]
fn files_that_are_no_tasks_are_not_changed() {
    let space = TestSpace::new();
    space.put("plain.md", "# Plain\n");
    space.put("data.csv", "a,b\n1,2\n");
    for file in ["plain.md", "data.csv"] {
        let before = space.text(file);
        let claim = space.ask_as(&named("ann"), "claim", json!({ "path": file })).unwrap();
        for (name, arguments) in [
            ("task_done", json!({ "path": file, "fence": claim["fence"], "result": "Done." })),
            ("task_progress", json!({ "path": file, "message": "Half." })),
        ] {
            let (status, message) = status_and_error(space.ask_as(&named("ann"), name, arguments));
            assert_eq!(status, 400, "{name} {file} {message}");
            assert!(message.contains("is no task"), "{name} {file} {message}");
        }
        assert_eq!(space.text(file), before, "{file}");
    }
}

#[test]
fn three_lapsed_leases_fail_a_task() {
    let space = TestSpace::new();
    create(&space, json!({ "title": "Hard" }));
    for attempt in 1..=3 {
        let taken = next(&space, "w", json!({ "lease": "1m" }));
        assert_eq!(taken["attempt"], attempt);
        // The clock advances a second at each reading.
        (0..70).for_each(|_| drop(space.space().vfs.lapsed_claims()));
        let late = json!({ "path": "tasks/hard.md", "fence": taken["claim"]["fence"] });
        let (status, message) = status_and_error(space.ask_as(&named("w"), "task_done", late.clone()));
        assert_eq!(status, 409);
        assert!(message.starts_with("claim_lost: "), "{message}");
        assert_eq!(status_and_error(space.ask_as(&named("w"), "task_renew", late)).0, 409);
    }
    assert_eq!(next(&space, "w", json!({})), json!({ "task": null }));
    let fields = fields(&space, "tasks/hard.md");
    assert_eq!(
        (&fields["attempts"], &fields["status"], &fields["state"]),
        (&json!(3), &json!("failed"), &json!("failed"))
    );
}

#[test]
fn progress_notes_are_added_and_renew_the_claim() {
    let space = TestSpace::new();
    create(&space, json!({ "title": "Long" }));
    let taken = next(&space, "w", json!({ "lease": "5m" }));
    let note =
        |message: &str| json!({ "path": "tasks/long.md", "message": message, "percent": 40, "agent": "Agent 7" });
    for text in ["first", "second\n\n- more"] {
        space.ask_as(&named("w"), "task_progress", note(text)).unwrap();
    }
    let text = space.text("tasks/long.md");
    let (_, progress) = text.split_once("## Progress\n\n").unwrap();
    let headings = progress.lines().filter(|line| line.starts_with("### 2026-01-01T") && line.ends_with(" — Agent 7"));
    assert_eq!(headings.count(), 2, "{text}");
    assert!(progress.contains("\n\nfirst\n\n### ") && progress.ends_with("\n\nsecond\n\n- more\n"), "{text}");
    assert_eq!(fields(&space, "tasks/long.md")["percent"], 40);
    let [claim] = space.space().vfs.claims_below(&path("tasks")).unwrap().try_into().unwrap();
    assert_eq!(json!(claim.fence), taken["claim"]["fence"]);
    assert!(claim.expires_at.duration_since(claim.claimed_at).as_secs() > 1_700);
    space.put("page.md", "# Page\n");
    for (arguments, status) in [
        (json!({ "path": "page.md", "message": "x" }), 400),
        (json!({ "path": "none.md", "message": "x" }), 404),
        (json!({ "path": "tasks/long.md", "message": " " }), 400),
        (json!({ "path": "tasks/long.md", "message": "x".repeat((64 << 10) + 1) }), 413),
        (json!({ "path": "tasks/long.md", "message": "x", "percent": 101 }), 400),
    ] {
        assert_eq!(status_and_error(space.ask_as(&named("w"), "task_progress", arguments)).0, status);
    }
}

#[test]
fn many_workers_finish_each_task_once() {
    const TASKS: usize = 100;
    let space = TestSpace::new();
    for n in 0..TASKS {
        task(&space, &format!("t/{n}.md"), "priority: 3");
    }
    let done: Vec<Vec<String>> = std::thread::scope(|scope| {
        let worker = |number: usize| {
            let space = &space;
            move || {
                let actor = format!("worker {number}");
                let mut done = Vec::new();
                loop {
                    let taken = next(space, &actor, json!({}));
                    let Some(path) = taken["task"]["path"].as_str() else { return done };
                    let end = json!({ "path": path, "fence": taken["claim"]["fence"], "result": actor });
                    space.ask_as(&named(&actor), "task_done", end).unwrap();
                    done.push(path.to_owned());
                }
            }
        };
        let workers: Vec<_> = (0..16).map(|number| scope.spawn(worker(number))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let distinct: BTreeSet<&String> = done.iter().flatten().collect();
    assert_eq!((done.iter().flatten().count(), distinct.len()), (TASKS, TASKS));
}

#[test]
fn notes_of_concurrent_writers_are_all_kept() {
    let space = TestSpace::new();
    create(&space, json!({ "title": "Busy" }));
    std::thread::scope(|scope| {
        for n in 0..16 {
            let space = &space;
            scope.spawn(move || {
                let note = json!({ "path": "tasks/busy.md", "message": format!("note {n}.") });
                space.ask_as(&named("w"), "task_progress", note).unwrap();
            });
        }
    });
    let text = space.text("tasks/busy.md");
    (0..16).for_each(|n| assert!(text.contains(&format!("note {n}.")), "{text}"));
}

#[test]
fn a_key_of_the_task_folder_creates_the_first_task() {
    let space = TestSpace::new();
    let key = |folder: &str| {
        let permissions = svcfs_base::Permissions { scope: svcfs_base::Scope::Write, folder: Some(path(folder)) };
        Caller { permissions, ..named("w") }
    };
    let title = || json!({ "title": "One" });
    assert_eq!(status_and_error(space.ask_as(&key("notes"), "task_create", title())).0, 403);
    let created = space.ask_as(&key("tasks"), "task_create", title()).unwrap();
    assert_eq!(created["path"], "tasks/one.md");
    assert_eq!(space.newest(".svc/workflows/tasks.json"), space.newest("tasks/one.md"));
}

#[test]
fn a_failed_task_blocks_others_and_blocked_ones_are_not_offered() {
    let space = TestSpace::new();
    create(&space, json!({ "title": "Made" }));
    for (name, lines) in [
        ("tasks/made.md", "status: failed\nworkflow: tasks\nstate: failed"),
        ("plain.md", "status: failed"),
        ("state.md", "workflow: tasks\nstate: Failed"),
    ] {
        space.put(name, &format!("---\n{lines}\n---\n"));
    }
    for (name, lines) in [
        ("t/a.md", "blocked_by: tasks/made.md"),
        ("t/b.md", "blocked_by: plain.md"),
        ("t/c.md", "blocked_by: state.md"),
        ("t/d.md", "workflow: tasks\nstate: blocked"),
        ("t/e.md", "state: failed"),
    ] {
        task(&space, name, lines);
    }
    assert_eq!(next(&space, "w", json!({})), json!({ "task": null }));
    for name in ["tasks/made.md", "plain.md", "state.md"] {
        space.put(name, "---\nstatus: done\n---\n");
    }
    task(&space, "t/d.md", "workflow: tasks\nstate: ready");
    assert_eq!(space.get("eligible", json!({}))["tasks"].as_array().unwrap().len(), 4);
}

#[test]
fn a_task_whose_claim_cannot_start_stays_in_the_queue() {
    let space = TestSpace::new();
    task(&space, "t/a.md", "priority: 1");
    let (vfs, actor) = (&space.space().vfs, Actor::new("many"));
    let minute = std::time::Duration::from_secs(36_000_000);
    for n in 0..100_000 {
        std::mem::forget(vfs.start_claim(&actor, &path(&format!("x/{n}.md")), minute).unwrap());
    }
    assert_eq!(status_and_error(space.ask_as(&named("w"), "task_next", json!({}))).0, 503);
    assert!(vfs.release_claim(&actor, &path("x/0.md"), None).unwrap());
    assert_eq!(next(&space, "w", json!({}))["task"]["path"], "t/a.md");
}
