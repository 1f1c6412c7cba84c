//! A running server, asked over HTTP as any other client asks it.
//!
//! One rule: the answer is the JSON the operation gives in this process, too. Tools are called as
//! tools, because a tool's arguments and answer are exactly that JSON; what is no tool is asked by
//! its route, and a route that answers with a text is put back into the member the text came from.

use std::fmt;
use std::io::ErrorKind;
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
use svcfs_base::DISK_FULL;
use svcfs_knowledge::kernel::{BodyKind, OperationEntry, Route};
use svcfs_knowledge::metrics::ReadinessReport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

/// Request timeout: longer than the server's own timeouts.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Timeout of readiness requests.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// What to do without a valid token.
const TOKEN_ADVICE: &str = "--token-file FILE or $SVC_API_KEY passes a key, and `svcfs token create` on the server's \
                            machine makes one";

/// Prefix of tool names.
const TOOL_PREFIX: &str = "svc_";

/// Characters that are percent-encoded in a URL: all but the unreserved ones of RFC 3986.
const PERCENT_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One call of an operation.
pub struct OperationCall {
    /// The operation.
    pub entry: &'static OperationEntry,
    /// Its inputs.
    pub arguments: Map<String, Value>,
    /// Author of the commit.
    pub actor: Option<String>,
    /// Required ETag of the page.
    pub if_match: Option<String>,
    /// The space; none for the first.
    pub space: Option<String>,
    /// The key, if authentication is on.
    pub token: Option<String>,
}

/// Runs an operation on the server at `url`.
///
/// # Errors
/// `Failed` when the server cannot be reached or fails; `Refused` with the server's message.
pub fn ask(url: &str, call: OperationCall) -> Result<Value, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let base = base(url)?;
    let response = async {
        match call.entry.http.first() {
            Some(route) if !call.entry.tool => call_route(&base, route, call).await,
            Some(_) | None => call_tool(&base, call).await,
        }
    };
    runtime.block_on(async {
        tokio::time::timeout(REQUEST_TIMEOUT, response).await.unwrap_or_else(|_| {
            let message = format!("{url} did not answer within {} s", REQUEST_TIMEOUT.as_secs());
            Err(CommandFailure::saying(ExitStatus::Failed, message))
        })
    })
}

/// Why the server at `url` accepts no writes now; none when it does.
///
/// # Errors
/// `Failed` when it cannot be reached.
pub fn readiness_problem(url: &str) -> Result<Option<String>, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let base: Uri = url.parse().context("the URL of the server cannot be parsed")?;
    let request = Request::get("/readyz").body(Full::new(Bytes::new())).context("the request cannot be built")?;
    let response = async { tokio::time::timeout(READY_TIMEOUT, send(&base, request)).await };
    let Ok(response) = runtime.block_on(response) else {
        return Ok(Some(format!("it does not answer within {} s", READY_TIMEOUT.as_secs())));
    };
    let (status, body) = response?;
    let error_text = || serde_json::from_slice::<Value>(&body).ok()?.get("error")?.as_str().map(str::to_owned);
    Ok((!status.is_success()).then(|| error_text().unwrap_or_else(|| format!("it answers with {status}"))))
}

/// The readiness report of the server at `url`.
///
/// # Errors
/// `Failed` when it cannot be reached, does not answer in time, or is not svcfs.
pub fn report(url: &str, token: Option<&str>, space: Option<&str>) -> Result<ReadinessReport, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the asynchronous runtime cannot be started")?;
    let base = base(url)?;
    let request = with_token(in_space(Request::get("/readyz"), space), token);
    let request = request.body(Full::new(Bytes::new())).context("the request cannot be built")?;
    let response = async { tokio::time::timeout(READY_TIMEOUT, send(&base, request)).await };
    let Ok(response) = runtime.block_on(response) else {
        let message = format!("{url} did not answer within {} s", READY_TIMEOUT.as_secs());
        return Err(CommandFailure::saying(ExitStatus::Failed, message));
    };
    let (status, body) = response?;
    serde_json::from_slice(&body).map_err(|_| refusal(status, &body))
}

/// Parses the URL of a server.
fn base(url: &str) -> Result<Uri, CommandFailure> {
    let base: Uri = url.trim_end_matches('/').parse().map_err(|_| {
        CommandFailure::saying(ExitStatus::Usage, format!("`{url}` is not a URL; use the form `http://127.0.0.1:3333`"))
    })?;
    if base.scheme_str() != Some("http") {
        let message = format!("`{url}` must start with `http://`; use a reverse proxy for TLS");
        return Err(CommandFailure::saying(ExitStatus::Usage, message));
    }
    Ok(base)
}

