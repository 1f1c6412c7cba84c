//! The form of a request.

use http::header::{self, HeaderMap, HeaderValue};
use svcfs_base::{Fault, Kind};

/// Checks what HTTP asks of the form of a request, where the parser below lets more pass than what stands behind a proxy should (RFC 9112 3.2):
/// whoever reads such a request differently than we do could be made to hide another one in it.
///
/// # Errors
/// `Invalid`.
pub fn check_form<B>(request: &http::Request<B>) -> Result<(), Fault> {
    let invalid = |told: &str| Err(Fault::new(Kind::Invalid, told));
    let headers = request.headers();
    let hosts: Vec<_> = headers.get_all(header::HOST).iter().collect();
    match hosts[..] {
        [] if request.version() > http::Version::HTTP_10 => return invalid("the request has no `Host` header"),
        [] | [_] => {}
        [..] => return invalid("the request has several `Host` headers"),
    }
    let named = request.uri().authority().map(|authority| authority.as_str());
    if named
        .is_some_and(|named| hosts.first().is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(named.as_bytes())))
    {
        return invalid("the address and the `Host` header of the request name different hosts");
    }
    Ok(())
}

/// Takes a range for none that is of another unit than bytes (RFC 9110 14.2), or of several parts: that is answered with all of it, as any server may.
pub fn ignore_odd_ranges(headers: &mut HeaderMap) {
    let is_one = |range: &HeaderValue| range.as_bytes().starts_with(b"bytes=") && !range.as_bytes().contains(&b',');
    if headers.get(header::RANGE).is_some_and(|range| !is_one(range)) {
        headers.remove(header::RANGE);
    }
}
