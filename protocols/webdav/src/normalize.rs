//! Normalizes the headers of a request for dav-server, which treats an unreadable or repeated
//! header as absent: it would do what the client has excluded.

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method};
use svcfs_base::Fault;

use crate::conditions;

/// Headers that must not be repeated.
const SINGLE_HEADERS: [&str; 7] =
    ["if", "overwrite", "depth", "destination", "timeout", "lock-token", "x-update-range"];

/// Normalizes a request, with this `destination`; `resource` maps the path of a URL in a condition.
/// Errors: `Invalid` for invalid headers, and for a PUT with `Content-Range` (RFC 9110 14.5).
pub(crate) fn normalize(
    mut head: Parts,
    destination: Option<HeaderValue>,
    resource: &dyn Fn(&str) -> String,
) -> Result<Parts, Fault> {
    let headers = &mut head.headers;
    if let Some(name) = SINGLE_HEADERS.into_iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        return Err(Fault::invalid(name, "must be sent only once"));
    }
    destination.into_iter().for_each(|destination| drop(headers.insert("destination", destination)));
    rewrite(headers, "if", |text| {
        let message = "must be lists of lock tokens and ETags, such as `(<urn:uuid:…>)` or `([\"…\"])`";
        conditions::normalize_if(text, resource).ok_or(message)
    })?;
    normalize_tags(headers, &header::IF_MATCH, |text| Some(conditions::normalize_if_match(text)));
    // Weak comparison (RFC 9110 13.1.2).
    normalize_tags(headers, &header::IF_NONE_MATCH, conditions::normalize_if_none_match);
    rewrite(headers, "overwrite", |text| match_keyword(&["T", "F"], text).ok_or("must be T or F"))?;
    rewrite(headers, "depth", |text| match_keyword(&["0", "1", "infinity"], text).ok_or("must be 0, 1 or infinity"))?;
    normalize_timeout(headers);
    normalize_ranges(&mut head)?;
    Ok(head)
}

/// Rewrites a header; several lines are joined.
fn rewrite(
    headers: &mut HeaderMap,
    name: &'static str,
    normalize_value: impl FnOnce(&str) -> Result<String, &'static str>,
) -> Result<(), Fault> {
    if !headers.contains_key(name) {
        return Ok(());
    }
    let invalid = |message: &str| Fault::invalid(name, message);
    let parts: Result<Vec<_>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
    let text = parts.map_err(|_| invalid("must be ASCII"))?.join(", ");
    let text = normalize_value(&text).map_err(invalid)?;
    let value = HeaderValue::from_str(&text).map_err(|_| invalid("must be ASCII"))?;
    headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Rewrites a list of ETags; removes the header if none is valid.
fn normalize_tags(headers: &mut HeaderMap, name: &HeaderName, read: impl FnOnce(&str) -> Option<String>) {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    if lines.is_empty() {
        return;
    }
    let value = read(&lines.join(", ")).map(|text| text.replace(|character: char| !character.is_ascii(), "?"));
    headers.remove(name);
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
        headers.insert(name, value);
    }
}

/// Matches a keyword, case-insensitively (RFC 4918 10).
fn match_keyword(keywords: &[&str], text: &str) -> Option<String> {
    let text = text.trim();
    keywords.iter().find(|keyword| keyword.eq_ignore_ascii_case(text)).map(|keyword| (*keyword).to_owned())
}

/// Keeps the first valid time that the client prefers (RFC 4918 10.7), or none: the server need not
/// heed them.
fn normalize_timeout(headers: &mut HeaderMap) {
    let Some(requested) = headers.remove("timeout") else { return };
    let parse = |keyword: &str| match keyword.trim().to_ascii_lowercase() {
        keyword if keyword == "infinite" => Some("Infinite".to_owned()),
        keyword => {
            let digits = keyword.strip_prefix("second-")?;
            let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_number.then(|| format!("Second-{}", digits.parse().unwrap_or(u32::MAX)))
        }
    };
    let first = requested.to_str().ok().and_then(|requested| requested.split(',').find_map(parse));
    if let Some(value) = first.and_then(|first| HeaderValue::from_str(&first).ok()) {
        headers.insert("timeout", value);
    }
}

/// Normalizes ranges: dav-server returns the full file for a range that it cannot parse, and
/// multipart boundaries that no client expects.
fn normalize_ranges(head: &mut Parts) -> Result<(), Fault> {
    let headers = &mut head.headers;
    if head.method == Method::HEAD {
        // RFC 9110 14.2: `Range` applies to GET only.
        headers.remove(header::RANGE);
    }
    if head.method == Method::PUT && headers.contains_key(header::CONTENT_RANGE) {
        let message = "to write a part of a file, use PATCH with `X-Update-Range`; PUT writes full files";
        return Err(Fault::invalid("Content-Range", message));
    }
    let if_range: Vec<_> = headers.get_all(header::IF_RANGE).iter().map(HeaderValue::to_str).collect();
    let is_readable = match if_range[..] {
        [] => true,
        // dav-server handles an invalid date.
        [Ok(value)] => conditions::is_tag(value) || !value.contains('"'),
        _ => false,
    };
    if !is_readable {
        headers.remove(header::RANGE);
        headers.remove(header::IF_RANGE);
    }
    svcfs_listener::drop_unsupported_ranges(headers);
    Ok(())
}
