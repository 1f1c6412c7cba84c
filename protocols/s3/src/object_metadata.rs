//! What clients say of an object, and what is to be remembered of it that its bytes do not tell.
//!
//! It is kept in an extended attribute of the file or folder, `user.s3.object`, as JSON: it goes with it when it is renamed and stays when it is
//! written over by another door; no version has it.

use std::collections::BTreeMap;

use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind};
use svcfs_vfs::{NodeId, SetXattrMode};

use crate::checksums::ContentChecksums;
use crate::context::{S3RequestContext, S3RequestError};
use crate::part_lengths::PartLengths;
use crate::resolved::ResolvedNode;

/// The attribute it is kept in.
pub(crate) const ATTRIBUTE: &[u8] = b"user.s3.object";

/// The metadata that tells the hash of the content (gaps.md D25). It is the server's to say.
pub(crate) const BLOB: &str = "svc-etag";

/// Bytes of all that a client said of an object, as it is kept: ext4 has room for 4 KiB of all attributes of a file, and checksums come to it.
const MAX_KEPT_BYTES: usize = 3500;
/// Bytes of user metadata, names and values, as S3 limits them.
const MAX_METADATA_BYTES: usize = 2048;
/// Tags of one object, and characters of their names and values, as S3 limits them.
const MAX_TAGS: usize = 10;
const MAX_TAG_NAME: usize = 128;
const MAX_TAG_VALUE: usize = 256;

/// What is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectMetadata {
    /// Which content `etag`, `parts` and `sums` are of; the rest holds for whatever the file has.
    pub(crate) of: String,
    /// The ETag, where it is not the MD5 of the content, or that would take long to find out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    /// How long the parts are that it came in; none where it came in one piece, or they are not known.
    #[serde(skip_serializing_if = "PartLengths::is_empty")]
    pub(crate) parts: PartLengths,
    #[serde(skip_serializing_if = "ContentChecksums::is_empty")]
    pub(crate) sums: ContentChecksums,
    /// Headers that are given back as they came: `content-type` and its like.
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
    /// What is kept of what was found; of what has nothing, nothing.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn of(asked: &S3RequestContext, found: &ResolvedNode<'_>) -> Result<Self, Fault> {
        Ok(Self::read(asked.space.vfs.xattr(found.node, ATTRIBUTE)?.as_deref()))
    }

    /// What the attribute of a file says; nothing where it has none.
    pub(crate) fn read(value: Option<&[u8]>) -> Self {
        // Whoever reaches the disk can write anything there: what is no record is none.
        value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
    }

    /// Keeps it. What a client said is on the disk then; a checksum alone, which clients add to everything, is not waited for.
    ///
    /// # Errors
    /// `NoSpace` when it is too much for the disk; those of the disk.
    pub(crate) fn keep(&self, asked: &S3RequestContext, node: NodeId) -> Result<(), Fault> {
        let vfs = &asked.space.vfs;
        let before = vfs.xattr(node, ATTRIBUTE)?;
        if !self.says_nothing() || !self.sums.is_empty() {
            let value = serde_json::to_vec(self).map_err(Fault::internal)?;
            vfs.set_xattr(node, ATTRIBUTE, &value, SetXattrMode::CreateOrReplace)?;
        } else if before.is_some() {
            vfs.remove_xattr(node, ATTRIBUTE)?;
        }
        if self.says_nothing() && Self::read(before.as_deref()).says_nothing() { Ok(()) } else { vfs.flush_node(node) }
    }

    /// The same of an object that came in parts, with this ETag. The lengths of parts of which no two are of one length may be more than there is
    /// room for: they are left out then, and the object is told in parts to nobody.
    pub(crate) fn in_parts(self, etag: String, parts: PartLengths) -> Self {
        let said = Self { of: String::new(), etag: None, sums: ContentChecksums::default(), parts, ..self.clone() };
        let fits = length(&said) <= MAX_KEPT_BYTES;
        Self { etag: Some(etag), parts: if fits { said.parts } else { PartLengths::default() }, ..self }
    }

    /// What is said of this very content, and nothing of what is said of the object.
    pub(crate) fn of_content(self) -> Self {
        let Self { of, etag, parts, sums, .. } = self;
        Self { of, etag, parts, sums, ..Self::default() }
    }

    /// Whether there is nothing in it but what is known of any content.
    fn says_nothing(&self) -> bool {
        *self == Self { of: self.of.clone(), sums: self.sums.clone(), ..Self::default() }
    }

    /// The same, in the protocol's words where the disk has no room for it beside a file.
    ///
    /// # Errors
    /// `MetadataTooLarge`; those of the disk.
    pub(crate) fn keep_said(&self, asked: &S3RequestContext, node: NodeId) -> Result<(), S3RequestError> {
        let kept = match self.keep(asked, node) {
            // The rest is what a client said, and this only what it may ask.
            Err(fault) if fault.kind() == Kind::NoSpace && !self.parts.is_empty() => {
                Self { parts: PartLengths::default(), ..self.clone() }.keep(asked, node)
            }
            kept => kept,
        };
        kept.map_err(|fault| match fault.kind() {
            Kind::NoSpace => s3_error!(
                MetadataTooLarge,
                "the disk takes no attribute of the file for metadata, headers and tags of the object; its content is written"
            )
            .into(),
            _ => fault.into(),
        })
    }

    /// Checks that metadata and tags are as little as S3 takes, and fit with all headers into what a disk keeps beside a file.
    ///
    /// # Errors
    /// `MetadataTooLarge`, `InvalidTag`.
    pub(crate) fn check(&self) -> S3Result<()> {
        let bytes: usize = self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MAX_METADATA_BYTES {
            return Err(s3_error!(
                MetadataTooLarge,
                "the metadata has {bytes} bytes, and {MAX_METADATA_BYTES} are taken"
            ));
        }
        check_tags(&self.tags)?;
        let said = Self { headers: self.headers.clone(), metadata: self.metadata.clone(), ..Self::default() };
        let with_tags = Self { tags: self.tags.clone(), ..said.clone() };
        match (length(&said), length(&with_tags)) {
            (_, ..=MAX_KEPT_BYTES) => Ok(()),
            (..=MAX_KEPT_BYTES, bytes) => Err(s3_error!(
                InvalidTag,
                "metadata, headers and tags have {bytes} bytes together, and {MAX_KEPT_BYTES} are kept beside a file"
            )),
            (bytes, _) => Err(s3_error!(
                MetadataTooLarge,
                "metadata and headers have {bytes} bytes together, and {MAX_KEPT_BYTES} are kept beside a file"
            )),
        }
    }
}

