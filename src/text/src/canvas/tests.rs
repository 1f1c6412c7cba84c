use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::*;
use crate::Link;
use crate::links::{PageMove, RetargetContext};

const OBSIDIAN: &str = "{\n\t\"nodes\":[\n\t\t{\"id\":\"a\",\"type\":\"text\",\"text\":\"See [[Boat]] \\u00e9\",\"x\":-10,\"y\":1.50,\"width\":250,\"height\":60,\"styleAttributes\":{}},\n\t\t{\"id\":\"b\",\"type\":\"file\",\"file\":\"notes/Boat.md\",\"subpath\":\"#Hull\",\"x\":1e2,\"y\":0,\"width\":400,\"height\":400},\n\t\t{\"id\":\"c\",\"type\":\"group\",\"label\":\"All\",\"background\":\"sea.png\",\"x\":0,\"y\":0,\"width\":9,\"height\":9}\n\t],\n\t\"edges\":[\n\t\t{\"id\":\"e1\",\"fromNode\":\"a\",\"fromSide\":\"right\",\"toNode\":\"b\",\"toSide\":\"left\"},\n\t\t{\"id\":\"e2\",\"fromNode\":\"b\",\"toNode\":\"c\"}\n\t],\n\t\"metadata\":{\"version\":\"1.0-1.0\",\"frontmatter\":{}}\n}";

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn edited(text: &str, edit: impl FnOnce(&mut CanvasEditor<'_>)) -> String {
    let canvas = Canvas::parse(text).unwrap();
    let mut editor = CanvasEditor::new(&canvas);
    edit(&mut editor);
    editor.into_text()
}

#[test]
fn an_edit_leaves_every_other_byte_as_it_is() {
    use ListKind::{Edges, Nodes};
    assert_eq!(edited(OBSIDIAN, |_| ()), OBSIDIAN);
    let moved = edited(OBSIDIAN, |editor| editor.update(Nodes, "b", object(json!({ "x": 7, "color": "1" }))).unwrap());
    assert_eq!(
        moved,
        OBSIDIAN.replace("\"x\":1e2", "\"x\":7").replace("\"height\":400", "\"height\":400,\"color\":\"1\"")
    );
    let same = edited(OBSIDIAN, |editor| editor.update(Nodes, "b", object(json!({ "x": 100.0 }))).unwrap());
    assert_eq!(same, OBSIDIAN, "an equal value stays as written");
    let added = edited(OBSIDIAN, |editor| editor.add(Nodes, object(json!({ "id": "d", "x": 1 }))).unwrap());
    assert_eq!(added, OBSIDIAN.replace("\"height\":9}", "\"height\":9},\n\t\t{\"id\":\"d\",\"x\":1}"));
    let removed = edited(OBSIDIAN, |editor| editor.remove(Edges, "e1").unwrap());
    let line = "\t\t{\"id\":\"e1\",\"fromNode\":\"a\",\"fromSide\":\"right\",\"toNode\":\"b\",\"toSide\":\"left\"},\n";
    assert_eq!(removed, OBSIDIAN.replace(line, ""));
    let all = edited(OBSIDIAN, |editor| {
        editor.remove(Nodes, "b").unwrap();
        let (nodes, edges) = editor.counts();
        assert_eq!((nodes.removed, edges.removed), (1, 2));
    });
    assert!(all.contains("\"edges\":[],\n\t\"metadata\""), "{all}");
}

#[test]
fn edits_are_written_in_the_style_of_the_document() {
    let node = json!({ "id": "n", "x": 1, "y": 2 });
    let add = |text: &str| edited(text, |editor| editor.add(ListKind::Nodes, object(node.clone())).unwrap());
    let line = r#"{"id":"n","x":1,"y":2}"#;
    for (before, after) in [
        ("", format!("{{\n\t\"nodes\":[\n\t\t{line}\n\t],\n\t\"edges\":[]\n}}")),
        ("{}", format!("{{\n\t\"nodes\":[\n\t\t{line}\n\t],\n\t\"edges\":[]\n}}")),
        (r#"{"nodes":[],"edges":[]}"#, format!(r#"{{"nodes":[{line}],"edges":[]}}"#)),
        (r#"{"edges":[], "a": 1 }"#, format!(r#"{{"edges":[], "a": 1,"nodes":[{line}] }}"#)),
        (
            "{\r\n  \"nodes\": [],\r\n  \"edges\": []\r\n}\r\n",
            format!("{{\r\n  \"nodes\": [\r\n    {line}\r\n  ],\r\n  \"edges\": []\r\n}}\r\n"),
        ),
        (r#"{"nodes":[ {"id":"o"} ],"edges":[]}"#, format!(r#"{{"nodes":[ {{"id":"o"}}, {line} ],"edges":[]}}"#)),
    ] {
        assert_eq!(add(before), after, "{before}");
    }
    let pretty = "{\n  \"nodes\": [\n    {\n      \"id\": \"o\",\n      \"x\": 1\n    }\n  ],\n  \"edges\": []\n}";
    let colored = edited(pretty, |editor| {
        editor.update(ListKind::Nodes, "o", object(json!({ "color": "2" }))).unwrap();
    });
    assert_eq!(colored, pretty.replace("\"x\": 1", "\"x\": 1,\n      \"color\": \"2\""));
}

#[test]
fn each_refused_edit_has_a_reason() {
    use ListKind::{Edges, Nodes};
    let text = OBSIDIAN.replace("\"id\":\"c\"", "\"id\":\"a\"");
    let canvas = Canvas::parse(&text).unwrap();
    let mut editor = CanvasEditor::new(&canvas);
    let mut refused = |kind, id: Option<&str>, members: Value| match (id, members) {
        (None, members) => editor.add(kind, object(members)),
        (Some(id), Value::Null) => editor.remove(kind, id),
        (Some(id), members) => editor.update(kind, id, object(members)),
    };
    for (kind, id, members, reason) in [
        (Nodes, None, json!({}), "`id` is required and must be a text"),
        (Nodes, None, json!({ "id": "b" }), "the id `b` is already used by another node"),
        (Nodes, None, json!({ "id": "n", "x": "1" }), "`x` must be a number"),
        (Edges, None, json!({ "id": "n", "fromNode": "b" }), "`toNode` is required and must be a text"),
        (
            Edges,
            None,
            json!({ "id": "n", "fromNode": "b", "toNode": "z" }),
            "`toNode` is `z`, but there is no such node",
        ),
        (Nodes, Some("z"), Value::Null, "there is no node `z`"),
        (Nodes, Some("a"), Value::Null, "the canvas has several nodes with the id `a`"),
        (Nodes, Some("b"), json!({ "id": "q" }), "the id cannot be changed; remove the element and add another one"),
        (Edges, Some("e1"), json!({ "toNode": "z" }), "`toNode` is `z`, but there is no such node"),
        (Edges, Some("e1"), json!({ "toNode": null }), "`toNode` is required and must be a text"),
    ] {
        let error = refused(kind, id, members.clone()).expect_err(reason);
        assert_eq!(error.to_string(), reason, "{id:?} {members}");
    }
}

#[test]
fn a_later_edit_sees_the_earlier_ones() {
    use ListKind::{Edges, Nodes};
    let text = edited(OBSIDIAN, |editor| {
        editor.add(Nodes, object(json!({ "id": "d" }))).unwrap();
        editor.add(Edges, object(json!({ "id": "e3", "fromNode": "d", "toNode": "a" }))).unwrap();
        editor.update(Edges, "e2", object(json!({ "fromNode": "d" }))).unwrap();
        editor.update(Nodes, "d", object(json!({ "x": 3 }))).unwrap();
        editor.remove(Nodes, "b").unwrap();
        assert_eq!(editor.counts().1, EditCounts { added: 1, updated: 1, removed: 1 }, "e2 no longer ends at b");
        editor.add(Nodes, object(json!({ "id": "b" }))).unwrap();
    });
    let canvas = Canvas::parse(&text).unwrap();
    canvas.check().unwrap();
    let ids = |elements: &[Element<'_>]| elements.iter().filter_map(Element::id).collect::<Vec<_>>().join(" ");
    assert_eq!((ids(canvas.nodes()).as_str(), ids(canvas.edges()).as_str()), ("a c d b", "e2 e3"));
}

#[test]
fn hostile_documents_are_refused_with_the_field() {
    let deep = format!(r#"{{"nodes":[{{"id":"a","q":{}1{}}}],"edges":[]}}"#, "[".repeat(100_000), "]".repeat(100_000));
    for (text, reason) in [
        ("[]", "not a canvas: invalid type: sequence, expected a JSON object"),
        ("{", "not a canvas: EOF"),
        (r#"{"nodes":{},"edges":[]}"#, "`nodes` must be an array: invalid type: map, expected a sequence"),
        (r#"{"nodes":[1],"edges":[]}"#, "nodes[0] must be an object"),
        (r#"{"nodes":[]}"#, "`edges` is missing; it must be an array, which may be empty"),
        (r#"{"nodes":[{"id":"a"},{"id":"a"}],"edges":[]}"#, "nodes[1]: the id `a` is used twice"),
        (r#"{"nodes":[{"id":"a","x":NaN}],"edges":[]}"#, "not a canvas: expected value"),
        (r#"{"nodes":[{"id":"a","x":1e999}],"edges":[]}"#, "nodes[0]: number out of range"),
        (r#"{"nodes":[{"id":1}],"edges":[]}"#, "nodes[0]: `id` is required and must be a text"),
        (r#"{"nodes":[],"edges":[{"id":"a","fromNode":"b"}]}"#, "edges[0]: `toNode` is required and must be a text"),
        (deep.as_str(), "nodes[0]: recursion limit exceeded"),
    ] {
        let outcome = Canvas::parse(text).and_then(|canvas| canvas.check());
        let message = outcome.expect_err(reason).to_string();
        assert!(message.starts_with(reason), "{message} should start with {reason}");
    }
}

struct Moves(HashMap<&'static str, &'static str>);

impl RetargetContext for Moves {
    fn old_target(&self, link: &Link) -> Option<String> {
        match link.target.as_str() {
            "/notes/Boat.md" | "Boat" => Some("notes/Boat.md".to_owned()),
            "/sea.png" => Some("sea.png".to_owned()),
            _ => None,
        }
    }
    fn new_path(&self, path: &str) -> Option<String> {
        self.0.get(path).map(|path| (*path).to_owned())
    }
    fn resolves_to(&self, target: &str, _: &str) -> bool {
        target == "Ship"
    }
}

#[test]
fn links_are_files_backgrounds_and_links_in_texts() {
    let text = OBSIDIAN
        .replace("\"color\"", "\"c\"")
        .replace("}\n\t],\n\t\"edges", "},\n\t\t{\"id\":\"p\",\"data\":{\"path\":\"x/y.md\"}}\n\t],\n\t\"edges");
    let targets: Vec<(String, Option<String>)> =
        links(&text).into_iter().map(|link| (link.target, link.heading)).collect();
    let target = |target: &str, heading: Option<&str>| (target.to_owned(), heading.map(str::to_owned));
    assert_eq!(
        targets,
        [
            target("Boat", None),
            target("/notes/Boat.md", Some("Hull")),
            target("/sea.png", None),
            target("/x/y.md", None)
        ]
    );
    assert!(links("no canvas").is_empty());
}

#[test]
fn a_rename_changes_only_the_links() {
    let moves = Moves(HashMap::from([("notes/Boat.md", "ships/Ship.md")]));
    let (text, count) = retarget(OBSIDIAN, PageMove::in_place("a.canvas"), &moves).unwrap();
    assert_eq!(count, 2);
    assert_eq!(text, OBSIDIAN.replace("notes/Boat.md", "ships/Ship.md").replace("[[Boat]] \\u00e9", "[[Ship]] é"));
    assert_eq!(retarget(OBSIDIAN, PageMove::in_place("a.canvas"), &Moves(HashMap::new())), None);
}
