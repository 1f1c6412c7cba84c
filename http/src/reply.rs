//! Answers: outputs and faults as HTTP.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind, Timestamp, TreePath};
use svcfs_knowledge::kernel::{Media, Route};
use warp::reply::Response;

use crate::media;

/// Member of a fault's detail that becomes the `Retry-After` header, in seconds.
pub(crate) const RETRY: &str = "retry_after";

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(body.to_string().into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
    response
}

/// A text answer of a fixed type.
pub(crate) fn text(mime: &'static str, body: impl Into<String>) -> Response {
    let mut response = Response::new(body.into().into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    response
}

/// The output of an operation, as its route wants it told; `cached` is the request's `If-None-Match`.
///
/// # Errors
/// `Internal` when the output is not what the route promises.
pub(crate) fn output(route: &Route, output: Value, cached: Option<&str>) -> Result<Response, Fault> {
    let headers = if route.has_etag { validators(&output) } else { HeaderMap::new() };
    let is_cached = || {
        let etag = headers.get(ETAG).and_then(|value| value.to_str().ok());
        route.is_reading && cached.is_some_and(|tags| etag.is_some_and(|etag| names(tags, etag)))
    };
    let status = StatusCode::from_u16(route.success).map_err(Fault::internal)?;
    let mut response = if is_cached() {
        empty(StatusCode::NOT_MODIFIED)
    } else if status == StatusCode::NO_CONTENT {
        empty(status)
    } else {
        match as_text(route, &output) {
            Some(response) => response,
            None => json(status, &output),
        }
    };
    response.headers_mut().extend(headers);
    Ok(response)
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

/// The output field that is the body, when the route has one and the output has it.
fn as_text(route: &Route, output: &Value) -> Option<Response> {
    let (field, kind) = route.answers?;
    let body = match output.get(field)? {
        Value::String(text) => Bytes::copy_from_slice(text.as_bytes()),
        other => STANDARD.decode(other.get("base64")?.as_str()?).ok()?.into(),
    };
    let of_path = || {
        let path = TreePath::parse(output.get("path")?.as_str()?).ok()?;
        media::of_path(&path)
    };
    let mime = match kind {
        Media::Is(mime) => mime.to_owned(),
        Media::OfPath => of_path().unwrap_or_else(|| media::PLAIN.to_owned()),
    };
    let mut response = Response::new(body.into());
    media::describe(response.headers_mut(), &mime);
    Some(response)
}

/// `ETag` and `Last-Modified` from the output's own members.
fn validators(output: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, text: Option<String>| {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    };
    let member = |name| output.get(name).and_then(Value::as_str);
    set(ETAG, member("etag").map(|etag| format!("\"{etag}\"")));
    let modified = member("modified").and_then(|text| text.parse::<Timestamp>().ok());
    set(LAST_MODIFIED, modified.and_then(http_date));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers
}

/// A moment as HTTP writes it, to the second.
pub(crate) fn http_date(moment: Timestamp) -> Option<String> {
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).ok()
}

/// True when an `If-None-Match` list names the (quoted) etag; quotes and weak marks are optional.
fn names(tags: &str, etag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    tags.split(',').any(|tag| tag.trim() == "*" || bare(tag) == bare(etag))
}

/// A fault (contract 7). 500 and 502 say only a generic sentence and where to look; all others their message and detail
/// (gaps.md D14).
pub(crate) fn fault(fault: &Fault, request_id: &str) -> Response {
    let status = StatusCode::from_u16(fault.kind().http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut body = Map::new();
    if is_generic(fault.kind()) {
        body.insert("error".to_owned(), generic(request_id).into());
        body.insert("request_id".to_owned(), request_id.into());
    } else {
        body.insert("error".to_owned(), fault.message().into());
        body.extend(fault.detail().clone());
    }
    let mut response = json(status, &body.into());
    if let Some(seconds) = fault.detail().get(RETRY).and_then(Value::as_u64) {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// True when callers read only [`generic`] instead of the fault's own message.
pub(crate) fn is_generic(kind: Kind) -> bool {
    matches!(kind.http(), 500 | 502)
}

/// What callers read of our own failures.
pub(crate) fn generic(request_id: &str) -> String {
    format!("internal error; the server's log has the details under request {request_id}")
}

/// A refusal that is HTTP's own and no fault: unknown method.
pub(crate) fn wrong_method(allow: &str) -> Response {
    let body = json!({ "error": format!("method not allowed here; allowed are {allow}") });
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, &body);
    if let Ok(value) = HeaderValue::from_str(allow) {
        response.headers_mut().insert(http::header::ALLOW, value);
    }
    response
}
