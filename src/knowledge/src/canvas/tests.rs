use serde_json::{Value, json};
use svcfs_base::{ETag, Permissions, Precondition};

use crate::spaces::test_space::{TestSpace, caller, expecting, path, status_and_error};

/// In the form that Obsidian writes.
const SAMPLE: &str = "{\n\t\"nodes\":[\n\
    \t\t{\"id\":\"readme\",\"type\":\"file\",\"file\":\"readme.md\",\"x\":-280,\"y\":-200,\"width\":570,\"height\":560,\"color\":\"6\"},\n\
    \t\t{\"id\":\"text\",\"type\":\"text\",\"text\":\"Learn more:\\n\\n- [Spec](spec/one.md)\",\"x\":40.50,\"y\":-440,\"width\":250,\"height\":160},\n\
    \t\t{\"id\":\"spec\",\"type\":\"file\",\"file\":\"spec/one.md\",\"x\":360,\"y\":-4e2,\"width\":400,\"height\":400,\"portal\":true}\n\
    \t],\n\t\"edges\":[\n\
    \t\t{\"id\":\"one\",\"fromNode\":\"readme\",\"fromSide\":\"right\",\"toNode\":\"text\",\"toSide\":\"left\",\"label\":\"explains\"}\n\
    \t]\n}";

fn space() -> TestSpace {
    TestSpace::with(
        "",
        &[
            ("plan.canvas", SAMPLE),
            ("deep/other.canvas.json", "{\"nodes\":[],\"edges\":[]}"),
            ("empty.canvas", ""),
            ("broken.canvas", "not json"),
            ("readme.md", "# Readme\n\n[[one]] and [[two]]\n"),
            ("spec/one.md", "# One\n\n[[two]]\n"),
            ("spec/two.md", "# Two\n\n[[one]]\n"),
            ("spec/alone.md", "# Alone\n"),
        ],
    )
}

fn patch(space: &TestSpace, operations: Value) -> Value {
    space.get("canvas_patch", json!({ "path": "plan.canvas", "operations": operations }))
}

fn content(space: &TestSpace, path: &str) -> String {
    space.get("canvas_read", json!({ "path": path }))["content"].as_str().unwrap().to_owned()
}

#[test]
fn canvases_of_both_suffixes_are_listed_read_and_deleted() {
    let space = space();
    let all = ["broken.canvas", "deep/other.canvas.json", "empty.canvas", "plan.canvas"];
    assert_eq!(space.get("canvas_list", json!({}))["canvases"], json!(all));
    assert_eq!(content(&space, "plan.canvas"), SAMPLE);
    assert_eq!(content(&space, "empty.canvas"), "{\n\t\"nodes\":[],\n\t\"edges\":[]\n}");
    let deleted = space.get("canvas_delete", json!({ "path": "plan.canvas" }));
    assert_eq!(deleted, json!({ "deleted": "plan.canvas" }));
    assert_eq!(space.get("canvas_list", json!({}))["canvases"], json!(all[..3]));
    for name in ["canvas_read", "canvas_delete", "canvas_query", "canvas_auto_layout"] {
        let missing = (404, "canvas not found: plan.canvas".to_owned());
        assert_eq!(space.refusal(name, json!({ "path": "plan.canvas" })), missing, "{name}");
        let (status, message) = space.refusal(name, json!({ "path": "readme.md" }));
        assert_eq!(status, 400, "{name}");
        assert!(message.contains("`.canvas` or `.canvas.json`"), "{name}: {message}");
    }
    let mut limited = caller();
    limited.permissions = Permissions { folder: Some(path("deep")), ..limited.permissions };
    assert_eq!(
        space.ask_as(&limited, "canvas_list", json!({})).unwrap()["canvases"],
        json!(["deep/other.canvas.json"])
    );
    let refused = space.ask_as(&limited, "canvas_read", json!({ "path": "empty.canvas" }));
    assert_eq!(status_and_error(refused).0, 403);
}

