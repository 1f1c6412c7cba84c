//! An object: a file, or a folder that a key with a `/` at its end names.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{ETag, Fault, Kind, LargeFile, TreePath};
use svcfs_vfs::{FileContent, FileReader, OpenedFile, PathAttributes};

use crate::checksums::{ContentHasher, RequestedChecksums, etag_of, hex};
use crate::context::S3RequestContext;
use crate::etags::ETagStore;
use crate::key::ParsedKey;
use crate::object_metadata::{ATTRIBUTE, BLOB, ObjectMetadata};
use crate::resolved::ResolvedNode;

/// Bytes that are read at once to be summed up.
const PIECE: usize = 256 << 10;
/// The content type where neither client nor name tell one.
const ANYTHING: &str = "application/octet-stream";

/// What is known of an object.
pub(crate) struct S3Object {
    /// Where it is, links followed.
    pub(crate) path: TreePath,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    /// Without quotes.
    pub(crate) etag: String,
    /// The hash of its content; none of a folder, and of a file that no version has.
    pub(crate) blob: Option<ETag>,
    pub(crate) record: ObjectMetadata,
    pub(crate) content: FileContent,
    /// None of a folder and of an earlier version.
    pub(crate) attributes: Option<PathAttributes>,
}

impl S3Object {
    /// The object of a key.
    ///
    /// # Errors
    /// `NotFound`, also for a folder whose key has no `/` at its end; `Forbidden` beyond the caller's reach.
    pub(crate) fn at(asked: &S3RequestContext, key: &ParsedKey) -> Result<Self, Fault> {
        let missing = || Fault::file_not_found(key.path());
        let found = match ResolvedNode::at(asked, key.path()) {
            Err(fault) if matches!(fault.kind(), Kind::NotDirectory | Kind::Stale) => return Err(missing()),
            found => found?,
        };
        match key {
            ParsedKey::Folder(_) if found.is_folder() => Self::folder(asked, &found),
            ParsedKey::File(_) if found.is_file() => Self::file(asked, &found),
            ParsedKey::Folder(_) | ParsedKey::File(_) => Err(missing()),
        }
    }

    fn folder(asked: &S3RequestContext, found: &ResolvedNode<'_>) -> Result<Self, Fault> {
        Ok(Self {
            path: found.path.clone(),
            size: 0,
            modified: found.attributes.modified,
            etag: etag_of(b""),
            blob: None,
            record: ObjectMetadata::of(asked, found)?,
            content: FileContent::InMemory(Bytes::new()),
            attributes: None,
        })
    }

    fn file(asked: &S3RequestContext, found: &ResolvedNode<'_>) -> Result<Self, Fault> {
        let record = ObjectMetadata::of(asked, found)?;
        asked.protocol.etags.recall(&asked.space);
        let path = found.path.clone();
        if found.is_large() {
            let attributes = found.attributes.clone();
            let look = attributes.large_file().map(|large| large.to_string()).unwrap_or_default();
            let etag = record.etag.clone().filter(|_| record.of == look).unwrap_or(look);
            let content = FileContent::OnDisk(FileReader::open(&asked.space.vfs, &asked.caller, found.node)?);
            let (size, modified) = (attributes.size, attributes.modified);
            return Ok(Self { path, size, modified, etag, blob: None, record, content, attributes: Some(attributes) });
        }
        let opened = match asked.space.vfs.open_content(asked.caller.protocol, &path) {
            // Made through a mount, and not saved yet: to all others it is an empty file.
            Err(fault) if fault.kind() == Kind::NotFound => {
                let (content, attributes) = (FileContent::InMemory(Bytes::new()), found.attributes.clone());
                OpenedFile { content, etag: ETag::from_content(b""), attributes }
            }
            opened => opened?,
        };
        Self::of(asked, path, record, opened)
    }

    /// The object of a key, if nothing must be waited for; [`Object::at`] tells of all others.
    pub(crate) fn at_once(asked: &S3RequestContext, key: &ParsedKey) -> Option<Self> {
        let ParsedKey::File(path) = key else { return None };
        // One that is found at once has no link on its way: it lies where its path says.
        asked.caller.permissions.check_path(path).ok()?;
        let (file, record) = asked.space.vfs.try_read_cached(asked.caller.protocol, path, Some(ATTRIBUTE))?;
        Self::of(asked, path.clone(), ObjectMetadata::read(record.as_deref()), file.into()).ok()
    }

