use serde_json::{Value, json};
use svcfs_base::{Actor, Caller, Permissions, Protocol, Scope};

use super::*;
use crate::spaces::test_space::TestSpace;

fn agent(name: &str) -> Caller {
    let permissions = Permissions { scope: Scope::Write, folder: None };
    Caller { is_limited: true, permissions, ..Caller::new(Protocol::Mcp).with_actor(Actor::new(name)) }
}

fn call(space: &TestSpace, caller: &Caller, name: &str, arguments: Value) -> Result<Value, Fault> {
    let entry = crate::CATALOGUE.iter().flat_map(|area| area.operations).find(|entry| entry.name == name).unwrap();
    (entry.call)(arguments, &space.cx(caller))
}

/// A space with pages `0.md` to `9.md`, and small limits.
fn space(limits: &str) -> TestSpace {
    let pages: Vec<_> = (0..10).map(|number| (format!("{number}.md"), format!("# {number}\n"))).collect();
    let pages: Vec<_> = pages.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let space = TestSpace::with(&format!("[agents.limits]\n{limits}\n"), &pages);
    // A limit is a share of the indexed pages.
    space.settle();
    space
}

fn limited(outcome: Result<Value, Fault>) -> String {
    let fault = outcome.unwrap_err();
    assert_eq!(fault.kind(), Kind::RateLimited, "{fault}");
    assert!(fault.detail()[RETRY_AFTER_KEY].as_u64().unwrap() >= 1, "{fault:?}");
    fault.message().to_owned()
}

#[test]
fn an_agent_may_delete_as_many_pages_as_the_limit_says() {
    let space = space("deletes_per_minute = 2");
    let delete = |caller: &Caller, page: usize| call(&space, caller, "delete", json!({ "path": format!("{page}.md") }));
    let dry_run = |page: &str| call(&space, &agent("a"), "delete", json!({ "path": page, "dry_run": true }));
    assert!((0..3).all(|_| dry_run("0.md").is_ok()), "a dry run does not count");
    assert!(delete(&agent("a"), 0).is_ok() && delete(&agent("a"), 1).is_ok());
    limited(dry_run("2.md"));
    let message = limited(delete(&agent("a"), 2));
    for part in ["a may delete 2 pages a minute, has deleted 2", "1 more", "resets in", "svc_draft_create"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(delete(&agent("b"), 2).is_ok(), "another agent has its own counter");
    let free = Caller { is_limited: false, ..agent("a") };
    assert!(delete(&free, 3).is_ok(), "a caller without limits");
    let events = |name: &str| {
        let notices = space.space().notices.after(0);
        notices.iter().filter(|notice| notice.name == LIMIT_EVENT && notice.data["actor"] == name).count()
    };
    limited(delete(&agent("a"), 4));
    assert_eq!((events("a"), events("b")), (1, 0), "one event for a window");
    // Each reading of the clock is a second.
    assert!((0..60).map(|_| space.cx(&free).now()).last().is_some());
    assert!(delete(&agent("a"), 4).is_ok(), "the window has ended");
}

#[test]
fn rewriting_counts_pages_of_others_once_each() {
    let space = space("rewritten_percent_per_hour = 30\nmin_rewritten_pages = 2");
    let a = agent("a");
    let write = |path: &str, text: &str| call(&space, &a, "write", json!({ "path": path, "content": text }));
    for round in 0..3 {
        for page in ["0.md", "1.md", "2.md", "new.md"] {
            write(page, &format!("# {page} {round}\n")).unwrap();
        }
    }
    assert!(limited(write("3.md", "# x\n")).contains("rewrite 3 pages an hour, has rewritten 3"));
    write("other.md", "# new\n").unwrap();
    call(&space, &a, "rename", json!({ "from": "other.md", "to": "own.md" })).unwrap();
    write("own.md", "# still of the agent\n").unwrap();
    write("5.md", "# 5\n").unwrap();
    call(&space, &a, "append", json!({ "path": "3.md", "content": "more" })).unwrap();
    limited(call(&space, &a, "rename", json!({ "from": "4.md", "to": "moved.md" })));
    let bulk = |paths: &[&str]| {
        let files: Vec<_> = paths.iter().map(|path| json!({ "path": path, "content": "# b\n" })).collect();
        call(&space, &agent("b"), "bulk_write", json!({ "files": files }))
    };
    assert!(limited(bulk(&["0.md", "1.md", "2.md", "3.md"])).contains("This request alone would rewrite 4: split it"));
    bulk(&["0.md", "1.md", "2.md"]).unwrap();
    limited(bulk(&["5.md"]));
}

#[test]
fn a_refused_change_does_not_count() {
    let space = space("rewritten_percent_per_hour = 1\nmin_rewritten_pages = 1\ndeletes_per_minute = 1");
    let a = agent("a");
    let stale = Caller { precondition: svcfs_base::Precondition::Absent, ..a.clone() };
    for _ in 0..3 {
        let refused = call(&space, &stale, "write", json!({ "path": "0.md", "content": "# x\n" })).unwrap_err();
        assert_eq!(refused.kind(), Kind::PreconditionFailed);
        assert_eq!(call(&space, &a, "delete", json!({ "path": "no.md" })).unwrap_err().kind(), Kind::NotFound);
    }
    call(&space, &a, "write", json!({ "path": "1.md", "content": "# x\n" })).unwrap();
    limited(call(&space, &a, "write", json!({ "path": "2.md", "content": "# x\n" })));
    call(&space, &a, "delete", json!({ "path": "1.md" })).unwrap();
}

#[test]
fn zero_switches_a_limit_off() {
    let space = space("deletes_per_minute = 0\nrewritten_percent_per_hour = 0\nmin_rewritten_pages = 0");
    for page in 0..10 {
        let path = format!("{page}.md");
        call(&space, &agent("a"), "write", json!({ "path": path, "content": "# x\n" })).unwrap();
        call(&space, &agent("a"), "delete", json!({ "path": path })).unwrap();
    }
}

#[test]
fn the_memory_for_agents_is_bounded() {
    let space = space("deletes_per_minute = 1");
    let set = ChangeSet::from(Change::remove(TreePath::parse("0.md").unwrap()));
    let limits = &space.space().agent_limits;
    for name in 0..MAX_ACTORS + 10 {
        let agent = agent(&format!("agent-{name}"));
        limits.reserve(&space.cx(&agent), &agent, &set).unwrap().confirm();
    }
    assert!(limits.actors.lock().len() <= MAX_ACTORS);
}
