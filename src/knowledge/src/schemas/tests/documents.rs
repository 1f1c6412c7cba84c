//! Which documents are schemas.

use bytes::Bytes;
use serde_json::{Value, json};
use svcfs_base::{Caller, Change, Kind, Limit, Precondition, Protocol};

use crate::kernel::Operation;
use crate::metrics::{MetricsAudience, readiness_report};
use crate::schemas::SchemaRegistry;
use crate::schemas::operations::GetSchema;
use crate::spaces::test_space::{TestSpace, path};

fn check(document: &Value) -> Result<(), (Kind, String)> {
    let checked = SchemaRegistry::default().check("x", &Bytes::from(document.to_string()));
    checked.map_err(|fault| (fault.kind(), fault.message().to_owned()))
}

#[test]
fn both_dialects_and_local_references_are_accepted() {
    for document in [
        json!({}),
        json!(true),
        json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [true] }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "definitions": { "a": { "$id": "#a" } },
                "properties": { "b": { "$ref": "#a" } } }),
        json!({ "$id": "https://example.com/task", "$defs": { "a": {} }, "$ref": "#/$defs/a" }),
        json!({ "$defs": { "a": { "$anchor": "a" } }, "$ref": "#a" }),
        json!({ "properties": { "enum": { "$ref": "#" }, "$ref": { "type": "string" } } }),
        json!({ "enum": [{ "$ref": "https://example.com/no-reference" }] }),
        // Recursive ones, also without progress.
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" }),
        json!({ "properties": { "child": { "$ref": "#" } } }),
    ] {
        assert_eq!(check(&document), Ok(()), "{document}");
    }
}

