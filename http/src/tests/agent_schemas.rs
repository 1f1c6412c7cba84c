//! The schemas that agents read, and answers held against them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::agents::{ask, call};
use super::connections::Listening;
use super::server::TestServer;
use crate::mcp;

fn tools() -> Vec<Value> {
    serde_json::from_str(&mcp::tools()).unwrap()
}

/// Everything in a schema that clients refuse or warn about, each with its place.
fn faults(schema: &Value, place: &str, found: &mut Vec<String>) {
    let Some(members) = schema.as_object() else {
        found.push(format!("{place}: {schema} is no object"));
        return;
    };
    let mut fault = |what: &str| found.push(format!("{place}: {what}"));
    for name in
        ["$ref", "$defs", "definitions", "anyOf", "oneOf", "allOf", "not", "if", "const", "format", "contentEncoding"]
    {
        if members.contains_key(name) {
            fault(name);
        }
    }
    match members.get("type") {
        Some(Value::String(kind)) if kind == "null" => fault("only null"),
        Some(Value::String(kind)) if kind == "array" && !members.contains_key("items") => fault("items are missing"),
        Some(Value::String(_)) | None => {}
        Some(other) => fault(&format!("type {other}")),
    }
    if members.get("default").is_some_and(Value::is_null) {
        fault("default null");
    }
    let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter(|name| members["properties"].get(name.as_str().unwrap()).is_none()) {
        fault(&format!("requires {name}, which it does not have"));
    }
    for (name, property) in members.get("properties").and_then(Value::as_object).into_iter().flatten() {
        faults(property, &format!("{place}/{name}"), found);
    }
    for name in ["items", "additionalProperties"] {
        let inner = members.get(name).filter(|inner| name == "items" || !inner.is_boolean());
        inner.into_iter().for_each(|inner| faults(inner, &format!("{place}/{name}"), found));
    }
}

#[test]
fn the_walk_over_schemas_finds_each_fault() {
    for schema in [
        json!({ "type": ["string", "null"] }),
        json!({ "$ref": "#/$defs/a" }),
        json!({ "type": "string", "format": "tree-path" }),
        json!({ "anyOf": [{ "type": "string" }] }),
        json!({ "items": true }),
        json!({ "type": "array" }),
        json!({ "properties": { "a": { "items": { "properties": { "b": { "oneOf": [] } } } } } }),
        json!({ "additionalProperties": { "type": "null" } }),
        json!({ "properties": {}, "required": ["a"] }),
    ] {
        let mut found = Vec::new();
        faults(&schema, "", &mut found);
        assert!(!found.is_empty(), "{schema}");
    }
}

