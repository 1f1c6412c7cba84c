//! Handles a request: checks before s3s, and completes the answer after it.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, EXPECT, HOST, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, S3Error, S3Result, s3_error};
use svcfs_base::Fault;
use svcfs_knowledge::access::SigningKey;
use svcfs_knowledge::audit::{RequestHead, TrackedRequest as Visit};

use crate::checksums::{ContentChecksums, unknown_trailer};
use crate::chunked_body::ChunkedBody;
use crate::credentials::{RequestAuthorizer, SignatureKeys};
use crate::error::{refuse, to_s3_error};
use crate::get_object::PartialHead;
use crate::hosts::{self, BucketHosts};
use crate::normalize::HeaderNormalizer;
use crate::operations::S3Operations;
use crate::response_info::ResponseInfo;
use crate::{S3Server, signature_check, unsupported};
use svcfs_listener::TimedBody;

/// Largest XML body, in bytes: a list of 10,000 parts with checksums fits.
const MAX_XML_BYTES: usize = 4 << 20;

/// Names the headers after the body.
const TRAILER: &str = "x-amz-trailer";

/// The content type of browser forms.
const FORM: &[u8] = b"multipart/form-data";

/// Builds the s3s service.
pub(crate) fn service(protocol: &Arc<S3Server>) -> Result<S3Service, Fault> {
    let signing_key = SigningKey::load_or_create(protocol.server.primary().vfs.root())?;
    let mut config = S3Config::default();
    config.xml_max_body_size = MAX_XML_BYTES;
    let config = Arc::new(StaticConfigProvider::new(Arc::new(config)));
    let builder = || {
        let mut builder = S3ServiceBuilder::new(S3Operations(Arc::clone(protocol)));
        builder.set_config(config.clone());
        builder.set_access(RequestAuthorizer(Arc::clone(protocol)));
        builder.set_host(BucketHosts(Arc::clone(protocol)));
        builder.set_validation(AnyBucketName);
        builder
    };
    let mut verifying = builder();
    verifying.set_auth(SignatureKeys { protocol: Arc::clone(protocol), signing_key });
    verifying.set_route(HeaderNormalizer(builder().build()));
    Ok(verifying.build())
}

