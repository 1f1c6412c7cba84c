//! A running server, asked over HTTP as any other client asks it.
//!
//! One rule: the answer is the JSON the operation gives in this process, too. Tools are called as tools, because a tool's
//! arguments and answer are exactly that JSON; what is no tool is asked by its route, and a route that answers with a text
//! is put back into the member the text came from.

use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use svcfs_knowledge::kernel::{BodyKind, OperationEntry, Route};
use svcfs_knowledge::metrics::ReadinessReport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

/// How long a server may take to answer: longer than it lets any operation wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long it may take to say whether it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(5);

/// What tools are called (contract 4.21).
const TOOL_PREFIX: &str = "svc_";

/// Kept as it is in a URL (RFC 3986, unreserved).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One call of an operation.
pub struct OperationCall {
    /// Which operation.
    pub entry: &'static OperationEntry,
    /// Its inputs.
    pub arguments: Map<String, Value>,
    /// Who changes something, for the commit.
    pub actor: Option<String>,
    /// The page must still have this ETag.
    pub if_match: Option<String>,
    /// Which space; the primary one when absent.
    pub space: Option<String>,
    /// What the server is asked with, if it wants to know who asks.
    pub token: Option<String>,
}

/// Asks the server at `url`.
///
/// # Errors
/// `Failed` when it cannot be reached or fails, `Refused` when it refuses, in its own words.
pub fn ask(url: &str, question: OperationCall) -> Result<Value, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let base = base(url)?;
    let answer = async {
        match question.entry.http.first() {
            Some(route) if !question.entry.tool => by_route(&base, route, question).await,
            Some(_) | None => as_tool(&base, question).await,
        }
    };
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| {
            let told = format!("{url} did not answer within {} s", PATIENCE.as_secs());
            Err(CommandFailure::saying(ExitStatus::Failed, told))
        })
    })
}

/// Why the server at `url` takes no writes now; none when it does.
///
/// # Errors
/// `Failed` when it cannot be reached.
pub fn trouble(url: &str) -> Result<Option<String>, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let base: Uri = url.parse().context("the server's address cannot be read")?;
    let request = Request::get("/readyz").body(Full::new(Bytes::new())).context("the request cannot be written")?;
    let asked = async { tokio::time::timeout(READY_PATIENCE, send(&base, request)).await };
    let Ok(answer) = runtime.block_on(asked) else {
        return Ok(Some(format!("it does not answer within {} s", READY_PATIENCE.as_secs())));
    };
    let (status, body) = answer?;
    let said = || serde_json::from_slice::<Value>(&body).ok()?.get("error")?.as_str().map(str::to_owned);
    Ok((!status.is_success()).then(|| said().unwrap_or_else(|| format!("it answers {status}"))))
}

/// What the server at `url` says of how it is doing, and whether it takes work.
///
/// # Errors
/// `Failed` when it cannot be reached, does not answer in time, or its answer is none of svcfs's.
pub fn report(url: &str, token: Option<&str>, space: Option<&str>) -> Result<ReadinessReport, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let base = base(url)?;
    let request = signed(in_space(Request::get("/readyz"), space), token);
    let request = request.body(Full::new(Bytes::new())).context("the request cannot be written")?;
    let asked = async { tokio::time::timeout(READY_PATIENCE, send(&base, request)).await };
    let Ok(answer) = runtime.block_on(asked) else {
        let told = format!("{url} did not answer within {} s", READY_PATIENCE.as_secs());
        return Err(CommandFailure::saying(ExitStatus::Failed, told));
    };
    let (status, body) = answer?;
    serde_json::from_slice(&body).map_err(|_| refusal(status, &body))
}

/// The server that a URL names.
fn base(url: &str) -> Result<Uri, CommandFailure> {
    let base: Uri = url.trim_end_matches('/').parse().map_err(|_| {
        CommandFailure::saying(ExitStatus::Usage, format!("`{url}` is no URL; write it like `http://127.0.0.1:3333`"))
    })?;
    if base.scheme_str() != Some("http") {
        let told = format!("`{url}` must begin with `http://`; encrypted connections end in front of svcfs");
        return Err(CommandFailure::saying(ExitStatus::Usage, told));
    }
    Ok(base)
}

