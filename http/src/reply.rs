//! Answers: outputs and faults as HTTP.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, StatusCode};
use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind, Timestamp, TreePath};
use svcfs_knowledge::access::RETRY_AFTER_KEY;
use svcfs_knowledge::kernel::{ResponseMedia, ResponseMeta, Route};
use warp::reply::Response;

use crate::bind::{compared, header};
use crate::media;

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: &Value) -> Response {
    json_as(media::JSON, status, body.to_string())
}

fn json_as(mime: &'static str, status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    response
}

/// A text answer of a fixed type.
pub(crate) fn text(mime: &'static str, body: impl Into<String>) -> Response {
    let mut response = Response::new(body.into().into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    response
}

/// What a caller says of the copy it has.
#[derive(Debug, Default)]
pub(crate) struct CacheValidators {
    tags: Option<String>,
    since: Option<Timestamp>,
}

impl CacheValidators {
    /// From `If-None-Match` and `If-Modified-Since`; a date that cannot be read counts as none (RFC 9110 13.1.3).
    ///
    /// # Errors
    /// `Invalid` for a header that is not UTF-8.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Fault> {
        let date = header(headers, IF_MODIFIED_SINCE.as_str())?;
        let since = date.and_then(|text| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&text).ok());
        Ok(Self { tags: compared(headers, &IF_NONE_MATCH), since })
    }

    /// True when the copy is what `output` tells; an ETag knows better than a date.
    fn is_right(&self, output: &Value) -> bool {
        match (&self.tags, self.since) {
            (Some(tags), _) => text_of(output, "etag").is_some_and(|etag| names(tags, etag)),
            (None, Some(since)) => modified(output).is_some_and(|modified| modified.as_second() <= since.as_second()),
            (None, None) => false,
        }
    }
}

/// Whether a route tells an output as it is, and nothing of it in headers.
pub(crate) const fn is_plain(route: &Route) -> bool {
    route.text_field.is_none()
        && route.json_fallback.is_none()
        && route.headers.is_empty()
        && !route.has_etag
        && route.success_status != StatusCode::NO_CONTENT.as_u16()
}

/// The output of an operation for a plain route, written out as JSON.
///
/// # Errors
/// `Internal` when the status is none.
pub(crate) fn written(route: &Route, output: Vec<u8>) -> Result<Response, Fault> {
    let status = StatusCode::from_u16(route.success_status).map_err(Fault::internal)?;
    Ok(json_as(route.json_media_type.unwrap_or(media::JSON), status, output))
}

/// The output of an operation, as its route wants it told.
///
/// # Errors
/// `Internal` when the output is not what the route promises.
pub(crate) fn output(route: &Route, output: Value, cached: &CacheValidators) -> Result<Response, Fault> {
    let status = StatusCode::from_u16(route.success_status).map_err(Fault::internal)?;
    let mut response = if route.has_etag && route.is_read_only && cached.is_right(&output) {
        empty(StatusCode::NOT_MODIFIED)
    } else if status == StatusCode::NO_CONTENT {
        empty(status)
    } else {
        match as_text(route, &output) {
            Some(response) => response,
            None => {
                let body = route.json_fallback.and_then(|field| output.get(field)).unwrap_or(&output);
                written(route, body.to_string().into_bytes())?
            }
        }
    };
    describe(route, &output, response.headers_mut());
    Ok(response)
}

/// How many entries there are in all, of a list that has some of them (gaps.md D1).
pub(crate) const TOTAL: HeaderName = HeaderName::from_static("x-total-count");

/// What the caller should know of the answer, such as that it is of an index that is behind.
pub(crate) const NOTE: HeaderName = HeaderName::from_static("x-svc-note");

/// Says what is told beside the output.
pub(crate) fn remark(remarks: &ResponseMeta, headers: &mut HeaderMap) {
    for value in remarks.notes.iter().filter_map(|note| HeaderValue::from_str(note).ok()) {
        headers.append(NOTE, value);
    }
    if let Some(total) = remarks.total {
        headers.insert(TOTAL, total.into());
    }
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

/// The output field that is the body, when the route has one and the output has it.
fn as_text(route: &Route, output: &Value) -> Option<Response> {
    let (field, kind) = route.text_field?;
    let body = match output.get(field)? {
        Value::String(text) => Bytes::copy_from_slice(text.as_bytes()),
        other => STANDARD.decode(other.get("base64")?.as_str()?).ok()?.into(),
    };
    let mime = match kind {
        ResponseMedia::Fixed(mime) => mime.to_owned(),
        ResponseMedia::FromPath => media::of(&TreePath::parse(text_of(output, "path")?).ok()?, &body),
    };
    let mut response = Response::new(body.into());
    media::describe(response.headers_mut(), &mime);
    Some(response)
}

/// Sets the headers a route takes from the output's own members.
///
/// Why `no-cache` and not an hour, as is common for pictures? Because it means "ask first": with the ETag that costs one short
/// answer, and nobody is shown a picture that was replaced a minute ago. `/raw` is for those who prefer an hour.
fn describe(route: &Route, output: &Value, headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, text: Option<String>| {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(name, value);
        }
    };
    for (field, name) in route.headers {
        if let Ok(name) = HeaderName::from_bytes(name.as_bytes()) {
            set(name, text_of(output, field).map(str::to_owned));
        }
    }
    if route.has_etag {
        set(ETAG, text_of(output, "etag").map(|etag| format!("\"{etag}\"")));
        set(LAST_MODIFIED, modified(output).and_then(http_date));
        set(CACHE_CONTROL, Some("no-cache".to_owned()));
    }
}

fn text_of<'a>(output: &'a Value, field: &str) -> Option<&'a str> {
    output.get(field).and_then(Value::as_str)
}

fn modified(output: &Value) -> Option<Timestamp> {
    text_of(output, "modified")?.parse().ok()
}

/// A moment as HTTP writes it, to the second.
pub(crate) fn http_date(moment: Timestamp) -> Option<String> {
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).ok()
}

/// True when an `If-None-Match` list names the etag; quotes and weak marks are optional.
fn names(tags: &str, etag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    tags.split(',').any(|tag| tag.trim() == "*" || bare(tag) == etag)
}

/// A fault (contract 7). 500 and 502 say only a generic sentence and where to look; a full disk and all others their message
/// and detail (gaps.md D14).
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
    if fault.kind() == Kind::Unauthenticated {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"svcfs\""));
    }
    if let Some(seconds) = fault.detail().get(RETRY_AFTER_KEY).and_then(Value::as_u64) {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// True when callers read only [`generic`] instead of the fault's own message.
pub(crate) fn is_generic(kind: Kind) -> bool {
    // A full disk is told: it is no secret, and nobody can help who does not know.
    matches!(kind.http(), 500 | 502) && !matches!(kind, Kind::NoSpace | Kind::DiskFailed)
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
