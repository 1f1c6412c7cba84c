use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use svcfs_base::Kind;

use super::test_space::TestSpace;
use crate::CATALOGUE;

#[test]
fn a_space_keeps_its_state_out_of_its_history() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    assert!(svcfs_store::StatePaths::of(space.root()).index().is_file());
    let changes = space.get("changes", json!({}));
    assert!(!changes.to_string().contains("index.db"), "{changes}");
}

#[test]
fn no_input_makes_an_operation_fail_inside() {
    let space =
        TestSpace::with("", &[("a.md", "---\ntitle: [\n---\n[[a]] [b](../../b) ```\n"), ("d/b.bin", "\u{0}\u{1}")]);
    let long = "x/".repeat(3000);
    let values = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(true),
        json!([]),
        json!({}),
        json!(""),
        json!("a.md"),
        json!("d"),
        json!("d/b.bin"),
        json!("../a.md"),
        json!("\u{0}"),
        json!("%2e%2e/%00"),
        json!("a.md/b"),
        json!(".git/config"),
        json!("\"(((* NEAR"),
        json!("[[a|b]]#c"),
        json!("$.a[*]=\u{0}'; DROP"),
        json!("0000"),
        json!("x".repeat(300)),
        json!(long),
        json!(["a.md", "\u{7f}"]),
        json!([{ "path": "x/../y", "content": "z" }]),
        json!([{ "path": "a.md", "content": "z", "if_match": "*" }]),
    ];
    for entry in CATALOGUE.iter().flat_map(|area| area.operations) {
        let schema = (entry.input)(&mut SchemaGenerator::default());
        let names: Vec<String> =
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
        for value in &values {
            for name in &names {
                let mut arguments =
                    json!({ "path": "a.md", "q": "a", "where": "$.a=1", "from": "a.md", "to": "a.md", "content": "" });
                arguments[name] = value.clone();
                if let Err(fault) = space.ask(entry.name, arguments) {
                    let is_ours = matches!(fault.kind(), Kind::Internal | Kind::Unavailable);
                    assert!(!is_ours, "`{}` with `{name}` = {value}: {fault:?}", entry.name);
                }
            }
        }
    }
}
