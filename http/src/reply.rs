//! HTTP responses for outputs and faults.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, StatusCode};
use serde_json::{Map, Value, json};
use svcfs_base::{ETag, Fault, Kind, Timestamp, TreePath};
use svcfs_knowledge::access::RETRY_AFTER_KEY;
use svcfs_knowledge::kernel::{DRY_RUN_KEY, ResponseMedia, ResponseMeta, Route};
use warp::reply::Response;

use crate::bind::{etag_header, header};
use crate::media;

/// A JSON response.
pub(crate) fn json(status: StatusCode, body: &Value) -> Response {
    json_as(media::JSON, status, body.to_string())
}

fn json_as(mime: &'static str, status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    response
}

/// A text response.
pub(crate) fn text(mime: &'static str, body: impl Into<String>) -> Response {
    let mut response = Response::new(body.into().into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(mime));
    response
}

/// The validators of a cached copy.
#[derive(Debug, Default)]
pub(crate) struct CacheValidators {
    tags: Option<String>,
    modified_since: Option<Timestamp>,
}

impl CacheValidators {
    /// Parses `If-None-Match` and `If-Modified-Since`; an invalid date is ignored (RFC 9110
    /// 13.1.3). Errors: `Invalid` for a header that is not UTF-8.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Fault> {
        let date = header(headers, IF_MODIFIED_SINCE.as_str())?;
        let modified_since =
            date.and_then(|text| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(&text).ok());
        Ok(Self { tags: etag_header(headers, &IF_NONE_MATCH), modified_since })
    }

    /// Whether the copy is the same as `output`; an ETag takes precedence over a date.
    fn is_current(&self, output: &Value) -> bool {
        match (&self.tags, self.modified_since) {
            (Some(tags), _) => text_of(output, "etag").is_some_and(|etag| contains_etag(tags, etag)),
            (None, Some(modified_since)) => {
                modified(output).is_some_and(|modified| modified.as_second() <= modified_since.as_second())
            }
            (None, None) => false,
        }
    }
}

/// Whether a route returns the output unchanged and without headers from it.
pub(crate) const fn is_plain(route: &Route) -> bool {
    route.text_field.is_none()
        && route.json_fallback.is_none()
        && route.headers.is_empty()
        && !route.has_etag
        && route.success_status != StatusCode::NO_CONTENT.as_u16()
}

/// The response of a plain route, from JSON text. Errors: `Internal` for an invalid status.
pub(crate) fn json_bytes(route: &Route, output: Vec<u8>) -> Result<Response, Fault> {
    let status = StatusCode::from_u16(route.success_status).map_err(Fault::internal)?;
    Ok(json_as(route.json_media_type.unwrap_or(media::JSON), status, output))
}

/// The response of a route, from the output of its operation. Errors: `Internal` for an invalid
/// status.
pub(crate) fn output(route: &Route, output: Value, cached: &CacheValidators) -> Result<Response, Fault> {
    let status = StatusCode::from_u16(route.success_status).map_err(Fault::internal)?;
    let mut response = if route.has_etag && route.is_read_only && cached.is_current(&output) {
        empty(StatusCode::NOT_MODIFIED)
    } else if status == StatusCode::NO_CONTENT {
        empty(status)
    } else {
        match as_text(route, &output) {
            Some(response) => response,
            None => {
                let body = route.json_fallback.and_then(|field| output.get(field)).unwrap_or(&output);
                json_bytes(route, body.to_string().into_bytes())?
            }
        }
    };
    set_headers(route, &output, response.headers_mut());
    Ok(response)
}

/// Total number of entries, beside a partial list.
pub(crate) const TOTAL: HeaderName = HeaderName::from_static("x-total-count");

/// A note for the caller, such as that the index is not up to date.
pub(crate) const NOTE: HeaderName = HeaderName::from_static("x-svc-note");

/// The draft into which the changes of a caller went that may only propose them.
pub(crate) const DRAFT: HeaderName = HeaderName::from_static("x-svc-draft");

/// The commit whose tree was read, with `as_of`.
pub(crate) const AS_OF: HeaderName = HeaderName::from_static("x-as-of");

/// The kind of a refusal. Several kinds have the same status: clients distinguish a rule of the
/// space from a conflict with other writers.
pub(crate) const ERROR_KIND: HeaderName = HeaderName::from_static("x-svc-error");