#[test]
fn a_written_canvas_is_stored_as_sent_under_the_name_system() {
    let space = space();
    for (name, actor, author) in [("new.canvas", None, "system"), ("a/b.canvas.json", Some("ann"), "ann")] {
        let document = "{ \"nodes\": [], \"edges\": [], \"x\": 1.0 }\r\n";
        let mut arguments = json!({ "path": name, "content": document });
        if let Some(actor) = actor {
            arguments["actor"] = actor.into();
        }
        let written = space.get("canvas_write", arguments);
        assert_eq!(written["etag"], json!(ETag::from_content(document.as_bytes())));
        assert_eq!((content(&space, name).as_str(), space.newest(name).1.as_str()), (document, author));
    }
    for (document, reason) in [
        ("", "`nodes` is missing"),
        ("[]", "not a canvas"),
        ("{\"nodes\":[]}", "`edges` is missing"),
        ("{\"nodes\":{},\"edges\":[]}", "`nodes` must be an array"),
        ("{\"nodes\":[{\"id\":\"a\"},{\"id\":\"a\"}],\"edges\":[]}", "nodes[1]: the id `a` is used twice"),
        ("{\"nodes\":[{\"id\":\"a\",\"x\":NaN}],\"edges\":[]}", "expected value"),
        ("{\"nodes\":[],\"edges\":[{\"id\":\"e\"}]}", "`fromNode` is required"),
    ] {
        let (status, message) = space.refusal("canvas_write", json!({ "path": "new.canvas", "content": document }));
        assert_eq!(status, 400, "{document}");
        assert!(message.contains(reason), "{document}: {message}");
    }
}

#[test]
fn a_patch_changes_only_the_bytes_of_what_it_names() {
    let space = space();
    let patched = patch(
        &space,
        json!([
            { "op": "update_node", "id": "spec", "node": { "color": "#ff0000" } },
            { "op": "add_node", "node": { "id": "new", "type": "link", "url": "https://x.org", "x": 0, "y": 0 } },
            { "op": "add_edge", "edge": { "id": "two", "fromNode": "spec", "toNode": "new" } },
            { "op": "update_edge", "id": "one", "edge": { "label": "shows" } },
        ]),
    );
    let counts = json!({ "nodes_added": 1, "nodes_updated": 1, "nodes_removed": 0, "edges_added": 1, "edges_updated": 1, "edges_removed": 0 });
    assert_eq!(patched["applied"], counts);
    let expected = SAMPLE
        .replace("\"portal\":true}\n", "\"portal\":true,\"color\":\"#ff0000\"},\n\t\t{\"id\":\"new\",\"type\":\"link\",\"url\":\"https://x.org\",\"x\":0,\"y\":0}\n")
        .replace("explains\"}\n", "shows\"},\n\t\t{\"id\":\"two\",\"fromNode\":\"spec\",\"toNode\":\"new\"}\n");
    assert_eq!(content(&space, "plan.canvas"), expected);
    let removed = patch(&space, json!([{ "op": "remove_node", "id": "spec" }, { "op": "remove_edge", "id": "one" }]));
    assert_eq!((&removed["applied"]["nodes_removed"], &removed["applied"]["edges_removed"]), (&json!(1), &json!(2)));
    let created = json!({ "path": "fresh.canvas", "operations": [{ "op": "add_node", "node": { "id": "a" } }] });
    space.get("canvas_patch", created);
    assert_eq!(content(&space, "fresh.canvas"), "{\n\t\"nodes\":[\n\t\t{\"id\":\"a\"}\n\t],\n\t\"edges\":[]\n}");
}

