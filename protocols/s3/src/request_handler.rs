//! One request, from method and path to answer: what is s3s's, and what is ours around it.

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
use crate::error::{refuse, told};
use crate::get_object::PartialHead;
use crate::hosts::{self, BucketHosts};
use crate::normalize::HeaderNormalizer;
use crate::operations::S3Operations;
use crate::response_info::ResponseInfo;
use crate::{S3Server, signature_check, unsupported};
use svcfs_listener::TimedBody;

/// Bytes of XML that a request may bring: 10,000 parts of an upload with their checksums.
const MAX_XML_BYTES: usize = 4 << 20;

/// Which headers come behind the body.
const TRAILER: &str = "x-amz-trailer";

/// How forms of browsers name what they are.
const FORM: &[u8] = b"multipart/form-data";

/// What answers requests.
///
/// # Errors
/// Those of the file that secrets are worked out from.
pub(crate) fn service(protocol: &Arc<S3Server>) -> Result<S3Service, Fault> {
    let signing = SigningKey::load_or_create(protocol.server.primary().vfs.root())?;
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
    verifying.set_auth(SignatureKeys { protocol: Arc::clone(protocol), signing });
    verifying.set_route(HeaderNormalizer(builder().build()));
    Ok(verifying.build())
}

/// Answers a request, whatever it is.
pub(crate) async fn answer(
    protocol: &S3Server,
    service: &S3Service,
    (mut request, peer): (Request<Incoming>, IpAddr),
) -> Response<Body> {
    let head = RequestHead {
        protocol: svcfs_base::Protocol::S3,
        method: request.method().as_str().to_owned(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().map(unsigned).unwrap_or_default(),
        peer: Some(peer),
        id: None,
    };
    let visit = Arc::new(Visit::start(&protocol.server, head));
    request.extensions_mut().insert(Arc::clone(&visit));
    let (brings_body, expects) = (!request.body().is_end_stream(), request.headers().contains_key(EXPECT));
    let what = format!("{} {}", request.method(), request.uri().path().escape_default());
    let checked = svcfs_listener::validate_request(&request).and_then(|()| protocol.names.check(request.headers()));
    let checked = checked.map_err(|fault| told(&fault));
    let checked = checked.and_then(|()| check(request.method(), request.headers()));
    let checked = checked.and_then(|()| signature_check::check(request.uri().query(), request.headers()));
    let is_of_object = hosts::is_of_object(protocol, request.uri(), request.headers());
    let checked = checked.and_then(|()| unsupported::check(request.method(), request.uri().query(), is_of_object));
    let described = ResponseInfo {
        resource: request.uri().path().to_owned(),
        may_be_file: is_of_object && *request.method() == Method::GET,
    };
    let outcome = match checked {
        Ok(()) => {
            signature_check::add_date(request.headers_mut());
            announce_trailer(request.headers_mut());
            let is_in_pieces = is_in_pieces(request.headers());
            let request = request.map(|body| match is_in_pieces {
                true => Body::http_body_unsync(ChunkedBody::new(TimedBody::new(body), protocol.place())),
                false => Body::http_body_unsync(TimedBody::new(body)),
            });
            match svcfs_listener::catch_panic(async { Ok(service.call(request).await) }).await {
                Ok(answered) => answered.map_err(|error| s3_error!(InternalError, "{error:?}")),
                Err(panicked) => refuse(panicked, &what).to_http_response(),
            }
        }
        Err(refused) => refused.to_http_response(),
    };
    // Whose signature is none, is counted with everybody else of the address.
    let counted = if visit.is_admitted() { Ok(()) } else { visit.admit(None, None) };
    let outcome = counted.map_or_else(|fault| refuse(fault, &what).to_http_response(), |()| outcome);
    let mut response = outcome.unwrap_or_else(|error: S3Error| {
        tracing::error!(?error, "`{what}` could not be answered");
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    });
    if response.extensions().get::<PartialHead>().is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let mut response = described.complete(response);
    let status = response.status();
    let is_refused = status.is_client_error() || status.is_server_error();
    if is_refused {
        tracing::debug!(status = status.as_u16(), "`{what}` was refused");
    }
    // What is left of a body that nobody reads would be taken for the next request. And who expects to be told to go on with an empty body (botocore)
    // is told so by no server of ours, and takes the next answer for what it still expects.
    let may_follow_a_body = is_refused && (brings_body || status != StatusCode::NOT_FOUND);
    if may_follow_a_body || expects && !brings_body {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    visit.finish(status.as_u16());
    response
}

/// A query as it may be kept: the signature of an address that was signed beforehand is as good as a key until it expires.
fn unsigned(query: &str) -> String {
    let is_told = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().to_ascii_lowercase();
        !matches!(name.as_str(), "x-amz-signature" | "signature" | "x-amz-security-token")
    };
    query.split('&').filter(is_told).collect::<Vec<_>>().join("&")
}

/// Whether s3s puts the body together from pieces.
pub(crate) fn is_in_pieces(headers: &HeaderMap) -> bool {
    headers.get_all("x-amz-content-sha256").iter().any(|said| said.as_bytes().starts_with(b"STREAMING-"))
}

/// Says of a body that may have trailing headers that none are announced: s3s takes it only where something is said.
fn announce_trailer(headers: &mut HeaderMap) {
    let is_with_trailer =
        headers.get("x-amz-content-sha256").is_some_and(|said| said.as_bytes().ends_with(b"-PAYLOAD-TRAILER"));
    if is_with_trailer && !headers.contains_key(TRAILER) {
        headers.insert(TRAILER, HeaderValue::from_static(""));
    }
}

/// What s3s would take, and should not.
fn check(method: &Method, headers: &HeaderMap) -> S3Result<()> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // As bytes: a boundary, or what else stands behind it, need not be ASCII.
    let is_form = |kind: &HeaderValue| kind.as_bytes().to_ascii_lowercase().starts_with(FORM);
    if *method == Method::POST && headers.get_all(CONTENT_TYPE).iter().any(is_form) {
        return Err(s3_error!(NotImplemented, "forms of browsers are not taken; use PUT"));
    }
    // Only with a signature are the pieces of such a body put together; what is around them would be written, too.
    let is_streamed = is_in_pieces(headers) || text("content-encoding").contains("aws-chunked");
    if is_streamed && !headers.contains_key(AUTHORIZATION) {
        return Err(s3_error!(InvalidRequest, "a body in signed pieces (`aws-chunked`) needs `Authorization`"));
    }
    if ContentChecksums::of(headers).count_with(text("x-amz-trailer")) > 1 {
        return Err(s3_error!(
            InvalidRequest,
            "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
        ));
    }
    if let Some(unknown) = unknown_trailer(text("x-amz-trailer")) {
        return Err(s3_error!(
            InvalidRequest,
            "`{}` is no checksum that could be compared here",
            unknown.escape_default()
        ));
    }
    if !headers.contains_key(HOST) {
        return Err(s3_error!(InvalidRequest, "the header `Host` is missing"));
    }
    Ok(())
}

/// Buckets have the names of spaces, which are fewer or more than AWS would take; the one that is not there is told so.
struct AnyBucketName;

impl NameValidation for AnyBucketName {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.is_empty()
    }
}
