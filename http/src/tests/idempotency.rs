//! Requests with an id, and the limits of agents.

use http::header::RETRY_AFTER;
use serde_json::{Value, json};

use super::agents::{ask, call};
use super::connections::Listening;
use super::server::TestServer;

const KEY: &str = "Idempotency-Key";

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_write_is_done_once_on_every_kind_of_route() {
    let server = TestServer::new();
    let bulk = json!({ "files": [{ "path": "b.md", "content": "b" }] }).to_string();
    for (index, (line, body)) in [
        ("POST /api/svc/file/append?path=a.md", "one"),
        ("POST /api/svc/bulk", bulk.as_str()),
        ("PUT /api/svc/file?path=c.md", "c"),
        ("DELETE /api/svc/file?path=c.md", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("\"id {index}\"");
        let headers = [(KEY, id.as_str()), ("Content-Type", "application/json")];
        let first = server.ask(line, &headers, body.to_owned()).await;
        assert_eq!(first.status, 200, "{line}: {}", first.text());
        assert!(!first.headers.contains_key("Idempotency-Replayed"));
        let again = server.ask(line, &headers, body.to_owned()).await;
        assert_eq!((again.status, again.text()), (200, first.text()), "{line}");
        assert_eq!(again.headers["Idempotency-Replayed"], "true", "{line}");
        assert_eq!(again.headers.get("ETag"), first.headers.get("ETag"), "{line}");
    }
    assert_eq!(server.get("/api/svc/file?path=a.md").await.text(), "one");
    let reused = server.ask("PUT /api/svc/file?path=d.md", &[(KEY, "id 0")], "d").await;
    assert_eq!(reused.status, 422, "{}", reused.text());
    for invalid in ["", "\u{e9}", &"x".repeat(129)] {
        let refused = server.ask("PUT /api/svc/file?path=d.md", &[(KEY, invalid)], "d").await;
        assert_eq!(refused.status, 400, "{invalid:?}: {}", refused.text());
    }
    let read = server.ask("GET /api/svc/file?path=a.md", &[(KEY, "id 0")], "").await;
    assert_eq!((read.status, read.text()), (200, "one"), "it has no meaning for reads");
    let elsewhere = server.ask("POST /api/svc/other/file/append?path=a.md", &[(KEY, "id 0")], "one").await;
    assert!(elsewhere.status == 200 && !elsewhere.headers.contains_key("Idempotency-Replayed"), "another space");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeats_wait_for_the_request_in_flight() {
    let server = TestServer::new();
    let send = || server.ask("POST /api/svc/file/append?path=a.md", &[(KEY, "same")], "line");
    let answers = futures_util::future::join_all((0..32).map(|_| send())).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let first = answers.iter().filter(|answer| !answer.headers.contains_key("Idempotency-Replayed")).count();
    assert_eq!((first, server.get("/api/svc/file?path=a.md").await.text()), (1, "line"));
    let turn = server.app.requests_in_flight.wait_turn((server.space().name.clone(), id_of("busy"))).await;
    let busy = server.ask("PUT /api/svc/file?path=b.md", &[(KEY, "busy")], "b").await;
    assert_eq!((busy.status, busy.headers[RETRY_AFTER].to_str().unwrap()), (409, "2"), "{}", busy.text());
    drop(turn);
    assert_eq!(server.ask("PUT /api/svc/file?path=b.md", &[(KEY, "busy")], "b").await.status, 200);
}

/// The id under which a request without credentials and name is known.
fn id_of(key: &str) -> [u8; 16] {
    let caller = svcfs_base::Caller::new(svcfs_base::Protocol::Http);
    svcfs_knowledge::idempotency::request_id(&caller, &svcfs_base::RequestKey::parse("key", key).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_repeats_a_call_by_its_request_id() {
    let protocol = Listening::on(TestServer::new()).await;
    let arguments = json!({ "path": "a.md", "content": "one", "request_id": "r1" });
    let first = call(&protocol, "svc_append", arguments.clone()).await;
    let again = call(&protocol, "svc_append", arguments.clone()).await;
    assert_eq!(again["result"]["structuredContent"]["replayed"], true, "{again}");
    let etag = |answer: &Value| answer["result"]["structuredContent"]["etag"].clone();
    assert!(etag(&again).is_string() && etag(&again) == etag(&first));
    let text = again["result"]["content"].to_string();
    assert!(text.contains("replayed:"), "{text}");
    let other = call(&protocol, "svc_append", json!({ "path": "a.md", "content": "two", "request_id": "r1" })).await;
    assert!(other["result"]["isError"] == true && other.to_string().contains("use a new id"), "{other}");
    assert_eq!(protocol.server.get("/api/svc/file?path=a.md").await.text(), "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_writing_tool_takes_a_request_id_and_no_other_does() {
    let protocol = Listening::on(TestServer::new()).await;
    let tools = ask(&protocol, "tools/list", json!({})).await;
    for tool in tools["result"]["tools"].as_array().unwrap() {
        let has_id = tool["inputSchema"]["properties"].get("request_id").is_some();
        assert_eq!(has_id, tool["annotations"]["readOnlyHint"] == false, "{}", tool["name"]);
    }
}

const LIMITS: &str = "[agents.limits]\ndeletes_per_minute = 1\n[auth]\ntype = \"perspace\"\n\
    [[auth.api_keys]]\nkey = \"admin\"\n[[auth.api_keys]]\nkey = \"plain\"\nscope = \"write\"\n\
    [[auth.api_keys]]\nkey = \"limited\"\nscope = \"write\"\nlimits = true\n";

#[tokio::test(flavor = "multi_thread")]
async fn limits_apply_to_agent_tools_and_to_keys_that_say_so() {
    let protocol = Listening::on(TestServer::of(svcfs_knowledge::CATALOGUE, LIMITS)).await;
    let server = &protocol.server;
    let rest = |key: &'static str, page: &'static str| async move {
        let bearer = format!("Bearer {key}");
        let headers = [("Authorization", bearer.as_str())];
        let put = server.ask(&format!("PUT /api/svc/file?path={page}"), &headers, "x").await;
        assert_eq!(put.status, 200, "{}", put.text());
        server.ask(&format!("DELETE /api/svc/file?path={page}"), &headers, "").await
    };
    for key in ["admin", "plain"] {
        assert_eq!((rest(key, "a.md").await.status, rest(key, "b.md").await.status), (200, 200), "{key}");
    }
    assert_eq!(rest("limited", "a.md").await.status, 200);
    let refused = rest("limited", "b.md").await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(refused.headers.contains_key(RETRY_AFTER) && refused.text().contains("svc_draft_create"));
    for (key, may_delete_more) in [("plain", false), ("admin", true)] {
        let bearer = format!("Bearer {key}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let mut outcomes = Vec::new();
        for page in ["c.md", "d.md"] {
            rest("admin", "unrelated.md").await;
            let put = server.ask(&format!("PUT /api/svc/file?path={page}"), &headers[..1], "x").await;
            assert_eq!(put.status, 200);
            let params = json!({ "name": "svc_delete", "arguments": { "path": page } });
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            let (_, answer) = protocol.post("/mcp", &headers, &body).await;
            outcomes.push(answer["result"]["isError"] == false);
        }
        assert_eq!(outcomes, [true, may_delete_more], "{key}");
    }
}