async fn as_tool(base: &Uri, question: OperationCall) -> Result<Value, CommandFailure> {
    let OperationCall { entry, mut arguments, actor, if_match, space, token } = question;
    if !entry.is_read_only() {
        for (name, text) in [("actor", actor), ("if_match", if_match)] {
            if let Some(text) = text {
                arguments.entry(name).or_insert(text.into());
            }
        }
    }
    let name = format!("{TOOL_PREFIX}{}", entry.name);
    // The output as the operation gives it, not as agents read it.
    let meta = json!({ "svcfs/structure": true });
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": name, "arguments": arguments, "_meta": meta },
    });
    let request = Request::post("/mcp")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream");
    let request = signed(in_space(request, space.as_deref()), token.as_deref());
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let (status, body) = send(base, request.context("the request cannot be written")?).await?;
    let answer: Value = match serde_json::from_slice(&body) {
        Ok(answer) => answer,
        Err(_) => return Err(refusal(status, &body)),
    };
    if let Some(error) = answer.get("error") {
        // −32603 of JSON-RPC: the server's own failure.
        let exit = if error["code"] == -32603 { ExitStatus::Failed } else { ExitStatus::Refused };
        return Err(CommandFailure::saying(exit, text_of(error.get("message").unwrap_or(error))));
    }
    let result = &answer["result"];
    if result["isError"] == true {
        let text = text_of(&result["content"][0]["text"]);
        let exit = if text.starts_with("internal error") { ExitStatus::Failed } else { ExitStatus::Refused };
        return Err(CommandFailure::saying(exit, text.lines().next().unwrap_or(&text)));
    }
    // Behind the answer itself stands what is to be known of it.
    for remark in result["content"].as_array().into_iter().flatten().skip(1) {
        output::complain(&text_of(&remark["text"]));
    }
    let output = &result["structuredContent"];
    // A tool's answer must be an object; what is none comes wrapped.
    let wrapped = output.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("result"));
    Ok(wrapped.filter(|_| !has_property(entry, "result")).unwrap_or(output).clone())
}

async fn by_route(base: &Uri, route: &Route, question: OperationCall) -> Result<Value, CommandFailure> {
    let OperationCall { entry, arguments, actor, if_match, space, token } = question;
    let mut rest = arguments.clone();
    let mut target = String::new();
    for (index, part) in route.full_path().split(['{', '}']).enumerate() {
        match index % 2 {
            0 => target.push_str(part),
            _ => target.extend(utf8_percent_encode(&text_of(&rest.remove(part).unwrap_or_default()), ENCODED)),
        }
    }
    let (body, kind) = match route.body {
        BodyKind::Empty => (Bytes::new(), None),
        BodyKind::Json | BodyKind::Form => {
            (Bytes::from(Value::from(std::mem::take(&mut rest)).to_string()), Some("application/json"))
        }
        BodyKind::Object(field) => {
            let object = rest.remove(field).unwrap_or_default();
            (Bytes::from(object.to_string()), Some("application/json"))
        }
        BodyKind::Raw(field) => (bytes_of(&rest.remove(field).unwrap_or_default())?, Some("text/plain; charset=utf-8")),
    };
    for (index, (name, value)) in rest.iter().enumerate() {
        target.push(if index == 0 { '?' } else { '&' });
        target.extend(utf8_percent_encode(name, ENCODED));
        target.push('=');
        target.extend(utf8_percent_encode(&query_text(value), ENCODED));
    }
    let method = Method::from_bytes(route.method.name().as_bytes()).context("the request cannot be written")?;
    let mut request = Request::builder().method(method).uri(target);
    let headers = [("Content-Type", kind.map(str::to_owned)), ("X-Actor", actor), ("If-Match", if_match)];
    for (name, text) in headers {
        if let Some(text) = text {
            request = request.header(name, HeaderValue::from_bytes(text.as_bytes()).context(name)?);
        }
    }
    let request = signed(in_space(request, space.as_deref()), token.as_deref());
    let request = request.body(Full::new(body)).context("the request cannot be written")?;
    let (status, body) = send(base, request).await?;
    if !status.is_success() {
        return Err(refusal(status, &body));
    }
    match route.text_field {
        Some((field, _)) => Ok(restored(entry, field, &arguments, &body)),
        None if body.is_empty() => Ok(Value::Null),
        None => Ok(serde_json::from_slice(&body).context("the server's answer is not JSON; is it svcfs?")?),
    }
}

