//! How a request is signed, looked at before s3s does: it takes older signatures, looks at several as at none, and acts on what nobody signed.

use http::HeaderMap;
use http::header::{AUTHORIZATION, DATE, HOST, HeaderValue};
use s3s::{S3Result, s3_error};
use svcfs_base::Timestamp;

/// The one way of signing but for addresses.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Seconds that a signed address may be good for: a week (S3's own limit).
const LONGEST: u64 = 7 * 24 * 60 * 60;
/// What the signature has anyway, or says nothing but of the body that comes with it.
const OF_BODY: &str = "x-amz-content-sha256";

/// When a request was signed.
const MOMENT: &str = "x-amz-date";

/// What makes an address a signed one, as s3s looks at it.
const SIGNATURE: &str = "X-Amz-Signature";
/// What makes it one by a signature of version 2: `aws s3 presign` and boto3 make such ones unless they are told otherwise, and `s3cmd signurl` no others.
const OF_VERSION_2: [&str; 2] = ["AWSAccessKeyId", "Signature"];
/// What else stands in such a one. All of it is signed; what is not listed is not, or makes another operation of it.
const BESIDE: [&str; 8] = [
    "Expires",
    "versionId",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];

/// Checks that a request has at most one signature, of version 4 or that of a plain address, and that all of it is signed that says what is to be done.
///
/// # Errors
/// `InvalidRequest` for another signature, and for several; `InvalidArgument` for one in the headers and one in the query; `AccessDenied` for a header
/// that nobody signed; `AuthorizationQueryParametersError`, `AuthorizationHeaderMalformed` for what is said of the signature.
pub(crate) fn check(query: Option<&str>, headers: &HeaderMap) -> S3Result<()> {
    let query: Vec<_> = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).collect();
    let asked = |name: &'static str| query.iter().filter(move |(found, _)| found == name).map(|(_, value)| &**value);
    let is_in_query = asked(SIGNATURE).next().is_some();
    let mut signed = headers.get_all(AUTHORIZATION).iter();
    let in_headers = signed.next().map(|value| value.to_str().unwrap_or_default());
    if signed.next().is_some() {
        return Err(s3_error!(InvalidRequest, "the request has several `Authorization` headers"));
    }
    let is_other = |signed: &str| signed.split_ascii_whitespace().next() != Some(ALGORITHM);
    let is_of_version_2 = OF_VERSION_2.iter().any(|name| asked(name).next().is_some());
    if in_headers.is_some_and(is_other) {
        return Err(s3_error!(
            InvalidRequest,
            "The authorization mechanism you have provided is not supported. Please use {ALGORITHM}."
        ));
    }
    match (in_headers, is_in_query || is_of_version_2) {
        (None, false) => Ok(()),
        (Some(_), true) => Err(s3_error!(
            InvalidArgument,
            "the request is signed twice, in `Authorization` and in its query; once is enough"
        )),
        (None, true) if is_of_version_2 => {
            check_lifetime_until(asked("Expires").next())?;
            check_version_2(query.iter().map(|(name, _)| &**name), headers)
        }
        (Some(_), false)
            if !headers.contains_key(MOMENT)
                && headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(moment).is_none() =>
        {
            Err(s3_error!(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header"))
        }
        (Some(signed), false) => check_headers(headers, in_header(signed)?),
        (None, true) => {
            check_lifetime(asked("X-Amz-Expires").next())?;
            let mut names = asked("X-Amz-SignedHeaders");
            let (Some(names), None) = (names.next(), names.next()) else {
                return Err(s3_error!(
                    AuthorizationQueryParametersError,
                    "say once in `X-Amz-SignedHeaders` what is signed"
                ));
            };
            check_headers(headers, names)
        }
    }
}

/// The names of what is signed, as `Authorization` tells them.
fn in_header(signed: &str) -> S3Result<&str> {
    // What else stands there could be taken for them: the id of a key, or the first of the names.
    let mut parts = signed.split("SignedHeaders=").skip(1);
    match (parts.next(), parts.next()) {
        (Some(names), None) => Ok(names.split(',').next().unwrap_or_default()),
        _ => Err(s3_error!(
            AuthorizationHeaderMalformed,
            "`Authorization` tells once in `SignedHeaders=` what is signed"
        )),
    }
}

/// Gives a request the header that s3s takes its moment from, where `Date` says it, as other tools of HTTP have it. The signature covers the moment by itself.
pub(crate) fn add_date(headers: &mut HeaderMap) {
    let is_needed = headers.contains_key(AUTHORIZATION) && !headers.contains_key(MOMENT);
    let date = headers.get(DATE).filter(|_| is_needed).and_then(|date| date.to_str().ok()).and_then(moment);
    if let Some(value) = date.and_then(|date| HeaderValue::from_str(&date).ok()) {
        headers.insert(MOMENT, value);
    }
}

/// A date of HTTP, or of ISO 8601, as signatures have it.
fn moment(date: &str) -> Option<String> {
    let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    let parsed = parser.parse_timestamp(date.trim()).ok().or_else(|| date.trim().parse::<Timestamp>().ok())?;
    Some(parsed.strftime("%Y%m%dT%H%M%SZ").to_string())
}

fn check_lifetime(seconds: Option<&str>) -> S3Result<()> {
    match seconds.map(str::parse::<u64>) {
        Some(Ok(0..=LONGEST)) => Ok(()),
        _ => Err(s3_error!(
            AuthorizationQueryParametersError,
            "`X-Amz-Expires` must be a number of seconds, and at most a week ({LONGEST})"
        )),
    }
}

/// The same of an address that says until which second it is good.
fn check_lifetime_until(second: Option<&str>) -> S3Result<()> {
    let last = i64::try_from(LONGEST).map(|longest| Timestamp::now().as_second().saturating_add(longest));
    match (second.map(str::parse::<i64>), last) {
        (Some(Ok(until)), Ok(last)) if until <= last => Ok(()),
        _ => Err(s3_error!(
            AuthorizationQueryParametersError,
            "`Expires` must be a second of Unix time, and at most a week ahead ({LONGEST})"
        )),
    }
}

/// Checks an address that is signed by version 2, which knows less of what S3 has become: it is one for an object, and nothing else.
fn check_version_2<'q>(mut query: impl Iterator<Item = &'q str>, headers: &HeaderMap) -> S3Result<()> {
    let is_unknown = |name: &&str| !OF_VERSION_2.contains(name) && !BESIDE.contains(name);
    let odd = query
        .find(is_unknown)
        .or_else(|| headers.keys().map(http::HeaderName::as_str).find(|name| name.starts_with("x-amz-")));
    match odd {
        Some(name) => Err(s3_error!(
            InvalidRequest,
            "`{name}` is not for an address that is signed by version 2. Please use {ALGORITHM} (signature_version = s3v4)."
        )),
        None => Ok(()),
    }
}

