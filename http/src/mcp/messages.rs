//! Validation of messages and of `Accept` over HTTP, where `rmcp` is stricter than the protocol or
//! than clients are.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::media;

/// The protocol version with batches, which is also the default.
const BATCH_VERSION: &str = "2025-03-26";
/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 100;
/// The header with the protocol version.
const VERSION_HEADER: &str = "Mcp-Protocol-Version";

/// JSON-RPC: the body is not JSON.
const PARSE_ERROR: i32 = -32700;
/// JSON-RPC: failure of the server.
pub(super) const SERVER_ERROR: i32 = -32000;
/// JSON-RPC: the body is not a message.
pub(super) const INVALID_REQUEST: i32 = -32600;

/// The format of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// A JSON document.
    Json,
    /// An event stream, for clients that accept nothing else.
    Events,
}

impl ResponseFormat {
    /// Whether `Accept` names event streams. Clients that accept everything often cannot read them.
    pub(super) fn accepts_events(headers: &HeaderMap) -> bool {
        let texts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut ranges = texts.flat_map(|text| text.split(',')).map(media_range);
        ranges.any(|(name, quality)| name == media::EVENTS && quality > 0.0)
    }

    /// The format that `Accept` allows; `None` when it allows neither. A missing header allows
    /// everything.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let texts: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        let ranges: Vec<(String, f32)> = texts
            .iter()
            .flat_map(|text| text.split(','))
            .filter(|media_range| !media_range.trim().is_empty())
            .map(media_range)
            .collect();
        if ranges.is_empty() {
            return Some(Self::Json);
        }
        let is_acceptable = |mime: &str| {
            let (kind, _) = mime.split_once('/').unwrap_or((mime, ""));
            // The most specific range decides (RFC 9110 12.5.1).
            let quality = |name: &str| {
                let matching =
                    ranges.iter().filter(|(media_range, _)| media_range == name).map(|(_, quality)| *quality);
                matching.reduce(f32::max)
            };
            let ranges = [mime.to_owned(), format!("{kind}/*"), "*/*".to_owned()];
            ranges.iter().find_map(|name| quality(name)).is_some_and(|quality| quality > 0.0)
        };
        if is_acceptable(media::JSON) {
            return Some(Self::Json);
        }
        is_acceptable(media::EVENTS).then_some(Self::Events)
    }
}

/// A media range in lower case without parameters, and its quality; 1 when that cannot be parsed.
fn media_range(text: &str) -> (String, f32) {
    let mut parts = text.split(';').map(str::trim);
    let media_range = parts.next().unwrap_or_default().to_lowercase();
    let quality = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse().unwrap_or(1.0))
    });
    (media_range, quality.unwrap_or(1.0))
}

/// The kind of a body.
#[derive(Debug, PartialEq)]
pub(super) enum MessageBody {
    /// One message, not validated further.
    Message,
    /// Several messages with one response.
    Batch(Vec<Value>),
    /// Invalid; contains the JSON-RPC error.
    Invalid(Value),
}

/// The error for JSON that is not a message.
pub(super) const NOT_A_MESSAGE: &str = "this is not a JSON-RPC 2.0 message: it needs `jsonrpc`: \"2.0\", a `method`, an `id` (string or number) \
    if a reply is expected, and `params`, if any, as an object";

/// Classifies a body.
pub(super) fn classify(headers: &HeaderMap, body: &Bytes) -> MessageBody {
    // `rmcp` refuses other content types.
    if is_json(headers) { classify_text(body, headers.get(VERSION_HEADER)) } else { MessageBody::Message }
}

/// Classifies a text from a client of this protocol version; `None` is the one with batches.
pub(super) fn classify_text(body: &[u8], version: Option<&HeaderValue>) -> MessageBody {
    if let Err(error) = serde_json::from_slice::<&RawValue>(body) {
        return MessageBody::Invalid(rpc_error(PARSE_ERROR, &format!("the body is not JSON: {error}"), Value::Null));
    }
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => MessageBody::Message,
        Some(b'[') => batch(version, body),
        _ => MessageBody::Invalid(invalid(NOT_A_MESSAGE, Value::Null)),
    }
}

