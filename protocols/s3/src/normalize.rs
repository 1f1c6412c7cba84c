//! Headers that s3s would refuse but that are valid requests: an invalid `Range` or one with
//! several parts is ignored, and a value of `If-Match` or `If-None-Match` that is not an ETag
//! matches nothing.
//!
//! Invariant: a signature is verified over the headers as sent. Such a request is therefore
//! dispatched twice: s3s verifies it and hands it to the route below, which passes it with
//! normalized headers to a service that verifies nothing and trusts [`VerifiedRequest`].

use http::header::{AUTHORIZATION, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, RANGE};
use http::{Extensions, HeaderMap, Method, Request, Uri};
use s3s::auth::Credentials;
use s3s::dto::ETagCondition;
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, S3Request, S3Response, S3Result, TrailingHeaders, s3_error};

/// The conditions of a request, and those on a copy source.
const CONDITIONS: [(HeaderName, ConditionKind); 4] = [
    (IF_MATCH, ConditionKind::Match),
    (IF_NONE_MATCH, ConditionKind::NoneMatch),
    (HeaderName::from_static("x-amz-copy-source-if-match"), ConditionKind::Match),
    (HeaderName::from_static("x-amz-copy-source-if-none-match"), ConditionKind::NoneMatch),
];
/// An ETag that no object has.
const UNMATCHED_ETAG: HeaderValue = HeaderValue::from_static("\"-\"");
/// The query parameters of a signature.
const SIGNATURE: [&str; 9] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-signedheaders",
    "x-amz-signature",
    "awsaccesskeyid",
    "expires",
    "signature",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionKind {
    Match,
    NoneMatch,
}

/// What s3s verified before the second dispatch.
#[derive(Debug, Clone)]
pub(crate) struct VerifiedRequest {
    access_key: Option<String>,
    trailing: Option<TrailingHeaders>,
}

impl VerifiedRequest {
    /// The id of the key that signed the request.
    pub(crate) fn access_key<'a>(credentials: Option<&'a Credentials>, extensions: &'a Extensions) -> Option<&'a str> {
        let verified = || extensions.get::<Self>()?.access_key.as_deref();
        credentials.map(|credentials| credentials.access_key.as_str()).or_else(verified)
    }
    /// The trailing headers of a request.
    pub(crate) fn trailing(trailing: Option<TrailingHeaders>, extensions: &Extensions) -> Option<TrailingHeaders> {
        trailing.or_else(|| extensions.get::<Self>()?.trailing.clone())
    }
}

/// Dispatches requests with such headers again.
pub(crate) struct HeaderNormalizer(pub(crate) S3Service);

#[async_trait::async_trait]
impl S3Route for HeaderNormalizer {
    fn is_match(&self, method: &Method, _: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        normalized_headers(method, headers).is_some()
    }
    /// The second service checks access.
    async fn check_access(&self, _: &mut S3Request<Body>) -> S3Result<()> {
        Ok(())
    }
    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let mut headers = normalized_headers(&request.method, &request.headers).unwrap_or(request.headers);
        headers.remove(AUTHORIZATION);
        let access_key = request.credentials.map(|credentials| credentials.access_key);
        let mut normalized_request = Request::new(request.input);
        (*normalized_request.method_mut(), *normalized_request.headers_mut()) = (request.method, headers);
        *normalized_request.uri_mut() = unsigned(&request.uri)?;
        *normalized_request.extensions_mut() = request.extensions;
        normalized_request.extensions_mut().insert(VerifiedRequest { access_key, trailing: request.trailing_headers });
        let response = self.0.call(normalized_request).await.map_err(|error| s3_error!(InternalError, "{error:?}"))?;
        let (head, body) = response.into_parts();
        let mut response = S3Response::new(body);
        (response.status, response.headers, response.extensions) = (Some(head.status), head.headers, head.extensions);
        Ok(response)
    }
}