#[test]
fn a_patch_is_applied_completely_or_not_at_all() {
    let space = space();
    let good = json!({ "op": "update_node", "id": "spec", "node": { "x": 1 } });
    for (bad, reason) in [
        (json!({ "op": "paint" }), "op 1 (paint): unknown operation"),
        (json!({ "op": "remove_node", "id": "none" }), "op 1 (remove_node): there is no node `none`"),
        (json!({ "op": "add_node" }), "op 1 (add_node): `node` is required"),
        (json!({ "op": "add_node", "node": { "id": "spec" } }), "op 1 (add_node): the id `spec` is already used"),
        (json!({ "op": "update_edge", "edge": {} }), "op 1 (update_edge): `id` is required"),
        (json!({ "op": "update_node", "id": "spec", "node": { "id": "b" } }), "op 1 (update_node): the id cannot"),
        (json!({ "op": "add_edge", "edge": { "id": "e", "fromNode": "spec", "toNode": "-" } }), "`toNode` is `-`"),
    ] {
        let arguments = json!({ "path": "plan.canvas", "operations": [good, bad] });
        let (status, message) = space.refusal("canvas_patch", arguments);
        assert_eq!(status, 422, "{bad}");
        assert!(message.contains(reason), "{bad}: {message}");
    }
    for (arguments, reason) in [
        (json!({ "path": "plan.canvas", "operations": [] }), "operations"),
        (json!({ "path": "broken.canvas", "operations": [good] }), "not a canvas"),
        (json!({ "path": "plan.canvas", "operations": [{ "op": "add_node", "node": [] }] }), "node"),
    ] {
        let (status, message) = space.refusal("canvas_patch", arguments.clone());
        assert_eq!(status, 400, "{arguments}");
        assert!(message.contains(reason), "{arguments}: {message}");
    }
    let arguments = json!({ "path": "plan.canvas", "operations": [good] });
    let stale = expecting(Precondition::OneOf(vec![ETag::from_content(b"older")]));
    assert_eq!(status_and_error(space.ask_as(&stale, "canvas_patch", arguments.clone())).0, 409);
    assert_eq!(content(&space, "plan.canvas"), SAMPLE);
    let current = expecting(Precondition::OneOf(vec![ETag::from_content(SAMPLE.as_bytes())]));
    assert!(space.ask_as(&current, "canvas_patch", arguments).is_ok());
}

#[test]
fn a_query_leaves_out_what_cannot_be_read() {
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let text = format!(
        "{{\"nodes\":[{{\"id\":\"deep\",\"type\":\"text\",\"x\":{deep}}},{{\"id\":\"b\",\"type\":\"text\",\"text\":\"B\"}}],\"edges\":[]}}"
    );
    let space = TestSpace::with("", &[("a.canvas", &text)]);
    let answer = space.get("canvas_query", json!({ "path": "a.canvas" }));
    let ids: Vec<&Value> = answer["nodes"].as_array().unwrap().iter().map(|node| &node["id"]).collect();
    assert_eq!(ids, [&json!("b")]);
}

#[test]
fn a_query_returns_nodes_edges_and_neighbours() {
    let space = space();
    patch(&space, json!([{ "op": "add_edge", "edge": { "id": "two", "fromNode": "text", "toNode": "spec" } }]));
    for (condition, nodes, edges) in [
        (json!({}), &["readme", "text", "spec"][..], &["one", "two"][..]),
        (json!({ "q": "LEARN" }), &["text"], &["one", "two"]),
        (json!({ "q": "explains" }), &[], &["one"]),
        (json!({ "q": "nothing" }), &[], &[]),
        (json!({ "type": "file" }), &["readme", "spec"], &["one", "two"]),
        (json!({ "type": "file", "q": "one.md" }), &["spec"], &["two"]),
        (json!({ "connected": "readme" }), &["readme", "text"], &["one"]),
        (json!({ "connected": "text", "type": "file" }), &["readme", "spec"], &["one", "two"]),
        (json!({ "connected": "text", "nodes_only": true }), &["readme", "text", "spec"], &[]),
        (json!({ "edges_only": true }), &[], &["one", "two"]),
    ] {
        let mut arguments = condition.clone();
        arguments["path"] = "plan.canvas".into();
        let answer = space.get("canvas_query", arguments);
        let ids =
            |list: &str| answer[list].as_array().unwrap().iter().map(|item| item["id"].clone()).collect::<Value>();
        assert_eq!((ids("nodes"), ids("edges")), (json!(nodes), json!(edges)), "{condition}");
    }
    assert_eq!(space.refusal("canvas_query", json!({ "path": "plan.canvas", "connected": "none" })).0, 404);
    let both = json!({ "path": "plan.canvas", "nodes_only": true, "edges_only": true });
    assert_eq!(space.refusal("canvas_query", both).0, 400);
}