/// Answers any request.
pub(crate) async fn answer(
    protocol: &S3Server,
    service: &S3Service,
    (mut request, peer): (Request<Incoming>, IpAddr),
) -> Response<Body> {
    let head = RequestHead {
        protocol: svcfs_base::Protocol::S3,
        method: request.method().as_str().to_owned(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(without_signature).unwrap_or_default(),
        peer: Some(peer),
        id: None,
    };
    let visit = Arc::new(Visit::start(&protocol.server, head));
    request.extensions_mut().insert(Arc::clone(&visit));
    let (brings_body, expects) = (!request.body().is_end_stream(), request.headers().contains_key(EXPECT));
    let what = format!("{} {}", request.method(), request.uri().path().escape_default());
    let checked = svcfs_listener::validate_request(&request).and_then(|()| protocol.names.check(request.headers()));
    let checked = checked.map_err(|fault| to_s3_error(&fault));
    let checked = checked.and_then(|()| check(request.method(), request.headers()));
    let checked = checked.and_then(|()| signature_check::check(request.uri().query(), request.headers()));
    let is_object_request = hosts::is_object_request(protocol, request.uri(), request.headers());
    let checked = checked.and_then(|()| unsupported::check(request.method(), request.uri().query(), is_object_request));
    let info = ResponseInfo {
        resource: request.uri().path().to_owned(),
        may_be_file: is_object_request && *request.method() == Method::GET,
    };
    let outcome = match checked {
        Ok(()) => {
            signature_check::add_date(request.headers_mut());
            declare_trailer(request.headers_mut());
            let is_chunked = is_chunked(request.headers());
            let request = request.map(|body| match is_chunked {
                true => Body::http_body_unsync(ChunkedBody::new(TimedBody::new(body), protocol.chunk_storage())),
                false => Body::http_body_unsync(TimedBody::new(body)),
            });
            match svcfs_listener::catch_panic(async { Ok(service.call(request).await) }).await {
                Ok(response) => response.map_err(|error| s3_error!(InternalError, "{error:?}")),
                Err(fault) => refuse(fault, &what).to_http_response(),
            }
        }
        Err(refused) => refused.to_http_response(),
    };
    // A request with an invalid signature counts against the rate limit of its address.
    let admission = if visit.is_admitted() { Ok(()) } else { visit.admit(None, None) };
    let outcome = admission.map_or_else(|fault| refuse(fault, &what).to_http_response(), |()| outcome);
    let mut response = outcome.unwrap_or_else(|error: S3Error| {
        tracing::error!(?error, "`{what}` failed without a response");
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    });
    if response.extensions().get::<PartialHead>().is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let mut response = info.complete(response);
    let status = response.status();
    let is_refused = status.is_client_error() || status.is_server_error();
    if is_refused {
        tracing::debug!(status = status.as_u16(), "`{what}` was refused");
    }
    // An unread rest of a body would be parsed as the next request, so the connection is closed. It
    // is also closed after `Expect: 100-continue` with an empty body (botocore): hyper sends no
    // `100 Continue` then, and the client would take the next answer for it.
    let may_follow_a_body = is_refused && (brings_body || status != StatusCode::NOT_FOUND);
    if may_follow_a_body || expects && !brings_body {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    visit.finish(status.as_u16());
    response
}

/// A query without its signature, for logs: a presigned URL is as good as a key until it expires.
fn without_signature(query: &str) -> String {
    let is_public = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
        !matches!(name.as_str(), "x-amz-signature" | "signature" | "x-amz-security-token")
    };
    query.split('&').filter(is_public).collect::<Vec<_>>().join("&")
}

/// Whether s3s decodes the body from chunks.
pub(crate) fn is_chunked(headers: &HeaderMap) -> bool {
    headers.get_all("x-amz-content-sha256").iter().any(|value| value.as_bytes().starts_with(b"STREAMING-"))
}

/// Adds an empty `x-amz-trailer` to a body that may have trailing headers: s3s requires the header.
fn declare_trailer(headers: &mut HeaderMap) {
    let is_with_trailer =
        headers.get("x-amz-content-sha256").is_some_and(|value| value.as_bytes().ends_with(b"-PAYLOAD-TRAILER"));
    if is_with_trailer && !headers.contains_key(TRAILER) {
        headers.insert(TRAILER, HeaderValue::from_static(""));
    }
}

/// Refuses what s3s accepts wrongly.
fn check(method: &Method, headers: &HeaderMap) -> S3Result<()> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // As bytes: the boundary need not be ASCII.
    let is_form = |kind: &HeaderValue| kind.as_bytes().to_ascii_lowercase().starts_with(FORM);
    if *method == Method::POST && headers.get_all(CONTENT_TYPE).iter().any(is_form) {
        return Err(s3_error!(NotImplemented, "browser form uploads are not supported; use PUT"));
    }
    // s3s decodes chunks only with a signature; else the framing would be stored.
    let is_streamed = is_chunked(headers) || text("content-encoding").contains("aws-chunked");
    if is_streamed && !headers.contains_key(AUTHORIZATION) {
        return Err(s3_error!(InvalidRequest, "a body in signed chunks (`aws-chunked`) needs `Authorization`"));
    }
    if ContentChecksums::of(headers).count_with(text("x-amz-trailer")) > 1 {
        return Err(s3_error!(
            InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        ));
    }
    if let Some(unknown) = unknown_trailer(text("x-amz-trailer")) {
        return Err(s3_error!(InvalidRequest, "the checksum `{}` is not supported", unknown.escape_default()));
    }
    if !headers.contains_key(HOST) {
        return Err(s3_error!(InvalidRequest, "the header `Host` is missing"));
    }
    Ok(())
}

/// Buckets have names of spaces, which AWS rules do not fit; an unknown one is refused later.
struct AnyBucketName;

impl NameValidation for AnyBucketName {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.is_empty()
    }
}
