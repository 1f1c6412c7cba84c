//! Checksums of a whole upload in parts: of all its bytes (`FULL_OBJECT`), or of the checksums of its parts (`COMPOSITE`), which ends with their number.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use s3s::dto::{ChecksumAlgorithm, ChecksumType};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums};
use crate::part_store::StoredPart;

/// Which checksum an upload has, as a client said when it began it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MultipartChecksum {
    pub(crate) algorithm: String,
    /// Of all bytes, not of the checksums of the parts.
    pub(crate) is_full: bool,
}

impl MultipartChecksum {
    /// As the fields of CreateMultipartUpload say; CRC64NVME is of all bytes, the others are of the parts where nothing is said.
    ///
    /// # Errors
    /// `InvalidRequest` for a kind that the algorithm does not have: a CRC64NVME of parts, a SHA of all bytes.
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
            return Err(s3_error!(InvalidRequest, "the checksums are {}", known.join(", ")));
        };
        let is_full = match kind.map(ChecksumType::as_str) {
            None => name == ChecksumAlgorithm::CRC64NVME,
            Some(ChecksumType::FULL_OBJECT) if !name.starts_with("SHA") => true,
            Some(ChecksumType::COMPOSITE) if name != ChecksumAlgorithm::CRC64NVME => false,
            Some(kind) => return Err(s3_error!(InvalidRequest, "an upload has no {name} of the kind `{kind}`")),
        };
        Ok(Some(Self { algorithm: name.to_owned(), is_full }))
    }

    /// What it is called in answers.
    pub(crate) fn named(this: Option<&Self>) -> (Option<ChecksumAlgorithm>, Option<ChecksumType>) {
        this.map(|this| (ChecksumAlgorithm::from(this.algorithm.clone()), kind(this.is_full))).unzip()
    }

    /// What is to be summed up of all bytes, for the upload and to compare with what a client announces of the whole.
    pub(crate) fn wanted(this: Option<&Self>, announced: &ContentChecksums) -> RequestedChecksums {
        match this {
            Some(Self { is_full: false, .. }) => RequestedChecksums::default(),
            _ => RequestedChecksums::either(this.map(|this| this.algorithm.as_str()), announced),
        }
    }

    /// The checksum of the checksums of parts; none of an upload that has none, or one of all bytes.
    ///
    /// # Errors
    /// `InvalidPart` when a part has none.
    pub(crate) fn of_parts(this: Option<&Self>, parts: &[StoredPart]) -> S3Result<Option<ContentChecksums>> {
        let Some(Self { algorithm, is_full: false }) = this else { return Ok(None) };
        let mut summing = ContentHasher::new(RequestedChecksums::either(Some(algorithm), &ContentChecksums::default()));
        for part in parts {
            let sum = part.sums.one(algorithm).and_then(|sum| BASE64_STANDARD.decode(sum).ok());
            let sum = sum.ok_or_else(|| s3_error!(InvalidPart, "part {} has no {algorithm}", part.number))?;
            summing.update(&sum);
        }
        Ok(Some(summing.finish().1.of_parts(parts.len())))
    }
}

fn kind(is_full: bool) -> ChecksumType {
    ChecksumType::from_static(if is_full { ChecksumType::FULL_OBJECT } else { ChecksumType::COMPOSITE })
}

impl ContentChecksums {
    /// Of which kind they are; none when there are none.
    pub(crate) fn kind(&self) -> Option<ChecksumType> {
        (!self.is_empty()).then(|| kind(!self.is_of_parts()))
    }

    /// Whether they are sums of the sums of parts: base64 has no `-`.
    pub(crate) fn is_of_parts(&self) -> bool {
        self.each().into_iter().any(|(_, sum)| sum.as_ref().is_some_and(|sum| sum.contains('-')))
    }
}
