//! The metadata of an object that its bytes do not contain: headers, tags, checksums.
//!
//! It is stored as JSON in the extended attribute `user.s3.object` of the file or folder: it
//! follows a rename, survives an overwrite through another protocol, and is in no version.

use std::collections::BTreeMap;

use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind};
use svcfs_vfs::{NodeId, SetXattrMode};

use crate::checksums::ContentChecksums;
use crate::context::{S3RequestContext, S3RequestError};
use crate::part_lengths::PartLengths;
use crate::resolved::ResolvedNode;

/// The extended attribute.
pub(crate) const XATTR_NAME: &[u8] = b"user.s3.object";

/// The user metadata with the content hash; set by the server only.
pub(crate) const CONTENT_HASH_KEY: &str = "svc-etag";

/// Bytes of metadata as stored: ext4 limits all attributes of a file to 4 KiB, and checksums are
/// added.
const MAX_STORED_BYTES: usize = 3500;
/// Bytes of user metadata, names and values (S3's own limit).
const MAX_METADATA_BYTES: usize = 2048;
/// Tags of one object, and characters of their names and values (S3's own limits).
const MAX_TAGS: usize = 10;
const MAX_TAG_NAME_CHARS: usize = 128;
const MAX_TAG_VALUE_CHARS: usize = 256;

/// The stored metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectMetadata {
    /// The content that `etag`, `parts` and `sums` belong to; the other fields are independent of
    /// the content.
    pub(crate) of: String,
    /// The ETag, if it is not the MD5 of the content or expensive to compute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    /// The lengths of the parts; empty for an object without parts, or when they are unknown.
    #[serde(skip_serializing_if = "PartLengths::is_empty")]
    pub(crate) parts: PartLengths,
    #[serde(skip_serializing_if = "ContentChecksums::is_empty")]
    pub(crate) sums: ContentChecksums,
    /// Headers that are returned as sent: `content-type` and similar.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    /// `x-amz-meta-…`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<(String, String)>,
    /// A folder that is an object itself: it stays when it becomes empty.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_folder: bool,
}

impl ObjectMetadata {
    /// Reads the metadata of a node; empty when it has none.
    pub(crate) fn of(context: &S3RequestContext, entry: &ResolvedNode<'_>) -> Result<Self, Fault> {
        // A draft has no metadata.
        let Some(node) = entry.draftless_node() else { return Ok(Self::default()) };
        Ok(Self::read(context.space.vfs.xattr(node, XATTR_NAME)?.as_deref()))
    }

    /// Parses the attribute; empty when there is none.
    pub(crate) fn read(value: Option<&[u8]>) -> Self {
        // The attribute may come from another program: invalid content is ignored.
        value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
    }

    /// Writes the metadata. What the client sent is flushed; a checksum alone, which clients add to
    /// every upload, is not. Errors: `NoSpace` when it does not fit.
    pub(crate) fn store(&self, context: &S3RequestContext, node: NodeId) -> Result<(), Fault> {
        let vfs = &context.space.vfs;
        let before = vfs.xattr(node, XATTR_NAME)?;
        if !self.is_trivial() || !self.sums.is_empty() {
            let value = serde_json::to_vec(self).map_err(Fault::internal)?;
            vfs.set_xattr(&context.caller, node, (XATTR_NAME, &value), SetXattrMode::CreateOrReplace)?;
        } else if before.is_some() {
            vfs.remove_xattr(&context.caller, node, XATTR_NAME)?;
        }
        if self.is_trivial() && Self::read(before.as_deref()).is_trivial() { Ok(()) } else { vfs.flush_node(node) }
    }

    /// Adds ETag and part lengths of a multipart upload. Part lengths that do not fit are omitted;
    /// then the object cannot be read by part.
    pub(crate) fn with_parts(self, etag: String, parts: PartLengths) -> Self {
        let candidate =
            Self { of: String::new(), etag: None, sums: ContentChecksums::default(), parts, ..self.clone() };
        let fits = length(&candidate) <= MAX_STORED_BYTES;
        Self { etag: Some(etag), parts: if fits { candidate.parts } else { PartLengths::default() }, ..self }
    }

    /// Only the fields that belong to the content.
    pub(crate) fn content_fields(self) -> Self {
        let Self { of, etag, parts, sums, .. } = self;
        Self { of, etag, parts, sums, ..Self::default() }
    }

