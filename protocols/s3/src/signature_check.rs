//! Checks the signature scheme of a request before s3s, which accepts older signatures, treats
//! several as none, and acts on unsigned headers.

use http::HeaderMap;
use http::header::{AUTHORIZATION, DATE, HOST, HeaderValue};
use s3s::{S3Result, s3_error};
use svcfs_base::Timestamp;

/// The only scheme, except for presigned URLs.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Longest lifetime of a presigned URL in seconds (S3's own limit).
const MAX_LIFETIME_SECS: u64 = 7 * 24 * 60 * 60;
/// Covered by the signature anyway, or about the body only.
const CONTENT_HASH_HEADER: &str = "x-amz-content-sha256";

/// The time of the signature.
const DATE_HEADER: &str = "x-amz-date";

/// Marks a URL presigned by version 4, as s3s checks it.
const SIGNATURE: &str = "X-Amz-Signature";
/// Marks a URL presigned by version 2, the default of `aws s3 presign` and boto3, and the only one
/// of `s3cmd signurl`.
const VERSION_2_PARAMETERS: [&str; 2] = ["AWSAccessKeyId", "Signature"];
/// Parameters that such a URL may have. They are signed; others are not, or select another
/// operation.
const VERSION_2_OPTIONS: [&str; 8] = [
    "Expires",
    "versionId",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
];

/// Checks that a request has at most one signature, of version 4 or of a presigned URL, and that
/// the signature covers everything that selects the operation. Errors: `InvalidRequest` for another
/// scheme or several signatures; `InvalidArgument` for one in the headers and one in the query;
/// `AccessDenied` for an unsigned header; `AuthorizationQueryParametersError`,
/// `AuthorizationHeaderMalformed` for invalid parameters.
pub(crate) fn check(query: Option<&str>, headers: &HeaderMap) -> S3Result<()> {
    let query: Vec<_> = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).collect();
    let values = |name: &'static str| query.iter().filter(move |(key, _)| key == name).map(|(_, value)| &**value);
    let is_in_query = values(SIGNATURE).next().is_some();
    let mut signed = headers.get_all(AUTHORIZATION).iter();
    let in_headers = signed.next().map(|value| value.to_str().unwrap_or_default());
    if signed.next().is_some() {
        return Err(s3_error!(InvalidRequest, "the request has several `Authorization` headers"));
    }
    let is_other = |signed: &str| signed.split_ascii_whitespace().next() != Some(ALGORITHM);
    let is_of_version_2 = VERSION_2_PARAMETERS.iter().any(|name| values(name).next().is_some());
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
            "the request is signed twice, in `Authorization` and in its query; sign it once"
        )),
        (None, true) if is_of_version_2 => {
            check_expiry(values("Expires").next())?;
            check_version_2(query.iter().map(|(name, _)| &**name), headers)
        }
        (Some(_), false)
            if !headers.contains_key(DATE_HEADER)
                && headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(to_signature_date).is_none() =>
        {
            Err(s3_error!(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header"))
        }
        (Some(signed), false) => check_headers(headers, signed_header_names(signed)?),
        (None, true) => {
            check_lifetime(values("X-Amz-Expires").next())?;
            let mut names = values("X-Amz-SignedHeaders");
            let (Some(names), None) = (names.next(), names.next()) else {
                return Err(s3_error!(
                    AuthorizationQueryParametersError,
                    "`X-Amz-SignedHeaders` must name the signed headers, once"
                ));
            };
            check_headers(headers, names)
        }
    }
}

/// The signed header names in `Authorization`.
fn signed_header_names(signed: &str) -> S3Result<&str> {
    // A second `SignedHeaders=` could be part of a key id or a header name.
    let mut parts = signed.split("SignedHeaders=").skip(1);
    match (parts.next(), parts.next()) {
        (Some(names), None) => Ok(names.split(',').next().unwrap_or_default()),
        _ => Err(s3_error!(AuthorizationHeaderMalformed, "`Authorization` must have `SignedHeaders=` exactly once")),
    }
}

/// Adds the header that s3s reads the time from, for clients that send `Date` only. The signature
/// covers the time itself.
pub(crate) fn add_date(headers: &mut HeaderMap) {
    let is_needed = headers.contains_key(AUTHORIZATION) && !headers.contains_key(DATE_HEADER);
    let date = headers.get(DATE).filter(|_| is_needed).and_then(|date| date.to_str().ok()).and_then(to_signature_date);
    if let Some(value) = date.and_then(|date| HeaderValue::from_str(&date).ok()) {
        headers.insert(DATE_HEADER, value);
    }
}

/// Converts a date of HTTP or ISO 8601 to the format of signatures.
fn to_signature_date(date: &str) -> Option<String> {
    let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    let parsed = parser.parse_timestamp(date.trim()).ok().or_else(|| date.trim().parse::<Timestamp>().ok())?;
    Some(parsed.strftime("%Y%m%dT%H%M%SZ").to_string())
}

fn check_lifetime(seconds: Option<&str>) -> S3Result<()> {
    match seconds.map(str::parse::<u64>) {
        Some(Ok(0..=MAX_LIFETIME_SECS)) => Ok(()),
        _ => Err(s3_error!(
            AuthorizationQueryParametersError,
            "`X-Amz-Expires` must be in seconds, at most a week ({MAX_LIFETIME_SECS})"
        )),
    }
}

/// Checks the expiry of a presigned URL of version 2, in Unix time.
fn check_expiry(second: Option<&str>) -> S3Result<()> {
    let last = i64::try_from(MAX_LIFETIME_SECS).map(|lifetime| Timestamp::now().as_second().saturating_add(lifetime));
    match (second.map(str::parse::<i64>), last) {
        (Some(Ok(until)), Ok(last)) if until <= last => Ok(()),
        _ => Err(s3_error!(
            AuthorizationQueryParametersError,
            "`Expires` must be a Unix time in seconds, at most a week ahead ({MAX_LIFETIME_SECS})"
        )),
    }
}

/// Checks a URL presigned by version 2, which does not cover the newer features of S3: it may only
/// read or write an object.
fn check_version_2<'q>(mut query: impl Iterator<Item = &'q str>, headers: &HeaderMap) -> S3Result<()> {
    let is_unknown = |name: &&str| !VERSION_2_PARAMETERS.contains(name) && !VERSION_2_OPTIONS.contains(name);
    let unexpected = query
        .find(is_unknown)
        .or_else(|| headers.keys().map(http::HeaderName::as_str).find(|name| name.starts_with("x-amz-")));
    match unexpected {
        Some(name) => Err(s3_error!(
            InvalidRequest,
            "`{name}` is not allowed in a URL signed by version 2. Please use {ALGORITHM} (signature_version = s3v4)."
        )),
        None => Ok(()),
    }
}

/// Checks that the host and all headers of S3 are signed. Names are compared case-sensitively and
/// values must be UTF-8, because s3s ignores other headers.
fn check_headers(headers: &HeaderMap, signed: &str) -> S3Result<()> {
    let is_signed = |name: &str| signed.split(';').any(|signed| signed == name);
    let must_be_signed = |name: &str| name == HOST || name.starts_with("x-amz-") && name != CONTENT_HASH_HEADER;
    let is_unsigned = |(name, value): &(&http::HeaderName, &http::HeaderValue)| {
        must_be_signed(name.as_str()) && !(is_signed(name.as_str()) && std::str::from_utf8(value.as_bytes()).is_ok())
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
    fn an_impossible_signature_value_counts_as_unsigned() {
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
