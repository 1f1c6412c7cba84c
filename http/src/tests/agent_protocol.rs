//! What version 2026-07-28 of the agent tool protocol has beside tools: headers, prompts,
//! completion, subscriptions, confirmations, tasks and OAuth.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use svcfs_knowledge::CATALOGUE;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::connections::Listening;
use super::issuer::Issuer;
use super::server::TestServer;
use crate::mcp::AgentConnections;

const NEWEST: &str = "2026-07-28";
const LONG: Duration = Duration::from_secs(20);

fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// A request of version 2026-07-28 with the headers that it needs, and these in addition.
fn request(
    headers: &[(&str, &str)],
    (method, mut params): (&str, Value),
    capabilities: &Value,
) -> Request<Full<Bytes>> {
    params["_meta"] = meta(capabilities);
    let name = ["name", "uri", "taskId"].iter().find_map(|name| params[*name].as_str()).map(str::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = Request::post("/mcp")
        .header("Host", "localhost")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("Mcp-Protocol-Version", NEWEST)
        .header("Mcp-Method", method);
    if let Some(name) = name {
        request = request.header("Mcp-Name", name);
    }
    for (name, value) in headers {
        request.headers_mut().unwrap().insert(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    request.body(Full::from(body.to_string())).unwrap()
}

async fn ask_as(
    protocol: &Listening,
    headers: &[(&str, &str)],
    message: (&str, Value),
    capabilities: &Value,
) -> (u16, Value) {
    let answer = protocol.send(request(headers, message, capabilities)).await;
    let status = answer.status().as_u16();
    let body = answer.collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| json!(String::from_utf8_lossy(&body))))
}

async fn ask(protocol: &Listening, method: &str, params: Value) -> Value {
    ask_as(protocol, &[], (method, params), &json!({})).await.1
}

async fn call(protocol: &Listening, name: &str, arguments: Value) -> Value {
    ask(protocol, "tools/call", json!({ "name": name, "arguments": arguments })).await["result"].clone()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// The events of a stream as they come.
struct Events(hyper::body::Incoming, String);

impl Events {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.1.split_once("\n\n") {
                let data: Option<Value> = event
                    .lines()
                    .find_map(|line| line.strip_prefix("data:"))
                    .map(|data| serde_json::from_str(data.trim()).unwrap());
                self.1 = rest.to_owned();
                if data.is_some() {
                    return data;
                }
                continue;
            }
            let frame = tokio::time::timeout(LONG, self.0.frame()).await.unwrap()?;
            self.1.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        }
    }
}