#[test]
fn an_unusable_document_is_refused_with_its_reason() {
    let deep = |levels: usize, inside: Value| (0..levels).fold(inside, |schema, _| json!({ "not": schema }));
    for (document, reason) in [
        (json!([1]), "it must be a JSON object"),
        (json!("text"), "it must be a JSON object"),
        (json!({ "type": "nosuch" }), "`/type`: \"nosuch\" is not"),
        (json!({ "required": "title" }), "`/required`: "),
        (json!({ "properties": { "a": { "pattern": "(" } } }), "`/properties/a/pattern`: "),
        (
            json!({ "properties": { "a": { "$ref": "https://example.com/a.json" } } }),
            "`https://example.com/a.json` leaves",
        ),
        (json!({ "$ref": "file:///etc/passwd" }), "`file:///etc/passwd` leaves"),
        (json!({ "$ref": "/etc/passwd.json" }), "`/etc/passwd.json` leaves"),
        (json!({ "$ref": "../config.json" }), "`../config.json` leaves"),
        (json!({ "$ref": "%2e%2e/config.json" }), "`%2e%2e/config.json` leaves"),
        (json!({ "allOf": [{ "$dynamicRef": "//example.com/a.json#x" }] }), "leaves"),
        (json!({ "$ref": "other.json#/$defs/a" }), "the reference `other.json` has no target"),
        (json!({ "$ref": "#/$defs/missing" }), "missing"),
        (json!({ "$schema": "http://json-schema.org/draft-04/schema#" }), "`$schema` is"),
        (json!({ "$schema": "https://example.com/own" }), "`$schema` is"),
        (json!({ "$schema": 7 }), "`$schema` is"),
        (
            json!({ "$defs": { "a": deep(70, json!({})) }, "not": deep(70, json!({ "$ref": "#/$defs/a" })) }),
            "levels deep",
        ),
    ] {
        let Err((kind, message)) = check(&document) else { panic!("accepted: {document}") };
        assert_eq!(kind, Kind::Invalid, "{document}");
        assert!(message.starts_with("schema `x` is not usable: ") && message.contains(reason), "{document}: {message}");
    }
    let (kind, message) = check(&json!({ "title": "x".repeat(1 << 20) })).unwrap_err();
    assert!(kind == Kind::TooLarge && message.contains("262144"), "{message}");
    let fault = SchemaRegistry::default().check("x", &Bytes::from_static(b"{ \"a\": ")).unwrap_err();
    assert!(fault.message().contains("it is not JSON"), "{fault}");
    let nested = "[".repeat(200_000);
    assert_eq!(SchemaRegistry::default().check("x", &Bytes::from(nested)).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn references_that_multiply_or_lead_too_far_are_refused() {
    let chain = |length: usize, is_doubled: bool| {
        let link = |at: usize| json!({ "$ref": format!("#/$defs/a{}", at + 1) });
        let part = |at: usize| if is_doubled { json!({ "allOf": [link(at), link(at)] }) } else { link(at) };
        let mut parts: serde_json::Map<String, Value> = (0..length).map(|at| (format!("a{at}"), part(at))).collect();
        parts.insert(format!("a{length}"), json!({ "type": "object" }));
        json!({ "$ref": "#/$defs/a0", "$defs": parts })
    };
    assert_eq!(check(&chain(10, true)), Ok(()));
    assert_eq!(check(&chain(20, false)), Ok(()));
    assert!(check(&chain(30, true)).unwrap_err().1.contains("parts"));
    assert!(check(&chain(40, false)).unwrap_err().1.contains("lead to each other"));
    assert!(check(&chain(2_000, false)).is_err());
}

#[test]
fn names_that_are_paths_are_refused() {
    let space = TestSpace::new();
    for name in ["", "a/b", "../a", ".", "a.b", "ä", "a b", "a\0", &"x".repeat(300)] {
        for operation in ["schemas_get", "schemas_save", "schemas_delete"] {
            let arguments = json!({ "type": name, "schema": "{}" });
            let mut arguments = arguments.as_object().unwrap().clone();
            if operation != "schemas_save" {
                arguments.remove("schema");
            }
            assert_eq!(space.refusal(operation, arguments.into()).0, 400, "{operation} {name:?}");
        }
    }
    for path in [".svc/schemas/a b.json", ".svc/schemas/..json"] {
        assert_eq!(space.refusal("write", json!({ "path": path, "content": "{}" })).0, 400, "{path}");
    }
    assert_eq!(space.get("schemas_list", json!({})), json!([]));
}

#[test]
fn a_schema_may_refer_to_others_and_follows_their_changes() {
    let space = TestSpace::with("[schema]\nenforce = true\n", &[]);
    let save =
        |name: &str, schema: Value| space.ask("schemas_save", json!({ "type": name, "schema": schema.to_string() }));
    let task = json!({ "properties": { "owner": { "$ref": "people.json#/$defs/name" } } });
    assert_eq!(save("task", task.clone()).unwrap_err().kind(), Kind::Invalid);
    save("people", json!({ "$defs": { "name": { "enum": ["ann"] } } })).unwrap();
    save("task", task).unwrap();
    let write = |owner: &str| {
        let content = format!("---\ntype: task\nowner: {owner}\n---\n");
        space.ask("write", json!({ "path": "a.md", "content": content })).map(drop).map_err(|fault| fault.kind())
    };
    assert_eq!((write("ann"), write("bob")), (Ok(()), Err(Kind::Rejected)));
    save("people", json!({ "$defs": { "name": { "enum": ["bob"] } } })).unwrap();
    assert_eq!((write("ann"), write("bob")), (Err(Kind::Rejected), Ok(())));
    // A schema that lost its target checks nothing, and says so.
    space.get("schemas_delete", json!({ "type": "people", "force": true }));
    assert_eq!(write("eve"), Ok(()));
    let issues = space.get("lint", json!({ "path": "a.md" }));
    assert_eq!(
        (&issues["issues"][0]["rule"], &issues["issues"][0]["severity"]),
        (&json!("schema-violation"), &json!("warning"))
    );
    assert!(issues["issues"][0]["message"].as_str().unwrap().contains("people.json"), "{issues}");
}

#[test]
fn a_schema_stays_usable_for_those_that_refer_to_it() {
    let space = TestSpace::new();
    let save = |name: &str, schema: Value, force: bool| {
        space.ask("schemas_save", json!({ "type": name, "schema": schema.to_string(), "force": force }))
    };
    let people = json!({ "$defs": { "name": { "type": "string" } } });
    save("people", people.clone(), false).unwrap();
    save("task", json!({ "properties": { "owner": { "$ref": "people.json#/$defs/name" } } }), false).unwrap();
    save("bug", json!({ "$ref": "task.json" }), false).unwrap();
    save("free", json!({}), false).unwrap();
    let delete = |name: &str, force: bool| space.ask("schemas_delete", json!({ "type": name, "force": force }));
    for (refused, names) in [
        (delete("people", false), json!(["bug", "task"])),
        (save("people", json!({}), false), json!(["bug", "task"])),
        (delete("task", false), json!(["bug"])),
    ] {
        let fault = refused.unwrap_err();
        assert_eq!((fault.kind(), fault.detail().get("schemas")), (Kind::NotAllowed, Some(&names)), "{fault}");
        assert!(fault.message().contains("`bug`") && fault.message().contains("force"), "{fault}");
    }
    let people_file = || path(".svc/schemas/people.json");
    let moved = |to| Change::Move { from: people_file(), to: path(to), precondition: Precondition::Any };
    for protocol in [Protocol::Fuse, Protocol::WebDav, Protocol::S3, Protocol::Nfs] {
        for change in [
            Change::put(people_file(), "{}"),
            Change::remove(people_file()),
            moved(".svc/schemas/persons.json"),
            moved("people.json"),
            moved(".svc/schemas/people.json~"),
        ] {
            let applied = space.space().vfs.apply(&Caller::new(protocol), change.clone());
            assert_eq!(applied.unwrap_err().kind(), Kind::NotAllowed, "{protocol:?}: {change:?}");
        }
    }
    // What does not concern the others is allowed.
    save("people", json!({ "$defs": { "name": { "type": "string" }, "age": {} } }), false).unwrap();
    delete("free", false).unwrap();
    let problems = || {
        let report = readiness_report(space.server(), space.space(), MetricsAudience::Operator);
        report.details.unwrap().problems.into_iter().map(|problem| problem.component).collect::<Vec<_>>()
    };
    assert_eq!(problems(), Vec::<String>::new());
    delete("people", true).unwrap();
    assert_eq!(problems(), ["schema bug", "schema task"]);
    let caller = Caller::new(Protocol::Http);
    let cx = space.cx(&caller);
    GetSchema { name: "bug".to_owned(), violations: false, limit: Limit::default(), offset: 0 }.run(&cx).unwrap();
    let notes = cx.response_meta().notes;
    assert!(notes.iter().any(|note| note.contains("is not usable")), "{notes:?}");
    assert_eq!(space.refusal("schemas_get", json!({ "type": "bug", "violations": true })).0, 400);
    // It protects nothing that is broken already.
    save("people", people, false).unwrap();
    assert_eq!(problems(), Vec::<String>::new());
    delete("bug", false).unwrap();
    delete("task", false).unwrap();
    delete("people", false).unwrap();
}
