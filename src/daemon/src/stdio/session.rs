//! What is known of an agent's session, so that it goes on over the next connection.
//!
//! Invariant: a request is sent again only if it was not executed, or if it changes nothing. The
//! agent learns that the outcome of every other one is unknown.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use svcfs_http::DRAINED;
use svcfs_knowledge::CATALOGUE;

/// How often a request that changes nothing is sent again after a crash: it may be the cause.
const MAX_RETRIES: u32 = 2;

/// Maximum number of subscriptions that are repeated; a server has the same limit.
const MAX_SUBSCRIPTIONS: usize = 256;

/// The request that is answered with notifications until it is cancelled.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// JSON-RPC: failure of the server.
pub(super) const SERVER_ERROR: i32 = -32000;

/// Prefix of tool names.
const TOOL_PREFIX: &str = "svc_";

/// The message for a change whose connection broke off.
const UNKNOWN_OUTCOME: &str = "the process that has the knowledge base ended during this request, so its outcome is unknown; \
                               read the page to see whether the change was made before you repeat it";

/// The members of a message that the relay needs.
#[derive(Deserialize)]
struct MessageHead<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// The parameters of a message that the relay needs.
#[derive(Default, Deserialize)]
struct KnownParams {
    name: Option<String>,
    arguments: Option<KnownArguments>,
    #[serde(rename = "requestId")]
    request_id: Option<Value>,
    handover: Option<bool>,
    uri: Option<String>,
}

/// The arguments of a tool that runs another one.
#[derive(Default, Deserialize)]
struct KnownArguments {
    #[serde(default)]
    name: Value,
}

impl MessageHead<'_> {
    fn params(&self) -> KnownParams {
        self.params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
    }
}

/// The messages of a line; none for a line that is not JSON, which the server refuses.
fn messages(line: &[u8]) -> Vec<MessageHead<'_>> {
    match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => serde_json::from_slice(line).unwrap_or_default(),
        _ => serde_json::from_slice(line).map(|message| vec![message]).unwrap_or_default(),
    }
}

/// Whether a request changes nothing.
fn is_repeatable(message: &MessageHead<'_>) -> bool {
    if message.method.as_deref() != Some("tools/call") {
        return true;
    }
    let params = message.params();
    let name = params.name.unwrap_or_default();
    let name = match name.strip_prefix(TOOL_PREFIX).unwrap_or(&name) {
        "tool_search" => return true,
        "tool_call" => params.arguments.as_ref().and_then(|inner| inner.name.as_str()).unwrap_or_default(),
        name => name,
    };
    let name = name.strip_prefix(TOOL_PREFIX).unwrap_or(name);
    let mut entries = CATALOGUE.iter().flat_map(|area| area.operations);
    // A tool that is unknown here is one of a newer server.
    entries.find(|entry| entry.name == name).is_some_and(|entry| entry.is_read_only())
}

/// A line with requests that are not answered.
struct PendingLine {
    ids: Vec<Value>,
    line: Bytes,
    is_batch: bool,
    is_repeatable: bool,
    /// Whether it is answered only when one side ends it.
    is_endless: bool,
    /// Whether the process that has the root may have read it.
    is_sent: bool,
    retries: u32,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Without notice: the process crashed, or its requests took too long.
    Lost,
    /// Everything that it read is answered.
    Drained {
        /// A server takes the root over.
        handover: bool,
    },
}

/// A session; see the module.
#[derive(Default)]
pub struct AgentSession {
    /// The `initialize` request and its id.
    initialize: Option<(Value, Bytes)>,
    /// The notification that ends the handshake.
    initialized: Option<Bytes>,
    /// Id of the repeated `initialize` request, whose answer the agent has already.
    repeated_handshake: Option<Value>,
    /// The `resources/subscribe` requests by URI, each with its id: the next process does not know
    /// them.
    subscriptions: BTreeMap<String, (Value, Bytes)>,
    /// Ids of repeated `resources/subscribe` requests, whose answers the agent has already.
    repeated_subscriptions: Vec<Value>,
    pending: Vec<PendingLine>,
    drained: Option<bool>,
}

impl AgentSession {
    /// Records a line of the agent, before it is sent.
    pub fn send(&mut self, line: &Bytes) {
        let messages = messages(line);
        let is_batch = messages.len() != 1;
        if let ([message], Some(method)) =
            (&messages[..], messages.first().and_then(|message| message.method.as_deref()))
        {
            match (method, &message.id) {
                ("initialize", Some(id)) => self.initialize = Some((id.clone(), line.clone())),
                ("notifications/initialized", None) => self.initialized = Some(line.clone()),
                ("resources/subscribe", Some(id)) => {
                    let uri = message.params().uri.filter(|_| self.subscriptions.len() < MAX_SUBSCRIPTIONS);
                    self.subscriptions.extend(uri.map(|uri| (uri, (id.clone(), line.clone()))));
                }
                ("resources/unsubscribe", Some(_)) => {
                    message.params().uri.iter().for_each(|uri| drop(self.subscriptions.remove(uri)));
                }
                _ => {}
            }
        }
        for message in &messages {
            if message.method.as_deref() == Some("notifications/cancelled")
                && let Some(id) = message.params().request_id
            {
                // No answer will follow.
                self.finish(&id);
            }
        }
        let requests: Vec<_> =
            messages.iter().filter(|message| message.method.is_some() && message.id.is_some()).collect();
        if !requests.is_empty() {
            let is_repeatable = requests.iter().all(|message| is_repeatable(message));
            let is_endless = requests.iter().all(|message| message.method.as_deref() == Some(LISTEN));
            let ids = requests.iter().filter_map(|message| message.id.clone()).collect();
            self.pending.push(PendingLine {
                ids,
                line: line.clone(),
                is_batch,
                is_repeatable,
                is_endless,
                is_sent: true,
                retries: 0,
            });
        }
    }