/// The output whose member `field` was the whole answer; its other members are those the caller gave.
fn restored(entry: &OperationEntry, field: &str, arguments: &Map<String, Value>, body: &Bytes) -> Value {
    let content = match std::str::from_utf8(body) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(body) }),
    };
    let mut output = Map::new();
    for name in properties(entry) {
        if name == field {
            output.insert(name, content.clone());
        } else if let Some(given) = arguments.get(&name) {
            output.insert(name, given.clone());
        }
    }
    output.into()
}

fn has_property(entry: &OperationEntry, name: &str) -> bool {
    properties(entry).iter().any(|property| property == name)
}

/// The members of an operation's output.
fn properties(entry: &OperationEntry) -> Vec<String> {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let schema = (entry.output)(&mut generator);
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
    let object = match target {
        Some(name) => generator.definitions().get(name),
        None => Some(schema.as_value()),
    };
    let properties = object.and_then(|object| object.get("properties")).and_then(Value::as_object);
    properties.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

fn in_space(request: http::request::Builder, space: Option<&str>) -> http::request::Builder {
    match space {
        Some(space) => request.header("X-Svc-Space", space),
        None => request,
    }
}

fn signed(request: http::request::Builder, token: Option<&str>) -> http::request::Builder {
    match token {
        Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    }
}

/// One request on a connection of its own.
async fn send(base: &Uri, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), CommandFailure> {
    let (host, port) = (base.host().unwrap_or_default(), base.port_u16().unwrap_or(80));
    let unreachable = || format!("no server answers at {base}; start it with `svcfs serve`, or name it with --url");
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare, port)).await.with_context(unreachable)?;
    let answer = converse(stream, &format!("{host}:{port}"), request).await;
    Ok(answer.with_context(|| format!("{base} broke off the conversation"))?)
}

/// One request to a host behind an open connection.
///
/// # Errors
/// When the other side does not speak HTTP, or breaks off.
pub async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (mut head, body) = request.into_parts();
    head.headers.insert(HOST, HeaderValue::from_str(host)?);
    let response = sender.send_request(Request::from_parts(head, body)).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    drop(sender);
    connection.abort();
    Ok((status, body))
}

/// A refusal in the server's own words (contract 7).
pub fn refusal(status: StatusCode, body: &Bytes) -> CommandFailure {
    let told =
        serde_json::from_slice::<Value>(body).ok().and_then(|body| Some(body.get("error")?.as_str()?.to_owned()));
    let told = told.unwrap_or_else(|| format!("the server answered {status}; is it svcfs?"));
    let is_failure =
        status == StatusCode::TOO_MANY_REQUESTS || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED);
    CommandFailure::saying(if is_failure { ExitStatus::Failed } else { ExitStatus::Refused }, told)
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A value as a query carries it: lists with commas.
fn query_text(value: &Value) -> String {
    match value {
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => text_of(value),
    }
}

/// The bytes of a text, or of `{"base64": …}`.
///
/// # Errors
/// `Usage` when it is neither.
pub fn bytes_of(value: &Value) -> Result<Bytes, CommandFailure> {
    let decoded = match value {
        Value::String(text) => return Ok(Bytes::copy_from_slice(text.as_bytes())),
        other => other.get("base64").and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok()),
    };
    decoded
        .map(Bytes::from)
        .ok_or_else(|| CommandFailure::saying(ExitStatus::Usage, "a content must be a text or {\"base64\": …}"))
}
