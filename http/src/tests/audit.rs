//! What the audit log tells of requests.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use svcfs_knowledge::CATALOGUE;
use svcfs_work::Lane;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connections::Listening;
use super::server::TestServer;

const LONG: Duration = Duration::from_secs(20);
const ON: &str = "[audit]\nenabled = true\n[auth]\ntype = \"perspace\"\n\
    [[auth.api_keys]]\nkey = \"boss\"\nactor = \"ann\"\n\
    [[auth.api_keys]]\nkey = \"writer\"\nactor = \"agent:scribe\"\nscope = \"write\"\n";

async fn entries(server: &TestServer) -> Vec<Value> {
    let answer = server.ask("GET /api/svc/audit", &[("Authorization", "Bearer boss")], "").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().as_array().unwrap().clone()
}

/// Shows: AUTH-8
#[tokio::test]
async fn every_request_is_audited_with_caller_and_result_without_key() {
    let server = TestServer::of(CATALOGUE, ON);
    let written = [
        ("Authorization", "Bearer writer"),
        ("X-Actor", "mallory"),
        ("X-Space", "claimed"),
        ("X-Provenance", "run:249"),
    ];
    assert_eq!(server.ask("PUT /api/svc/file?path=a.md", &written, "# A\n").await.status, 200);
    assert_eq!(server.ask("GET /api/svc/tree", &[("Authorization", "Bearer wrong-key")], "").await.status, 401);
    assert_eq!(server.ask("GET /api/svc/other/tree", &[("Authorization", "Bearer writer")], "").await.status, 200);
    assert_eq!(server.get("/no/such/place").await.status, 404);
    for watched in ["/health", "/healthz", "/readyz", "/metrics"] {
        server.get(watched).await;
    }
    let entries = entries(&server).await;
    let [put, wrong, nowhere] = &entries[..] else { panic!("{entries:#?}") };
    for (name, value) in [
        ("method", json!("PUT")),
        ("path", json!("/api/svc/file")),
        ("query", json!("path=a.md")),
        ("operation", json!("write")),
        ("file", json!("a.md")),
        ("space", json!("default")),
        ("actor", json!("agent:scribe")),
        ("token_hash", json!(svcfs_config::KeyDigest::from_key("writer").short_hex(4))),
        ("status", json!(200)),
        ("x_space", json!("claimed")),
        ("provenance", json!("run:249")),
        ("protocol", json!("http")),
    ] {
        assert_eq!(put[name], value, "{name}");
    }
    assert!(put["ts"].is_string() && put["duration_ms"].is_u64() && put["request_id"].is_string(), "{put}");
    assert_eq!((&wrong["status"], &wrong["actor"]), (&json!(401), &json!("anonymous")));
    assert_eq!(wrong["token_hash"].as_str().map(str::len), Some(8), "who tries keys is seen to");
    assert_eq!((&nowhere["status"], &nowhere["space"]), (&json!(404), &Value::Null));
    let text = json!(entries).to_string();
    assert!(!text.contains("wrong-key") && !text.contains("boss") && !text.contains("# A"), "{text}");
}

#[tokio::test]
async fn the_log_is_for_admins() {
    let server = TestServer::of(CATALOGUE, ON);
    assert_eq!(server.get("/api/svc/audit").await.status, 401);
    assert_eq!(server.ask("GET /api/svc/audit", &[("Authorization", "Bearer writer")], "").await.status, 403);
    let elsewhere = server.ask("GET /api/svc/other/audit", &[("Authorization", "Bearer boss")], "").await;
    assert_eq!(elsewhere.json(), json!([]), "each space has a log of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_audited_by_their_effect() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, ON)).await;
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Authorization", "Bearer writer"),
    ];
    for (tool, path) in [("svc_write", "a.md"), ("svc_read", "none.md")] {
        let content =
            if tool == "svc_write" { json!({ "path": path, "content": "# A\n" }) } else { json!({ "path": path }) };
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": content } });
        assert_eq!(protocol.post("/mcp", &headers, &body).await.0, 200);
    }
    let entries = entries(&protocol.server).await;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| {
            json!([entry["protocol"], entry["operation"], entry["file"], entry["status"], entry["actor"], entry["ip"]])
        })
        .collect();
    let of =
        |operation: &str, file: &str, status: u16| json!(["mcp", operation, file, status, "agent:scribe", "127.0.0.1"]);
    assert_eq!(told, [of("write", "a.md", 200), of("read", "none.md", 404)]);
    assert!(protocol.stopped().await);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_makes_the_server_unready() {
    let server = TestServer::of(CATALOGUE, ON);
    let audit = server.space().audit.as_ref().unwrap();
    let place = server.space().vfs.root().join(".svc/audit");
    std::os::unix::fs::symlink("/proc/no/such/place", &place).unwrap();
    server.get("/api/svc/tree").await;
    assert!(audit.flush().is_err());
    let unready = server.get("/readyz").await;
    assert_eq!(unready.status, 503);
    assert!(unready.json()["error"].as_str().unwrap().starts_with("cannot write the audit log"), "{}", unready.text());
    let metrics = server.get("/metrics").await;
    assert!(metrics.text().contains("svc_audit_waiting 1\n") && metrics.text().contains("svc_audit_lost 0\n"));
}

/// What the log tells first, as it is on the disk: nobody has to be asked for it.
fn first_line(server: &TestServer) -> Option<Value> {
    server.space().audit.as_ref().unwrap().flush().unwrap();
    let day = std::fs::read_dir(server.space().vfs.root().join(".svc/audit")).ok()?.next()?.unwrap().path();
    serde_json::from_str(std::fs::read_to_string(day).unwrap().lines().next()?).ok()
}

/// Shows: AUTH-8
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_disconnected_clients_are_audited_too() {
    let protocol = Listening::on(TestServer::of(CATALOGUE, ON)).await;
    let lanes = &protocol.server.app.lanes;
    // So many are there that the next one waits for its turn.
    let (over, mut held) = (CancellationToken::new(), JoinSet::new());
    for lane in [Lane::Quick, Lane::Slow] {
        for _ in 0..lanes.occupancy(lane).capacity {
            let (lanes, over, here) = (Arc::clone(lanes), over.clone(), Handle::current());
            held.spawn(async move { lanes.run_spawned(lane, move || here.block_on(over.cancelled())).await });
        }
    }
    while [Lane::Quick, Lane::Slow].map(|lane| lanes.occupancy(lane)).iter().any(|lane| lane.busy < lane.capacity) {
        tokio::task::yield_now().await;
    }
    let mut stream = TcpStream::connect(protocol.address).await.unwrap();
    let ask = "GET /api/svc/tree HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer writer\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    while lanes.occupancy(Lane::Quick).waiting + lanes.occupancy(Lane::Slow).waiting == 0 {
        tokio::task::yield_now().await;
    }
    drop(stream);
    let gone = tokio::time::timeout(LONG, async {
        loop {
            if let Some(gone) = first_line(&protocol.server) {
                return gone;
            }
            tokio::task::yield_now().await;
        }
    });
    let gone = gone.await;
    over.cancel();
    let gone: Value = gone.expect("who went away is not kept");
    held.join_all().await.into_iter().for_each(|outcome| outcome.unwrap());
    let told = (&gone["status"], &gone["actor"], &gone["operation"]);
    assert_eq!(told, (&json!(499), &json!("agent:scribe"), &json!("tree")));
    assert!(protocol.stopped().await);
}
