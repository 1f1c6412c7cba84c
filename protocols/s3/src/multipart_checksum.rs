//! Checksums of a multipart upload: of all bytes (`FULL_OBJECT`), or of the checksums of the parts
//! (`COMPOSITE`, with the number of parts as suffix).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use s3s::dto::{ChecksumAlgorithm, ChecksumType};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums};
use crate::part_store::StoredPart;

/// The checksum that a client chose when it created the upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MultipartChecksum {
    pub(crate) algorithm: String,
    /// Of all bytes, not of the checksums of the parts.
    pub(crate) is_full: bool,
}

impl MultipartChecksum {
    /// Reads the fields of CreateMultipartUpload. The default is `FULL_OBJECT` for CRC64NVME and
    /// `COMPOSITE` for the others. Errors: `InvalidRequest` for an invalid combination: composite
    /// CRC64NVME, full-object SHA.
    pub(crate) fn of(algorithm: Option<&ChecksumAlgorithm>, kind: Option<&ChecksumType>) -> S3Result<Option<Self>> {
        let Some(algorithm) = algorithm else {
            return match kind {
                None => Ok(None),
                Some(_) => Err(s3_error!(InvalidRequest, "`x-amz-checksum-type` needs `x-amz-checksum-algorithm`")),
            };
        };
        let is_known = |known: &&str| known.eq_ignore_ascii_case(algorithm.as_str());
        let known = ["CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"];
        let Some(name) = known.into_iter().find(is_known) else {
            return Err(s3_error!(InvalidRequest, "supported checksums: {}", known.join(", ")));
        };
        let is_full = match kind.map(ChecksumType::as_str) {
            None => name == ChecksumAlgorithm::CRC64NVME,
            Some(ChecksumType::FULL_OBJECT) if !name.starts_with("SHA") => true,
            Some(ChecksumType::COMPOSITE) if name != ChecksumAlgorithm::CRC64NVME => false,
            Some(kind) => return Err(s3_error!(InvalidRequest, "{name} does not support the type `{kind}`")),
        };
        Ok(Some(Self { algorithm: name.to_owned(), is_full }))
    }

    /// Algorithm and type for answers.
    pub(crate) fn response_fields(this: Option<&Self>) -> (Option<ChecksumAlgorithm>, Option<ChecksumType>) {
        this.map(|this| (ChecksumAlgorithm::from(this.algorithm.clone()), kind(this.is_full))).unzip()
    }

    /// The checksums to compute over all bytes, for the upload and for the declared ones.
    pub(crate) fn to_compute(this: Option<&Self>, declared: &ContentChecksums) -> RequestedChecksums {
        match this {
            Some(Self { is_full: false, .. }) => RequestedChecksums::default(),
            _ => RequestedChecksums::either(this.map(|this| this.algorithm.as_str()), declared),
        }
    }

    /// The composite checksum; `None` for an upload without one. Errors: `InvalidPart` when a part
    /// has no checksum.
    pub(crate) fn composite(this: Option<&Self>, parts: &[StoredPart]) -> S3Result<Option<ContentChecksums>> {
        let Some(Self { algorithm, is_full: false }) = this else { return Ok(None) };
        let mut hasher = ContentHasher::new(RequestedChecksums::either(Some(algorithm), &ContentChecksums::default()));
        for part in parts {
            let sum = part.sums.get(algorithm).and_then(|sum| BASE64_STANDARD.decode(sum).ok());
            let sum = sum.ok_or_else(|| s3_error!(InvalidPart, "part {} has no {algorithm}", part.number))?;
            hasher.update(&sum);
        }
        Ok(Some(hasher.finish().1.with_part_count(parts.len())))
    }
}

fn kind(is_full: bool) -> ChecksumType {
    ChecksumType::from_static(if is_full { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE })
}

impl ContentChecksums {
    /// The type of these checksums; `None` when there are none.
    pub(crate) fn kind(&self) -> Option<ChecksumType> {
        (!self.is_empty()).then(|| kind(!self.is_composite()))
    }

    /// Whether they are composite; base64 has no `-`.
    pub(crate) fn is_composite(&self) -> bool {
        self.each().into_iter().any(|(_, sum)| sum.as_ref().is_some_and(|sum| sum.contains('-')))
    }
}