async fn call_tool(base: &Uri, call: OperationCall) -> Result<Value, CommandFailure> {
    let OperationCall { entry, mut arguments, actor, if_match, space, token } = call;
    if !entry.is_read_only() {
        for (name, text) in [("actor", actor), ("if_match", if_match)] {
            if let Some(text) = text {
                arguments.entry(name).or_insert(text.into());
            }
        }
    }
    let name = format!("{TOOL_PREFIX}{}", entry.name);
    // The exact output of the operation, not the text for agents.
    let meta = json!({ "svcfs/structure": true });
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": name, "arguments": arguments, "_meta": meta },
    });
    let request = Request::post("/mcp")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream");
    let request = with_token(in_space(request, space.as_deref()), token.as_deref());
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let (status, body) = send(base, request.context("the request cannot be built")?).await?;
    let response: Value = match serde_json::from_slice(&body) {
        Ok(response) if status != StatusCode::UNAUTHORIZED => response,
        Ok(_) | Err(_) => return Err(refusal(status, &body)),
    };
    if let Some(error) = response.get("error") {
        // JSON-RPC −32603: internal error.
        let exit = if error["code"] == -32603 { ExitStatus::Failed } else { ExitStatus::Refused };
        return Err(CommandFailure::saying(exit, text_of(error.get("message").unwrap_or(error))));
    }
    let result = &response["result"];
    if result["isError"] == true {
        let text = text_of(&result["content"][0]["text"]);
        let is_failure = ["internal error", DISK_FULL].iter().any(|prefix| text.starts_with(prefix));
        let exit = if is_failure { ExitStatus::Failed } else { ExitStatus::Refused };
        // The details follow the message on a line.
        let (message, detail) = text.split_once('\n').unwrap_or((&text, ""));
        return Err(CommandFailure::saying(exit, message).with_detail(serde_json::from_str(detail).unwrap_or_default()));
    }
    // Notes follow the output itself.
    for note in result["content"].as_array().into_iter().flatten().skip(1) {
        output::complain(&text_of(&note["text"]));
    }
    let output = &result["structuredContent"];
    // The output of a tool is an object; other values are wrapped.
    let wrapped = output.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("result"));
    Ok(wrapped.filter(|_| !has_property(entry, "result")).unwrap_or(output).clone())
}

async fn call_route(base: &Uri, route: &Route, call: OperationCall) -> Result<Value, CommandFailure> {
    let OperationCall { entry, arguments, actor, if_match, space, token } = call;
    let mut rest = arguments.clone();
    let mut target = String::new();
    for (index, part) in route.full_path().split(['{', '}']).enumerate() {
        match index % 2 {
            0 => target.push_str(part),
            _ => target.extend(utf8_percent_encode(&text_of(&rest.remove(part).unwrap_or_default()), PERCENT_ENCODED)),
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
        target.extend(utf8_percent_encode(name, PERCENT_ENCODED));
        target.push('=');
        target.extend(utf8_percent_encode(&query_text(value), PERCENT_ENCODED));
    }
    let method = Method::from_bytes(route.method.name().as_bytes()).context("the request cannot be built")?;
    let mut request = Request::builder().method(method).uri(target);
    let headers = [("Content-Type", kind.map(str::to_owned)), ("X-Actor", actor), ("If-Match", if_match)];
    for (name, text) in headers {
        if let Some(text) = text {
            request = request.header(name, HeaderValue::from_bytes(text.as_bytes()).context(name)?);
        }
    }
    let request = with_token(in_space(request, space.as_deref()), token.as_deref());
    let request = request.body(Full::new(body)).context("the request cannot be built")?;
    let (status, body) = send(base, request).await?;
    if !status.is_success() {
        return Err(refusal(status, &body));
    }
    match route.text_field {
        Some((field, _)) => Ok(rebuild_output(entry, field, &arguments, &body)),
        None if body.is_empty() => Ok(Value::Null),
        None => Ok(serde_json::from_slice(&body).context("the response is not JSON; is the server svcfs?")?),
    }
}

/// Rebuilds the output of a text route: the body becomes `field`, other members come from the
/// arguments.
fn rebuild_output(entry: &OperationEntry, field: &str, arguments: &Map<String, Value>, body: &Bytes) -> Value {
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

/// The property names of an operation's output.
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

fn with_token(request: http::request::Builder, token: Option<&str>) -> http::request::Builder {
    match token {
        Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    }
}

/// No connection could be made, so the request was not sent.
#[derive(Debug)]
struct UnreachableServer(String);

impl fmt::Display for UnreachableServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Whether a request failed before it was sent.
pub fn is_unreachable(failure: &CommandFailure) -> bool {
    failure.has_cause::<UnreachableServer>()
}

/// Sends one request on a new connection.
async fn send(base: &Uri, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), CommandFailure> {
    let (host, port) = (base.host().unwrap_or_default(), base.port_u16().unwrap_or(80));
    let unreachable = |error: std::io::Error| {
        let cause = match error.kind() {
            kind @ ErrorKind::ConnectionRefused => kind.to_string(),
            _ => error.to_string(),
        };
        let message =
            format!("no server answers at {base} ({cause}); start it with `svcfs serve`, or give another with --url");
        anyhow::Error::new(error).context(UnreachableServer(message))
    };
    let bare_host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((bare_host, port)).await.map_err(unreachable)?;
    let response = exchange(stream, &format!("{host}:{port}"), request).await;
    Ok(response.with_context(|| format!("{base} closed the connection"))?)
}

/// Sends one request on an open connection.
///
/// # Errors
/// When the server does not speak HTTP, or closes the connection.
pub async fn exchange(
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

/// The failure for an error response, with the server's message.
pub fn refusal(status: StatusCode, body: &Bytes) -> CommandFailure {
    let mut detail: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
    let message = match detail.remove("error").as_ref().and_then(Value::as_str).map(str::to_owned) {
        Some(message) if status == StatusCode::UNAUTHORIZED => format!("{message}; {TOKEN_ADVICE}"),
        Some(message) => message,
        None => format!("the server answered {status}; is it svcfs?"),
    };
    let is_failure =
        status == StatusCode::TOO_MANY_REQUESTS || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED);
    CommandFailure::saying(if is_failure { ExitStatus::Failed } else { ExitStatus::Refused }, message)
        .with_detail(detail)
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A value as a query parameter: lists with commas.
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
        .ok_or_else(|| CommandFailure::saying(ExitStatus::Usage, "content must be a string or {\"base64\": …}"))
}