async fn listen(protocol: &Listening, headers: &[(&str, &str)], notifications: Value) -> Events {
    let message = ("subscriptions/listen", json!({ "notifications": notifications }));
    let answer = protocol.send(request(headers, message, &json!({}))).await;
    assert_eq!(answer.status(), 200);
    Events(answer.into_body(), String::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_contradict_the_body_and_foreign_origins_are_refused() {
    let protocol = Listening::on(TestServer::new()).await;
    let tree = || ("tools/call", json!({ "name": "svc_tree", "arguments": {} }));
    for (headers, message, status, code) in [
        (&[][..], tree(), 200, None),
        (&[("Mcp-Method", "tools/list")], tree(), 400, Some(-32020)),
        (&[("Mcp-Name", "svc_read")], tree(), 400, Some(-32020)),
        (&[("Mcp-Protocol-Version", "2025-11-25")], tree(), 400, Some(-32020)),
        (&[], ("resources/read", json!({ "uri": "svc://nothing" })), 200, Some(-32602)),
        (&[], ("resources/read", json!({ "uri": "svc://file/none.md" })), 200, Some(-32602)),
        (&[], ("prompts/get", json!({ "name": "none" })), 200, Some(-32602)),
        (&[], ("tools/call", json!({ "name": "none", "arguments": {} })), 200, Some(-32602)),
        (&[], ("nothing/here", json!({})), 404, Some(-32601)),
        (&[], ("resources/subscribe", json!({ "uri": "svc://schema" })), 404, Some(-32601)),
        (&[], ("tasks/get", json!({ "taskId": "0" })), 400, Some(-32021)),
        (&[("Origin", "http://evil.example")], tree(), 403, None),
        (&[("Host", "evil.example")], tree(), 403, None),
    ] {
        let answer = ask_as(&protocol, headers, message.clone(), &json!({})).await;
        assert_eq!(
            (answer.0, answer.1["error"]["code"].as_i64()),
            (status, code),
            "{headers:?} {message:?}: {answer:?}"
        );
    }
    let unsupported = json!({ "io.modelcontextprotocol/protocolVersion": "1999-01-01" });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": unsupported } });
    let headers =
        [("Content-Type", "application/json"), ("Mcp-Protocol-Version", "1999-01-01"), ("Mcp-Method", "tools/list")];
    assert_eq!(protocol.post("/mcp", &headers, &body).await.0, 400);
    let found = ask(&protocol, "server/discover", json!({})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!(NEWEST)) && versions.contains(&json!("2025-11-25")), "{found}");
    let capabilities = &found["result"]["capabilities"];
    assert_eq!(capabilities["resources"], json!({ "subscribe": true, "listChanged": true }), "{found}");
    assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{found}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_contain_the_state_of_the_space() {
    let protocol = Listening::on(TestServer::new()).await;
    protocol.server.put("notes/keys.md", "---\ntags: [keys]\n---\n\n# Keys\n\nRotate the ```signing``` keys.\n").await;
    let listed = ask(&protocol, "prompts/list", json!({})).await;
    let names: Vec<&str> =
        listed["result"]["prompts"].as_array().unwrap().iter().map(|prompt| prompt["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "continue", "consolidate", "review"]);
    let draft = call(&protocol, "svc_draft_create", json!({})).await["structuredContent"]["id"].clone();
    call(&protocol, "svc_draft_write", json!({ "draft_id": draft, "path": "new.md", "content": "# Owl\n" })).await;
    for (name, arguments, expected) in [
        ("start", json!({}), "notes/keys.md"),
        ("start", json!({ "actor": "eve" }), "Your claims"),
        ("continue", json!({ "topic": "signing keys" }), "Rotate the ```signing``` keys."),
        ("consolidate", json!({ "prefix": "notes" }), "notes/keys.md"),
        ("consolidate", json!({ "prefix": "notes", "tag": "other" }), "There are no such pages."),
        ("review", json!({ "draft_id": draft }), "# Owl"),
    ] {
        let answer = ask(&protocol, "prompts/get", json!({ "name": name, "arguments": arguments })).await;
        let prompt = answer["result"]["messages"][0]["content"]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(prompt.contains(expected), "{name} {arguments}: {prompt}");
        // Every tool that it names exists.
        let tools = crate::mcp::tools();
        for word in prompt.split(|character: char| !character.is_alphanumeric() && character != '_') {
            let is_tool = !word.starts_with("svc_")
                || ["svc_", "svc_tool_call"].contains(&word)
                || tools.contains(&format!("\"{word}\""));
            assert!(is_tool, "{name} names {word}");
        }
    }
    for (name, arguments, message) in [
        ("continue", json!({}), "`topic` is required"),
        ("continue", json!({ "topic": " " }), "`topic` is required"),
        ("continue", json!({ "topic": 7 }), "must be a text"),
        ("continue", json!({ "topc": "x" }), "unknown argument `topc`"),
        ("review", json!({ "draft_id": "none" }), "draft not found"),
        ("consolidate", json!({ "prefix": "../.." }), "path denied"),
    ] {
        let answer = ask(&protocol, "prompts/get", json!({ "name": name, "arguments": arguments })).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains(message), "{answer}");
    }
    assert!(protocol.stopped().await);
}

const FOLDER_KEY: &str = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"full\"\n[[auth.api_keys]]\nkey = \"team\"\nprefix = \"team/\"\n\
    scope = \"read\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn completion_knows_names_that_the_key_may_read() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, FOLDER_KEY)).await;
    let full = [("Authorization", "Bearer full")];
    for (path, content) in [
        ("team/plan.md", "---\ntags: [alpha]\n---\n\n# Plan\n\n## Aims\n"),
        ("secret/plan.md", "---\ntags: [beta]\n---\n\n# Secret plan\n"),
        (".hidden/plan.md", "# Hidden plan\n"),
    ] {
        let arguments = json!({ "path": path, "content": content, "actor": path.split('/').next() });
        ask_as(&protocol, &full, ("tools/call", json!({ "name": "svc_write", "arguments": arguments })), &json!({}))
            .await;
    }
    // The search index is current after a read that waits for it.
    ask_as(
        &protocol,
        &full,
        ("tools/call", json!({ "name": "svc_search", "arguments": { "query": "plan" } })),
        &json!({}),
    )
    .await;
    let file = json!({ "type": "ref/resource", "uri": "svc://file/{path}" });
    let tree = json!({ "type": "ref/resource", "uri": "svc://tree/{path}" });
    let prompt = |name: &str| json!({ "type": "ref/prompt", "name": name });
    for (key, reference, name, value, context, expected) in [
        ("full", &file, "path", "", json!({}), json!(["secret/plan.md", "team/plan.md"])),
        ("team", &file, "path", "", json!({}), json!(["team/plan.md"])),
        ("full", &file, "path", "tmpl", json!({}), json!(["team/plan.md"])),
        ("team", &file, "path", "secret", json!({}), json!([])),
        ("full", &tree, "path", "", json!({}), json!(["secret", "team"])),
        ("team", &tree, "path", "", json!({}), json!(["team"])),
        ("full", &prompt("consolidate"), "prefix", "se", json!({}), json!(["secret"])),
        ("full", &prompt("consolidate"), "tag", "", json!({}), json!(["alpha", "beta"])),
        ("team", &prompt("consolidate"), "tag", "", json!({}), json!(["alpha"])),
        ("full", &prompt("continue"), "topic", "sec", json!({}), json!(["Secret plan"])),
        ("team", &prompt("continue"), "topic", "", json!({}), json!(["Plan", "alpha"])),
        ("full", &prompt("start"), "actor", "", json!({}), json!(["secret", "team"])),
        ("team", &prompt("start"), "actor", "", json!({}), json!(["team"])),
        ("full", &file, "heading", "ai", json!({ "path": "team/plan.md" }), json!(["Aims"])),
        ("team", &file, "heading", "", json!({ "path": "secret/plan.md" }), json!([])),
        ("full", &file, "heading", "", json!({}), json!([])),
        ("full", &prompt("review"), "draft_id", "", json!({}), json!([])),
        ("full", &prompt("start"), "view", "", json!({}), json!([])),
    ] {
        let params = json!({ "ref": reference, "argument": { "name": name, "value": value },
            "context": { "arguments": context } });
        let key = format!("Bearer {key}");
        let message = ("completion/complete", params.clone());
        let (_, answer) = ask_as(&protocol, &[("Authorization", &key)], message, &json!({})).await;
        assert_eq!(answer["result"]["completion"]["values"], expected, "{key} {params}: {answer}");
    }
    for (reference, name) in [
        (prompt("none"), "topic"),
        (json!({ "type": "ref/resource", "uri": "x://y" }), "path"),
        (prompt("start"), "none"),
    ] {
        let params = json!({ "ref": reference, "argument": { "name": name, "value": "" } });
        let (_, answer) = ask_as(&protocol, &full, ("completion/complete", params), &json!({})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_announces_what_its_key_may_read() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, FOLDER_KEY)).await;
    let full = [("Authorization", "Bearer full"), ("X-Actor", "a")];
    let wanted = json!({
        "resourcesListChanged": true, "toolsListChanged": true,
        "resourceSubscriptions": ["svc://file/team/a.md", "svc://tree/", "svc://file/secret/b.md", "nonsense"],
    });
    let mut events = listen(&protocol, &[("Authorization", "Bearer team")], wanted).await;
    let first = events.next().await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    let accepted = &first["params"]["notifications"];
    assert_eq!(accepted["resourceSubscriptions"].as_array().unwrap().len(), 3, "{first}");
    assert!(accepted.get("toolsListChanged").is_none(), "{first}");
    for path in ["secret/b.md", "team/a.md"] {
        let write = json!({ "name": "svc_write", "arguments": { "path": path, "content": "x\n" } });
        ask_as(&protocol, &full, ("tools/call", write), &json!({})).await;
    }
    let mut announced = Vec::new();
    while announced.len() < 3 {
        let event = events.next().await.unwrap();
        assert_eq!(event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "{event}");
        announced.push(event["params"]["uri"].as_str().or(event["method"].as_str()).unwrap().to_owned());
    }
    announced.sort_unstable();
    assert_eq!(announced, ["notifications/resources/list_changed", "svc://file/team/a.md", "svc://tree/"]);
    // The stream ends with a result when the server stops.
    protocol.server.stop.cancel();
    let last = events.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(1), &json!("complete")), "{last}");
    assert_eq!(events.next().await, None);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_ends_when_its_key_does() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, FOLDER_KEY)).await;
    let wanted = json!({ "resourceSubscriptions": ["svc://tree/"] });
    let mut events = listen(&protocol, &[("Authorization", "Bearer team")], wanted).await;
    events.next().await.unwrap();
    let keys = svcfs_config::KeyDigest::from_key("another");
    protocol.server.app.server.access().reload(svcfs_config::AuthSettings::ApiKey(keys)).unwrap();
    let another = [("Authorization", "Bearer another")];
    let write = json!({ "name": "svc_write", "arguments": { "path": "team/a.md", "content": "x\n" } });
    ask_as(&protocol, &another, ("tools/call", write), &json!({})).await;
    let last = events.next().await.unwrap();
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    assert_eq!(events.next().await, None);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_new_pages_are_one_change_of_the_list() {
    let protocol = Listening::on(TestServer::new()).await;
    let mut events = listen(&protocol, &[], json!({ "resourcesListChanged": true })).await;
    events.next().await.unwrap();
    let started = std::time::Instant::now();
    for n in 0..30 {
        protocol.server.put(&format!("{n}.md"), "x\n").await;
    }
    let most = started.elapsed().as_secs() + 2;
    let mut count = 0;
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(1500), events.next()).await {
        count += u64::from(event["method"] == "notifications/resources/list_changed");
    }
    drop(events);
    assert!((1..=most + 1).contains(&count), "{count} announcements in {:?}", started.elapsed());
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_over_stdio_subscribes_to_resources_of_2025() {
    let server = TestServer::new();
    let agents = AgentConnections::of(Arc::clone(&server.app), server.stop.clone());
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    let serving = tokio::spawn(async move { agents.serve(input, output, None).await });
    let (input, mut output) = tokio::io::split(ours);
    let mut lines = BufReader::new(input).lines();
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let mut answers = Vec::new();
    for (id, method, params) in [
        (0, "initialize", hello),
        (1, "resources/subscribe", json!({ "uri": "svc://file/a.md" })),
        (2, "resources/subscribe", json!({ "uri": "svc://file/b.md" })),
        (3, "resources/unsubscribe", json!({ "uri": "svc://file/b.md" })),
        (4, "resources/subscribe", json!({ "uri": "nonsense" })),
    ] {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        output.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        answers.push(answer);
    }
    assert_eq!(answers[0]["result"]["capabilities"]["resources"], json!({ "subscribe": true }), "{answers:?}");
    assert!(answers[1..4].iter().all(|answer| answer["result"].is_object()), "{answers:?}");
    assert_eq!(answers[4]["error"]["code"], -32002, "{answers:?}");
    server.put("b.md", "x\n").await;
    server.put("a.md", "x\n").await;
    let line = tokio::time::timeout(LONG, lines.next_line()).await.unwrap().unwrap().unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(announced["method"], "notifications/resources/updated", "{announced}");
    assert_eq!(announced["params"]["uri"], "svc://file/a.md", "{announced}");
    drop((output, lines));
    tokio::time::timeout(LONG, serving).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn far_reaching_calls_are_confirmed_by_token_or_by_the_user() {
    let protocol = Listening::on(TestServer::new()).await;
    for n in 0..12 {
        protocol.server.put(&format!("links/{n}.md"), "See [[hub]].\n").await;
    }
    protocol.server.put("hub.md", "# Hub\n").await;
    protocol.server.put("leaf.md", "# Leaf\n").await;
    call(&protocol, "svc_search", json!({ "query": "hub" })).await;
    // Without many links there is no question.
    assert_eq!(call(&protocol, "svc_delete", json!({ "path": "leaf.md" })).await["isError"], false);
    let asked = call(&protocol, "svc_delete", json!({ "path": "hub.md" })).await;
    assert!(text(&asked).starts_with("not done: 12 pages link to `hub.md`"), "{asked}");
    let token = |answer: &Value| {
        // The last line is the next call.
        let detail = text(answer).lines().find(|line| line.starts_with('{')).unwrap();
        serde_json::from_str::<Value>(detail).unwrap()["confirm"].clone()
    };
    let first = token(&asked);
    for (arguments, is_done) in [
        (json!({ "path": "links/0.md", "confirm": first }), true),
        // It would break other links now.
        (json!({ "path": "hub.md", "confirm": first }), false),
        (json!({ "path": "hub.md", "confirm": "forged" }), false),
    ] {
        call(&protocol, "svc_search", json!({ "query": "hub" })).await;
        let answer = call(&protocol, "svc_delete", arguments).await;
        assert_eq!(answer["isError"], !is_done, "{answer}");
    }
    protocol.server.put("links/0.md", "See [[hub]].\n").await;
    call(&protocol, "svc_search", json!({ "query": "hub" })).await;
    // A client that can ask its user.
    let asking = json!({ "elicitation": { "form": {} } });
    let delete = |extra: Value| {
        let mut params = json!({ "name": "svc_delete", "arguments": { "path": "hub.md" } });
        extra.as_object().unwrap().iter().for_each(|(name, value)| params[name] = value.clone());
        ("tools/call", params)
    };
    let ask_user = |extra: Value| ask_as(&protocol, &[], delete(extra), &asking);
    let question = ask_user(json!({})).await.1["result"].clone();
    assert_eq!(question["resultType"], "input_required", "{question}");
    let form = &question["inputRequests"]["confirm"];
    assert_eq!((&form["method"], &form["params"]["mode"]), (&json!("elicitation/create"), &json!("form")), "{form}");
    let state = question["requestState"].clone();
    let answered = |action: &str, confirm: bool, state: &Value| json!({ "requestState": state, "inputResponses": { "confirm": { "action": action, "content": { "confirm": confirm } } } });
    for (answer, result_type, is_error) in [
        (answered("decline", true, &state), "complete", Some(true)),
        (answered("accept", false, &state), "complete", Some(true)),
        (answered("accept", true, &json!("rs1.forged.state")), "input_required", None),
        (answered("accept", true, &state), "complete", Some(false)),
    ] {
        let result = ask_user(answer.clone()).await.1["result"].clone();
        assert_eq!(
            (result["resultType"].as_str(), result["isError"].as_bool()),
            (Some(result_type), is_error),
            "{answer}: {result}"
        );
    }
    // An undo shows its plan, and is confirmed with the token.
    let since = json!({ "since": "1h", "path_prefix": "links/3.md", "dry_run": false });
    let asked = call(&protocol, "svc_undo", since.clone()).await;
    assert!(text(&asked).contains("this undoes changes of 1 page: `links/3.md`"), "{asked}");
    let mut confirmed = since;
    confirmed["confirm"] = token(&asked);
    // Others write all day: that is no reason to ask again.
    protocol.server.put("unrelated.md", "# Unrelated\n").await;
    assert_eq!(call(&protocol, "svc_undo", confirmed).await["isError"], false);
    // The command line is not asked.
    let raw = json!({ "name": "svc_undo", "arguments": { "since": "1h", "dry_run": false }, "_meta": { "svcfs/structure": true } });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": raw });
    let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
    let (_, answer) = protocol.post("/mcp", &headers, &body).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_of_a_merge_are_put_to_the_user() {
    let protocol = Listening::on(TestServer::new()).await;
    protocol.server.put("a.md", "# A\n\none\n").await;
    let id = call(&protocol, "svc_draft_create", json!({})).await["structuredContent"]["id"].clone();
    call(&protocol, "svc_draft_write", json!({ "draft_id": id, "path": "a.md", "content": "# A\n\ndraft\n" })).await;
    protocol.server.put("a.md", "# A\n\ntree\n").await;
    let merge = |extra: Value| {
        let mut params = json!({ "name": "svc_draft_merge", "arguments": { "draft_id": id } });
        extra.as_object().unwrap().iter().for_each(|(name, value)| params[name] = value.clone());
        ("tools/call", params)
    };
    // Without a user the conflict is an error that says how to resolve it.
    let refused = ask_as(&protocol, &[], merge(json!({})), &json!({})).await.1;
    assert!(text(&refused["result"]).contains("resolve"), "{refused}");
    let asking = json!({ "elicitation": {} });
    let question = ask_as(&protocol, &[], merge(json!({})), &asking).await.1["result"].clone();
    let schema = &question["inputRequests"]["confirm"]["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["a.md"]["enum"], json!(["ours", "theirs"]), "{question}");
    let answer = json!({ "requestState": question["requestState"],
        "inputResponses": { "confirm": { "action": "accept", "content": { "a.md": "theirs" } } } });
    let merged = ask_as(&protocol, &[], merge(answer), &asking).await.1["result"].clone();
    assert_eq!(merged["isError"], false, "{merged}");
    assert!(text(&call(&protocol, "svc_read", json!({ "path": "a.md" })).await).ends_with("draft\n"));
    assert!(protocol.stopped().await);
}

/// A web server that answers each request late.
async fn slow_server() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _request = stream.read(&mut [0; 4096]).await;
                let _late = tokio::time::timeout(Duration::from_secs(3), std::future::pending::<()>()).await;
                let body = "# Slow\n\nA page that comes late.\n";
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/markdown\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _sent = stream.write_all(head.as_bytes()).await;
            });
        }
    });
    format!("http://{address}/late")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_call_becomes_a_task_or_reports_progress() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, "[net]\nallow = [\"127.0.0.1\"]\n")).await;
    let url = slow_server().await;
    let clip = json!({ "name": "svc_clip", "arguments": { "url": url } });
    let tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let as_task = ask_as(&protocol, &[], ("tools/call", clip.clone()), &tasks);
    // A client without tasks gets the result, after notifications if it requested them.
    let mut with_progress = clip.clone();
    with_progress["arguments"]["folder"] = json!("other");
    let mut waiting = request(&[], ("tools/call", with_progress), &json!({}));
    let body = std::mem::take(waiting.body_mut()).collect().await.unwrap().to_bytes();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["params"]["_meta"]["progressToken"] = json!("p");
    *waiting.body_mut() = Full::from(body.to_string());
    let ((_, created), waited) = tokio::join!(as_task, protocol.send(waiting));
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let mut events = Events(waited.into_body(), String::new());
    let first = events.next().await.unwrap();
    assert_eq!((&first["method"], &first["params"]["progressToken"]), (&json!("notifications/progress"), &json!("p")));
    let mut last = first;
    while let Some(event) = events.next().await {
        last = event;
    }
    assert_eq!(last["result"]["isError"], false, "{last}");
    let id = created["result"]["taskId"].clone();
    let get = || ask_as(&protocol, &[], ("tasks/get", json!({ "taskId": id })), &tasks);
    let mut state = get().await.1["result"].clone();
    let mut polls = tokio::time::interval(Duration::from_millis(50));
    for _ in 0..200 {
        if state["status"] != "working" {
            break;
        }
        polls.tick().await;
        state = get().await.1["result"].clone();
    }
    assert_eq!(state["status"], "completed", "{state}");
    assert_eq!(state["result"]["isError"], false, "{state}");
    let cancelled = ask_as(&protocol, &[], ("tasks/cancel", json!({ "taskId": id })), &tasks).await.1;
    assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    for unknown in ["0123", "../x"] {
        let (_, answer) = ask_as(&protocol, &[], ("tasks/get", json!({ "taskId": unknown })), &tasks).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn oauth_clients_find_the_provider_and_the_scope_that_they_lack() {
    let issuer = Issuer::new();
    let config = format!("{}[server]\npublic_url = \"https://notes.example.org\"\n", issuer.config());
    let protocol = Listening::on(TestServer::of(CATALOGUE, &config)).await;
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let metadata = protocol.server.get(path).await.json();
        assert_eq!(metadata["resource"], "https://notes.example.org/mcp", "{metadata}");
        assert_eq!(metadata["scopes_supported"], json!(["svc:read", "svc:propose", "svc:write", "svc:admin"]));
        assert_eq!(metadata["authorization_servers"].as_array().unwrap().len(), 1, "{metadata}");
    }
    let read = ("tools/call", json!({ "name": "svc_tree", "arguments": {} }));
    let write = ("tools/call", json!({ "name": "svc_write", "arguments": { "path": "a.md", "content": "x\n" } }));
    let tokens = [
        (None, &read, 401, Some("scope=\"svc:read\"")),
        (Some(issuer.forged()), &read, 401, Some("error=\"invalid_token\"")),
        (Some(issuer.token(json!({ "aud": "https://other.example.org/mcp" }))), &read, 401, Some("invalid_token")),
        (Some(issuer.token(json!({}))), &write, 200, None),
        (Some(issuer.token(json!({ "aud": "https://notes.example.org/mcp" }))), &write, 200, None),
        (Some(issuer.token(json!({ "scope": "openid svc:read" }))), &read, 200, None),
        (
            Some(issuer.token(json!({ "scope": "openid svc:read" }))),
            &write,
            403,
            Some("error=\"insufficient_scope\", scope=\"svc:write\""),
        ),
        (Some(issuer.token(json!({ "scp": ["svc:read", "svc:write"] }))), &write, 200, None),
        (Some(issuer.token(json!({ "scope": "openid profile" }))), &write, 200, None),
    ];
    for (token, message, status, challenge) in tokens {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
        let answer = protocol.send(request(&headers, (*message).clone(), &json!({}))).await;
        let given = answer.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(answer.status(), status, "{bearer:?} {message:?}: {given:?}");
        assert_eq!(given.is_some(), challenge.is_some(), "{given:?}");
        let given = given.unwrap_or_default();
        assert!(given.contains(challenge.unwrap_or_default()), "{given}");
        let address = "resource_metadata=\"https://notes.example.org/.well-known/oauth-protected-resource/mcp\"";
        assert!(challenge.is_none() || given.contains(address), "{given}");
    }
    assert!(protocol.stopped().await);
    // Keys are given out by people: there is no provider to find.
    let keys = TestServer::of(CATALOGUE, "[auth]\ntype = \"apikey\"\napi_key = \"k\"\n");
    assert_eq!(keys.get("/.well-known/oauth-protected-resource/mcp").await.status, 404);
}
