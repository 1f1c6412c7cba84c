//! Connections of agents on this machine, and how they end.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::server::TestServer;
use crate::mcp::{AgentConnections, DRAINED, StopReason};

fn request(id: u32, method: &str, params: Value) -> String {
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_connection_answers_what_it_has_read_and_says_so() {
    for (reason, handover) in [(StopReason::Ended, false), (StopReason::HandedOver, true)] {
        let server = TestServer::new();
        let agents = AgentConnections::of(Arc::clone(&server.app), server.stop.clone());
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let serving = agents.clone();
        let serving = tokio::spawn(async move { serving.serve(input, output, None).await });
        let (input, mut output) = tokio::io::split(ours);
        let mut lines = BufReader::new(input).lines();
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        output.write_all(request(0, "initialize", hello).as_bytes()).await.unwrap();
        lines.next_line().await.unwrap().unwrap();
        for id in 1..=20 {
            let arguments = json!({ "path": format!("{id}.md"), "content": "x\n" });
            let params = json!({ "name": "svc_write", "arguments": arguments });
            output.write_all(request(id, "tools/call", params).as_bytes()).await.unwrap();
        }
        // A message that is cut off is not executed.
        output.write_all(b"{\"jsonrpc\": \"2.0\", \"id\": 21").await.unwrap();
        // One answer shows that the connection reads.
        let mut answered = vec![lines.next_line().await.unwrap().unwrap()];
        agents.stop(reason);
        while let Some(line) = lines.next_line().await.unwrap() {
            answered.push(line);
        }
        serving.await.unwrap().unwrap();
        let last: Value = serde_json::from_str(&answered.pop().unwrap()).unwrap();
        assert_eq!((&last["method"], &last["params"]["handover"]), (&json!(DRAINED), &json!(handover)));
        // Every executed request is answered, and no other.
        let written = server.get("/api/svc/tree").await.json();
        let names = written.as_array().unwrap().iter().filter(|node| node["name"].as_str().unwrap().ends_with(".md"));
        assert_eq!(names.count(), answered.len(), "{written}");
        assert!(!agents.has_space(Some("none")) && agents.has_space(None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_message_says_that_it_has_stopped() {
    let server = TestServer::new();
    let agents = AgentConnections::of(Arc::clone(&server.app), server.stop.clone());
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    agents.stop(StopReason::Ended);
    agents.serve(input, output, None).await.unwrap();
    let mut lines = BufReader::new(ours).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains(DRAINED));
    assert_eq!(lines.next_line().await.unwrap(), None);
}
