//! Checksums of contents: sent ones are verified, requested ones are stored.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};
pub(crate) use svcfs_base::to_hex as hex;

/// Checksums of one content, in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ContentChecksums {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crc32: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crc32c: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha1: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crc64nvme: Option<String>,
}

impl ContentChecksums {
    /// Reads the checksum headers, also from trailers.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let value = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
        Self {
            crc32: value("x-amz-checksum-crc32"),
            crc32c: value("x-amz-checksum-crc32c"),
            sha1: value("x-amz-checksum-sha1"),
            sha256: value("x-amz-checksum-sha256"),
            crc64nvme: value("x-amz-checksum-crc64nvme"),
        }
    }

    /// Header name and value of each.
    pub(crate) fn each(&self) -> [(&'static str, &Option<String>); 5] {
        [
            ("crc32", &self.crc32),
            ("crc32c", &self.crc32c),
            ("sha1", &self.sha1),
            ("sha256", &self.sha256),
            ("crc64nvme", &self.crc64nvme),
        ]
    }

    /// The checksum of one algorithm.
    pub(crate) fn get(&self, algorithm: &str) -> Option<&String> {
        self.each().into_iter().find(|(name, _)| name.eq_ignore_ascii_case(algorithm))?.1.as_ref()
    }

    /// The number of checksums, including those that follow the body (`x-amz-trailer`).
    pub(crate) fn count_with(&self, trailing: &str) -> usize {
        self.each().into_iter().filter(|(name, value)| value.is_some() || is_trailing(trailing, name)).count()
    }

    /// Adds the suffix of composite checksums: the number of parts.
    pub(crate) fn with_part_count(self, parts: usize) -> Self {
        let of = |sum: Option<String>| sum.map(|sum| format!("{sum}-{parts}"));
        let Self { crc32, crc32c, sha1, sha256, crc64nvme } = self;
        Self { crc32: of(crc32), crc32c: of(crc32c), sha1: of(sha1), sha256: of(sha256), crc64nvme: of(crc64nvme) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Compares these declared checksums with computed ones. Errors: `BadDigest` when one differs.
    pub(crate) fn check(&self, computed: &Self) -> S3Result<()> {
        for ((name, declared), (_, computed)) in self.each().into_iter().zip(computed.each()) {
            if declared.is_some() && declared != computed {
                return Err(s3_error!(BadDigest, "the {name} of the body does not match; nothing was written"));
            }
        }
        Ok(())
    }
}

/// Whether a checksum of this algorithm follows the body.
fn is_trailing(trailing: &str, name: &str) -> bool {
    let mut parts = trailing.split(',').map(|part| part.trim().to_ascii_lowercase());
    parts.any(|part| part.strip_prefix("x-amz-checksum-") == Some(name))
}

/// A declared trailing checksum that is not supported.
pub(crate) fn unknown_trailer(trailing: &str) -> Option<String> {
    let known = ContentChecksums::default().each().map(|(name, _)| name);
    let mut parts = trailing.split(',').map(|part| part.trim().to_ascii_lowercase());
    parts.find(|part| part.strip_prefix("x-amz-checksum-").is_some_and(|name| !known.contains(&name)))
}

/// The checksums that a request declares as trailing.
pub(crate) fn trailing_names(headers: &HeaderMap) -> Vec<&'static str> {
    let trailing = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let names = ContentChecksums::default().each().map(|(name, _)| name);
    names.into_iter().filter(|name| is_trailing(trailing, name)).collect()
}

/// The checksums to compute for a request: those it sends, those that follow the body, and those it
/// names.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestedChecksums([bool; 5]);

impl RequestedChecksums {
    /// Reads the headers of a request; `algorithm` is one more.
    pub(crate) fn of(headers: &HeaderMap, algorithm: Option<&str>) -> Self {
        let sent = ContentChecksums::of(headers);
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let trailing = text("x-amz-trailer").unwrap_or_default();
        // The request may send any checksum after the body.
        let accepts_any = trailing.is_empty() && headers.contains_key("x-amz-trailer");
        let named = [algorithm, text("x-amz-sdk-checksum-algorithm")];
        let names = |name: &str| {
            accepts_any
                || is_trailing(trailing, name)
                || named.into_iter().flatten().any(|algorithm| algorithm.eq_ignore_ascii_case(name))
        };
        Self(sent.each().map(|(name, value)| value.is_some() || names(name)))
    }

    /// The declared checksums, and that of an algorithm.
    pub(crate) fn either(algorithm: Option<&str>, declared: &ContentChecksums) -> Self {
        let names = |name: &str| algorithm.is_some_and(|algorithm| algorithm.eq_ignore_ascii_case(name));
        Self(declared.each().map(|(name, value)| value.is_some() || names(name)))
    }
}

/// Hashes a content incrementally.
pub(crate) struct ContentHasher {
    md5: Md5,
    checksums: ChecksumHasher,
}

impl ContentHasher {
    pub(crate) fn new(RequestedChecksums([crc32, crc32c, sha1, sha256, crc64nvme]): RequestedChecksums) -> Self {
        let checksums = ChecksumHasher {
            crc32: crc32.then(s3s::crypto::Crc32::new),
            crc32c: crc32c.then(s3s::crypto::Crc32c::new),
            sha1: sha1.then(s3s::crypto::Sha1::new),
            sha256: sha256.then(s3s::crypto::Sha256::new),
            crc64nvme: crc64nvme.then(s3s::crypto::Crc64Nvme::new),
        };
        Self { md5: Md5::new(), checksums }
    }
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.md5.update(data);
        self.checksums.update(data);
    }
    /// Without the MD5, for contents that do not need it.
    pub(crate) fn update_without_md5(&mut self, data: &[u8]) {
        self.checksums.update(data);
    }
    /// The MD5, and the requested checksums.
    pub(crate) fn finish(self) -> ([u8; 16], ContentChecksums) {
        let sums = self.checksums.finalize();
        let sums = ContentChecksums {
            crc32: sums.checksum_crc32,
            crc32c: sums.checksum_crc32c,
            sha1: sums.checksum_sha1,
            sha256: sums.checksum_sha256,
            crc64nvme: sums.checksum_crc64nvme,
        };
        (self.md5.finalize(), sums)
    }
}

