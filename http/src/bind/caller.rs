//! Attribution and preconditions, from headers or from the arguments of a tool.

use std::sync::Arc;

use http::header::{AUTHORIZATION, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};
use svcfs_base::{Actor, Caller, ClientRequest, ETag, Fault, Kind, Precondition, Protocol, Provenance, RequestKey};

/// The text of a header; several lines are joined with commas. Errors: `Invalid` when it is not
/// UTF-8.
pub(crate) fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, Fault> {
    let mut lines = Vec::new();
    for value in headers.get_all(name) {
        let line = std::str::from_utf8(value.as_bytes());
        lines.push(line.map_err(|_| Fault::invalid(name, "is not valid UTF-8"))?);
    }
    Ok((!lines.is_empty()).then(|| lines.join(",")))
}

/// The text of a header with ETags. Invalid UTF-8 is replaced, so that it matches nothing.
pub(crate) fn etag_header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750 2.1). Errors: `Unauthenticated` for another
/// scheme, and for more than one header.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Fault> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let (Some(line), second) = (lines.next(), lines.next()) else { return Ok(None) };
    let token = line.to_str().ok().and_then(|line| line.split_once(' ')).and_then(|(scheme, token)| {
        let token = token.trim();
        (scheme.eq_ignore_ascii_case("Bearer") && !token.is_empty()).then_some(token)
    });
    match (token, second) {
        (Some(token), None) => Ok(Some(token)),
        _ => Err(Fault::new(Kind::Unauthenticated, "the `Authorization` header must be `Bearer` and one token")),
    }
}

/// The caller of a request. With `is_reading`, `If-None-Match` is about a cached copy and no
/// precondition. Errors: `Invalid`, naming the header that cannot be parsed.
pub(crate) fn from_headers(headers: &HeaderMap, is_read: bool) -> Result<Caller, Fault> {
    let if_match = etag_header(headers, &IF_MATCH);
    let if_none_match = etag_header(headers, &IF_NONE_MATCH).filter(|_| !is_read);
    Ok(Caller {
        actor: header(headers, "X-Actor")?.map(|text| Actor::new(&text)),
        provenance: header(headers, "X-Provenance")?.and_then(|text| Provenance::parse(&text)),
        precondition: precondition(if_match.as_deref(), if_none_match.as_deref())?,
        claim_fence: header(headers, CLAIM_FENCE)?.filter(|_| !is_read).map(|text| parse_fence(&text)).transpose()?,
        // A repeated read changes nothing.
        request: header(headers, IDEMPOTENCY_KEY)?
            .filter(|_| !is_read)
            .map(|text| parse_request(IDEMPOTENCY_KEY, unquoted(&text)))
            .transpose()?,
        ..Caller::new(Protocol::Http)
    })
}

/// The header that names the fence of a claim.
const CLAIM_FENCE: &str = "X-Claim-Fence";

/// The header with the id of a request (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

fn parse_request(name: &str, text: &str) -> Result<Arc<ClientRequest>, Fault> {
    Ok(Arc::new(RequestKey::parse(name, text)?.into()))
}

/// The text without the quotes of a structured header.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

fn parse_fence(text: &str) -> Result<u64, Fault> {
    let advice = "must be the number `fence` of your claim";
    text.trim().parse().map_err(|_| Fault::invalid(CLAIM_FENCE, advice))
}

fn precondition(if_match: Option<&str>, if_none_match: Option<&str>) -> Result<Precondition, Fault> {
    match (if_match.map(parse_if_match), if_none_match.map(parse_if_none_match)) {
        (None, None | Some(Ok(Precondition::Any))) => Ok(Precondition::Any),
        (Some(if_match), None | Some(Ok(Precondition::Any))) => Ok(if_match),
        (None, Some(if_none_match)) => if_none_match,
        (Some(_), Some(if_none_match)) => {
            if_none_match?;
            // One of the two fails for every state of the page (RFC 9110 13.2.2).
            let message = "`If-Match` and `If-None-Match` contradict each other; send one of them";
            Err(Fault::new(Kind::PreconditionFailed, message))
        }
    }
}

/// Parses `If-Match`. A value that is no ETag matches nothing.
fn parse_if_match(tags: &str) -> Precondition {
    if tags.trim() == "*" {
        return Precondition::Present;
    }
    Precondition::OneOf(tags.split(',').filter_map(|tag| ETag::parse("If-Match", tag).ok()).collect())
}

/// Parses `If-None-Match` of a write. A value that is no ETag matches nothing, so the condition
/// holds.
fn parse_if_none_match(tags: &str) -> Result<Precondition, Fault> {
    if tags.split(',').any(|tag| tag.trim() == "*") {
        return Ok(Precondition::Absent);
    }
    match tags.split(',').any(|tag| ETag::parse("If-None-Match", tag).is_ok()) {
        true => Err(Fault::invalid("If-None-Match", "only `*` (create, don't replace) has a meaning on a write")),
        false => Ok(Precondition::Any),
    }
}

fn parse_required_etags(name: &str, tags: &str) -> Result<Precondition, Fault> {
    if tags.trim() == "*" {
        return Ok(Precondition::Present);
    }
    let tags: Result<Vec<ETag>, Fault> = tags.split(',').map(|tag| ETag::parse(name, tag)).collect();
    tags.map(Precondition::OneOf)
}

/// The caller of a tool. Removes `actor`, `provenance`, `if_match`, `fence` and `request_id` from
/// the arguments, except those that are inputs of the operation. Errors: `Invalid`, naming the
/// argument that cannot be parsed.
pub(crate) fn from_arguments(
    arguments: &mut Map<String, Value>,
    is_input: impl Fn(&str) -> bool,
) -> Result<Caller, Fault> {
    let claim_fence = match arguments.get("fence") {
        Some(_) if is_input("fence") => None,
        Some(Value::Null) | None => None,
        Some(fence) => {
            let advice = || Fault::invalid("fence", "must be the number `fence` of your claim");
            Some(fence.as_u64().or_else(|| fence.as_str()?.trim().parse().ok()).ok_or_else(advice)?)
        }
    };
    if !is_input("fence") {
        arguments.remove("fence");
    }
    let mut take = |name: &str| match arguments.get(name) {
        Some(_) if is_input(name) => Ok(None),
        Some(Value::String(_)) | None => match arguments.remove(name) {
            Some(Value::String(text)) => Ok(Some(text)),
            _ => Ok(None),
        },
        Some(_) => Err(Fault::invalid(name, "must be a text")),
    };
    let (actor, provenance, if_match) = (take("actor")?, take("provenance")?, take("if_match")?);
    let request = take("request_id")?.map(|text| parse_request("request_id", &text)).transpose()?;
    Ok(Caller {
        actor: actor.map(|text| Actor::new(&text)),
        provenance: provenance.and_then(|text| Provenance::parse(&text)),
        precondition: if_match.map_or(Ok(Precondition::Any), |tags| parse_required_etags("if_match", &tags))?,
        claim_fence,
        request,
        ..Caller::new(Protocol::Mcp)
    })
}