/// The URL without its signature.
fn unsigned(uri: &Uri) -> S3Result<Uri> {
    let Some(query) = uri.query() else { return Ok(uri.clone()) };
    let is_signature = |part: &&str| {
        let (name, _) = form_urlencoded::parse(part.as_bytes()).next().unwrap_or_default();
        SIGNATURE.contains(&name.to_ascii_lowercase().as_str())
    };
    let rest: Vec<_> = query.split('&').filter(|part| !is_signature(part)).collect();
    let target = format!("{}?{}", uri.path(), rest.join("&"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().map_err(|error| s3_error!(InvalidURI, "{error}"))?);
    Uri::from_parts(parts).map_err(|error| s3_error!(InvalidURI, "{error}"))
}

/// The headers as s3s shall read them; `None` when nothing changes.
fn normalized_headers(method: &Method, headers: &HeaderMap) -> Option<HeaderMap> {
    let mut changed = None;
    if matches!(*method, Method::GET | Method::HEAD) && headers.contains_key(RANGE) {
        let range = svcfs_listener::single_range(headers).and_then(|range| HeaderValue::from_str(&range).ok());
        if range.as_ref() != headers.get(RANGE) {
            set(changed.get_or_insert_with(|| headers.clone()), &RANGE, range);
        }
    }
    for (name, meaning) in CONDITIONS {
        if let Some(condition) = condition(headers, &name, meaning) {
            set(changed.get_or_insert_with(|| headers.clone()), &name, condition);
        }
    }
    changed
}

fn set(headers: &mut HeaderMap, name: &HeaderName, value: Option<HeaderValue>) {
    headers.remove(name);
    value.into_iter().for_each(|value| drop(headers.insert(name, value)));
}

/// A condition as s3s shall read it. The outer `None` leaves the header as it is, also when it
/// names several ETags, which S3 refuses; the inner `None` removes it, because the condition holds.
fn condition(headers: &HeaderMap, name: &HeaderName, meaning: ConditionKind) -> Option<Option<HeaderValue>> {
    let lines: Vec<&HeaderValue> = headers.get_all(name).iter().collect();
    let is_valid = |value: &[u8]| ETagCondition::parse_http_header(value).is_ok();
    match lines[..] {
        [] => return None,
        [line] if is_valid(line.as_bytes()) => return None,
        [..] => {}
    }
    let values: Vec<&[u8]> =
        lines.iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii).collect();
    if values.contains(&&b"*"[..]) && (meaning == ConditionKind::NoneMatch || values.len() == 1) {
        // A client that means "create only" must never replace an object, whatever else the header
        // says.
        return Some(Some(HeaderValue::from_static("*")));
    }
    let tags: Vec<&[u8]> = values.into_iter().filter(|value| *value != b"*" && is_valid(value)).collect();
    match (&tags[..], meaning) {
        ([], ConditionKind::Match) => Some(Some(UNMATCHED_ETAG)),
        ([], ConditionKind::NoneMatch) => Some(None),
        ([tag], _) => HeaderValue::from_bytes(tag).ok().map(Some),
        ([_, _, ..], _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_with_what_is_no_tag_in_them() {
        let read = |lines: &[&str], meaning| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(IF_MATCH, HeaderValue::from_bytes(line.as_bytes()).unwrap());
            }
            let read = condition(&headers, &IF_MATCH, meaning);
            read.map(|value| value.map(|value| value.to_str().unwrap().to_owned()))
        };
        let (holds, never) = (Some(None), Some(Some("\"-\"".to_owned())));
        for plain in ["*", "\"a\"", "W/\"a\"", "abc-1"] {
            assert_eq!(read(&[plain], ConditionKind::Match), None, "{plain}");
        }
        for other in ["", "\"", "a b", "W/", "\"a", "_", "é", ","] {
            assert_eq!(read(&[other], ConditionKind::Match), never, "{other}");
            assert_eq!(read(&[other], ConditionKind::NoneMatch), holds, "{other}");
        }
        assert_eq!(read(&["_, \"a\""], ConditionKind::NoneMatch), Some(Some("\"a\"".to_owned())));
        assert_eq!(read(&["*, _"], ConditionKind::NoneMatch), Some(Some("*".to_owned())));
        assert_eq!(read(&["*, _"], ConditionKind::Match), never);
        assert_eq!(read(&["\"a\", \"b\""], ConditionKind::Match), None);
        assert_eq!(read(&["_", "\"a\""], ConditionKind::Match), Some(Some("\"a\"".to_owned())));
    }

    #[test]
    fn an_address_is_logged_without_its_signature() {
        let address =
            Uri::from_static("/b/k?X-Amz-Signature=1&versionId=2&X-Amz-Date=3&response-expires=4&Signature=5");
        assert_eq!(unsigned(&address).unwrap().to_string(), "/b/k?versionId=2&response-expires=4");
        assert_eq!(unsigned(&Uri::from_static("/b/k")).unwrap().to_string(), "/b/k");
    }
}
