//! Faults as S3 errors.

use http::HeaderMap;
use http::header::RETRY_AFTER;
use s3s::{S3Error, S3ErrorCode};
use svcfs_base::{Fault, Kind};
use svcfs_knowledge::access::RETRY_AFTER_KEY;

/// Converts a fault. Internal details go only to the log.
pub(crate) fn to_s3_error(fault: &Fault) -> S3Error {
    let kind = fault.kind();
    let message = match kind {
        Kind::Internal | Kind::DiskFailed => "internal error; see the server log".to_owned(),
        _ => fault.message().to_owned(),
    };
    let code = S3ErrorCode::from_bytes(kind.s3().as_bytes()).unwrap_or(S3ErrorCode::InternalError);
    let mut error = S3Error::with_message(code, message);
    if let Some(seconds) = fault.detail().get(RETRY_AFTER_KEY).and_then(serde_json::Value::as_u64) {
        error.set_headers(HeaderMap::from_iter([(RETRY_AFTER, seconds.into())]));
    }
    error
}

/// Logs a fault, and converts it.
pub(crate) fn refuse(fault: Fault, what: &str) -> S3Error {
    svcfs_listener::log_fault(&fault, what);
    to_s3_error(&fault)
}
