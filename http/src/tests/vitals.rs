//! `/metrics` and `/readyz`: what operators and strangers are told.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;
use svcfs_config::SpaceVisibility;
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::metrics::{ProtocolEndpoint, ProtocolServer};

use super::server::{Answer, TestServer};

const CLOSED: &str = "[auth]\ntype = \"apikey\"\napi_key = \"the-key-of-this-test\"\n";
const KEY: (&str, &str) = ("Authorization", "Bearer the-key-of-this-test");

/// The answer of `/readyz` without what changes while the index follows.
fn without_index(mut answer: serde_json::Value) -> serde_json::Value {
    let index = answer.as_object_mut().and_then(|answer| answer.remove("index"));
    assert!(index.is_some_and(|index| index["complete"].is_boolean() && index["behind"].is_u64()), "{answer}");
    answer
}

/// The value of a sample, by its name and labels as they are written.
fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Shows: AUTH-1
#[tokio::test]
async fn a_stranger_learns_from_no_page_which_spaces_there_are() {
    let server = TestServer::of(CATALOGUE, CLOSED);
    for page in ["/health", "/healthz", "/readyz", "/metrics", "/api/openapi.json", "/api/docs", "/api/docs/index.html"]
    {
        let ask = async |space: &'static str, key: Option<(&'static str, &'static str)>| {
            let headers: Vec<_> = [("X-Svc-Space", space)].into_iter().chain(key).collect();
            let Answer { status, body, .. } = server.ask(&format!("GET {page}"), &headers, "").await;
            // Time goes on meanwhile.
            let steady = !matches!(page, "/healthz" | "/metrics");
            (status, steady.then_some(body))
        };
        assert_eq!(ask("other", None).await, ask("nobody", None).await, "{page} by a stranger");
        let wrong = Some(("Authorization", "Bearer wrong"));
        assert_eq!(ask("other", wrong).await, ask("nobody", wrong).await, "{page} with a wrong key");
        let (there, missing) = (ask("other", Some(KEY)).await, ask("nobody", Some(KEY)).await);
        let expected = if page == "/readyz" { (200, 404) } else { (there.0, there.0) };
        assert_eq!((there.0, missing.0), expected, "{page} with the key");
    }
    let named = server.ask("GET /readyz", &[("X-Svc-Space", "other")], "").await;
    assert_eq!(named.error(401), "missing bearer token");
    server.app.server.spaces().find("other").unwrap().set_visibility(SpaceVisibility::Public);
    assert_eq!(server.ask("GET /readyz", &[("X-Svc-Space", "other")], "").await.status, 200, "a public space");
}

#[tokio::test]
async fn metrics_are_gauges_in_the_text_format() {
    let server = TestServer::new();
    let answer = server.get("/metrics").await;
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        "# TYPE svc_build_info gauge".to_owned(),
        format!("svc_build_info{{version=\"{version}\"}} 1"),
        "# TYPE svc_uptime_seconds gauge".to_owned(),
        "svc_sse_subscribers 0".to_owned(),
    ] {
        assert!(answer.text().lines().any(|told| told == line), "{line} is not in {}", answer.text());
    }
}

#[tokio::test]
async fn operations_are_counted_by_protocol_and_outcome() {
    let server = TestServer::new();
    server.put("a.md", "# A\n").await;
    assert_eq!(server.get("/api/svc/file?path=none.md").await.status, 404);
    let answer = server.get("/metrics").await;
    let text = answer.text();
    for (name, value) in [
        ("svc_operations_total{protocol=\"http\",operation=\"write\",outcome=\"ok\"}", 1.0),
        ("svc_operations_total{protocol=\"http\",operation=\"read\",outcome=\"NotFound\"}", 1.0),
        ("svc_operation_seconds_count{protocol=\"http\",operation=\"write\"}", 1.0),
        ("svc_space_open{space=\"other\"}", 1.0),
        ("svc_space_writable{space=\"default\"}", 1.0),
        ("svc_queue_sets{space=\"default\"}", 0.0),
        ("svc_lane_places{lane=\"quick\"}", 64.0),
        ("svc_task_failing{space=\"default\",task=\"indexer\"}", 0.0),
        ("svc_mounts", 0.0),
    ] {
        assert_eq!(sample(text, name), Some(value), "{name} in {text}");
    }
    let flushes = sample(text, "svc_flush_seconds_count{space=\"default\",what=\"log\"}");
    assert!(flushes.is_some_and(|count| count >= 1.0), "{text}");
    assert!(sample(text, "svc_changes_total{space=\"default\"}").is_some_and(|position| position >= 1.0), "{text}");
}