/// Shows: HTTP-11
#[test]
fn published_schemas_have_no_references_unions_or_formats() {
    let mut found = Vec::new();
    for tool in tools() {
        let name = tool["name"].as_str().unwrap();
        faults(&tool["inputSchema"], name, &mut found);
        if let Some(output) = tool.get("outputSchema") {
            faults(output, &format!("{name} (output)"), &mut found);
        }
        for (argument, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(schema["type"].is_string(), "{name}: `{argument}` has no type");
            let examples = schema["examples"].as_array().into_iter().flatten();
            for value in schema.get("default").into_iter().chain(examples) {
                assert!(jsonschema::is_valid(schema, value), "{name}: `{argument}` may not be {value}");
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn optional_arguments_are_not_required_and_have_agents_defaults() {
    let schema = |name: &str| tools().into_iter().find(|tool| tool["name"] == name).unwrap();
    let of = |name: &str, property: &str| schema(name)["inputSchema"]["properties"][property].clone();
    assert_eq!(schema("svc_read")["inputSchema"]["required"], json!(["path"]));
    assert_eq!((&of("svc_search", "limit")["default"], &of("svc_tree", "depth")["default"]), (&10.into(), &3.into()));
    assert_eq!(of("svc_timeline", "type")["enum"], json!(["write", "delete"]));
    assert_eq!(of("svc_query_meta", "filters")["type"], "array");
    assert_eq!(
        schema("svc_tree")["outputSchema"]["properties"]["result"]["items"]["required"],
        json!(["path", "name", "isDir", "size"])
    );
}

#[test]
fn tools_and_instructions_name_only_what_is_there() {
    let tools = tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let text = format!("{} {}", mcp::INSTRUCTIONS, json!(tools));
    let is_part = |c: char| !(c.is_ascii_lowercase() || c == '_');
    for (at, _) in text.match_indices("svc_") {
        let name = text[at..].split(is_part).next().unwrap();
        assert!(names.contains(&name) || name == "svc_tool_call", "`{name}` is no tool");
    }
    for (at, _) in text.match_indices("svc://") {
        assert!(text[at..].starts_with("svc://schema"), "{}", &text[at..at + 20]);
    }
    assert!(!text.contains("SCHEMA.md:") && text.contains("svc://schema"));
}

/// A tree with something for every tool.
async fn tree(protocol: &Listening) -> BTreeMap<&'static str, String> {
    let write = async |path: &str, content: &str| {
        let written = call(protocol, "svc_write", json!({ "path": path, "content": content })).await;
        assert_eq!(written["result"]["isError"], false, "{written}");
    };
    write("index.md", "---\ntitle: Home\ntags: [x]\n---\n\n# Home\n\nSee [[notes/a]] and [[none]].\n").await;
    write("notes/a.md", "---\nstatus: verified\npriority: 2\ntags: [x, y]\n---\n\n# A\n\nfox & <b>\n\n## B\n\nmore\n")
        .await;
    write("notes/deep/b/c/d.md", "---\nnext-review: 2020-01-01\n---\n\n# A\n\nfox [[index]]\n").await;
    write("tasks/t.md", "---\ntype: task\nstatus: todo\n---\n\n# T\n").await;
    write("episodes/e.md", "---\nmemory_kind: episodic\n---\n\nEpisode\n").await;
    write("notes/a.md", "---\nstatus: verified\npriority: 2\ntags: [x, y]\n---\n\n# A\n\nfox & <b>\n\n## B\n\nless\n")
        .await;
    let versions = call(protocol, "svc_versions", json!({ "path": "notes/a.md" })).await;
    let hash = |at: usize| versions["result"]["structuredContent"]["result"][at]["hash"].as_str().unwrap().to_owned();
    BTreeMap::from([("new", hash(0)), ("old", hash(1))])
}

/// Calls of the tools for workflows, claims, tasks and drafts, in an order in which all succeed.
async fn shared_work(protocol: &Listening) -> Vec<(&'static str, Value)> {
    let part = async |name: &str, arguments: Value, member: &str| {
        let answer = call(protocol, name, arguments).await;
        answer["result"]["structuredContent"][member].clone()
    };
    let task = part("svc_task_create", json!({ "title": "Own", "claim": true, "actor": "bot" }), "path").await;
    let fence = part("svc_claim", json!({ "path": task, "actor": "bot" }), "fence").await;
    let (merged, discarded) =
        (part("svc_draft_create", json!({}), "id").await, part("svc_draft_create", json!({}), "id").await);
    let states = json!([{ "name": "open" }, { "name": "closed", "terminal": true }]);
    let transitions = json!([{ "from": "open", "to": "closed" }]);
    vec![
        ("svc_workflow_save", json!({ "name": "w", "states": states, "transitions": transitions })),
        ("svc_workflow_list", json!({})),
        ("svc_workflow_get", json!({ "name": "w" })),
        ("svc_write", json!({ "path": "w.md", "content": "---\nworkflow: w\nstate: open\n---\n" })),
        ("svc_workflow_board", json!({ "name": "w" })),
        ("svc_workflow_advance", json!({ "path": "w.md", "target_state": "closed" })),
        ("svc_claim", json!({ "path": "w.md", "actor": "bot" })),
        ("svc_claims_list", json!({})),
        ("svc_release", json!({ "path": "w.md", "actor": "bot" })),
        ("svc_task_create", json!({ "title": "Other" })),
        ("svc_task_next", json!({ "actor": "bot" })),
        ("svc_task_progress", json!({ "path": task, "message": "half", "actor": "bot" })),
        ("svc_task_done", json!({ "path": task, "fence": fence, "actor": "bot" })),
        ("svc_draft_create", json!({})),
        ("svc_draft_list", json!({})),
        ("svc_draft_write", json!({ "draft_id": merged, "path": "w.md", "content": "# W\n" })),
        ("svc_draft_read", json!({ "draft_id": merged, "path": "w.md" })),
        ("svc_draft_diff", json!({ "draft_id": merged, "format": "hunks" })),
        ("svc_draft_diff", json!({ "draft_id": merged, "stat": true })),
        ("svc_draft_merge", json!({ "draft_id": merged })),
        ("svc_draft_discard", json!({ "draft_id": discarded })),
    ]
}

/// Calls that change pages and memories.
fn page_changes() -> Vec<(&'static str, Value)> {
    vec![
        ("svc_bulk_write", json!({ "files": [{ "path": "c.md", "content": "# C\n" }] })),
        ("svc_append", json!({ "path": "c.md", "content": "more\n" })),
        ("svc_edit", json!({ "path": "c.md", "edits": [{ "old": "more", "new": "less" }] })),
        (
            "svc_edit",
            json!({ "path": "c.md", "edits": [{ "heading": "C", "mode": "append", "text": "end" }], "dry_run": true }),
        ),
        ("svc_write", json!({ "path": "c.md", "content": "# C\n\n### D\n", "dry_run": true })),
        ("svc_bulk_write", json!({ "files": [{ "path": "c.md", "content": "# D\n" }], "dry_run": true })),
        ("svc_rename", json!({ "from": "notes/a.md", "to": "notes/z.md", "dry_run": true })),
        ("svc_delete", json!({ "path": "notes/a.md", "dry_run": true })),
        ("svc_rename", json!({ "from": "c.md", "to": "d.md" })),
        ("svc_delete", json!({ "path": "d.md" })),
        (
            "svc_remember",
            json!({ "content": "The tide is high.", "episode_id": "e1", "supersedes": ["episodes/e.md"] }),
        ),
        ("svc_remember", json!({ "content": "The tide is high.", "episode_id": "e1" })),
        ("svc_forget", json!({ "path": "episodes/e.md", "reason": "old" })),
        ("svc_forget", json!({ "path": "episodes/e.md", "erase": true })),
        ("svc_cite", json!({ "doi": "10.1000/182", "title": "On Things", "authors": ["Ann Lee"], "year": 2020 })),
    ]
}

/// Calls a tool; a call that must be confirmed is repeated with the token of its answer.
async fn call_confirmed(protocol: &Listening, name: &str, mut arguments: Value) -> Value {
    let answer = call(protocol, name, arguments.clone()).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    // The last line is the next call.
    let detail = text.lines().find(|line| line.starts_with('{'));
    let detail = detail.and_then(|line| serde_json::from_str::<Value>(line).ok());
    let Some(token) = detail.as_ref().and_then(|detail| detail.get("confirm")) else { return answer };
    arguments["confirm"] = token.clone();
    call(protocol, name, arguments).await
}

/// Shows: HTTP-11
#[tokio::test(flavor = "multi_thread")]
async fn every_tool_answers_as_its_schema_says() {
    // No registry is asked for papers.
    let server = TestServer::of(svcfs_knowledge::CATALOGUE, "memory.doi_url = \"\"");
    let protocol = Listening::on(server).await;
    let versions = tree(&protocol).await;
    let a = json!({ "path": "notes/a.md" });
    let view = json!({ "name": "v", "query": "TABLE status", "columns": [{ "property": "status" }],
        "filters": [{ "field": "priority", "operator": ">", "value": 1 }], "sort": [{ "field": "status" }] });
    let mut asked = page_changes();
    asked.extend([
        ("svc_tree", json!({})),
        ("svc_tree", json!({ "depth": 9, "details": true })),
        ("svc_read", a.clone()),
        ("svc_read", json!({ "path": "notes/a.md", "metadata_only": true })),
        ("svc_section", json!({ "path": "notes/a.md", "heading": "B" })),
        ("svc_tool_search", json!({ "query": "versions" })),
        ("svc_lint", json!({ "content": "# A\n\n### C\n\n# A\n" })),
        ("svc_version", json!({ "path": "notes/a.md", "version": versions["old"] })),
        ("svc_diff", json!({ "path": "notes/a.md", "from": versions["old"], "to": versions["new"] })),
        ("svc_blame", a.clone()),
        ("svc_changes", json!({})),
        ("svc_search", json!({ "query": "fox" })),
        ("svc_search", json!({ "query": "fxo", "suggest_threshold": 0.5 })),
        ("svc_eval", json!({ "queries": [{ "question": "fox", "expected_paths": ["notes/a.md"] }] })),
        ("svc_recall", json!({ "query": "fox", "budget_tokens": 400 })),
        ("svc_query_meta", json!({ "filters": ["$.tags[*]=x"] })),
        ("svc_query_meta", json!({ "filters": ["$.priority>=1"], "or": ["$.status=verified"] })),
        ("svc_query", json!({ "query": "TABLE status, priority, missing" })),
        ("svc_query", json!({ "query": "TABLE title GROUP BY status" })),
        ("svc_aggregate", json!({ "group_by": "status", "calculate": ["count", "avg:priority"] })),
        ("svc_views_save", view),
        ("svc_views_get", json!({ "name": "v" })),
        ("svc_views_list", json!({})),
        ("svc_views_execute", json!({ "name": "v" })),
        ("svc_views_delete", json!({ "name": "v" })),
        ("svc_view_refresh", json!({})),
        ("svc_graph_path", json!({ "from": "index.md", "to": "notes/a.md" })),
        ("svc_memory_report", json!({ "episodes_prefix": "episodes" })),
        ("svc_timeline", json!({ "type": "write" })),
        ("svc_canvas_write", json!({ "path": "c.canvas", "content": "{\"nodes\":[],\"edges\":[]}" })),
        ("svc_canvas_read", json!({ "path": "c.canvas" })),
        ("svc_canvas_list", json!({})),
        ("svc_undo", json!({ "since": "1h", "path_prefix": "notes" })),
        ("svc_undo", json!({ "commits": [versions["new"]], "dry_run": false })),
    ]);
    asked.extend(shared_work(&protocol).await);
    asked.extend(
        ["svc_peek", "svc_versions", "svc_backlinks", "svc_graph_walk", "svc_health_check"]
            .map(|name| (name, a.clone())),
    );
    for name in [
        "svc_graph_analytics",
        "svc_graph_centrality",
        "svc_graph_communities",
        "svc_feed",
        "svc_velocity",
        "svc_analytics",
        "svc_context",
        "svc_memory_report",
        "svc_eligible",
        "svc_timeline",
    ] {
        asked.push((name, json!({})));
    }
    for tool in tools() {
        let name = tool["name"].as_str().unwrap();
        // `clip` needs a page of another server; its own tests have one. The others need vectors.
        let is_tried_elsewhere =
            matches!(name, "svc_write" | "svc_clip" | "svc_suggestions" | "svc_embeddings" | "svc_search_semantic");
        assert!(is_tried_elsewhere || asked.iter().any(|(asked, _)| *asked == name), "{name} is not tried here");
    }
    for (name, arguments) in asked {
        // `call` holds each answer against the schema.
        let answer = call_confirmed(&protocol, name, arguments.clone()).await;
        assert_eq!(answer["result"]["isError"], false, "{name} {arguments}: {answer}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_need_vectors_answer_as_their_schemas_say() {
    let server = TestServer::of(svcfs_knowledge::CATALOGUE, "search.vector.enabled = true");
    server.start_vectors();
    let protocol = Listening::on(server).await;
    tree(&protocol).await;
    for (name, arguments) in [
        ("svc_suggestions", json!({ "path": "notes/a.md" })),
        ("svc_embeddings", json!({ "path": "notes/a.md" })),
        ("svc_search_semantic", json!({ "query": "fox" })),
    ] {
        let mut answer = call(&protocol, name, arguments.clone()).await;
        while answer["result"].to_string().contains("not embedded yet") {
            answer = call(&protocol, name, arguments.clone()).await;
        }
        assert_eq!(answer["result"]["isError"], false, "{name}: {answer}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_answers_come_once_and_in_parts_on_request() {
    let protocol = Listening::on(TestServer::new()).await;
    let lines: String = (1..=9).map(|line| format!("line {line}\n")).collect();
    protocol.server.put("a.md", &lines).await;
    let read = async |arguments: Value| {
        let answer = call(&protocol, "svc_read", arguments).await["result"].clone();
        assert!(answer.get("structuredContent").is_none(), "{answer}");
        assert_eq!(answer["content"].as_array().unwrap().len(), 1, "{answer}");
        answer["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let whole = read(json!({ "path": "a.md" })).await;
    assert!(whole.starts_with("[etag: ") && whole.ends_with(&format!("]\n\n{lines}")), "{whole}");
    let part = read(json!({ "path": "a.md", "offset": 3, "limit": 2 })).await;
    assert!(part.ends_with("]\n[lines 4-5 of 9; continue with offset 5]\n\nline 4\nline 5\n"), "{part}");
    let end = read(json!({ "path": "a.md", "offset": 8, "limit": 2 })).await;
    assert!(end.ends_with("]\n[lines 9-9 of 9]\n\nline 9\n"), "{end}");
    let past = read(json!({ "path": "a.md", "offset": 100 })).await;
    assert!(past.ends_with("]\n[no lines: the text has 9]\n\n"), "{past}");
    let rest = protocol.server.get("/api/svc/file?path=a.md&offset=7").await;
    assert_eq!(rest.text(), "line 8\nline 9\n", "the same over REST");
    for (name, value) in [("limit", json!(0)), ("limit", json!(-1)), ("offset", json!("x")), ("offset", json!(1.5))] {
        let refused = call(&protocol, "svc_read", json!({ "path": "a.md", name: value })).await;
        let text = refused["result"]["content"][0]["text"].as_str().unwrap();
        assert!(refused["result"]["isError"] == true && text.starts_with(&format!("`{name}`: ")), "{refused}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_written_as_base64_and_read_as_what_they_are() {
    let protocol = Listening::on(TestServer::new()).await;
    for (path, kind) in [("a.png", "image"), ("a.ogg", "audio"), ("a.bin", "resource")] {
        let written =
            call(&protocol, "svc_write", json!({ "path": path, "content": "/wD+", "encoding": "base64" })).await;
        assert_eq!(written["result"]["isError"], false, "{written}");
        assert_eq!(protocol.server.get(&format!("/api/svc/file?path={path}")).await.body, &[0xff, 0, 0xfe][..]);
        let read = call(&protocol, "svc_read", json!({ "path": path })).await["result"].clone();
        assert!(read["content"][0]["text"].as_str().unwrap().starts_with("[etag: "), "{read}");
        let block = &read["content"][1];
        assert_eq!(block["type"], kind, "{read}");
        let data = if kind == "resource" { &block["resource"]["blob"] } else { &block["data"] };
        assert_eq!(data, "/wD+", "{read}");
        let part = call(&protocol, "svc_read", json!({ "path": path, "limit": 1 })).await;
        assert!(part["result"]["content"][0]["text"].as_str().unwrap().contains("not text"), "{part}");
    }
    let bulk = json!({ "files": [{ "path": "b.bin", "content": "/w==", "encoding": "base64" }, { "path": "b.md", "content": "/w==" }] });
    assert_eq!(call(&protocol, "svc_bulk_write", bulk).await["result"]["isError"], false);
    assert_eq!(protocol.server.get("/api/svc/file?path=b.bin").await.body, &[0xff][..]);
    let wrong = call(&protocol, "svc_write", json!({ "path": "a.bin", "content": "*", "encoding": "base64" })).await;
    assert!(wrong["result"]["content"][0]["text"].as_str().unwrap().starts_with("`content`: is not base64"), "{wrong}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_shows_ten_pages_with_plain_snippets() {
    let protocol = Listening::on(TestServer::new()).await;
    for page in 0..12 {
        protocol.server.put(&format!("{page}.md"), &format!("# Page {page}\n\nfox & <b> \"x\"\n")).await;
    }
    let found = call(&protocol, "svc_search", json!({ "query": "fox" })).await["result"].clone();
    let rows = found["structuredContent"]["result"].as_array().unwrap();
    assert_eq!(rows.len(), 10);
    assert!(rows[0]["snippet"].as_str().unwrap().contains("fox & <b> \"x\""), "{}", rows[0]);
    assert!(!found.to_string().contains("mark>") && !found.to_string().contains("&amp;"), "{found}");
    let all = call(&protocol, "svc_search", json!({ "query": "fox", "limit": 50 })).await;
    assert_eq!(all["result"]["structuredContent"]["result"].as_array().unwrap().len(), 12);
    let rest = protocol.server.get("/api/svc/search?q=fox").await.json();
    assert_eq!(rest.as_array().unwrap().len(), 12, "REST has its own default");
    assert!(rest[0]["snippet"].as_str().unwrap().contains("<mark>fox</mark> &amp; &lt;b&gt;"), "{rest}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_versions_differences_and_authors_come_as_text() {
    let protocol = Listening::on(TestServer::new()).await;
    let versions = tree(&protocol).await;
    let text_of = async |name: &str, arguments: Value| {
        call(&protocol, name, arguments).await["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    };
    let (old, new) = (&versions["old"], &versions["new"]);
    let version = text_of("svc_version", json!({ "path": "notes/a.md", "version": old })).await;
    assert!(version.starts_with(&format!("[version: {old}]\n\n---\n")) && version.ends_with("\nmore\n"), "{version}");
    let part = text_of("svc_version", json!({ "path": "notes/a.md", "version": &old[..8], "offset": 12 })).await;
    assert!(part.ends_with("[lines 13-13 of 13]\n\nmore\n"), "{part}");
    let diff = text_of("svc_diff", json!({ "path": "notes/a.md", "from": old, "to": new })).await;
    assert!(diff.contains("\n-more\n+less\n"), "{diff}");
    let same = text_of("svc_diff", json!({ "path": "notes/a.md", "from": old, "to": old })).await;
    assert!(same.starts_with("No differences"), "{same}");
    let blame = text_of("svc_blame", json!({ "path": "notes/a.md", "offset": 11 })).await;
    let lines: Vec<&str> = blame.lines().skip(2).collect();
    assert_eq!(lines.len(), 2, "{blame}");
    assert!(lines[1].starts_with(&new[..12]) && lines[1].ends_with("mcp-agent 13: less"), "{blame}");
    let missing = call(&protocol, "svc_version", json!({ "path": "notes/a.md", "version": "abcd" })).await;
    assert_eq!(missing["result"]["isError"], true, "{missing}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn svc_schema_describes_a_tree_without_a_schema_page() {
    let protocol = Listening::on(TestServer::new()).await;
    let read = async || {
        let answer = ask(&protocol, "resources/read", json!({ "uri": "svc://schema" })).await;
        answer["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let empty = read().await;
    assert!(empty.contains("There are no pages yet") && empty.contains("## How to write"), "{empty}");
    tree(&protocol).await;
    let overview = read().await;
    for line in ["Pages: 5\n", "- notes (2)", "- task (1)", "- priority: number (1)", "- x (2)"] {
        assert!(overview.contains(line), "{line} is not in {overview}");
    }
    let names: Vec<String> = tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    for (at, _) in overview.match_indices("svc_") {
        let name = overview[at..].split(|c: char| !(c.is_ascii_lowercase() || c == '_')).next().unwrap();
        assert!(names.iter().any(|known| known == name), "`{name}` is no tool");
    }
    protocol.server.put("SCHEMA.md", "  \n").await;
    assert!(read().await.starts_with("# Overview"), "an empty page says nothing");
    protocol.server.put("SCHEMA.md", "# Ours\n").await;
    assert_eq!(read().await, "# Ours\n");
    assert!(protocol.stopped().await);
}
