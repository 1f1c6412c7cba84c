//! A small blocking HTTP client over hyper, one connection for each request.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::OnceLock;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

use super::wait;

/// The prefix of all knowledge endpoints.
pub const PREFIX: &str = "/api/svc";

/// One who asks a server.
pub struct Client {
    runtime: Runtime,
    address: SocketAddr,
}

/// What a server answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    /// The body as text; replaces what is none.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
    /// This answer, when it is a success; else what was refused.
    pub fn success(self) -> Result<Self, String> {
        match self.status {
            200..=299 => Ok(self),
            status => Err(format!("{status}: {}", self.text())),
        }
    }
}

/// Why no answer came.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Client {
    /// A client of the server at an address.
    pub fn new(address: SocketAddr) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, address }
    }

    /// Where the server answers that it asks.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request; fails when the connection does.
    pub fn try_send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Reply, Failure> {
        let mut request = hyper::Request::builder().method(method).uri(target).header(HOST, self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        let request = request.body(Full::new(body.into()))?;
        self.runtime.block_on(async {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let conversation = tokio::spawn(connection);
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            drop(sender);
            conversation.await??;
            Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
        })
    }

    /// Sends a request to a server that must answer.
    #[track_caller]
    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        match self.try_send(method, target, headers, body) {
            Ok(reply) => reply,
            Err(failure) => panic!("{method} {target}: no answer: {failure}"),
        }
    }

    /// Reads a page of the server.
    #[track_caller]
    pub fn get(&self, target: &str) -> Reply {
        self.send("GET", target, &[], "")
    }

    /// Paths that a search for a word finds, below the prefix.
    #[track_caller]
    pub fn found(&self, word: &str) -> Vec<String> {
        let reply = self.get(&endpoint("/search", &[("q", word)]));
        assert_eq!(reply.status, 200, "search for `{word}`: {}", reply.text());
        let hits = reply.json();
        hits.as_array().unwrap().iter().map(|hit| hit["path"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until a search for a word finds exactly these paths: what other clients wrote is found
    /// 500 ms later at most.
    #[track_caller]
    pub fn until_found(&self, word: &str, paths: &[&str]) {
        wait::until(&format!("`{word}` is found in {paths:?}"), || self.found(word) == paths);
    }

    /// Calls a tool; the structured result, or what was refused. Of a tool that answers with a text
    /// alone the structure is asked for.
    pub fn tool(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let meta = if output_schemas().contains_key(name) { json!({}) } else { json!({ "svcfs/structure": true }) };
        let reply = self.agent("tools/call", json!({ "name": name, "arguments": arguments, "_meta": meta }));
        if reply.status != 200 {
            return Err(format!("{}: {}", reply.status, reply.text()));
        }
        let answer = reply.json();
        if let Some(error) = answer.get("error") {
            return Err(error.to_string());
        }
        let result = &answer["result"];
        if result["isError"] == true {
            return Err(result["content"][0]["text"].as_str().unwrap_or_default().to_owned());
        }
        check_result(name, result);
        Ok(result["structuredContent"].clone())
    }

    /// Asks `/mcp`.
    pub fn agent(&self, method: &str, parameters: Value) -> Reply {
        self.agent_at("/mcp", method, parameters)
    }

    /// Asks an endpoint for agents.
    pub fn agent_at(&self, target: &str, method: &str, parameters: Value) -> Reply {
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
        let headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2025-06-18"),
        ];
        self.send("POST", target, &headers, question.to_string())
    }
}

/// An endpoint with its query.
pub fn endpoint(path: &str, query: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { format!("{PREFIX}{path}") } else { format!("{PREFIX}{path}?{}", pairs.join("&")) }
}

/// A text as it stands in a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The output schemas of the tools that have one.
fn output_schemas() -> &'static HashMap<String, jsonschema::Validator> {
    static SCHEMAS: OnceLock<HashMap<String, jsonschema::Validator>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let tools: Vec<Value> = serde_json::from_str(&svcfs_http::mcp::tools()).unwrap();
        let schema = |tool: &Value| {
            let schema = tool.get("outputSchema")?;
            Some((tool["name"].as_str()?.to_owned(), jsonschema::validator_for(schema).unwrap()))
        };
        tools.iter().filter_map(schema).collect()
    })
}

/// Holds a tool's result against the schema that is published for it.
#[track_caller]
pub fn check_result(name: &str, result: &Value) {
    let Some(schema) = output_schemas().get(name) else { return };
    let structure = &result["structuredContent"];
    let faults: Vec<String> =
        schema.iter_errors(structure).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(faults, [""; 0], "{name}: {structure}");
}