#[tokio::test]
async fn strangers_learn_no_names_of_spaces() {
    let server = TestServer::of(CATALOGUE, CLOSED);
    let told = server.get("/metrics").await;
    assert_eq!(told.status, 200);
    assert!(!told.text().contains("space=\"") && told.text().contains("svc_uptime_seconds"), "{}", told.text());
    assert_eq!(without_index(server.get("/readyz").await.json()), json!({ "status": "ready" }));
    let told = server.ask("GET /metrics", &[KEY], "").await;
    assert!(told.text().contains("space=\"other\""), "{}", told.text());
    let told = server.ask("GET /readyz", &[KEY], "").await.json();
    let names: Vec<_> = told["spaces"].as_array().unwrap().iter().map(|space| &space["name"]).collect();
    assert_eq!(names, ["default", "other"]);
    let wrong = ("Authorization", "Bearer of bad news");
    assert_eq!(without_index(server.ask("GET /readyz", &[wrong], "").await.json()), json!({ "status": "ready" }));
}

#[tokio::test]
async fn an_unhealthy_space_is_named_and_does_not_affect_others() {
    let server = TestServer::new();
    let healthy = server.get("/readyz").await.json();
    assert_eq!((&healthy["status"], &healthy["problems"]), (&json!("ready"), &json!([])));
    assert_eq!(healthy["spaces"][0]["writable"], true);
    server.app.server.spaces().find("other").unwrap().vfs.close().unwrap();
    let answer = server.get("/readyz").await;
    let told = answer.json();
    assert_eq!((answer.status, &told["status"]), (200, &json!("ready")), "{told}");
    assert_eq!(
        (&told["problems"][0]["component"], &told["problems"][0]["space"]),
        (&json!("storage"), &json!("other")),
        "{told}"
    );
    let answer = server.ask("GET /readyz", &[("X-Svc-Space", "other")], "").await;
    assert_eq!((answer.status, &answer.json()["status"]), (503, &json!("storage-unreachable")));
    assert_eq!(server.ask("GET /readyz", &[("X-Svc-Space", "no-such")], "").await.status, 404);
}

#[tokio::test]
async fn an_unresponsive_protocol_server_is_reported_to_anonymous_too() {
    let server = TestServer::of(CATALOGUE, CLOSED);
    let failing =
        ProtocolEndpoint { port: 2049, client_address: None, probe: Box::new(|| Err("nobody listens".to_owned())) };
    server.app.server.metrics().add_protocol(ProtocolServer { name: "nfs", endpoint: Some(failing) });
    server.app.server.metrics().add_protocol(ProtocolServer { name: "webdav", endpoint: None });
    let answer = server.get("/readyz").await;
    let expected = json!({
        "status": "protocol-unhealthy",
        "error": "nfs: nobody listens",
        "protocols": {
            "nfs": { "enabled": true, "healthy": false, "port": 2049, "error": "nobody listens" },
            "webdav": { "enabled": false },
        },
    });
    assert_eq!((answer.status, without_index(answer.json())), (503, expected));
    let told = server.ask("GET /metrics", &[KEY], "").await;
    assert_eq!(sample(told.text(), "svc_protocol_healthy{protocol=\"nfs\"}"), Some(0.0), "{}", told.text());
}

/// Reads both forms with the parsers that Prometheus's own Python library brings.
const READS: &str = "
import sys
from prometheus_client.parser import text_string_to_metric_families as text
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
families = {family.name: family for family in {'text': text, 'openmetrics': openmetrics}[sys.argv[1]](sys.stdin.read())}
untyped = [name for name, family in families.items() if family.type in ('unknown', 'untyped')]
assert not untyped, untyped
assert families['svc_operations'].type == 'counter', families['svc_operations']
assert families['svc_operation_seconds'].type == 'histogram'
assert families['svc_build_info'].type == 'gauge'
print(len(families))
";

#[tokio::test]
async fn the_parsers_of_prometheus_read_both_forms() {
    let server = TestServer::new();
    server.put("a.md", "# A\n").await;
    for (form, accept, mime) in [
        ("text", "*/*", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "openmetrics",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
    ] {
        let answer = server.ask("GET /metrics", &[("Accept", accept)], "").await;
        assert_eq!(answer.header("content-type"), mime);
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", READS, form]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut reader = python.spawn().unwrap();
        reader.stdin.take().unwrap().write_all(answer.text().as_bytes()).unwrap();
        let output = reader.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{form}: {told} (the Debian package python3-prometheus-client is needed)\n{}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn readiness_says_whether_the_search_index_is_current() {
    let server = TestServer::new();
    server.put("a.md", "# A\n").await;
    // A search of the client that wrote waits for the index.
    assert_eq!(server.get("/api/svc/search?q=a").await.status, 200);
    for page in ["/healthz", "/readyz"] {
        let answer = server.get(page).await;
        let told: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(told["index"], json!({ "complete": true, "behind": 0 }), "{page}");
    }
}