fn batch(version: Option<&HeaderValue>, body: &[u8]) -> MessageBody {
    if version.is_some_and(|version| version != BATCH_VERSION) {
        let text = format!("only version {BATCH_VERSION} of the protocol has batches; send one message at a time");
        return MessageBody::Invalid(invalid(&text, Value::Null));
    }
    match serde_json::from_slice::<Vec<Value>>(body) {
        Ok(messages) if messages.is_empty() => MessageBody::Invalid(invalid("the batch is empty", Value::Null)),
        Ok(messages) if messages.len() > MAX_BATCH => {
            let text = format!("the batch has {} messages; {MAX_BATCH} are allowed", messages.len());
            MessageBody::Invalid(invalid(&text, Value::Null))
        }
        Ok(messages) => MessageBody::Batch(messages),
        Err(error) => MessageBody::Invalid(invalid(&format!("the batch cannot be read: {error}"), Value::Null)),
    }
}

/// The error for a member of a batch that is not a message or not allowed in a batch.
pub(super) fn batch_member_error(message: &Value) -> Option<Value> {
    if !message.is_object() {
        return Some(invalid("each message of a batch must be an object", Value::Null));
    }
    let is_handshake = message["method"] == "initialize";
    is_handshake.then(|| invalid("`initialize` may not be part of a batch", id_of(message)))
}

/// Whether the content type is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let mime = headers.get(CONTENT_TYPE).and_then(|mime| mime.to_str().ok()).unwrap_or_default();
    media::without_parameters(mime).trim().eq_ignore_ascii_case(media::JSON)
}

/// The id of a message; null if it has none.
pub(super) fn id_of(message: &Value) -> Value {
    message.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default()
}

/// A JSON-RPC error for an invalid message.
pub(super) fn invalid(text: &str, id: Value) -> Value {
    rpc_error(INVALID_REQUEST, text, id)
}

/// A JSON-RPC error.
pub(super) fn rpc_error(code: i32, text: &str, id: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(texts: &[&str]) -> Option<ResponseFormat> {
        let mut headers = HeaderMap::new();
        for text in texts {
            headers.append(ACCEPT, HeaderValue::from_str(text).unwrap());
        }
        ResponseFormat::of(&headers)
    }

    #[test]
    fn json_is_answered_to_every_accept_header_that_allows_it() {
        for accept in [
            &[][..],
            &[""],
            &["application/json"],
            &["*/*"],
            &["application/json, application/x"],
            &["application/json, text/event-stream"],
            &["text/event-stream", "APPLICATION/JSON; charset=utf-8"],
            &["application/*;q=0.1, text/event-stream"],
            &["text/html, */*;q=0.8"],
            &["application/json;q=nonsense"],
        ] {
            assert_eq!(accepting(accept), Some(ResponseFormat::Json), "{accept:?}");
        }
        for accept in [&["text/event-stream"][..], &["text/*"], &["*/*, application/json;q=0"]] {
            assert_eq!(accepting(accept), Some(ResponseFormat::Events), "{accept:?}");
        }
        for accept in [&["text/html"][..], &["*/*;q=0"], &["application/json;q=0"], &["application/jsonx"]] {
            assert_eq!(accepting(accept), None, "{accept:?}");
        }
    }

    #[test]
    fn bodies_that_are_no_message_are_distinguished() {
        let check = |version: Option<&'static str>, body: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
            version.iter().for_each(|version| drop(headers.insert(VERSION_HEADER, HeaderValue::from_static(version))));
            match classify(&headers, &Bytes::from_static(body.as_bytes())) {
                MessageBody::Invalid(error) => error["error"]["code"].as_i64().unwrap(),
                MessageBody::Message => 1,
                MessageBody::Batch(messages) => 10 + i64::try_from(messages.len()).unwrap(),
            }
        };
        for body in ["", "{", "[1,", "nonsense", "{\"a\":}", "{} {}"] {
            assert_eq!(check(None, body), -32700, "{body}");
        }
        for body in ["1", "null", "\"text\"", "[]"] {
            assert_eq!(check(None, body), -32600, "{body}");
        }
        assert_eq!((check(None, " {}"), check(None, "\n[{}, {}]"), check(Some("2025-03-26"), "[{}]")), (1, 12, 11));
        assert_eq!(check(Some("2025-06-18"), "[{}]"), -32600);
    }
}