/// Set on the answer to a request that was done before under the same id.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Adds the headers for the metadata of an output.
pub(crate) fn add_meta(meta: &ResponseMeta, headers: &mut HeaderMap) {
    // `from_str` would refuse the names of pages and fields that are not ASCII.
    for value in meta.notes.iter().filter_map(|note| HeaderValue::from_bytes(note.as_bytes()).ok()) {
        headers.append(NOTE, value);
    }
    if let Some(id) = meta.draft.and_then(|draft| HeaderValue::from_str(&draft.to_string()).ok()) {
        headers.insert(DRAFT, id);
    }
    if let Some(commit) = meta.as_of.and_then(|commit| HeaderValue::from_str(&commit.to_string()).ok()) {
        headers.insert(AS_OF, commit);
    }
    if meta.is_replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    if let Some(total) = meta.total {
        headers.insert(TOTAL, total.into());
    }
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

/// The output field that is the body, if route and output have one.
fn as_text(route: &Route, output: &Value) -> Option<Response> {
    let (field, kind) = route.text_field?;
    let body = match output.get(field)? {
        Value::String(text) => Bytes::copy_from_slice(text.as_bytes()),
        binary => STANDARD.decode(binary.get("base64")?.as_str()?).ok()?.into(),
    };
    let mime = match kind {
        ResponseMedia::Fixed(mime) => mime.to_owned(),
        ResponseMedia::FromPath => media::of(&TreePath::parse(text_of(output, "path")?).ok()?, &body),
    };
    let mut response = Response::new(body.into());
    media::describe(response.headers_mut(), &mime);
    Some(response)
}

/// Sets the headers that repeat members of the output.
///
/// `no-cache` and not an hour, as is common for pictures: it means "revalidate", which costs one
/// short response with an ETag, and clients never show an outdated picture. `/raw` allows an hour.
fn set_headers(route: &Route, output: &Value, headers: &mut HeaderMap) {
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
    // A dry run stored nothing, so the ETag is not one of the resource.
    if route.has_etag && output.get(DRY_RUN_KEY).is_none() {
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

/// A timestamp in the format of HTTP, in seconds.
pub(crate) fn http_date(timestamp: Timestamp) -> Option<String> {
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&timestamp).ok()
}

/// Whether the copy of a client, by its `If-None-Match`, is the content with this ETag.
pub(crate) fn is_current(headers: &HeaderMap, etag: ETag) -> bool {
    etag_header(headers, &IF_NONE_MATCH).is_some_and(|tags| contains_etag(&tags, &etag.to_string()))
}

/// Sets the header `ETag`.
pub(crate) fn set_etag(headers: &mut HeaderMap, etag: ETag) {
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{etag}\"")) {
        headers.insert(ETAG, etag);
    }
}

/// Whether an `If-None-Match` list contains the ETag; quotes and weak marks are ignored.
fn contains_etag(tags: &str, etag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned();
    tags.split(',').any(|tag| tag.trim() == "*" || bare(tag) == etag)
}

/// The response for a fault. 500 and 502 contain only a generic message and the request id; all
/// others, and those for a full disk, the fault's message and detail.
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
    response.headers_mut().insert(ERROR_KIND, HeaderValue::from_static(fault.kind().name()));
    if fault.kind() == Kind::Unauthenticated {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"svcfs\""));
    }
    if let Some(seconds) = fault.detail().get(RETRY_AFTER_KEY).and_then(Value::as_u64) {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Whether callers get only [`generic`] instead of the fault's message.
pub(crate) fn is_generic(kind: Kind) -> bool {
    // A full disk is no secret, and callers can ask the operator to free space. The address of a
    // document was given by the caller.
    matches!(kind.http(), 500 | 502) && !matches!(kind, Kind::NoSpace | Kind::DiskFailed | Kind::FetchFailed)
}

/// The message for internal errors.
pub(crate) fn generic(request_id: &str) -> String {
    format!("internal error; the server's log has the details under request {request_id}")
}

/// The response for a method that the endpoint does not have.
pub(crate) fn method_not_allowed(allow: &str) -> Response {
    let body = json!({ "error": format!("method not allowed here; allowed are {allow}") });
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, &body);
    if let Ok(value) = HeaderValue::from_str(allow) {
        response.headers_mut().insert(http::header::ALLOW, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_sent_in_any_script() {
        let mut headers = HeaderMap::new();
        let notes = ["plain", "no page has the field `番号`"].map(str::to_owned).to_vec();
        add_meta(&ResponseMeta { notes: notes.clone(), ..ResponseMeta::default() }, &mut headers);
        let sent: Vec<&[u8]> = headers.get_all(NOTE).iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(sent, notes.iter().map(String::as_bytes).collect::<Vec<_>>());
    }
}
