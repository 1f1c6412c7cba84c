//! Continuation tokens: the last listed key, which stays valid whatever changes, and for every
//! caller.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{S3Result, s3_error};

/// Bytes of the digest before the key: it detects tokens that were typed or truncated.
const DIGEST_BYTES: usize = 4;

/// Encodes the last key of a page.
pub(crate) fn encode(last: &str) -> String {
    let mut bytes = Md5::checksum(last.as_bytes())[..DIGEST_BYTES].to_vec();
    bytes.extend_from_slice(last.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes the last key of a token. Errors: `InvalidArgument` for a token that no listing returned.
pub(crate) fn decode(token: &str) -> S3Result<String> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok();
    let last = bytes.and_then(|bytes| String::from_utf8(bytes.get(DIGEST_BYTES..)?.to_vec()).ok());
    last.filter(|last| encode(last) == token).ok_or_else(|| {
        s3_error!(InvalidArgument, "invalid continuation token; start again without it, or use `start-after`")
    })
}
