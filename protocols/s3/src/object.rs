//! An object: a file, or a folder whose key ends with `/`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{ETag, Fault, Kind, LargeFile, TreePath};
use svcfs_vfs::{FileContent, FileReader, OpenedFile, PathAttributes};

use crate::checksums::{ContentHasher, RequestedChecksums, etag_of, hex};
use crate::context::S3RequestContext;
use crate::etags::ETagStore;
use crate::key::ParsedKey;
use crate::object_metadata::{CONTENT_HASH_KEY, ObjectMetadata, XATTR_NAME};
use crate::resolved::ResolvedNode;

/// Bytes read in one call for hashing.
const READ_BYTES: usize = 256 << 10;
/// The content type when neither client nor name determine it.
const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// An object with its content and metadata.
pub(crate) struct S3Object {
    /// The path, links followed.
    pub(crate) path: TreePath,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    /// Without quotes.
    pub(crate) etag: String,
    /// The hash of the content; `None` for a folder, and for a file too large to be versioned.
    pub(crate) blob: Option<ETag>,
    pub(crate) record: ObjectMetadata,
    pub(crate) content: FileContent,
    /// `None` for a folder and for an earlier version.
    pub(crate) attributes: Option<PathAttributes>,
}

impl S3Object {
    /// Opens the object of a key. Errors: `NotFound`, also for a folder without `/` at the end of
    /// its key; `Forbidden` outside the caller's permissions.
    pub(crate) fn at(context: &S3RequestContext, key: &ParsedKey) -> Result<Self, Fault> {
        let missing = || Fault::file_not_found(key.path());
        let entry = match ResolvedNode::at(context, key.path()) {
            Err(fault) if matches!(fault.kind(), Kind::NotDirectory | Kind::Stale) => return Err(missing()),
            entry => entry?,
        };
        match key {
            ParsedKey::Folder(_) if entry.is_folder() => Self::folder(context, &entry),
            ParsedKey::File(_) if entry.is_file() => Self::file(context, &entry),
            ParsedKey::Folder(_) | ParsedKey::File(_) => Err(missing()),
        }
    }

    fn folder(context: &S3RequestContext, entry: &ResolvedNode<'_>) -> Result<Self, Fault> {
        Ok(Self {
            path: entry.path.clone(),
            size: 0,
            modified: entry.attributes.modified,
            etag: etag_of(b""),
            blob: None,
            record: ObjectMetadata::of(context, entry)?,
            content: FileContent::InMemory(Bytes::new()),
            attributes: None,
        })
    }

    fn file(context: &S3RequestContext, entry: &ResolvedNode<'_>) -> Result<Self, Fault> {
        let record = ObjectMetadata::of(context, entry)?;
        context.protocol.etags.load(&context.space);
        let path = entry.path.clone();
        if entry.is_large() {
            let attributes = entry.attributes.clone();
            let identity = attributes.large_file().map(|large| large.to_string()).unwrap_or_default();
            let etag = record.etag.clone().filter(|_| record.of == identity).unwrap_or(identity);
            let reader = match entry.draftless_node() {
                Some(node) => FileReader::open(&context.space.vfs, &context.caller, node)?,
                None => FileReader::open_path(&context.space.vfs, &context.caller, &path)?.0,
            };
            let content = FileContent::OnDisk(reader);
            let (size, modified) = (attributes.size, attributes.modified);
            return Ok(Self { path, size, modified, etag, blob: None, record, content, attributes: Some(attributes) });
        }
        let opened = match context.tree().open_content(context.caller.protocol, &path) {
            // Created through a mount and not saved yet: other clients see an empty file.
            Err(fault) if fault.kind() == Kind::NotFound => {
                let (content, attributes) = (FileContent::InMemory(Bytes::new()), entry.attributes.clone());
                OpenedFile { content, etag: ETag::from_content(b""), attributes }
            }
            opened => opened?,
        };
        Self::of(context, path, record, opened)
    }

    /// Opens the object of a key from the caches, without blocking; `None` when that is not
    /// possible: use [`S3Object::at`].
    pub(crate) fn try_cached(context: &S3RequestContext, key: &ParsedKey) -> Option<Self> {
        let ParsedKey::File(path) = key else { return None };
        if context.is_proposing() {
            return None;
        }
        // A cached path contains no links.
        context.caller.permissions.check_path(path).ok()?;
        let (file, record) = context.space.vfs.try_read_cached(context.caller.protocol, path, Some(XATTR_NAME))?;
        Self::of(context, path.clone(), ObjectMetadata::read(record.as_deref()), file.into()).ok()
    }

