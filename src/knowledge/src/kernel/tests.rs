use std::collections::BTreeSet;

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Caller, Fault, Kind, Precondition, Protocol, TreePath};

use super::*;
use crate::CATALOGUE;
use crate::spaces::test_space::TestSpace;

/// Greet a page
#[derive(Deserialize, JsonSchema)]
struct Greet {
    path: TreePath,
    #[serde(default)]
    loudly: bool,
    #[serde(default)]
    others: Vec<Other>,
    #[serde(default)]
    times: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Other {
    path: TreePath,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Greeting {
    text: String,
}

impl Operation for Greet {
    const NAME: &'static str = "greet";
    const HTTP: &'static [Route] = &[Route::get("/greet").text("text", "text/plain"), Route::post("/greet").created()];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("page", "path")];
    type Output = Greeting;
    fn run(self, _: &OperationContext<'_>) -> Result<Greeting, Fault> {
        let mark = if self.loudly { "!" } else { "." };
        let names: Vec<&str> = self.others.iter().map(|other| other.path.as_str()).collect();
        let text = format!("hello {} and {names:?}{mark}", self.path).repeat(self.times.max(1));
        Ok(Greeting { text })
    }
    fn render_text(greeting: &Greeting) -> Option<String> {
        Some(greeting.text.to_uppercase())
    }
}

const TABLE: &[OperationEntry] = &[OperationEntry::new::<Greet>()];

fn read(arguments: serde_json::Value) -> Result<Greet, Fault> {
    arguments::resolve_aliases(arguments, Greet::ALIASES).and_then(arguments::read)
}

fn refusal(arguments: serde_json::Value) -> Fault {
    read(arguments).err().unwrap()
}

#[test]
fn an_erased_operation_keeps_its_declaration() {
    let entry = TABLE[0];
    assert_eq!((entry.name, entry.tool), ("greet", true));
    assert_eq!((entry.method(), entry.http[1].success_status), (HttpMethod::Get, 201));
    let mut generator = SchemaGenerator::default();
    let input = (entry.input)(&mut generator);
    assert_eq!(input.get("description"), Some(&json!("Greet a page")));
    assert_eq!(input.get("required"), Some(&json!(["path"])));
    assert!((entry.output)(&mut generator).get("$ref").is_some());
    assert!(generator.definitions().contains_key("Other") && generator.definitions().contains_key("Greeting"));
}

#[test]
fn a_refused_input_names_its_field() {
    for (arguments, message) in [
        (json!({}), "path is required"),
        (json!({"path": "a.md", "others": [{"path": "b"}, {}]}), "others[1].path is required"),
        (
            json!({"path": "a.md", "others": [{"path": "b", "pth": 1}]}),
            "`others[0].pth`: unknown field; valid fields: `path`",
        ),
        (json!({"path": "../a.md"}), "path denied: `..` in `..`"),
        (json!({"path": "a", "others": [{"path": "../a"}]}), "`others[0].path`: path denied: `..` in `..`"),
        (json!({"path": "a.md", "loudly": "yes"}), "`loudly`: invalid type: string \"yes\", expected true or false"),
        (
            json!({"path": "a.md", "times": -1}),
            "`times`: invalid value: integer `-1`, expected a whole number, 0 or more",
        ),
        (json!({"path": "a.md", "others": 1}), "`others`: invalid type: integer `1`, expected a list"),
        (json!({"path": "a.md", "page": "b.md"}), "`page`: is an alias of `path`; use only one of them"),
    ] {
        let fault = refusal(arguments);
        assert_eq!((fault.kind(), fault.message()), (Kind::Invalid, message));
    }
}

#[test]
fn an_input_may_come_under_its_other_name() {
    let greet: Greet = read(json!({"page": "a.md"})).unwrap();
    assert_eq!(greet.path.as_str(), "a.md");
}

/// Change several pages
#[derive(Deserialize, JsonSchema)]
struct Several {}

impl Operation for Several {
    const NAME: &'static str = "several";
    const HTTP: &'static [Route] = &[Route::post("/several")];
    type Output = Greeting;
    fn run(self, _: &OperationContext<'_>) -> Result<Greeting, Fault> {
        Ok(Greeting { text: "done".to_owned() })
    }
}

/// Shows: COND-4
#[test]
fn a_condition_that_cannot_be_held_is_refused_and_never_ignored() {
    let space = TestSpace::new();
    let ask = |entry: &OperationEntry, expect: Precondition| {
        let caller = Caller { precondition: expect, ..Caller::new(Protocol::Http) };
        (entry.call)(json!({"path": "a.md"}), &space.cx(&caller))
    };
    let several = OperationEntry::new::<Several>();
    let fault = ask(&several, Precondition::Present).unwrap_err();
    assert!(fault.kind() == Kind::Invalid && fault.message().starts_with("`If-Match`: `several` "), "{fault}");
    assert_eq!(ask(&several, Precondition::Any).unwrap(), json!({"text": "done"}));
    assert!(ask(&TABLE[0], Precondition::Present).is_ok(), "a question has nothing to lose");
}

#[test]
fn an_output_is_described_in_text_beside_its_json() {
    let space = TestSpace::new();
    let caller = Caller::new(Protocol::Mcp);
    let told = (TABLE[0].call_for_agent)(json!({"path": "a"}), &space.cx(&caller)).unwrap();
    assert_eq!((told.output, told.text.unwrap()), (json!({"text": "hello a and []."}), "HELLO A AND [].".to_owned()));
    assert_eq!((OperationEntry::new::<Several>().call_for_agent)(json!({}), &space.cx(&caller)).unwrap().text, None);
}

fn entries() -> impl Iterator<Item = &'static OperationEntry> {
    CATALOGUE.iter().flat_map(|area| area.operations)
}

#[test]
fn operations_and_routes_are_unique() {
    let (mut names, mut routes) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries() {
        assert!(names.insert(entry.name), "two operations are named `{}`", entry.name);
        for route in entry.http {
            let key = (route.path, route.method);
            assert!(routes.insert(key), "two operations are at {key:?}");
        }
    }
}

#[test]
fn every_operation_has_a_manual_and_an_object_of_inputs() {
    for entry in entries() {
        let schema = (entry.input)(&mut SchemaGenerator::default());
        assert_eq!(schema.get("type"), Some(&json!("object")), "{entry:?}");
        let manual = schema.get("description").and_then(|text| text.as_str()).unwrap_or_default();
        let summary = manual.lines().next().unwrap_or_default();
        assert!(!summary.is_empty() && !summary.ends_with('.'), "{entry:?}: summary `{summary}`");
        for field in schema.get("required").and_then(|names| names.as_array()).into_iter().flatten() {
            let described = schema.pointer(&format!("/properties/{}/description", field.as_str().unwrap()));
            assert!(described.is_some(), "{entry:?}: `{field}` is not described");
        }
    }
}

#[test]
fn what_a_route_names_exists_in_the_schemas() {
    for entry in entries() {
        let input = (entry.input)(&mut SchemaGenerator::default());
        let has_input = |name: &str| input.pointer(&format!("/properties/{name}")).is_some();
        let mut outputs = SchemaGenerator::default();
        let output = (entry.output)(&mut outputs);
        let name = output.get("$ref").and_then(|target| target.as_str()?.rsplit('/').next()).unwrap_or_default();
        let has_output = |name_of_field: &str| {
            let definition = outputs.definitions().get(name);
            definition.is_some_and(|output| output.pointer(&format!("/properties/{name_of_field}")).is_some())
        };
        for (other, own) in entry.aliases {
            assert!(has_input(own) && !has_input(other), "{entry:?}: `{other}` cannot mean `{own}`");
        }
        for route in entry.http {
            assert!(route.path.starts_with('/'), "{entry:?}: {}", route.path);
            for parameter in route.path.split(['{', '}']).skip(1).step_by(2) {
                assert!(has_input(parameter), "{entry:?}: no input for `{{{parameter}}}`");
            }
            for name in route.query_inputs {
                assert!(has_input(name), "{entry:?}: no input `{name}` for the query");
            }
            if let BodyKind::Raw(field) = route.body {
                assert!(has_input(field), "{entry:?}: no input `{field}` for the body");
            }
            if let Some((mime, input)) = route.media_flag {
                assert!(has_input(input), "{entry:?}: no input `{input}` for {mime}");
            }
            let answers = route.text_field.map(|(field, _)| field).into_iter().chain(route.json_fallback);
            for field in answers.chain(route.headers.iter().map(|(field, _)| *field)) {
                assert!(has_output(field), "{entry:?}: no output `{field}` for the answer");
            }
        }
        assert!(entry.tool || !entry.http.is_empty(), "{entry:?} cannot be reached");
    }
}

#[test]
fn null_equals_an_absent_argument() {
    let greeting = read(json!({ "path": "a.md", "loudly": null, "others": null, "times": null })).unwrap();
    assert_eq!((greeting.loudly, greeting.others.len(), greeting.times), (false, 0, 0));
    assert_eq!(refusal(json!({ "path": null })).message(), "path is required");
    assert!(refusal(json!({ "path": "a.md", "loudly": null, "times": -1 })).message().starts_with("`times`"));
}
