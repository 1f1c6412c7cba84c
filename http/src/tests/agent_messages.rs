//! What agents send over HTTP and on standard input: forms of answers, bodies that are no messages,
//! batches.

use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::connections::Listening;
use super::server::TestServer;
use crate::mcp::AgentConnections;

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Status, media type and text of the answer to a body.
async fn post(protocol: &Listening, headers: &[(&str, &str)], body: impl ToString) -> (u16, String, String) {
    let request = http::Request::post("/mcp").header("Host", "localhost");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let answer = protocol.send(request.body(Full::from(body.to_string())).unwrap()).await;
    let status = answer.status().as_u16();
    let mime = answer.headers().get("content-type").map_or("", |mime| mime.to_str().unwrap()).to_owned();
    if mime == "text/event-stream" {
        assert_eq!(answer.headers()["x-accel-buffering"], "no");
        assert_eq!(answer.headers()["cache-control"], "no-cache, no-transform");
    }
    let text = String::from_utf8(answer.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (status, mime, text)
}

fn message(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_that_takes_json_is_served() {
    let protocol = Listening::on(TestServer::new()).await;
    let list = message(1, "tools/list", json!({}));
    for accept in [None, Some("application/json"), Some("*/*"), Some("application/json, application/x"), Some("")] {
        let headers: Vec<_> = [JSON].into_iter().chain(accept.map(|accept| ("Accept", accept))).collect();
        let (status, mime, text) = post(&protocol, &headers, &list).await;
        assert_eq!((status, &*mime), (200, "application/json"), "{accept:?}: {text}");
        assert!(parsed(&text)["result"]["tools"].is_array());
    }
    let (status, mime, text) = post(&protocol, &[JSON, ("Accept", "text/event-stream")], &list).await;
    assert_eq!((status, &*mime), (200, "text/event-stream"));
    let data = text.strip_prefix("event: message\ndata: ").and_then(|text| text.strip_suffix("\n\n")).unwrap();
    assert!(parsed(data)["result"]["tools"].is_array());
    let (status, _, text) = post(&protocol, &[JSON, ("Accept", "text/html")], &list).await;
    assert_eq!(status, 406);
    assert!(parsed(&text)["error"].as_str().unwrap().starts_with("`Accept` "), "{text}");
    let (status, _, text) = post(&protocol, &[("Content-Type", "text/plain")], &list).await;
    assert!(status == 415 && parsed(&text)["error"].is_string(), "{text}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_no_message_are_json_rpc_errors() {
    let protocol = Listening::on(TestServer::new()).await;
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("{\"jsonrpc\":", -32700, Value::Null),
        ("not json", -32700, Value::Null),
        ("[{},", -32700, Value::Null),
        ("\"text\"", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        ("[]", -32600, Value::Null),
        ("{\"id\": 7, \"method\": \"tools/list\"}", -32600, json!(7)),
        ("{\"jsonrpc\": \"1.0\", \"id\": \"a\", \"method\": \"tools/list\"}", -32600, json!("a")),
    ] {
        for accept in ["application/json", "application/json, text/event-stream"] {
            let (status, mime, text) = post(&protocol, &[JSON, ("Accept", accept)], body).await;
            assert_eq!((status, &*mime), (400, "application/json"), "{body}: {text}");
            let answer = parsed(&text);
            assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &id), "{body}: {text}");
            assert_eq!(answer["error"]["code"], code, "{body}: {text}");
            assert!(answer["error"]["message"].is_string(), "{body}: {text}");
        }
    }
    for (method, params) in
        [("tools/call", json!({})), ("resources/read", json!({ "uri": 5 })), ("initialize", json!({}))]
    {
        let (status, _, text) = post(&protocol, &[JSON], message(3, method, params)).await;
        assert_eq!((status, &parsed(&text)["error"]["code"]), (200, &json!(-32602)), "{method}: {text}");
    }
    let (status, _, text) = post(&protocol, &[JSON], message(3, "no/such", json!({}))).await;
    assert_eq!(
        (status, &parsed(&text)["error"]["code"], &parsed(&text)["id"]),
        (200, &json!(-32601), &json!(3)),
        "{text}"
    );
    assert!(protocol.stopped().await);
}

/// Shows: HTTP-12
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_answered_where_the_protocol_has_batches() {
    let config = "[audit]\nenabled = true\n";
    let protocol = Listening::on(TestServer::of(svcfs_knowledge::CATALOGUE, config)).await;
    let write = json!({ "name": "svc_write", "arguments": { "path": "a.md", "content": "x\n" } });
    let read = json!({ "name": "svc_read", "arguments": { "path": "a.md" } });
    let batch = json!([
        message(1, "tools/call", write),
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        message(2, "tools/call", read),
        message(3, "initialize", json!({})),
        { "jsonrpc": "1.0", "id": 4, "method": "ping" },
        5,
        { "jsonrpc": "2.0", "id": "six", "method": "ping" },
    ]);
    for version in [None, Some("2025-03-26")] {
        let headers: Vec<_> =
            [JSON].into_iter().chain(version.map(|version| ("MCP-Protocol-Version", version))).collect();
        let (status, mime, text) = post(&protocol, &headers, &batch).await;
        assert_eq!((status, &*mime), (200, "application/json"), "{text}");
        let answers = parsed(&text);
        let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
        assert_eq!(json!(ids), json!([1, 2, 3, 4, null, "six"]), "{text}");
        assert!(answers[1]["result"]["content"][0]["text"].as_str().unwrap().ends_with("\n\nx\n"), "{text}");
        for wrong in [2, 3, 4] {
            assert_eq!(answers[wrong]["error"]["code"], -32600, "{text}");
        }
        assert!(answers[5]["result"].is_object(), "{text}");
    }
    let audit = protocol.server.get("/api/svc/audit").await.json();
    let mut asked: Vec<&str> =
        audit.as_array().unwrap().iter().filter_map(|entry| entry["operation"].as_str()).collect();
    asked.retain(|name| *name != "audit");
    asked.sort_unstable();
    assert_eq!(asked, ["read", "read", "write", "write"], "each is recorded by itself: {audit}");
    let notifications = json!([{ "jsonrpc": "2.0", "method": "notifications/initialized" }]);
    let (status, _, text) = post(&protocol, &[JSON], notifications).await;
    assert_eq!((status, &*text), (202, ""));
    for version in ["2025-06-18", "2026-07-28"] {
        let (status, _, text) = post(&protocol, &[JSON, ("MCP-Protocol-Version", version)], &batch).await;
        assert_eq!((status, &parsed(&text)["error"]["code"]), (400, &json!(-32600)), "{text}");
        assert!(text.contains("2025-03-26"), "{text}");
    }
    let many = Value::from(vec![message(1, "ping", json!({})); 101]);
    let (status, _, text) = post(&protocol, &[JSON], many).await;
    assert!(status == 400 && text.contains("101"), "{text}");
    assert!(protocol.stopped().await);
}

/// Shows: HTTP-12
#[tokio::test(flavor = "multi_thread")]
async fn each_message_of_a_batch_is_counted() {
    let config = "[server.rate_limit]\nrequests_per_minute = 1\nburst_size = 4\n";
    let protocol = Listening::on(TestServer::of(svcfs_knowledge::CATALOGUE, config)).await;
    let tree = |id| message(id, "tools/call", json!({ "name": "svc_tree", "arguments": {} }));
    let (status, _, text) = post(&protocol, &[JSON], json!((0..60).map(tree).collect::<Vec<_>>())).await;
    let answers = parsed(&text);
    let refused: Vec<&Value> =
        answers.as_array().unwrap().iter().filter(|answer| answer.get("error").is_some()).collect();
    assert!(status == 200 && answers[0]["result"].is_object(), "{text}");
    assert!(!refused.is_empty() && refused.iter().all(|answer| answer["error"]["code"] == -32000), "{text}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_and_rubbish_on_standard_input_are_answered() {
    let server = TestServer::new();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    let agents = AgentConnections::of(Arc::clone(&server.app), server.stop.clone());
    let talking = tokio::spawn(async move { agents.serve(input, output, None).await });
    let (input, mut output) = tokio::io::split(ours);
    let mut lines = BufReader::new(input).lines();
    let mut say = async |text: String| output.write_all(format!("{text}\n").as_bytes()).await.unwrap();
    let mut hear = async || parsed(&lines.next_line().await.unwrap().unwrap());
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client });
    say(message(0, "initialize", hello).to_string()).await;
    assert_eq!(hear().await["result"]["protocolVersion"], "2025-03-26");
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string()).await;

    let write = json!({ "name": "svc_write", "arguments": { "path": "a.md", "content": "x\n" } });
    let batch =
        json!([message(1, "tools/call", write), 5, message(2, "ping", json!({})), message(3, "initialize", json!({}))]);
    say(batch.to_string()).await;
    let answers = hear().await;
    let mut ids: Vec<String> = answers.as_array().unwrap().iter().map(|answer| answer["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3", "null"], "{answers}");
    for (line, code) in [("not json", -32700), ("[", -32700), ("{}", -32600), ("[]", -32600)] {
        say(line.to_owned()).await;
        assert_eq!(hear().await["error"]["code"], code, "{line}");
    }
    say(format!("\n\r\n  {}\r", message(9, "ping", json!({})))).await;
    assert_eq!(hear().await["id"], 9, "the conversation goes on");
    // Longer than the 16 MiB that `rmcp` takes, as a page may be.
    let long = json!({ "name": "svc_write", "arguments": { "path": "b.bin", "content": "a".repeat(20 << 20) } });
    say(message(10, "tools/call", long).to_string()).await;
    assert_eq!(hear().await["result"]["isError"], false);
    drop((lines, output));
    talking.await.unwrap().unwrap();
}
