//! Carries the messages of an agent to a server over HTTP.
//!
//! Invariant: each request that is not cancelled gets one answer, also when the server cannot be
//! reached: the agent must not wait forever.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use svcfs_net::{NetError, StreamingClient};
use tokio::io::stdin;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::session::{LISTEN, SERVER_ERROR, rpc_error};
use crate::credentials;
use crate::failure::{CommandFailure, ExitStatus};
use crate::signals::SignalRuntime;

/// Operations such as an evaluation take minutes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Streams have a sign of life every 15 s.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Requests at the same time.
const MAX_REQUESTS: usize = 32;
const MAX_ANSWER_BYTES: u64 = 128 << 20;

/// JSON-RPC: the text is not JSON.
const PARSE_ERROR: i32 = -32700;

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const SPACE: HeaderName = HeaderName::from_static("x-svc-space");

/// Member of `_meta` with the version of a request, from 2026-07-28 on.
const VERSION_IN_META: &str = "io.modelcontextprotocol/protocolVersion";

/// An agent on standard input and output, and its server.
pub struct HttpProxy {
    client: StreamingClient,
    endpoint: String,
    headers: HeaderMap,
    has_key: bool,
    /// The version that `initialize` agreed on, and the session, if the server has one.
    session: Mutex<(Option<HeaderValue>, Option<HeaderValue>)>,
    /// The requests that are neither answered nor cancelled.
    open: Mutex<Vec<Value>>,
    output: Mutex<io::Stdout>,
}

