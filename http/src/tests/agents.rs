//! The agent tool protocol, as an agent speaks it.

use std::sync::Arc;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::connections::Listening;
use super::pages::FAILING;
use super::server::TestServer;
use crate::mcp::{self, AgentConnections};

pub(super) const HEADERS: [(&str, &str); 2] =
    [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")];

/// One question and its answer.
async fn ask_with(protocol: &Listening, headers: &[(&str, &str)], method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let headers: Vec<_> = HEADERS.iter().chain(headers).copied().collect();
    let (status, answer) = protocol.post("/mcp", &headers, &body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

pub(super) async fn ask(protocol: &Listening, method: &str, params: Value) -> Value {
    ask_with(protocol, &[], method, params).await
}

/// The values of a structure that a text does not say. Clients drop one of both.
fn leaves_not_in(text: &str, value: &Value, place: &str, missing: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| leaves_not_in(text, member, &format!("{place}/{name}"), missing));
        }
        Value::Array(items) => items.iter().for_each(|item| leaves_not_in(text, item, place, missing)),
        // A tree shows paths by indentation, and entries without a size are folders.
        _ if ["path", "size", "type"].iter().any(|name| place.ends_with(&format!("/{name}")))
            && place.starts_with("tree/") => {}
        Value::String(leaf) => {
            let quoted = Value::from(leaf.as_str()).to_string();
            let is_there =
                text.to_lowercase().contains(&leaf.to_lowercase()) || text.contains(&quoted[1..quoted.len() - 1]);
            missing.extend((!is_there).then(|| format!("{place}: {leaf}")));
        }
        Value::Number(leaf) => missing.extend((!text.contains(&leaf.to_string())).then(|| format!("{place}: {leaf}"))),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The answer of a tool, which is as its published schema says.
pub(super) async fn call(protocol: &Listening, name: &str, arguments: Value) -> Value {
    let answer = ask(protocol, "tools/call", json!({ "name": name, "arguments": arguments })).await;
    let tools: Value = serde_json::from_str(&mcp::tools()).unwrap();
    let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name);
    let structure = answer["result"].get("structuredContent");
    if let Some(tool) = tool.filter(|_| answer["result"]["isError"] == false) {
        assert_eq!(structure.is_some(), tool.get("outputSchema").is_some(), "{name}: {answer}");
        if let (Some(structure), Some(schema)) = (structure, tool.get("outputSchema")) {
            let schema = jsonschema::validator_for(schema).unwrap();
            let faults: Vec<String> =
                schema.iter_errors(structure).map(|error| format!("{}: {error}", error.instance_path())).collect();
            assert_eq!(faults, [""; 0], "{name} {arguments}: {structure}");
            let texts =
                answer["result"]["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str());
            let text = texts.collect::<Vec<_>>().join("\n");
            let mut missing = Vec::new();
            leaves_not_in(&text, structure, name.trim_start_matches("svc_"), &mut missing);
            assert_eq!(missing, [""; 0], "{name} {arguments}: {text}\n{structure}");
        }
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_welcomed_and_finds_the_tools() {
    let protocol = Listening::on(TestServer::new()).await;
    for version in ["2025-06-18", "2025-03-26"] {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let welcome = ask(&protocol, "initialize", params).await;
        assert_eq!(welcome["result"]["protocolVersion"], version, "{welcome}");
        assert_eq!(welcome["result"]["serverInfo"]["name"], "svcfs");
        assert!(welcome["result"]["capabilities"]["tools"].is_object());
    }
    let tools = ask(&protocol, "tools/list", json!({})).await;
    let names: Vec<&str> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for name in ["svc_read", "svc_write", "svc_search", "svc_rename", "svc_lint"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_agent_answer_stays_in_memory_until_sent_or_spills() {
    let protocol = Listening::on(TestServer::new()).await;
    let text = format!("# Long\n\n{}", "word ".repeat(1 << 20));
    protocol.server.put("long.md", &text).await;
    let room = Arc::clone(&protocol.server.app.response_budget.0);
    let all = room.available_permits();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "svc_read", "arguments": { "path": "long.md" } } });
    let send = || async {
        let request = http::Request::post("/mcp").header("Host", "localhost");
        let request = HEADERS.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = protocol.send(request.body(http_body_util::Full::from(body.to_string())).unwrap()).await;
        assert_eq!(answer.status(), 200);
        answer
    };
    let read = |answer: http::Response<hyper::body::Incoming>| async {
        let answer = answer.collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&answer).unwrap()["result"].clone()
    };
    let slow = send().await;
    assert!(room.available_permits() < all, "it waits for its client");
    let told = read(slow).await;
    assert!(told.to_string().contains(&"word ".repeat(1000)));
    let none_left = Arc::clone(&room).acquire_many_owned(u32::try_from(all).unwrap()).await.unwrap();
    assert_eq!(read(send().await).await, told);
    drop(none_left);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_speaks_the_newest_protocol_too() {
    let protocol = Listening::on(TestServer::new()).await;
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [("Mcp-Protocol-Version", version), ("Mcp-Method", "tools/call"), ("Mcp-Name", "svc_tree")];
    let params = json!({ "name": "svc_tree", "arguments": {}, "_meta": meta });
    let answer = ask_with(&protocol, &headers, "tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"], json!({ "result": [] }), "{answer}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_writes_under_the_agents_name_and_precondition() {
    let protocol = Listening::on(TestServer::new()).await;
    let written = call(&protocol, "svc_write", json!({ "path": "a.md", "content": "# A\n" })).await;
    let etag = &written["result"]["structuredContent"]["etag"];
    assert!(etag.is_string(), "{written}");
    assert_eq!(written["result"]["isError"], false);
    let arguments = json!({ "path": "a.md", "content": "# B\n", "actor": "agent:7", "if_match": etag });
    assert_eq!(call(&protocol, "svc_write", arguments.clone()).await["result"]["isError"], false);

    let stale = call(&protocol, "svc_write", arguments).await;
    assert_eq!(stale["result"]["isError"], true);
    let text = stale["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("conflict: file was modified") && text.contains("\"current_etag\""), "{text}");
    assert!(text.ends_with("\nNext call: svc_read {\"path\":\"a.md\"}"), "{text}");

    let versions = call(&protocol, "svc_versions", json!({ "path": "a.md" })).await;
    let authors = versions["result"]["structuredContent"]["result"].as_array().unwrap().clone();
    let authors: Vec<&str> = authors.iter().map(|version| version["author"].as_str().unwrap()).collect();
    assert_eq!(authors, ["agent:7", "mcp-agent"]);

    let read = call(&protocol, "svc_read", json!({ "path": "a.md" })).await;
    let text = read["result"]["content"][0]["text"].as_str().unwrap();
    let etag = svcfs_base::ETag::from_content(b"# B\n");
    let hash = versions["result"]["structuredContent"]["result"][0]["hash"].as_str().unwrap();
    assert_eq!(text, format!("[etag: {etag} version: {hash}]\n\n# B\n"));
    let text = versions["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), versions["result"]["structuredContent"]);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_of_the_space_the_header_names() {
    let protocol = Listening::on(TestServer::new()).await;
    let params = json!({ "name": "svc_write", "arguments": { "path": "b.md", "content": "x\n" } });
    ask_with(&protocol, &[("X-Svc-Space", "other")], "tools/call", params.clone()).await;
    assert_eq!(call(&protocol, "svc_read", json!({ "path": "b.md" })).await["result"]["isError"], true);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_for_an_unknown_space_returns_404() {
    let protocol = Listening::on(TestServer::new()).await;
    let client = json!({ "name": "test", "version": "1" });
    let welcome = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let call = json!({ "name": "svc_tree", "arguments": {} });
    for (method, params) in [("initialize", welcome), ("tools/list", json!({})), ("tools/call", call)] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = [&HEADERS[..], &[("X-Svc-Space", "nobody")]].concat();
        let answer = protocol.post("/mcp", &headers, &body).await;
        assert_eq!(answer, (404, json!({ "error": "space not found: nobody" })), "{method}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_shape_of_their_kind() {
    let protocol = Listening::on(TestServer::new()).await;
    // A model reads results, not protocol errors: what it can mend comes as a result.
    for (name, arguments, message) in [
        ("svc_read", json!({}), "path is required"),
        ("svc_search", json!({}), "query is required"),
        ("svc_read", json!({ "path": "../a.md" }), "path denied: `..` in `..`"),
        ("svc_read", json!({ "pat": "a.md" }), "unknown parameter `pat`; did you mean `path`?"),
        ("svc_read", json!({ "path": "a.md", "actor": "me" }), "unknown parameter `actor`; valid parameters:"),
        ("svc_write", json!({ "path": "a.md", "content": "x", "if_match": "old" }), "`if_match`: "),
        (
            "svc_write",
            json!({ "path": "a.md", "content": "x", "if_mach": "*" }),
            "unknown parameter `if_mach`; did you mean",
        ),
        (
            "svc_bulk_write",
            json!({ "files": [], "if_match": "*" }),
            "`If-Match`: `bulk_write` does not change a single file",
        ),
        ("svc_search", json!({ "query": "a", "limit": "five" }), "`limit`: "),
    ] {
        let answer = call(&protocol, name, arguments).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().starts_with(message), "{answer}");
    }
    for name in ["svc_nothing", "read"] {
        let answer = call(&protocol, name, json!({})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("there is no tool `{name}`")), "{answer}");
    }
    let missing = call(&protocol, "svc_read", json!({ "path": "a.md" })).await;
    let text = missing["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("file not found: a.md\n"), "{text}");
    assert_eq!(missing["result"]["isError"], true);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_faults_reach_agents_without_internal_details() {
    let protocol = Listening::on(TestServer::of(FAILING, "")).await;
    for how in ["panic", "internal"] {
        let answer = call(&protocol, "svc_fail", json!({ "how": how })).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().starts_with("internal error; "), "{answer}");
        assert!(!answer.to_string().contains("secret"));
    }
    let upstream = call(&protocol, "svc_fail", json!({ "how": "upstream" })).await;
    assert!(upstream["result"]["isError"] == true && !upstream.to_string().contains("secret"), "{upstream}");
    let off = call(&protocol, "svc_fail", json!({ "how": "disabled" })).await;
    let text = off["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("drafts are off\nNext call: svc_tool_search "), "{text}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_are_listed_and_read() {
    let protocol = Listening::on(TestServer::new()).await;
    let fixed = ask(&protocol, "resources/list", json!({})).await;
    assert_eq!(fixed["result"]["resources"][0]["uri"], "svc://schema");
    let templates = ask(&protocol, "resources/templates/list", json!({})).await;
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
    let templates: Vec<&str> = templates.iter().map(|template| template["uriTemplate"].as_str().unwrap()).collect();
    assert_eq!(templates, ["svc://file/{path}", "svc://tree/{path}"]);

    protocol.server.put("SCHEMA.md", "# How\n").await;
    protocol.server.put("a/b/c/d%20e.md", "deep\n").await;
    let read = async |uri: &str| ask(&protocol, "resources/read", json!({ "uri": uri })).await;
    let schema = &read("svc://schema").await["result"]["contents"][0];
    assert_eq!((&schema["text"], &schema["mimeType"]), (&json!("# How\n"), &json!("text/markdown")));
    assert_eq!(read("svc://file/a/b/c/d%20e.md").await["result"]["contents"][0]["text"], "deep\n");
    let tree = read("svc://tree/").await;
    assert_eq!(tree["result"]["contents"][0]["text"], "SCHEMA.md (6 bytes)\na/\n  b/\n    c/\n");
    assert_eq!(read("svc://tree/a/b").await["result"]["contents"][0]["text"], "c/\n  d e.md (5 bytes)\n");
    for uri in
        ["svc://file/../a.md", "svc://file/%2e%2e/a.md", "svc://file/none.md", "svc://x", "", "svc://file/.git/HEAD"]
    {
        assert!(read(uri).await["error"]["message"].is_string(), "{uri}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_do_not_reach_the_tools() {
    let protocol = Listening::on(TestServer::new()).await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let headers = |extra: (&'static str, &'static str)| [HEADERS[0], HEADERS[1], extra];
    let (status, answer) = protocol.post("/mcp", &headers(("Origin", "https://evil.example")), &body).await;
    assert_eq!(status, 403, "{answer}");
    let (status, _) = protocol.post("/mcp", &headers(("Origin", "http://localhost:5173")), &body).await;
    assert_eq!(status, 200);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stdio_session_is_recorded_and_ends_with_its_peer() {
    let server = TestServer::of(svcfs_knowledge::CATALOGUE, "[audit]\nenabled = true\n");
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    let agents = AgentConnections::of(Arc::clone(&server.app), server.stop.clone());
    let talking = tokio::spawn(async move { agents.serve(input, output, None).await });
    let (input, mut output) = tokio::io::split(ours);
    let mut lines = BufReader::new(input).lines();
    let mut say = async |message: Value| output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    say(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })).await;
    let welcome: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!(welcome["result"]["serverInfo"]["name"], "svcfs");
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    let params = json!({ "name": "svc_write", "arguments": { "path": "a.md", "content": "x\n" } });
    say(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })).await;
    let written: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert!(written["result"]["structuredContent"]["etag"].is_string(), "{written}");
    let params = json!({ "uri": "svc://file/none.md" });
    say(json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": params })).await;
    lines.next_line().await.unwrap().unwrap();
    drop((lines, output));
    talking.await.unwrap().unwrap();
    let kept = server.get("/api/svc/audit").await.json();
    let told = |at: usize| {
        let entry = &kept[at];
        json!([entry["protocol"], entry["method"], entry["path"], entry["file"], entry["status"], entry["actor"]])
    };
    assert_eq!(told(0), json!(["mcp", "tools/call", "svc_write", "a.md", 200, "mcp-agent"]));
    assert_eq!(told(1), json!(["mcp", "resources/read", "svc://file/none.md", "none.md", 404, "anonymous"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_never_began_is_no_failure() {
    let server = TestServer::new();
    let agents = AgentConnections::of(Arc::clone(&server.app), server.stop.clone());
    agents.serve(tokio::io::empty(), tokio::io::sink(), None).await.unwrap();
    let (_kept_open, theirs) = tokio::io::duplex(64);
    let (input, output) = tokio::io::split(theirs);
    let agents = AgentConnections::of(Arc::clone(&server.app), server.stop.clone());
    let talking = tokio::spawn(async move { agents.serve(input, output, None).await });
    server.stop.cancel();
    talking.await.unwrap().unwrap();
}