    fn of(asked: &S3RequestContext, path: TreePath, record: ObjectMetadata, opened: OpenedFile) -> Result<Self, Fault> {
        let OpenedFile { content, etag: blob, attributes } = opened;
        let kept = record.etag.clone().filter(|_| record.of == blob.to_string());
        let here = (&*asked.space, &path);
        let etags: &ETagStore = &asked.protocol.etags;
        let etag = match kept.or_else(|| etags.known(here, &attributes)) {
            Some(etag) => etag,
            None => summed(&content, attributes.size)?,
        };
        etags.remember(here, &attributes, &etag);
        let (size, modified, attributes) = (attributes.size, attributes.modified, Some(attributes));
        Ok(Self { path, size, modified, etag, blob: Some(blob), record, content, attributes })
    }

    /// What tells its contents apart, where no version has it.
    pub(crate) fn large(&self) -> Option<LargeFile> {
        self.attributes.as_ref().and_then(PathAttributes::large_file)
    }

    /// Whether what the record says of a content is said of this one.
    pub(crate) fn is_of_record(&self) -> bool {
        match (&self.blob, self.large()) {
            (Some(blob), _) => self.record.of == blob.to_string(),
            (None, Some(large)) => self.record.of == large.to_string(),
            (None, None) => false,
        }
    }

    /// In how many parts it came, as its ETag tells; none where it came in one piece, or was written over since.
    pub(crate) fn parts(&self) -> Option<i32> {
        let etag = self.record.etag.as_ref().filter(|_| self.is_of_record())?;
        etag.rsplit_once('-')?.1.parse().ok()
    }

    /// The bytes of one of several parts that it came in; none where their lengths are not known.
    pub(crate) fn part(&self, number: i32) -> Option<std::ops::Range<u64>> {
        let (number, parts) = (u64::try_from(number).ok()?, u64::try_from(self.parts()?).ok()?);
        self.record.parts.part(number, (parts, self.size))
    }

    /// The content type: what the client said, else what the name tells.
    pub(crate) fn content_type(&self) -> String {
        self.record.headers.get("content-type").cloned().unwrap_or_else(|| guessed(&self.path))
    }

    /// Everything that a client said of it, and the hash that every other door calls its content by.
    pub(crate) fn metadata(&self) -> BTreeMap<String, String> {
        let mut metadata = self.record.metadata.clone();
        metadata.remove(BLOB);
        metadata.extend(self.blob.map(|blob| (BLOB.to_owned(), blob.to_string())));
        metadata
    }
}

/// The MD5 of a content of so many bytes, as ETags have it.
///
/// # Errors
/// Those of reading it.
pub(crate) fn summed(content: &FileContent, size: u64) -> Result<String, Fault> {
    let mut summing = ContentHasher::new(RequestedChecksums::default());
    let mut at = 0;
    while at < size {
        let piece = content.read(at, PIECE)?;
        if piece.is_empty() {
            return Err(Fault::unavailable("the file became shorter while it was read; try again"));
        }
        summing.update(&piece);
        at += piece.len() as u64;
    }
    Ok(hex(&summing.finish().0))
}

/// The ETag of a file that is listed.
///
/// # Errors
/// Those of reading it.
pub(crate) fn etag(asked: &S3RequestContext, path: &TreePath, attributes: &PathAttributes) -> Result<String, Fault> {
    match known(asked, path, attributes) {
        Some(etag) => Ok(etag),
        None => S3Object::at(asked, &ParsedKey::File(path.clone())).map(|object| object.etag),
    }
}

fn known(asked: &S3RequestContext, path: &TreePath, attributes: &PathAttributes) -> Option<String> {
    let etags = &asked.protocol.etags;
    attributes.large_file().is_none().then(|| etags.known((&asked.space, path), attributes)).flatten()
}

/// Bytes that are to be read before its ETag can be told.
pub(crate) fn unread(asked: &S3RequestContext, path: &TreePath, attributes: &PathAttributes) -> u64 {
    let is_told = attributes.large_file().is_some() || known(asked, path, attributes).is_some();
    if is_told { 0 } else { attributes.size }
}

/// The content type that a name tells.
pub(crate) fn guessed(path: &TreePath) -> String {
    match mime_guess::from_path(path.as_str()).first_raw() {
        Some("text/markdown") => "text/markdown; charset=utf-8".to_owned(),
        Some(told) => told.to_owned(),
        None => ANYTHING.to_owned(),
    }
}
