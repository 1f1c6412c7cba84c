//! Who asks: attribution and preconditions, from headers or from a tool's arguments.

use http::header::{AUTHORIZATION, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};
use svcfs_base::{Actor, Caller, ETag, Fault, Kind, Precondition, Protocol, Provenance};

/// A header's text, several lines joined by commas.
///
/// # Errors
/// `Invalid` when it is not UTF-8.
pub(crate) fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, Fault> {
    let mut lines = Vec::new();
    for value in headers.get_all(name) {
        let line = std::str::from_utf8(value.as_bytes());
        lines.push(line.map_err(|_| Fault::invalid(name, "is not valid UTF-8"))?);
    }
    Ok((!lines.is_empty()).then(|| lines.join(",")))
}

/// A header that is compared, several lines joined by commas: what is no UTF-8 in it is as a letter that nothing else has.
pub(crate) fn compared(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750 2.1).
///
/// # Errors
/// `Unauthenticated` for credentials of any other kind, and for two of them: which one counts would be a guess.
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

/// The caller of a request; `is_reading` says that `If-None-Match` asks about a cached copy, not about creating.
///
/// # Errors
/// `Invalid`, naming the header that cannot be read.
pub(crate) fn from_headers(headers: &HeaderMap, is_reading: bool) -> Result<Caller, Fault> {
    let if_match = compared(headers, &IF_MATCH);
    let if_none_match = compared(headers, &IF_NONE_MATCH).filter(|_| !is_reading);
    Ok(Caller {
        actor: header(headers, "X-Actor")?.map(|text| Actor::new(&text)),
        provenance: header(headers, "X-Provenance")?.and_then(|text| Provenance::parse(&text)),
        precondition: expectation(if_match.as_deref(), if_none_match.as_deref())?,
        ..Caller::new(Protocol::Http)
    })
}

fn expectation(if_match: Option<&str>, if_none_match: Option<&str>) -> Result<Precondition, Fault> {
    match (if_match.map(held), if_none_match.map(created)) {
        (None, None | Some(Ok(Precondition::Any))) => Ok(Precondition::Any),
        (Some(held), None | Some(Ok(Precondition::Any))) => Ok(held),
        (None, Some(created)) => created,
        (Some(_), Some(created)) => {
            created?;
            // One of the two does not hold, whatever is there (RFC 9110 13.2.2).
            let told = "`If-Match` and `If-None-Match` contradict each other; send one of them";
            Err(Fault::new(Kind::PreconditionFailed, told))
        }
    }
}

/// What `If-Match` says. A value that is no ETag matches nothing (gaps.md D46).
fn held(tags: &str) -> Precondition {
    if tags.trim() == "*" {
        return Precondition::Present;
    }
    Precondition::OneOf(tags.split(',').filter_map(|tag| ETag::parse("If-Match", tag).ok()).collect())
}

/// What `If-None-Match` says of a write. A value that is no ETag matches nothing, so that the condition holds (gaps.md D46).
fn created(tags: &str) -> Result<Precondition, Fault> {
    if tags.split(',').any(|tag| tag.trim() == "*") {
        return Ok(Precondition::Absent);
    }
    match tags.split(',').any(|tag| ETag::parse("If-None-Match", tag).is_ok()) {
        true => Err(Fault::invalid("If-None-Match", "only `*` (create, don't replace) has a meaning on a write")),
        false => Ok(Precondition::Any),
    }
}

fn matching(name: &str, tags: &str) -> Result<Precondition, Fault> {
    if tags.trim() == "*" {
        return Ok(Precondition::Present);
    }
    let tags: Result<Vec<ETag>, Fault> = tags.split(',').map(|tag| ETag::parse(name, tag)).collect();
    tags.map(Precondition::OneOf)
}

/// The caller of a tool. `actor`, `provenance` and `if_match` are taken out of the arguments, except those that are inputs of
/// the operation itself.
///
/// # Errors
/// `Invalid`, naming the argument that cannot be read.
pub(crate) fn from_arguments(
    arguments: &mut Map<String, Value>,
    is_own: impl Fn(&str) -> bool,
) -> Result<Caller, Fault> {
    let mut lift = |name: &str| match arguments.get(name) {
        Some(_) if is_own(name) => Ok(None),
        Some(Value::String(_)) | None => match arguments.remove(name) {
            Some(Value::String(text)) => Ok(Some(text)),
            _ => Ok(None),
        },
        Some(_) => Err(Fault::invalid(name, "must be a text")),
    };
    let (actor, provenance, if_match) = (lift("actor")?, lift("provenance")?, lift("if_match")?);
    Ok(Caller {
        actor: actor.map(|text| Actor::new(&text)),
        provenance: provenance.and_then(|text| Provenance::parse(&text)),
        precondition: if_match.map_or(Ok(Precondition::Any), |tags| matching("if_match", &tags))?,
        ..Caller::new(Protocol::Mcp)
    })
}
