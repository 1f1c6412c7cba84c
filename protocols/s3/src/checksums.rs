//! Checksums of contents: those that clients send are compared, those that they ask for are kept.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};

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
    /// Those that headers, also trailing ones, name.
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

    /// Name and value of each, as headers have them.
    pub(crate) fn each(&self) -> [(&'static str, &Option<String>); 5] {
        [
            ("crc32", &self.crc32),
            ("crc32c", &self.crc32c),
            ("sha1", &self.sha1),
            ("sha256", &self.sha256),
            ("crc64nvme", &self.crc64nvme),
        ]
    }

    /// The one of an algorithm.
    pub(crate) fn one(&self, algorithm: &str) -> Option<&String> {
        self.each().into_iter().find(|(name, _)| name.eq_ignore_ascii_case(algorithm))?.1.as_ref()
    }

    /// How many there are, with those that will come behind the body (`x-amz-trailer`).
    pub(crate) fn count_with(&self, trailing: &str) -> usize {
        self.each().into_iter().filter(|(name, value)| value.is_some() || is_trailing(trailing, name)).count()
    }

    /// The same, as sums of the sums of so many parts are written.
    pub(crate) fn of_parts(self, parts: usize) -> Self {
        let of = |sum: Option<String>| sum.map(|sum| format!("{sum}-{parts}"));
        let Self { crc32, crc32c, sha1, sha256, crc64nvme } = self;
        Self { crc32: of(crc32), crc32c: of(crc32c), sha1: of(sha1), sha256: of(sha256), crc64nvme: of(crc64nvme) }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that what was announced is what was found.
    ///
    /// # Errors
    /// `BadDigest` for one that differs.
    pub(crate) fn check(&self, found: &Self) -> S3Result<()> {
        for ((name, announced), (_, found)) in self.each().into_iter().zip(found.each()) {
            if announced.is_some() && announced != found {
                return Err(s3_error!(
                    BadDigest,
                    "the {name} of what came is not the one announced; nothing was written"
                ));
            }
        }
        Ok(())
    }
}

/// Whether the checksum of an algorithm will come behind the body.
fn is_trailing(trailing: &str, name: &str) -> bool {
    let mut parts = trailing.split(',').map(|part| part.trim().to_ascii_lowercase());
    parts.any(|part| part.strip_prefix("x-amz-checksum-") == Some(name))
}

/// A checksum that is to come behind the body and that nobody here could compare.
pub(crate) fn unknown_trailer(trailing: &str) -> Option<String> {
    let known = ContentChecksums::default().each().map(|(name, _)| name);
    let mut parts = trailing.split(',').map(|part| part.trim().to_ascii_lowercase());
    parts.find(|part| part.strip_prefix("x-amz-checksum-").is_some_and(|name| !known.contains(&name)))
}

/// The checksums that a request says will come behind its body.
pub(crate) fn promised(headers: &HeaderMap) -> Vec<&'static str> {
    let trailing = headers.get("x-amz-trailer").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let names = ContentChecksums::default().each().map(|(name, _)| name);
    names.into_iter().filter(|name| is_trailing(trailing, name)).collect()
}

/// Which checksums a request wants: those it sends, those it will send behind the body, and those it names.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestedChecksums([bool; 5]);

impl RequestedChecksums {
    /// As the headers of a request say; `algorithm` is one more.
    pub(crate) fn of(headers: &HeaderMap, algorithm: Option<&str>) -> Self {
        let sent = ContentChecksums::of(headers);
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let trailing = text("x-amz-trailer").unwrap_or_default();
        // A checksum may come behind the body that nobody announced.
        let is_unannounced = trailing.is_empty() && headers.contains_key("x-amz-trailer");
        let named = [algorithm, text("x-amz-sdk-checksum-algorithm")];
        let names = |name: &str| {
            is_unannounced
                || is_trailing(trailing, name)
                || named.into_iter().flatten().any(|algorithm| algorithm.eq_ignore_ascii_case(name))
        };
        Self(sent.each().map(|(name, value)| value.is_some() || names(name)))
    }

    /// Those that are announced, and the one of an algorithm.
    pub(crate) fn either(algorithm: Option<&str>, announced: &ContentChecksums) -> Self {
        let names = |name: &str| algorithm.is_some_and(|algorithm| algorithm.eq_ignore_ascii_case(name));
        Self(announced.each().map(|(name, value)| value.is_some() || names(name)))
    }
}

/// Sums up a content as it comes.
pub(crate) struct ContentHasher {
    md5: Md5,
    others: ChecksumHasher,
}

impl ContentHasher {
    pub(crate) fn new(RequestedChecksums([crc32, crc32c, sha1, sha256, crc64nvme]): RequestedChecksums) -> Self {
        let others = ChecksumHasher {
            crc32: crc32.then(s3s::crypto::Crc32::new),
            crc32c: crc32c.then(s3s::crypto::Crc32c::new),
            sha1: sha1.then(s3s::crypto::Sha1::new),
            sha256: sha256.then(s3s::crypto::Sha256::new),
            crc64nvme: crc64nvme.then(s3s::crypto::Crc64Nvme::new),
        };
        Self { md5: Md5::new(), others }
    }
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.md5.update(data);
        self.others.update(data);
    }
    /// The same without the MD5, where nobody asks for it.
    pub(crate) fn update_others(&mut self, data: &[u8]) {
        self.others.update(data);
    }
    /// The MD5, and the sums that were wanted.
    pub(crate) fn finish(self) -> ([u8; 16], ContentChecksums) {
        let sums = self.others.finalize();
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

/// The MD5 of a content as ETags have it.
pub(crate) fn etag_of(content: &[u8]) -> String {
    hex(&Md5::checksum(content))
}

/// In hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks `Content-MD5`.
///
/// # Errors
/// `InvalidDigest` for what is none, `BadDigest` for that of something else.
pub(crate) fn check_md5(announced: Option<&str>, found: &[u8; 16]) -> S3Result<()> {
    let Some(announced) = announced else { return Ok(()) };
    match BASE64_STANDARD.decode(announced) {
        Ok(digest) if digest == found => Ok(()),
        Ok(digest) if digest.len() == found.len() => {
            Err(s3_error!(BadDigest, "the MD5 of what came is not the one announced; nothing was written"))
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
        let mut summing = ContentHasher::new(RequestedChecksums::of(&headers, Some("CRC64NVME")));
        summing.update(b"1234");
        summing.update(b"56789");
        let (md5, sums) = summing.finish();
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
        let found = Md5::checksum(b"x");
        assert!(check_md5(None, &found).is_ok());
        assert!(check_md5(Some(&BASE64_STANDARD.encode(found)), &found).is_ok());
        for wrong in ["", "!", "AAAAAAAAAAAAAAAAAAAAAA=="] {
            assert!(check_md5(Some(wrong), &found).is_err(), "{wrong}");
        }
    }
}
