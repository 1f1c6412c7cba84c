use serde_json::{Value, json};
use svcfs_base::{Actor, Caller};

use crate::spaces::test_space::{TestSpace, caller, path, status_and_error};

fn named(actor: &str) -> Caller {
    caller().with_actor(Actor::new(actor))
}

fn claim(space: &TestSpace, actor: &str, arguments: Value) -> Value {
    space.ask_as(&named(actor), "claim", arguments).unwrap()
}

/// A page, and a task.
fn space_with_pages() -> TestSpace {
    let space = TestSpace::new();
    space.put("page.md", "# Page\n");
    space.put("tasks/a.md", "---\ntype: task\nstatus: todo\n---\n# A\n");
    space
}

#[test]
fn a_claim_is_held_renewed_and_released() {
    let space = space_with_pages();
    let first = claim(&space, "ann", json!({ "path": "/tasks//a.md", "lease_duration": "1h30m" }));
    assert_eq!((&first["path"], &first["claimed_by"]), (&json!("tasks/a.md"), &json!("ann")));
    let again = claim(&space, "ann", json!({ "path": "tasks/a.md" }));
    assert_eq!((&again["fence"], &again["claimed_at"]), (&first["fence"], &first["claimed_at"]));
    assert_ne!(again["expires_at"], first["expires_at"]);
    let taken = space.ask_as(&named("bob"), "claim", json!({ "path": "tasks/a.md" })).unwrap_err();
    assert_eq!((taken.kind().http(), taken.message()), (409, "already claimed"));
    assert_eq!(taken.detail()["active_claim"], again);
    let page = claim(&space, "bob", json!({ "path": "page.md" }));
    assert!(page["fence"].as_u64() > again["fence"].as_u64());
    let list = |arguments| space.get("claims_list", arguments)["claims"].clone();
    assert_eq!(list(json!({})), json!([again, page]));
    assert_eq!(list(json!({ "path_prefix": "tasks" })), json!([again]));
    assert_eq!(list(json!({ "actor": "bob" })), json!([page]));
    let release =
        |actor: &str, path: &str| status_and_error(space.ask_as(&named(actor), "release", json!({ "path": path })));
    let not_yours = "`tasks/a.md` is claimed by `ann`, not by `bob`".to_owned();
    assert_eq!(release("bob", "tasks/a.md"), (403, not_yours));
    let released = space.ask_as(&named("ann"), "release", json!({ "path": "tasks/a.md" })).unwrap();
    assert_eq!(released, json!({ "status": "released" }));
    assert_eq!(
        release("ann", "tasks/a.md"),
        (403, "`tasks/a.md` is not claimed; there is nothing to release".to_owned())
    );
}

#[test]
fn claims_that_cannot_be_are_refused() {
    let space = space_with_pages();
    let garbage = "`lease_duration`: must be a time such as `30m` or `1h30m`, from `1m` to `24h`";
    for (arguments, status, message) in [
        (json!({ "path": "page.md", "lease_duration": "x" }), 400, garbage),
        (
            json!({ "path": "page.md", "lease_duration": "0" }),
            400,
            "`lease_duration`: must be more than 0, such as `30m`",
        ),
        (
            json!({ "path": "page.md", "lease_duration": "-5m" }),
            400,
            "`lease_duration`: must be more than 0, such as `30m`",
        ),
        (
            json!({ "path": "page.md", "lease_duration": "25h" }),
            400,
            "`lease_duration`: must be `24h` at most; renew the claim before it ends",
        ),
        (json!({}), 400, "path is required"),
        (json!({ "path": "" }), 400, "path is required"),
        (json!({ "path": "none.md" }), 404, "file not found: none.md"),
        (json!({ "path": "tasks" }), 409, "`tasks` is a directory, not a file"),
        (json!({ "path": ".svc/state/x" }), 404, ""),
    ] {
        let (got, text) = status_and_error(space.ask_as(&named("ann"), "claim", arguments.clone()));
        assert_eq!(got, status, "{arguments} {text}");
        assert!(message.is_empty() || text == message, "{arguments} {text}");
    }
    let anonymous = "X-Actor is required: a claim belongs to an actor".to_owned();
    for name in ["claim", "release"] {
        assert_eq!(space.refusal(name, json!({ "path": "page.md" })), (400, anonymous.clone()));
    }
    let raised = claim(&space, "ann", json!({ "path": "page.md", "lease_duration": "30s" }));
    let time = |name: &str| raised[name].as_str().unwrap().parse::<svcfs_base::Timestamp>().unwrap();
    assert_eq!(time("expires_at").duration_since(time("claimed_at")).as_secs(), 60);
}