#[test]
fn arranging_moves_nodes_and_groups_with_their_content() {
    let space = space();
    let groups = json!({
        "nodes": [
            { "id": "group", "type": "group", "x": 0, "y": 0, "width": 400, "height": 400 },
            { "id": "a", "type": "text", "text": "", "x": 10, "y": 10, "width": 100, "height": 50 },
            { "id": "b", "type": "text", "text": "", "x": 20, "y": 20, "width": 100, "height": 50 },
            { "id": "c", "type": "text", "text": "", "x": 900, "y": 0, "width": 100, "height": 50 },
        ],
        "edges": [{ "id": "1", "fromNode": "a", "toNode": "b" }, { "id": "2", "fromNode": "b", "toNode": "c" }, { "id": "3", "fromNode": "gone", "toNode": "c" }],
    });
    space.get("canvas_write", json!({ "path": "groups.canvas", "content": groups.to_string() }));
    for layout in ["dot", "neato", "fdp", "circo", "radial"] {
        let arranged = space.get("canvas_auto_layout", json!({ "path": "groups.canvas", "layout": layout }));
        assert_eq!((&arranged["node_count"], &arranged["edge_count"]), (&json!(4), &json!(3)));
        let nodes = space.get("canvas_query", json!({ "path": "groups.canvas" }))["nodes"].clone();
        let rect = |at: usize| ["x", "y", "width", "height"].map(|name| nodes[at][name].as_i64().unwrap());
        let contains = |[x, y, w, h]: [i64; 4], [ix, iy, iw, ih]: [i64; 4]| {
            x <= ix && y <= iy && ix + iw <= x + w && iy + ih <= y + h
        };
        assert!(contains(rect(0), rect(1)) && contains(rect(0), rect(2)), "{layout}: {nodes}");
        assert!(!contains(rect(0), rect(3)), "{layout}: {nodes}");
        let again = space.get("canvas_auto_layout", json!({ "path": "groups.canvas", "layout": layout }));
        assert_eq!(again["etag"], arranged["etag"], "{layout}: an arranged canvas stays as it is");
    }
    space.get("canvas_auto_layout", json!({ "path": "plan.canvas" }));
    let (first, _) = SAMPLE.split_once("\"x\"").unwrap();
    assert!(content(&space, "plan.canvas").starts_with(first));
    assert!(content(&space, "plan.canvas").ends_with(SAMPLE.split_once("\t],").unwrap().1), "edges stay");
    assert_eq!(space.refusal("canvas_auto_layout", json!({ "path": "plan.canvas", "layout": "maze" })).0, 400);
    let many: Vec<Value> = (0..2001).map(|id| json!({ "id": id.to_string() })).collect();
    let many = json!({ "nodes": many, "edges": [] }).to_string();
    space.get("canvas_write", json!({ "path": "many.canvas", "content": many }));
    let (status, message) = space.refusal("canvas_auto_layout", json!({ "path": "many.canvas" }));
    assert_eq!(status, 400);
    assert!(message.contains("2001 nodes") && message.contains("2000"), "{message}");
}

