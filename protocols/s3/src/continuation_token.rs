//! Where a listing goes on: the last key that was told, which means the same whatever changes meanwhile and whoever asks.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{S3Result, s3_error};

/// Bytes of the digest in front of a key: what somebody typed, or cut off, is no token.
const DIGEST: usize = 4;

/// The token for a last key.
pub(crate) fn of(last: &str) -> String {
    let mut bytes = Md5::checksum(last.as_bytes())[..DIGEST].to_vec();
    bytes.extend_from_slice(last.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The last key of a token.
///
/// # Errors
/// `InvalidArgument` for what was never told as one.
pub(crate) fn read(token: &str) -> S3Result<String> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
    let last = bytes.and_then(|bytes| String::from_utf8(bytes.get(DIGEST..)?.to_vec()).ok());
    last.filter(|last| of(last) == token).ok_or_else(|| {
        s3_error!(
            InvalidArgument,
            "the continuation token is none that a listing told; begin anew, or use `start-after`"
        )
    })
}