    fn of(
        context: &S3RequestContext,
        path: TreePath,
        record: ObjectMetadata,
        opened: OpenedFile,
    ) -> Result<Self, Fault> {
        let OpenedFile { content, etag: blob, attributes } = opened;
        let stored = record.etag.clone().filter(|_| record.of == blob.to_string());
        let key = (&*context.space, &path);
        let etags: &ETagStore = &context.protocol.etags;
        // The cache is that of the tree.
        let is_cacheable = !context.tree().is_draft();
        let etag = match stored.or_else(|| etags.cached(key, &attributes).filter(|_| is_cacheable)) {
            Some(etag) => etag,
            None => content_md5(&content, attributes.size)?,
        };
        if is_cacheable {
            etags.insert_etag(key, &attributes, &etag);
        }
        let (size, modified, attributes) = (attributes.size, attributes.modified, Some(attributes));
        Ok(Self { path, size, modified, etag, blob: Some(blob), record, content, attributes })
    }

    /// The identity of the content of an unversioned large file.
    pub(crate) fn large(&self) -> Option<LargeFile> {
        self.attributes.as_ref().and_then(PathAttributes::large_file)
    }

    /// Whether the checksums and parts in the metadata are those of this content.
    pub(crate) fn has_content_fields(&self) -> bool {
        match (&self.blob, self.large()) {
            (Some(blob), _) => self.record.of == blob.to_string(),
            (None, Some(large)) => self.record.of == large.to_string(),
            (None, None) => false,
        }
    }

    /// The number of parts, as the ETag says; `None` for an object that was not uploaded in parts,
    /// or was overwritten since.
    pub(crate) fn parts(&self) -> Option<i32> {
        let etag = self.record.etag.as_ref().filter(|_| self.has_content_fields())?;
        etag.rsplit_once('-')?.1.parse().ok()
    }

    /// The bytes of a part; `None` when the lengths are not known.
    pub(crate) fn part(&self, number: i32) -> Option<std::ops::Range<u64>> {
        let (number, parts) = (u64::try_from(number).ok()?, u64::try_from(self.parts()?).ok()?);
        self.record.parts.part(number, (parts, self.size))
    }

    /// The content type: from the client, else from the name.
    pub(crate) fn content_type(&self) -> String {
        self.record.headers.get("content-type").cloned().unwrap_or_else(|| guess_content_type(&self.path))
    }

    /// The user metadata, and the content hash that the other protocols use.
    pub(crate) fn metadata(&self) -> BTreeMap<String, String> {
        let mut metadata = self.record.metadata.clone();
        metadata.remove(CONTENT_HASH_KEY);
        metadata.extend(self.blob.map(|blob| (CONTENT_HASH_KEY.to_owned(), blob.to_string())));
        metadata
    }
}

/// Reads a content to compute its MD5 as an ETag.
pub(crate) fn content_md5(content: &FileContent, size: u64) -> Result<String, Fault> {
    let mut hasher = ContentHasher::new(RequestedChecksums::default());
    let mut at = 0;
    while at < size {
        let piece = content.read(at, READ_BYTES)?;
        if piece.is_empty() {
            return Err(Fault::unavailable("the file became shorter while it was read; try again"));
        }
        hasher.update(&piece);
        at += piece.len() as u64;
    }
    Ok(hex(&hasher.finish().0))
}

/// The ETag of a listed file.
pub(crate) fn etag(context: &S3RequestContext, path: &TreePath, attributes: &PathAttributes) -> Result<String, Fault> {
    match known(context, path, attributes) {
        Some(etag) => Ok(etag),
        None => S3Object::at(context, &ParsedKey::File(path.clone())).map(|object| object.etag),
    }
}

fn known(context: &S3RequestContext, path: &TreePath, attributes: &PathAttributes) -> Option<String> {
    let etags = &context.protocol.etags;
    if context.tree().is_draft() {
        return None;
    }
    attributes.large_file().is_none().then(|| etags.cached((&context.space, path), attributes)).flatten()
}

/// Bytes that must be read to compute the ETag; 0 when it is cached.
pub(crate) fn unread_bytes(context: &S3RequestContext, path: &TreePath, attributes: &PathAttributes) -> u64 {
    let is_cached = attributes.large_file().is_some() || known(context, path, attributes).is_some();
    if is_cached { 0 } else { attributes.size }
}

/// Guesses the content type from the name.
pub(crate) fn guess_content_type(path: &TreePath) -> String {
    match mime_guess::from_path(path.as_str()).first_raw() {
        Some("text/markdown") => "text/markdown; charset=utf-8".to_owned(),
        Some(content_type) => content_type.to_owned(),
        None => DEFAULT_CONTENT_TYPE.to_owned(),
    }
}