/// Checks that the host is signed, and every header that is S3's own. Names are compared as s3s finds headers by them, letter for letter, and it leaves
/// out what is no UTF-8.
fn check_headers(headers: &HeaderMap, signed: &str) -> S3Result<()> {
    let is_signed = |name: &str| signed.split(';').any(|signed| signed == name);
    let is_ours = |name: &str| name == HOST || name.starts_with("x-amz-") && name != OF_BODY;
    let is_unsigned = |(name, value): &(&http::HeaderName, &http::HeaderValue)| {
        is_ours(name.as_str()) && !(is_signed(name.as_str()) && std::str::from_utf8(value.as_bytes()).is_ok())
    };
    match headers.iter().find(is_unsigned) {
        Some((name, _)) => {
            Err(s3_error!(AccessDenied, "There were headers present in the request which were not signed: `{name}`"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=ann/20261126/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-meta-a, \
                          Signature=00";

    #[test]
    fn a_value_that_the_signature_cannot_have_is_as_one_that_is_not_signed() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        headers.insert(AUTHORIZATION, HeaderValue::from_static(SIGNED));
        headers.insert(DATE, HeaderValue::from_static("Thu, 26 Nov 2026 00:00:00 GMT"));
        headers.insert("x-amz-meta-a", HeaderValue::from_static("one"));
        headers.insert("x-amzn-trace-id", HeaderValue::from_static("of a proxy"));
        assert!(check(None, &headers).is_ok());
        headers.append("x-amz-meta-a", HeaderValue::from_bytes(b"tw\xf6").unwrap());
        assert!(check(None, &headers).unwrap_err().message().unwrap().ends_with("not signed: `x-amz-meta-a`"));
        headers.insert(AUTHORIZATION, HeaderValue::from_bytes(b"AWS4-HMAC-SHA256 \xf6").unwrap());
        assert!(check(None, &headers).is_err());
    }
}