/// The MD5 of a content as an ETag.
pub(crate) fn etag_of(content: &[u8]) -> String {
    hex(&Md5::checksum(content))
}

/// Checks `Content-MD5`. Errors: `InvalidDigest` when it is not an MD5, `BadDigest` when it
/// differs.
pub(crate) fn check_md5(declared: Option<&str>, computed: &[u8; 16]) -> S3Result<()> {
    let Some(declared) = declared else { return Ok(()) };
    match BASE64_STANDARD.decode(declared) {
        Ok(digest) if digest == computed => Ok(()),
        Ok(digest) if digest.len() == computed.len() => {
            Err(s3_error!(BadDigest, "the MD5 of the body does not match; nothing was written"))
        }
        Ok(_) | Err(_) => Err(s3_error!(InvalidDigest, "`Content-MD5` must be 16 bytes in base64")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn every_checksum_is_the_one_that_clients_compute() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-trailer", HeaderValue::from_static("x-amz-checksum-crc32, x-amz-checksum-sha256"));
        headers.insert("x-amz-checksum-crc32c", HeaderValue::from_static("4waSgw=="));
        let mut hasher = ContentHasher::new(RequestedChecksums::of(&headers, Some("CRC64NVME")));
        hasher.update(b"1234");
        hasher.update(b"56789");
        let (md5, sums) = hasher.finish();
        assert_eq!(hex(&md5), "25f9e794323b453885f5181f1b624d0b");
        // The check values of the catalogue of parametrised CRC algorithms.
        assert_eq!(sums.crc32.as_deref(), Some("y/Q5Jg=="));
        assert_eq!(sums.crc32c.as_deref(), Some("4waSgw=="));
        assert_eq!(sums.crc64nvme.as_deref(), Some("rosUhgp5mIg="));
        assert_eq!(sums.sha1, None);
        assert!(sums.sha256.is_some());
        assert!(ContentChecksums::of(&headers).check(&sums).is_ok());
        headers.insert("x-amz-checksum-crc32c", HeaderValue::from_static("AAAAAA=="));
        assert!(ContentChecksums::of(&headers).check(&sums).is_err());
    }

    #[test]
    fn an_md5_of_something_else_is_refused() {
        let computed = Md5::checksum(b"x");
        assert!(check_md5(None, &computed).is_ok());
        assert!(check_md5(Some(&BASE64_STANDARD.encode(computed)), &computed).is_ok());
        for wrong in ["", "!", "AAAAAAAAAAAAAAAAAAAAAA=="] {
            assert!(check_md5(Some(wrong), &computed).is_err(), "{wrong}");
        }
    }
}
