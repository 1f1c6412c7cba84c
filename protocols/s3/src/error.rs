//! Faults, in the protocol's words.

use http::HeaderMap;
use http::header::RETRY_AFTER;
use s3s::{S3Error, S3ErrorCode};
use svcfs_base::{Fault, Kind};
use svcfs_knowledge::access::RETRY_AFTER_KEY;

/// The error for a fault. What is wrong inside is for the log alone.
pub(crate) fn told(fault: &Fault) -> S3Error {
    let kind = fault.kind();
    let message = match kind {
        Kind::Internal | Kind::DiskFailed => "the server failed; its log says why".to_owned(),
        _ => fault.message().to_owned(),
    };
    let code = S3ErrorCode::from_bytes(kind.s3().as_bytes()).unwrap_or(S3ErrorCode::InternalError);
    let mut error = S3Error::with_message(code, message);
    if let Some(seconds) = fault.detail().get(RETRY_AFTER_KEY).and_then(serde_json::Value::as_u64) {
        error.set_headers(HeaderMap::from_iter([(RETRY_AFTER, seconds.into())]));
    }
    error
}

/// Logs a fault, and gives the error for it.
pub(crate) fn refuse(fault: Fault, what: &str) -> S3Error {
    svcfs_listener::log_fault(&fault, what);
    told(&fault)
}
