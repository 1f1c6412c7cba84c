#![expect(clippy::disallowed_methods, reason = "a test removes the stored answers, as a crash does")]

use serde_json::{Value, json};
use svcfs_base::{Actor, Protocol, TreePath};

use super::*;
use crate::spaces::test_space::TestSpace;

fn caller(key: &str) -> Caller {
    let request = Some(Arc::new(RequestKey::parse("request_id", key).unwrap().into()));
    Caller { request, ..Caller::new(Protocol::Mcp).with_actor(Actor::new("bot")) }
}

fn entry(name: &str) -> &'static OperationEntry {
    crate::CATALOGUE.iter().flat_map(|area| area.operations).find(|entry| entry.name == name).unwrap()
}

fn request(space: &TestSpace, caller: &Caller, name: &str, arguments: Value) -> Result<(Value, ResponseMeta), Fault> {
    let id = request_id(caller, &caller.request.as_ref().unwrap().key);
    let entry = entry(name);
    run_once((space.server(), space.space()), (entry, entry.call), (id, caller.clone()), arguments)
}

fn text(space: &TestSpace, page: &str) -> String {
    let file = space.space().vfs.read(Protocol::Internal, &TreePath::parse(page).unwrap()).unwrap();
    String::from_utf8(file.content.to_vec()).unwrap()
}

#[test]
fn a_repeat_gets_the_first_answer_and_changes_nothing() {
    let space = TestSpace::new();
    let arguments = json!({ "path": "log.md", "content": "one" });
    let (first, meta) = request(&space, &caller("1"), "append", arguments.clone()).unwrap();
    assert!(!meta.is_replayed);
    request(&space, &caller("2"), "append", json!({ "path": "log.md", "content": "two" })).unwrap();
    let (again, meta) = request(&space, &caller("1"), "append", arguments.clone()).unwrap();
    assert_eq!((again, meta.is_replayed), (first.clone(), true));
    assert_eq!(text(&space, "log.md"), "one\ntwo");
    let refused = request(&space, &caller("1"), "append", json!({ "path": "log.md", "content": "three" })).unwrap_err();
    assert_eq!(refused.kind(), Kind::Rejected, "{refused}");
    let refused = request(&space, &caller("1"), "write", arguments.clone()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Rejected, "another operation: {refused}");
    let other = caller("1").with_actor(Actor::new("other"));
    assert!(!request(&space, &other, "append", arguments.clone()).unwrap().1.is_replayed, "of another caller");
    let space = space.again();
    let (again, meta) = request(&space, &caller("1"), "append", arguments).unwrap();
    assert_eq!((again, meta.is_replayed), (first, true), "after a restart");
}

#[test]
fn a_refused_request_can_be_corrected_and_sent_again() {
    let space = TestSpace::new();
    let write = |content: Value| request(&space, &caller("1"), "write", json!({ "path": "a.md", "content": content }));
    assert_eq!(write(json!(7)).unwrap_err().kind(), Kind::Invalid);
    assert!(!write(json!("# A\n")).unwrap().1.is_replayed);
    assert!(write(json!("# A\n")).unwrap().1.is_replayed);
}

#[test]
fn a_dry_run_does_not_use_up_its_id() {
    let space = TestSpace::new();
    let write = |dry_run: bool| {
        let arguments = json!({ "path": "a.md", "content": "# A\n", "dry_run": dry_run });
        request(&space, &caller("1"), "write", arguments).unwrap().1.is_replayed
    };
    assert_eq!([write(true), write(true), write(false), write(false)], [false, false, false, true]);
}

#[test]
fn a_lost_answer_is_made_from_the_log() {
    let space = TestSpace::new();
    let arguments = json!({ "path": "log.md", "content": "one" });
    let (first, _) = request(&space, &caller("1"), "append", arguments.clone()).unwrap();
    let files = json!({ "files": [{ "path": "a.md", "content": "a" }, { "path": "b.md", "content": "b" }] });
    request(&space, &caller("2"), "bulk_write", files.clone()).unwrap();
    request(&space, &caller("3"), "delete", json!({ "path": "b.md" })).unwrap();
    // The server was killed before it stored the answers.
    let space = space.again_after(|root| {
        for suffix in ["", "-wal", "-shm"] {
            let _missing = std::fs::remove_file(root.join(format!(".svc/state/requests.db{suffix}")));
        }
    });
    let (again, meta) = request(&space, &caller("1"), "append", arguments).unwrap();
    assert!(meta.is_replayed && meta.notes[0].contains("from the log"), "{meta:?}");
    assert_eq!((&again["path"], &again["etag"]), (&first["path"], &first["etag"]));
    let refused = request(&space, &caller("1"), "append", json!({ "path": "log.md", "content": "two" })).unwrap_err();
    assert_eq!(refused.kind(), Kind::Rejected);
    let done = request(&space, &caller("2"), "bulk_write", files).unwrap_err();
    assert_eq!((done.kind(), &done.detail()["paths"]), (Kind::Conflict, &json!(["a.md", "b.md"])), "{done}");
    let (again, _) = request(&space, &caller("3"), "delete", json!({ "path": "b.md" })).unwrap();
    assert_eq!(again["deleted"], "b.md");
    assert_eq!(text(&space, "log.md"), "one");
}

#[test]
fn an_id_is_forgotten_after_a_day() {
    let space = TestSpace::new();
    let arguments = json!({ "path": "log.md", "content": "one" });
    request(&space, &caller("1"), "append", arguments.clone()).unwrap();
    let day = (0..LIFETIME.as_secs()).map(|_| space.server().now()).last();
    assert!(day.is_some());
    assert!(!request(&space, &caller("1"), "append", arguments).unwrap().1.is_replayed);
}