/// Bytes of a record as it is kept.
fn length(record: &ObjectMetadata) -> usize {
    serde_json::to_vec(record).map_or(usize::MAX, |kept| kept.len())
}

/// Checks that tags are as few and short as S3 takes.
///
/// # Errors
/// `InvalidTag`.
pub(crate) fn check_tags(tags: &[(String, String)]) -> S3Result<()> {
    if tags.len() > MAX_TAGS {
        return Err(s3_error!(InvalidTag, "an object has at most {MAX_TAGS} tags"));
    }
    for (at, (name, value)) in tags.iter().enumerate() {
        if name.is_empty() || name.chars().count() > MAX_TAG_NAME || value.chars().count() > MAX_TAG_VALUE {
            return Err(s3_error!(
                InvalidTag,
                "a tag has a name of 1 to {MAX_TAG_NAME} characters and a value of at most {MAX_TAG_VALUE}"
            ));
        }
        if tags.iter().take(at).any(|(other, _)| other == name) {
            return Err(s3_error!(InvalidTag, "two tags have one name"));
        }
    }
    Ok(())
}

/// Metadata as a client sends it, but for what the server says by itself: clients that carry objects from here to here give that back, too, and
/// mean nothing by it.
pub(crate) fn metadata_of(sent: Option<s3s::dto::Metadata>) -> BTreeMap<String, String> {
    sent.unwrap_or_default().into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case(BLOB)).collect()
}

/// Tags as the header `x-amz-tagging` carries them: like the query of a URL.
///
/// # Errors
/// `InvalidTag`.
pub(crate) fn tags_of(header: Option<&str>) -> S3Result<Vec<(String, String)>> {
    let tags = form_urlencoded::parse(header.unwrap_or_default().as_bytes());
    let tags: Vec<_> = tags.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    check_tags(&tags)?;
    Ok(tags)
}

/// Whether something is simply not there, any more or yet.
pub(crate) fn is_missing(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::NotFound | Kind::Stale | Kind::NotDirectory)
}
