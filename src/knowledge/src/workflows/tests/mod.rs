mod changes;

use serde_json::{Value, json};
use svcfs_base::{Caller, Change, Protocol};

use super::{WorkflowDefinition, read_definition};
use crate::spaces::test_space::{TestSpace, path};

/// The definition of most tests, as a file.
const TASKS: &str = r#"{
  "states": [{ "name": "backlog" }, { "name": "in_progress", "wip_limit": 2 }, { "name": "done", "terminal": true }],
  "transitions": [
    { "from": "backlog", "to": "in_progress" }, { "from": "in_progress", "to": "backlog" },
    { "from": "in_progress", "to": "done" }
  ]
}"#;

#[test]
fn a_definition_that_is_not_valid_names_its_field() {
    let states = |states: Value, transitions: Value| json!({ "states": states, "transitions": transitions });
    for (definition, why) in [
        (json!(["w", [{ "name": "a" }], []]), "must be a JSON object"),
        (json!({ "states": [] }), "missing field `transitions`"),
        (states(json!([]), json!([])), "`states`: at least one state is required"),
        (states(json!([{ "name": " " }]), json!([])), "`states[0]`: `name` must not be empty"),
        (states(json!([{ "name": "a/b" }]), json!([])), "`states[0]`: `name`: "),
        (states(json!([{ "name": ".." }]), json!([])), "`states[0]`: `name`: "),
        (states(json!([{ "name": "a\u{0}" }]), json!([])), "`states[0]`: `name`: "),
        (states(json!([{ "name": "x".repeat(300) }]), json!([])), "`states[0]`: `name`: "),
        (states(json!([{ "name": ".refused" }]), json!([])), "begins with a dot"),
        (states(json!([{ "name": "__unmatched__" }]), json!([])), "is reserved"),
        (states(json!([{ "name": 7 }]), json!([])), "`states[0].name`: invalid type"),
        (states(json!(["a"]), json!([])), "`states[0]`: invalid type: string \"a\", expected an object with `name`"),
        (states(json!([{ "name": "a", "wip_limt": 1 }]), json!([])), "unknown field `wip_limt`"),
        (states(json!([{ "name": "a", "wip_limit": 0 }]), json!([])), "`wip_limit` must be at least 1"),
        (states(json!([{ "name": "a b" }, { "name": "A  B" }]), json!([])), "are the same name"),
        (
            states(json!([{ "name": "a" }]), json!([{ "from": "a", "to": "b" }])),
            "`transitions[0].to`: `b` is not a state",
        ),
        (
            states(
                json!([{ "name": "a" }, { "name": "b", "terminal": true }]),
                json!([{ "from": "a", "to": "b" }, { "from": "b", "to": "a" }]),
            ),
            "`transitions[1].from`: `b` is a terminal state",
        ),
        (
            states(
                json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }]),
                json!([{ "from": "b", "to": "c" }, { "from": "c", "to": "b" }]),
            ),
            "`b`, `c` cannot be reached from `a`",
        ),
    ] {
        let fault = WorkflowDefinition::parse("w", definition.to_string().as_bytes()).unwrap_err();
        assert_eq!(fault.kind().http(), 400, "{definition}");
        assert!(fault.message().starts_with("workflow `w`: ") && fault.message().contains(why), "{}", fault.message());
    }
    for text in ["", "{", "{} {}", "\u{feff}{}", "nul"] {
        assert_eq!(WorkflowDefinition::parse("w", text.as_bytes()).unwrap_err().kind().http(), 400, "{text}");
    }
    let long = " ".repeat((1 << 20) + 1);
    assert_eq!(WorkflowDefinition::parse("w", long.as_bytes()).unwrap_err().kind().http(), 413);
}

#[test]
fn a_large_definition_is_checked_in_linear_time() {
    let states: Vec<Value> = (0..8_000).map(|n| json!({ "name": format!("s{n}") })).collect();
    let transitions: Vec<Value> =
        (1..8_000).map(|n| json!({ "from": format!("s{}", n - 1), "to": format!("s{n}") })).collect();
    let text = json!({ "states": states, "transitions": transitions }).to_string();
    let started = std::time::Instant::now();
    assert_eq!(WorkflowDefinition::parse("w", text.as_bytes()).unwrap().states.len(), 8_000);
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

#[test]
fn states_are_found_in_any_case() {
    let definition = WorkflowDefinition::parse("tasks", TASKS.as_bytes()).unwrap();
    for name in ["in_progress", "In_Progress", " IN_progress  "] {
        assert_eq!(definition.state(name).unwrap().name, "in_progress", "{name}");
    }
    assert!(definition.state("in progress").is_none());
    assert_eq!(definition.targets("in_progress"), ["backlog", "done"]);
    assert_eq!(definition.first_state().unwrap().name, "backlog");
    let again = WorkflowDefinition::parse("tasks", definition.to_text().unwrap().as_bytes()).unwrap();
    assert_eq!(again, definition);
}

#[test]
fn a_definition_written_as_a_file_is_validated() {
    let space = TestSpace::new();
    let vfs = &space.space().vfs;
    let put = |protocol, name: &str, text: &str| {
        vfs.apply(&Caller::new(protocol), Change::put(path(name), text.to_owned())).map(drop)
    };
    for protocol in [Protocol::Fuse, Protocol::WebDav, Protocol::Nfs, Protocol::S3, Protocol::Cli] {
        for (name, text) in [("bad", "{}"), ("no\u{e9}", TASKS), ("a.b", TASKS), ("x/y", TASKS)] {
            let fault = put(protocol, &format!(".svc/workflows/{name}.json"), text).unwrap_err();
            assert_eq!((fault.kind().http(), fault.kind().errno()), (400, 22), "{protocol:?} {name}");
        }
        put(protocol, ".svc/workflows/tasks.json", TASKS).unwrap();
        put(protocol, ".svc/workflows/README", "not a definition").unwrap();
    }
    assert_eq!(read_definition(vfs, "tasks").unwrap().name, "tasks");
    assert_eq!(read_definition(vfs, "gone").unwrap_err().kind().http(), 404);
    assert_eq!(read_definition(vfs, "../tasks").unwrap_err().kind().http(), 400);
    // A direct edit is not refused, and reported where it is read.
    space.edit_behind(".svc/workflows/tasks.json", "{");
    let fault = read_definition(vfs, "tasks").unwrap_err();
    assert!(fault.message().starts_with("workflow `tasks`: EOF"), "{}", fault.message());
}