#[test]
fn the_link_graph_becomes_a_canvas() {
    let space = space();
    let generated = space.get("canvas_generate", json!({}));
    assert_eq!((&generated["path"], &generated["node_count"]), (&json!("canvas.canvas.json"), &json!(3)));
    assert_eq!(generated["edge_count"], json!(4));
    let nodes = space.get("canvas_query", json!({ "path": "canvas.canvas.json" }))["nodes"].clone();
    let files: Vec<&str> = nodes.as_array().unwrap().iter().map(|node| node["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["readme.md", "spec/one.md", "spec/two.md"]);
    assert_eq!((&nodes[1]["id"], &nodes[1]["width"]), (&json!("spec-one-md"), &json!(250)));
    assert_eq!(nodes[0]["color"], json!("#4A90D9"));
    assert_eq!(space.get("canvas_generate", json!({}))["etag"], generated["etag"]);
    let plain = json!({ "path": "maps/spec", "folder": "spec/", "colorize": false, "layout": "radial" });
    let below = space.get("canvas_generate", plain);
    assert_eq!((&below["path"], &below["node_count"]), (&json!("maps/spec.canvas.json"), &json!(2)));
    assert_eq!(below["edge_count"], json!(2));
    assert!(!content(&space, "maps/spec.canvas.json").contains("color"));
    let mut limited = caller();
    limited.permissions = Permissions { folder: Some(path("spec")), ..limited.permissions };
    let own = space.ask_as(&limited, "canvas_generate", json!({ "path": "spec/map.canvas" })).unwrap();
    assert_eq!(own["node_count"], json!(2));
    assert_eq!(status_and_error(space.ask_as(&limited, "canvas_generate", json!({}))).0, 403);
}

#[test]
fn files_and_texts_in_canvases_count_as_links() {
    let space = space();
    let backlinks = |page: &str| {
        let answer = space.get("backlinks", json!({ "path": page }));
        answer
            .as_array()
            .unwrap()
            .iter()
            .map(|link| (link["path"].clone(), link["title"].clone(), link["context"].clone()))
            .collect::<Vec<_>>()
    };
    let from_canvas = |context: &str| (json!("plan.canvas"), json!("plan.canvas"), json!(context));
    assert_eq!(backlinks("readme.md"), [from_canvas("readme.md")]);
    assert!(backlinks("spec/one.md").contains(&from_canvas("- [Spec](spec/one.md)")), "{:?}", backlinks("spec/one.md"));
    let own = json!({ "nodes": [{ "id": "a", "data": { "path": "spec/alone.md" } }, { "id": "b", "type": "text", "text": "see [[nowhere]]" }], "edges": [] });
    space.get("canvas_write", json!({ "path": "deep/own.canvas.json", "content": own.to_string() }));
    assert_eq!(backlinks("spec/alone.md").len(), 1);
    let mut limited = caller();
    limited.permissions = Permissions { folder: Some(path("spec")), ..limited.permissions };
    let seen = space.ask_as(&limited, "backlinks", json!({ "path": "spec/alone.md" })).unwrap();
    assert_eq!(seen, json!([]), "a key of a folder does not see canvases elsewhere");
    let report = space.get("janitor", json!({}));
    let broken: Vec<&Value> =
        report["issues"].as_array().unwrap().iter().filter(|issue| issue["path"] == "deep/own.canvas.json").collect();
    assert_eq!(broken.len(), 1, "{report}");
    assert!(broken[0]["message"].as_str().unwrap().contains("nowhere"));
    space.get("canvas_delete", json!({ "path": "deep/own.canvas.json" }));
    assert_eq!(backlinks("spec/alone.md"), []);
}

#[test]
fn a_rename_rewrites_the_paths_in_canvases() {
    let space = space();
    let own = "{\"nodes\":[{\"id\":\"a\",\"data\":{\"path\":\"spec/one.md\"},\"z\":1.50}],\"edges\":[]}";
    space.get("canvas_write", json!({ "path": "deep/own.canvas.json", "content": own }));
    let renamed =
        space.get("rename", json!({ "from": "spec/one.md", "to": "docs/first one.md", "update_links": true }));
    assert_eq!(renamed["updated_links"], json!(5), "{renamed}");
    assert_eq!(content(&space, "deep/own.canvas.json"), own.replace("spec/one.md", "docs/first one.md"));
    let expected = SAMPLE
        .replace("\"file\":\"spec/one.md\"", "\"file\":\"docs/first one.md\"")
        .replace("[Spec](spec/one.md)", "[Spec](<docs/first one.md>)");
    assert_eq!(content(&space, "plan.canvas").replace("docs/first%20one.md", "<docs/first one.md>"), expected);
    let moved = space.get("rename", json!({ "from": "plan.canvas", "to": "deep/plan.canvas", "update_links": true }));
    assert_eq!(moved["to"], json!("deep/plan.canvas"));
    assert!(content(&space, "deep/plan.canvas").contains("](../docs/first"), "{}", content(&space, "deep/plan.canvas"));
    assert!(content(&space, "deep/plan.canvas").contains("\"file\":\"docs/first one.md\""));
    space.get("rename_dir", json!({ "from": "docs", "to": "texts", "update_links": true }));
    assert!(content(&space, "deep/plan.canvas").contains("\"file\":\"texts/first one.md\""));
}

#[test]
fn broken_links_of_canvases_are_links_of_the_tree() {
    let canvas = r#"{"nodes":[{"id":"a","type":"file","file":"none.md","x":0,"y":0,"width":1,"height":1}],"edges":[]}"#;
    let space = TestSpace::with("", &[("a.md", "no link\n"), ("b.canvas", canvas)]);
    space.settle();
    let analytics = space.get("analytics", json!({}));
    assert_eq!((&analytics["broken_links"], &analytics["link_coverage_pct"]), (&json!(1), &json!(0.0)));
}