    /// Records a line of the server; whether it is for the agent.
    pub fn receive(&mut self, line: &[u8]) -> bool {
        for message in messages(line) {
            match (&message.method, &message.id) {
                (Some(method), None) if method == DRAINED => {
                    self.drained = Some(message.params().handover.unwrap_or_default());
                    return false;
                }
                (None, Some(id)) => {
                    // The agent learns of the refusal from the answers to its requests.
                    if message.error.is_some() && self.initialize.as_ref().is_some_and(|(first, _)| first == id) {
                        self.initialize = None;
                    }
                    if self.repeated_handshake.take_if(|repeated| repeated == id).is_some() {
                        return false;
                    }
                    if let Some(index) = self.repeated_subscriptions.iter().position(|repeated| repeated == id) {
                        self.repeated_subscriptions.swap_remove(index);
                        return false;
                    }
                    if message.error.is_some() {
                        self.subscriptions.retain(|_, (subscription, _)| subscription != id);
                    }
                    self.finish(id);
                }
                _ => {}
            }
        }
        true
    }

    fn finish(&mut self, id: &Value) {
        let is_in = |pending: &PendingLine| pending.ids.contains(id);
        if let Some(index) = self.pending.iter().position(is_in) {
            let ids = &mut self.pending[index].ids;
            ids.retain(|pending| pending != id);
            if ids.is_empty() {
                self.pending.remove(index);
            }
        }
    }

    /// Cancels the subscriptions of an agent that has closed its side; returns the lines for the
    /// server.
    pub fn cancel_subscriptions(&mut self) -> Vec<Bytes> {
        let endless = self.pending.extract_if(.., |pending| pending.is_endless);
        let cancel = |id: Value| {
            let params = json!({ "requestId": id });
            let message = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            Bytes::from(format!("{message}\n"))
        };
        endless.flat_map(|pending| pending.ids).map(cancel).collect()
    }

    /// Whether requests are not answered, besides subscriptions.
    pub fn has_pending(&self) -> bool {
        self.pending.iter().any(|pending| !pending.is_endless)
    }

    /// The handshake for a new connection, if the agent has completed it. Its answer is awaited
    /// before other lines are sent: until then nothing can be lost.
    pub fn repeat_handshake(&mut self) -> Vec<Bytes> {
        let is_pending = |id: &Value| self.pending.iter().any(|pending| pending.ids.contains(id));
        let Some((id, line)) = self.initialize.as_ref().filter(|(id, _)| !is_pending(id)) else { return Vec::new() };
        self.repeated_handshake = Some(id.clone());
        let subscriptions = self.subscriptions.values().filter(|(id, _)| !is_pending(id));
        self.repeated_subscriptions = subscriptions.clone().map(|(id, _)| id.clone()).collect();
        let handshake = std::iter::once(line.clone()).chain(self.initialized.clone());
        handshake.chain(subscriptions.map(|(_, line)| line.clone())).collect()
    }

    /// Whether the answer to the repeated handshake is missing.
    pub const fn is_shaking_hands(&self) -> bool {
        self.repeated_handshake.is_some()
    }

    /// The lines to send again on a new connection.
    pub fn resend_pending(&mut self) -> Vec<Bytes> {
        let resend = |pending: &mut PendingLine| {
            pending.is_sent = true;
            pending.line.clone()
        };
        self.pending.iter_mut().map(resend).collect()
    }

    /// Records the end of the connection; returns how it ended, and the answers to the requests
    /// that must not be sent again.
    pub fn disconnect(&mut self) -> (ConnectionEnd, Vec<Value>) {
        self.repeated_handshake = None;
        self.repeated_subscriptions.clear();
        let drained = self.drained.take();
        let lost = self.pending.extract_if(.., |pending| {
            let was_sent = std::mem::take(&mut pending.is_sent);
            if drained.is_some() || !was_sent {
                return false;
            }
            pending.retries += 1;
            !pending.is_repeatable || pending.retries > MAX_RETRIES
        });
        let answers = lost.map(|pending| error_line(pending, UNKNOWN_OUTCOME)).collect();
        let end = drained.map_or(ConnectionEnd::Lost, |handover| ConnectionEnd::Drained { handover });
        (end, answers)
    }

    /// Gives up all requests; returns their answers.
    pub fn refuse_pending(&mut self, message: &str) -> Vec<Value> {
        self.pending.drain(..).map(|pending| error_line(pending, message)).collect()
    }
}

/// The answer of JSON-RPC to a failed request.
pub(super) fn rpc_error(code: i32, message: &str, id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// The answers to a line, in its form.
fn error_line(pending: PendingLine, message: &str) -> Value {
    let PendingLine { ids, is_batch, .. } = pending;
    let error = |id: Value| rpc_error(SERVER_ERROR, message, &id);
    if is_batch { ids.into_iter().map(error).collect() } else { ids.into_iter().map(error).next().unwrap_or_default() }
}

#[cfg(test)]
mod tests;
