//! The head of a request, as dav-server is to see it. A header that it cannot read it takes for one that is not there, and one that stands twice, too:
//! what it is not to do it would do.

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method};
use svcfs_base::Fault;

use crate::conditions;

/// What may stand there once.
const ONCE: [&str; 7] = ["if", "overwrite", "depth", "destination", "timeout", "lock-token", "x-update-range"];

/// A request as dav-server understands it, with this `destination`; `resource` tells the path of this server for one that a condition names.
///
/// # Errors
/// `Invalid` for what is none of the standards', and for a part of a file that is put (RFC 9110 14.5).
pub(crate) fn understood(
    mut head: Parts,
    destination: Option<HeaderValue>,
    resource: &dyn Fn(&str) -> String,
) -> Result<Parts, Fault> {
    let headers = &mut head.headers;
    if let Some(name) = ONCE.into_iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        return Err(Fault::invalid(name, "must stand there once"));
    }
    destination.into_iter().for_each(|destination| drop(headers.insert("destination", destination)));
    rewrite(headers, "if", |text| {
        let told = "must be lists of lock tokens and ETags, such as `(<urn:uuid:…>)` or `([\"…\"])`";
        conditions::of_dav(text, resource).ok_or(told)
    })?;
    understand_tags(headers, &header::IF_MATCH, |text| Some(conditions::of_match(text)));
    // Who has it already has it, whichever of the two it is called (RFC 9110 13.1.2).
    understand_tags(headers, &header::IF_NONE_MATCH, conditions::of_none_match);
    rewrite(headers, "overwrite", |text| one_of(&["T", "F"], text).ok_or("must be T or F"))?;
    rewrite(headers, "depth", |text| one_of(&["0", "1", "infinity"], text).ok_or("must be 0, 1 or infinity"))?;
    understand_timeout(headers);
    understand_ranges(&mut head)?;
    Ok(head)
}

/// Writes a header anew, of which there may be several that say one thing.
fn rewrite(
    headers: &mut HeaderMap,
    name: &'static str,
    anew: impl FnOnce(&str) -> Result<String, &'static str>,
) -> Result<(), Fault> {
    if !headers.contains_key(name) {
        return Ok(());
    }
    let invalid = |told: &str| Fault::invalid(name, told);
    let parts: Result<Vec<_>, _> = headers.get_all(name).iter().map(HeaderValue::to_str).collect();
    let text = parts.map_err(|_| invalid("must be ASCII"))?.join(", ");
    let text = anew(&text).map_err(invalid)?;
    let value = HeaderValue::from_str(&text).map_err(|_| invalid("must be ASCII"))?;
    headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// Writes a list of ETags anew, of which there may be several; none where nothing in it is one.
fn understand_tags(headers: &mut HeaderMap, name: &HeaderName, read: impl FnOnce(&str) -> Option<String>) {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
    if lines.is_empty() {
        return;
    }
    let value = read(&lines.join(", ")).map(|text| text.replace(|letter: char| !letter.is_ascii(), "?"));
    headers.remove(name);
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
        headers.insert(name, value);
    }
}

/// The word that is meant (RFC 4918 10: small letters or large ones).
fn one_of(words: &[&str], text: &str) -> Option<String> {
    let text = text.trim();
    words.iter().find(|word| word.eq_ignore_ascii_case(text)).map(|word| (*word).to_owned())
}

/// The first time that can be read of those that a client would like (RFC 4918 10.7), or none: nobody has to heed them.
fn understand_timeout(headers: &mut HeaderMap) {
    let Some(wanted) = headers.remove("timeout") else { return };
    let in_words = |word: &str| match word.trim().to_ascii_lowercase() {
        word if word == "infinite" => Some("Infinite".to_owned()),
        word => {
            let digits = word.strip_prefix("second-")?;
            let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_number.then(|| format!("Second-{}", digits.parse().unwrap_or(u32::MAX)))
        }
    };
    let first = wanted.to_str().ok().and_then(|wanted| wanted.split(',').find_map(in_words));
    if let Some(value) = first.and_then(|first| HeaderValue::from_str(&first).ok()) {
        headers.insert("timeout", value);
    }
}

/// Parts of files: dav-server takes a part for all of it where a header says which part in words that it does not know, and tells the boundaries of several
/// parts as no client expects them.
fn understand_ranges(head: &mut Parts) -> Result<(), Fault> {
    let headers = &mut head.headers;
    if head.method == Method::HEAD {
        // RFC 9110 14.2
        headers.remove(header::RANGE);
    }
    if head.method == Method::PUT && headers.contains_key(header::CONTENT_RANGE) {
        let told = "a part of a file is written with PATCH and `X-Update-Range`; PUT takes whole files";
        return Err(Fault::invalid("Content-Range", told));
    }
    let as_before: Vec<_> = headers.get_all(header::IF_RANGE).iter().map(HeaderValue::to_str).collect();
    let is_readable = match as_before[..] {
        [] => true,
        // A time that is none is seen by dav-server.
        [Ok(one)] => conditions::is_tag(one) || !one.contains('"'),
        _ => false,
    };
    if !is_readable {
        headers.remove(header::RANGE);
        headers.remove(header::IF_RANGE);
    }
    svcfs_listener::drop_unsupported_ranges(headers);
    Ok(())
}
