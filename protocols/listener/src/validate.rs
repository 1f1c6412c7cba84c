//! The form of a request.

use http::header::{self, HeaderMap, HeaderValue};
use svcfs_base::{Fault, Kind};

/// The last byte that a file can have.
const MAX_POSITION: u64 = i64::MAX as u64;

/// Checks what HTTP asks of the form of a request, where the parser below lets more pass than what stands behind a proxy should (RFC 9112 3.2):
/// whoever reads such a request differently than we do could be made to hide another one in it.
///
/// # Errors
/// `Invalid`.
pub fn validate_request<B>(request: &http::Request<B>) -> Result<(), Fault> {
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

/// The one part of a file that a request asks for, as `bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-LENGTH`; none where its `Range` cannot be read, is of another
/// unit, or has several parts: that counts as none, and the answer is the whole (RFC 9110 14.2, gaps.md D47).
pub fn single_range(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (unit, range) = line.to_str().ok()?.trim().split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if !unit.eq_ignore_ascii_case("bytes") || !is_number(first) || !is_number(last) {
        return None;
    }
    // A number that is too large lies behind the end of every file.
    let number = |text: &str| text.parse().map_or(MAX_POSITION, |number: u64| number.min(MAX_POSITION));
    match (first, last) {
        ("", "") => None,
        ("", length) => Some(format!("bytes=-{}", number(length))),
        (first, "") => Some(format!("bytes={}-", number(first))),
        (first, last) if number(first) > number(last) => None,
        (first, last) => Some(format!("bytes={}-{}", number(first), number(last))),
    }
}

/// Leaves only a range that [`one_range`] reads.
pub fn drop_unsupported_ranges(headers: &mut HeaderMap) {
    let range = single_range(headers).and_then(|range| HeaderValue::from_str(&range).ok());
    headers.remove(header::RANGE);
    range.into_iter().for_each(|range| drop(headers.insert(header::RANGE, range)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_part_in_bytes_or_none() {
        let read = |lines: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::RANGE, HeaderValue::from_bytes(line).unwrap());
            }
            single_range(&headers)
        };
        for (line, range) in [
            ("bytes=0-1", "bytes=0-1"),
            ("bytes=5-", "bytes=5-"),
            ("bytes=-5", "bytes=-5"),
            (" Bytes= 2-2 ", "bytes=2-2"),
            ("bytes=0-99999999999999999999999", "bytes=0-9223372036854775807"),
            ("bytes=99999999999999999999999-", "bytes=9223372036854775807-"),
        ] {
            assert_eq!(read(&[line.as_bytes()]).as_deref(), Some(range));
        }
        for line in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "bytes=0-1,",
            "items=0-1",
            "bytes 0-1",
            "bytes=0-1x",
            "bytes=+1-2",
            "bytes=0--1",
        ] {
            assert_eq!(read(&[line.as_bytes()]), None, "{line}");
        }
        assert_eq!(read(&[b"bytes=0-\xff"]), None);
        assert_eq!(read(&[b"bytes=0-1", b"bytes=0-1"]), None);
        assert_eq!(read(&[]), None);
    }
}