    /// Whether it contains nothing that the client sent.
    fn is_trivial(&self) -> bool {
        *self == Self { of: self.of.clone(), sums: self.sums.clone(), ..Self::default() }
    }

    /// Writes the metadata for a client. Errors: `MetadataTooLarge` when it does not fit.
    pub(crate) fn store_metadata(&self, context: &S3RequestContext, node: NodeId) -> Result<(), S3RequestError> {
        let outcome = match self.store(context, node) {
            // Part lengths are optional; the rest is what the client sent.
            Err(fault) if fault.kind() == Kind::NoSpace && !self.parts.is_empty() => {
                Self { parts: PartLengths::default(), ..self.clone() }.store(context, node)
            }
            outcome => outcome,
        };
        outcome.map_err(|fault| match fault.kind() {
            Kind::NoSpace => s3_error!(
                MetadataTooLarge,
                "metadata, headers and tags do not fit into a file attribute on this disk; the content was written"
            )
            .into(),
            _ => fault.into(),
        })
    }

    /// Checks the limits of S3, and that metadata, headers and tags fit into the attribute. Errors:
    /// `MetadataTooLarge`, `InvalidTag`.
    pub(crate) fn check(&self) -> S3Result<()> {
        let bytes: usize = self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_METADATA_BYTES {
            return Err(s3_error!(
                MetadataTooLarge,
                "the metadata has {bytes} bytes; at most {MAX_METADATA_BYTES} are allowed"
            ));
        }
        check_tags(&self.tags)?;
        let without_tags = Self { headers: self.headers.clone(), metadata: self.metadata.clone(), ..Self::default() };
        let with_tags = Self { tags: self.tags.clone(), ..without_tags.clone() };
        match (length(&without_tags), length(&with_tags)) {
            (_, ..=MAX_STORED_BYTES) => Ok(()),
            (..=MAX_STORED_BYTES, bytes) => Err(s3_error!(
                InvalidTag,
                "metadata, headers and tags have {bytes} bytes; at most {MAX_STORED_BYTES} can be stored"
            )),
            (bytes, _) => Err(s3_error!(
                MetadataTooLarge,
                "metadata and headers have {bytes} bytes; at most {MAX_STORED_BYTES} can be stored"
            )),
        }
    }
}

/// Bytes of the metadata as stored.
fn length(record: &ObjectMetadata) -> usize {
    serde_json::to_vec(record).map_or(usize::MAX, |json| json.len())
}

/// Checks number and length of tags. Errors: `InvalidTag`.
pub(crate) fn check_tags(tags: &[(String, String)]) -> S3Result<()> {
    if tags.len() > MAX_TAGS {
        return Err(s3_error!(InvalidTag, "an object has at most {MAX_TAGS} tags"));
    }
    for (at, (name, value)) in tags.iter().enumerate() {
        if name.is_empty() || name.chars().count() > MAX_TAG_NAME_CHARS || value.chars().count() > MAX_TAG_VALUE_CHARS {
            return Err(s3_error!(
                InvalidTag,
                "a tag has a name of 1 to {MAX_TAG_NAME_CHARS} characters and a value of at most {MAX_TAG_VALUE_CHARS}"
            ));
        }
        if tags.iter().take(at).any(|(earlier, _)| earlier == name) {
            return Err(s3_error!(InvalidTag, "two tags have the same name"));
        }
    }
    Ok(())
}

/// The user metadata of a request, without the server's own: clients that copy objects send it back
/// unintentionally.
pub(crate) fn metadata_of(sent: Option<s3s::dto::Metadata>) -> BTreeMap<String, String> {
    sent.unwrap_or_default().into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case(CONTENT_HASH_KEY)).collect()
}

/// Parses the header `x-amz-tagging`, which is encoded like a URL query. Errors: `InvalidTag`.
pub(crate) fn tags_of(header: Option<&str>) -> S3Result<Vec<(String, String)>> {
    let tags = form_urlencoded::parse(header.unwrap_or_default().as_bytes());
    let tags: Vec<_> = tags.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    check_tags(&tags)?;
    Ok(tags)
}

/// Whether a fault means that something does not exist.
pub(crate) fn is_missing(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NotFound | Kind::Stale | Kind::NotDirectory)
}