#[test]
fn claims_can_be_switched_off() {
    let space = TestSpace::with("[claims]\nenabled = false\n", &[("a.md", "# A\n")]);
    for (name, arguments) in [
        ("claim", json!({ "path": "a.md" })),
        ("release", json!({ "path": "a.md" })),
        ("claims_list", json!({})),
        ("task_next", json!({})),
        ("task_renew", json!({ "path": "a.md", "fence": 1 })),
        ("task_done", json!({ "path": "a.md", "fence": 1 })),
    ] {
        let outcome = status_and_error(space.ask_as(&named("ann"), name, arguments));
        assert_eq!(outcome, (503, "claims not enabled".to_owned()), "{name}");
    }
    assert_eq!(space.get("eligible", json!({})), json!({ "tasks": [] }));
}

#[test]
fn a_write_by_others_gets_a_note_or_is_refused() {
    let space = space_with_pages();
    let page = claim(&space, "ann", json!({ "path": "page.md" }));
    claim(&space, "ann", json!({ "path": "tasks/a.md" }));
    let bob = named("bob");
    let write = json!({ "path": "page.md", "content": "# Page 2\n" });
    let cx = space.cx(&bob);
    let entry = crate::CATALOGUE.iter().flat_map(|area| area.operations).find(|entry| entry.name == "write").unwrap();
    (entry.call)(write.clone(), &cx).unwrap();
    assert!(
        cx.response_meta().notes[0].starts_with("`page.md` is claimed by `ann` until "),
        "{:?}",
        cx.response_meta()
    );
    for (name, arguments) in [
        ("write", json!({ "path": "tasks/a.md", "content": "# A\n" })),
        ("append", json!({ "path": "tasks/a.md", "content": "more\n" })),
        ("delete", json!({ "path": "tasks/a.md" })),
        ("rename", json!({ "from": "tasks/a.md", "to": "b.md" })),
        ("rename_dir", json!({ "from": "tasks", "to": "jobs" })),
        ("bulk_write", json!({ "files": [{ "path": "tasks/a.md", "content": "# A\n" }] })),
        ("task_progress", json!({ "path": "tasks/a.md", "message": "hi" })),
    ] {
        let fault = space.ask_as(&bob, name, arguments).unwrap_err();
        assert_eq!(fault.kind().http(), 409, "{name} {fault}");
        assert!(fault.message().contains("claim_lost: `tasks/a.md` is claimed by `ann`"), "{name} {fault}");
        assert_eq!(fault.detail()["active_claim"]["claimed_by"], "ann", "{name}");
    }
    let fenced = Caller { claim_fence: page["fence"].as_u64(), ..named("ann") };
    space.ask_as(&fenced, "write", write.clone()).unwrap();
    let old = Caller { claim_fence: Some(7), ..named("ann") };
    let fault = space.ask_as(&old, "write", write).unwrap_err();
    assert!(fault.message().contains("fence 7 is over"), "{fault}");
}

#[test]
fn a_lapsed_claim_ends_without_a_request() {
    let space = space_with_pages();
    claim(&space, "ann", json!({ "path": "tasks/a.md", "lease_duration": "1m" }));
    let vfs = &space.space().vfs;
    // The clock advances a second at each reading.
    while vfs.claim_at(&path("tasks/a.md")).is_some() {}
    while vfs.claim_events_after(0).0.iter().all(|event| event.kind.name() != "expire") {
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    let text = space.text("tasks/a.md");
    assert!(text.contains("attempts: 1"), "{text}");
}