impl HttpProxy {
    /// A proxy for this endpoint; it does not connect yet.
    ///
    /// # Errors
    /// `Usage` for a key or space that no header can carry.
    pub fn new(endpoint: String, key: Option<&str>, space: Option<&str>) -> Result<Self, CommandFailure> {
        let unusable = |what: &str| {
            let message = format!("the {what} has characters that are not allowed in an HTTP header");
            CommandFailure::saying(ExitStatus::Usage, message)
        };
        let mut headers = HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        ]);
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| unusable("key"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(space) = space {
            headers.insert(SPACE, HeaderValue::from_str(space).map_err(|_| unusable("name of the space"))?);
        }
        let client = StreamingClient::new(ANSWER_TIMEOUT, READ_TIMEOUT);
        let (session, open, output) = (Mutex::default(), Mutex::default(), Mutex::new(io::stdout()));
        Ok(Self { client, endpoint, headers, has_key: key.is_some(), session, open, output })
    }

    /// Serves the agent until it closes standard input, or a signal.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn run(self, listening: SignalRuntime) -> Result<(), CommandFailure> {
        let SignalRuntime { runtime, end, .. } = listening;
        let outcome = runtime.block_on(async {
            tokio::select! {
                outcome = Arc::new(self).serve() => outcome,
                () = end.cancelled() => Ok(()),
            }
        });
        // A stream or standard input may still be read.
        runtime.shutdown_background();
        outcome
    }

    async fn serve(self: Arc<Self>) -> Result<(), CommandFailure> {
        let mut input = tokio::io::BufReader::new(stdin());
        let places = Arc::new(Semaphore::new(MAX_REQUESTS));
        let mut requests = JoinSet::new();
        loop {
            let mut line = Vec::new();
            let is_complete = svcfs_http::next_line(&mut input, &mut line).await.map_err(|error| {
                CommandFailure::saying(ExitStatus::Failed, format!("standard input cannot be read: {error}"))
            })?;
            let head = MessageHead::of(&line);
            self.track(&head);
            let proxy = Arc::clone(&self);
            if head.method == LISTEN {
                // It lasts until it is cancelled or the process ends: other requests, and the end,
                // must not wait for it.
                drop(tokio::task::spawn_blocking(move || proxy.forward(&line)));
            } else if !line.trim_ascii().is_empty() {
                let place = Arc::clone(&places).acquire_owned().await;
                let request = tokio::task::spawn_blocking(move || {
                    let _place = place;
                    proxy.forward(&line);
                });
                if head.method == "initialize" {
                    // Later requests need the version that it agrees on.
                    let _panicked = request.await;
                } else {
                    requests.spawn(request);
                }
            }
            while requests.try_join_next().is_some() {}
            if !is_complete {
                while requests.join_next().await.is_some() {}
                return Ok(());
            }
        }
    }

    /// Records that a request is open, or cancelled.
    fn track(&self, head: &MessageHead) {
        match (head.method.as_str(), &head.id, &head.params) {
            ("notifications/cancelled", _, Some(CancelParams { request_id: Some(id) })) => self.close(id),
            ("", ..) | (_, None, _) => {}
            (_, Some(id), _) => self.open.lock().push(id.clone()),
        }
    }

    fn close(&self, id: &Value) {
        self.open.lock().retain(|open| open != id);
    }

    /// Whether the answer to a request is still wanted; true for other messages.
    fn is_open(&self, message: &Value) -> bool {
        request_id(message).is_none_or(|id| self.open.lock().contains(&id))
    }

    /// Sends one line and writes the answers to it.
    fn forward(&self, line: &[u8]) {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                return self.write(&rpc_error(PARSE_ERROR, &format!("the line is not JSON: {error}"), &Value::Null));
            }
        };
        if let Err(reason) = self.exchange(line, &message) {
            let ids: Vec<Value> = match &message {
                Value::Array(batch) => batch.iter().filter_map(request_id).collect(),
                message => request_id(message).into_iter().collect(),
            };
            if ids.is_empty() {
                tracing::warn!("{reason}");
            }
            ids.iter().for_each(|id| self.write(&rpc_error(SERVER_ERROR, &reason, id)));
        }
        request_id(&message).iter().for_each(|id| self.close(id));
    }

    fn exchange(&self, line: &[u8], message: &Value) -> Result<(), String> {
        let mut headers = self.headers.clone();
        headers.extend(self.message_headers(message));
        let answer = self.client.post(&self.endpoint, &headers, line).map_err(|error| match error {
            NetError::Fetch { source, .. } => format!("{} cannot be reached: {source}", self.endpoint),
            error => error.to_string(),
        })?;
        if let Some(session) = answer.headers.get(SESSION_ID) {
            self.session.lock().1 = Some(session.clone());
        }
        let media = answer.headers.get(CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
        if media.starts_with("text/event-stream") && answer.status.is_success() {
            return self.copy_events(message, answer.body);
        }
        let (status, mut body) = (answer.status, Vec::new());
        let read = answer.body.take(MAX_ANSWER_BYTES).read_to_end(&mut body);
        read.map_err(|error| format!("{}: the answer ended early: {error}", self.endpoint))?;
        if body.trim_ascii().is_empty() && status.is_success() && request_id(message).is_none() {
            return Ok(());
        }
        match serde_json::from_slice::<Value>(&body) {
            Ok(answer) if is_rpc(&answer) => {
                self.note_version(message, &answer);
                self.write(&answer);
                Ok(())
            }
            parsed => Err(self.refusal(status, parsed.ok().as_ref())),
        }
    }

    /// Writes the messages of an event stream until it ends.
    fn copy_events(&self, request: &Value, body: impl Read) -> Result<(), String> {
        let mut reader = BufReader::new(body);
        let (mut line, mut data) = (String::new(), String::new());
        let mut is_answered = request_id(request).is_none();
        // The end of the connection is what cancels a request over HTTP.
        while self.is_open(request) {
            line.clear();
            let count = match reader.by_ref().take(MAX_ANSWER_BYTES).read_line(&mut line) {
                Err(error) if !is_answered => {
                    return Err(format!("{}: the stream ended early: {error}", self.endpoint));
                }
                outcome => outcome.unwrap_or_default(),
            };
            let text = line.trim_end_matches(['\r', '\n']);
            if text.is_empty() && !data.is_empty() {
                match serde_json::from_str::<Value>(&data) {
                    Ok(message) => {
                        is_answered |= message.get("method").is_none();
                        self.note_version(request, &message);
                        self.write(&message);
                    }
                    Err(error) => tracing::warn!(%error, "an event of the server is not JSON"),
                }
                data.clear();
            } else if let Some(part) = text.strip_prefix("data:") {
                data.push_str(part.strip_prefix(' ').unwrap_or(part));
                data.push('\n');
            }
            if count == 0 && !is_answered {
                return Err(format!("{}: the stream ended without an answer", self.endpoint));
            }
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The headers of a message: version, session, and from 2026-07-28 on method and name.
    fn message_headers(&self, message: &Value) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let (version, session) = self.session.lock().clone();
        headers.extend(version.map(|version| (PROTOCOL_VERSION, version)));
        headers.extend(session.map(|session| (SESSION_ID, session)));
        let params = &message["params"];
        let Some(version) = params["_meta"][VERSION_IN_META].as_str() else { return headers };
        let name = ["name", "uri", "taskId"].iter().find_map(|member| params[*member].as_str());
        let values = [(PROTOCOL_VERSION, Some(version)), (METHOD, message["method"].as_str()), (NAME, name)];
        for (header, text) in values {
            headers.extend(text.and_then(header_text).map(|value| (header, value)));
        }
        headers
    }

    fn note_version(&self, message: &Value, answer: &Value) {
        if message["method"] == "initialize"
            && let Some(version) = answer["result"]["protocolVersion"].as_str()
        {
            self.session.lock().0 = HeaderValue::from_str(version).ok();
        }
    }

    /// What a response says that is no message.
    fn refusal(&self, status: StatusCode, body: Option<&Value>) -> String {
        let reason = match body.and_then(|body| body["error"].as_str()) {
            Some(reason) => reason,
            None if status.is_server_error() => "the answer is that of a proxy; is the server running?",
            None => "this is not an MCP endpoint of svcfs",
        };
        let advice = match (status, self.has_key) {
            (StatusCode::UNAUTHORIZED, false) => {
                format!("; give a key with --token-file or ${}", credentials::VARIABLE)
            }
            (StatusCode::UNAUTHORIZED, true) => "; `svcfs token create` on the server's machine makes a key".to_owned(),
            _ => String::new(),
        };
        format!("{} answered {status}: {reason}{advice}", self.endpoint)
    }

    fn write(&self, message: &Value) {
        let mut output = self.output.lock();
        // An agent that reads no more closes standard input, too.
        let _closed = output.write_all(format!("{message}\n").as_bytes()).and_then(|()| output.flush());
    }
}

/// The members of a message that the proxy needs before it is sent.
#[derive(Default, Deserialize)]
struct MessageHead {
    #[serde(default)]
    method: String,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    params: Option<CancelParams>,
}

/// The parameters of `notifications/cancelled`.
#[derive(Deserialize)]
struct CancelParams {
    #[serde(default, rename = "requestId")]
    request_id: Option<Value>,
}

impl MessageHead {
    /// That of a line; an empty one for a batch, and for a text that is not a message.
    fn of(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or_default()
    }
}

/// The id of a request; none for a notification or an answer.
fn request_id(message: &Value) -> Option<Value> {
    message.get("method")?;
    message.get("id").filter(|id| !id.is_null()).cloned()
}

fn is_rpc(answer: &Value) -> bool {
    let is_message = |value: &Value| value.get("jsonrpc").is_some();
    is_message(answer) || answer.as_array().is_some_and(|batch| batch.iter().all(is_message))
}

/// A text as a header; encoded if it has other than printable ASCII characters.
fn header_text(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_plain && !text.starts_with("=?base64?") {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text))).ok()
}
