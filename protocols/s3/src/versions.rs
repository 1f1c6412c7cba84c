//! Versions of objects: the history of a file, under the ids of the history.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{
    DeleteMarkerEntry, ETag, ListObjectVersionsInput, ListObjectVersionsOutput, ObjectVersion,
    ObjectVersionStorageClass, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES, Scope, TreePath};
use svcfs_vfs::{FileContent, StoredContent};

use crate::S3Server;
use crate::checksums::{etag_of, hex};
use crate::context::{S3RequestContext, S3RequestError};
use crate::key::ParsedKey;
use crate::key_walk::{ListEntry, ListQuery, MAX_KEYS};
use crate::list_objects::MAX_READ_BYTES;
use crate::object::S3Object;
use crate::object_metadata::ObjectMetadata;
use crate::operations::{KeyEncoding, owner};
use crate::removal_cache::{RemovalMarker, RemovedKeys};
use crate::resolved::ResolvedNode;

/// The version id of an unversioned object in S3.
const NULL_VERSION: &str = "null";

/// Opens the object of a key, current or at a version. Errors: as [`S3Object::at`]; `NoSuchVersion`
/// for an unknown version.
pub(crate) fn object(
    context: &S3RequestContext,
    key: &ParsedKey,
    version: Option<&str>,
) -> Result<S3Object, S3RequestError> {
    let Some(version) = version.filter(|version| *version != NULL_VERSION) else {
        return Ok(S3Object::at(context, key)?);
    };
    context.check(key.path())?;
    let vfs = &context.space.vfs;
    let unknown =
        || s3_error!(NoSuchVersion, "`{}` has no version `{}`", key.path(), svcfs_base::escape_unprintable(version));
    let path = match key {
        ParsedKey::File(path) if vfs.is_visible(context.caller.protocol, path) => path,
        ParsedKey::File(_) | ParsedKey::Folder(_) => return Err(unknown().into()),
    };
    let content = match vfs.read_version(path, version) {
        Err(fault) if fault.kind() == Kind::NotFound && vfs.is_removal(path, version)? => {
            return Err(s3_error!(MethodNotAllowed, "`{path}` was removed by that version; it has no content").into());
        }
        Err(fault) if fault.kind() == Kind::NotFound => return Err(unknown().into()),
        content => content?,
    };
    let versions = vfs.versions(path)?;
    let at = versions.iter().position(|listed| listed.hash.to_string().starts_with(version));
    let listed = at.and_then(|at| versions.get(at));
    let blob = svcfs_base::ETag::from_content(&content);
    // Upload metadata (parts, checksums) is stored for the newest version only.
    let stored = if at == Some(0) { metadata_at(context, path)? } else { ObjectMetadata::default() };
    let record = if stored.of == blob.to_string() { stored.content_fields() } else { ObjectMetadata::default() };
    Ok(S3Object {
        path: path.clone(),
        size: content.len() as u64,
        modified: listed.map_or_else(SystemTime::now, |listed| SystemTime::from(listed.timestamp)),
        etag: record.etag.clone().unwrap_or_else(|| etag_of(&content)),
        blob: Some(blob),
        record,
        content: FileContent::InMemory(content),
        attributes: None,
    })
}

/// The id of the current version, by one log query. `None` for a folder, for the target of a link,
/// and for a file without a version yet.
pub(crate) fn current(context: &S3RequestContext, key: &ParsedKey, object: &S3Object) -> Option<String> {
    let path = match key {
        ParsedKey::File(path) if *path == object.path && object.attributes.is_some() => path,
        ParsedKey::File(_) | ParsedKey::Folder(_) => return None,
    };
    let Some(blob) = object.blob else { return Some(NULL_VERSION.to_owned()) };
    match context.space.vfs.try_newest_version(path) {
        Ok(newest) => newest.filter(|newest| newest.etag == blob).map(|newest| newest.version.hash.to_string()),
        Err(fault) => {
            tracing::warn!(page.path = %path, error = ?fault, "the id of the current version could not be read");
            None
        }
    }
}

/// A version, or a removal marker.
pub(crate) struct VersionEntry {
    key: String,
    pub(crate) id: String,
    time: SystemTime,
    is_latest: bool,
    kind: VersionKind,
}

/// What an entry is.
enum VersionKind {
    Removal,
    /// An unversioned large file: size and ETag.
    Large(u64, String),
    Stored(StoredContent),
    /// A snapshot without a log record; read it by its id.
    Unlogged,
}

/// Versions and removals of a path, newest first.
fn entries(
    context: &S3RequestContext,
    path: &TreePath,
    removals: &[RemovalMarker],
) -> Result<Vec<VersionEntry>, Fault> {
    let vfs = &context.space.vfs;
    let entry = |id: String, time: SystemTime, kind: VersionKind| VersionEntry {
        key: path.to_string(),
        id,
        time,
        is_latest: false,
        kind,
    };
    let stored = vfs.stored_versions(path)?.into_iter().rev();
    let stored = stored.map(|version| {
        entry(version.id.to_string(), SystemTime::from(version.time), VersionKind::Stored(version.content))
    });
    let mut all: Vec<_> = stored.collect();
    if context.space.settings.versioning.strategy != svcfs_config::VersioningStrategy::Git {
        // Snapshots that no record describes, because the log was rebuilt.
        let known: BTreeSet<_> = all.iter().map(|entry| entry.id.clone()).collect();
        let named = vfs.versions(path)?.into_iter().filter(|version| !known.contains(&version.hash.to_string()));
        all.extend(
            named.map(|named| entry(named.hash.to_string(), SystemTime::from(named.timestamp), VersionKind::Unlogged)),
        );
    }
    let removals = removals.iter().map(|(id, time)| entry(id.to_string(), *time, VersionKind::Removal));
    let removals: Vec<_> = removals.collect();
    all.retain(|version| !removals.iter().any(|removal| removal.id == version.id));
    all.extend(removals);
    // History has a resolution of one second: of several entries in one second, the one that
    // matches the current state is the newest.
    let current = vfs.stat(context.caller.protocol, path);
    let is_present = current.is_ok();
    all.sort_by_key(|entry| (Reverse(entry.time), matches!(entry.kind, VersionKind::Removal) == is_present));
    if current.is_ok_and(|current| current.large_file().is_some()) {
        // The large file is newer than all versions; the removal of the page that it replaced comes
        // after it.
        let large = S3Object::at(context, &ParsedKey::File(path.clone()))?;
        all.insert(0, entry(NULL_VERSION.to_owned(), large.modified, VersionKind::Large(large.size, large.etag)));
    }
    if let Some(newest) = all.first_mut() {
        newest.is_latest = true;
    }
    Ok(all)
}

/// A page of versions, and where the next one starts.
#[derive(Default)]
pub(crate) struct VersionListing {
    pub(crate) entries: Vec<(VersionEntry, u64, String)>,
    prefixes: Vec<String>,
    pub(crate) next: Option<(String, Option<String>)>,
    /// Bytes that were read, including those that the next entry would have needed.
    read: u64,
    hit_read_limit: bool,
}

impl VersionListing {
    const fn lines(&self) -> usize {
        self.entries.len() + self.prefixes.len()
    }
}

/// The keys with history in key order, existing and removed ones; and the marker of the next page,
/// if the existing keys fill this one.
fn keys(
    context: &S3RequestContext,
    listing: &ListQuery,
    (removed, after_version): (&RemovedKeys, Option<&str>),
) -> Result<(Vec<ListEntry>, Option<String>), Fault> {
    // A version marker continues inside the history of its key.
    let is_after_marker = |key: &str| key > listing.after.as_str() || (after_version.is_some() && key == listing.after);
    let mut keys: Vec<ListEntry> = Vec::new();
    let is_listed = |path: &TreePath| {
        path.as_str().starts_with(&listing.prefix)
            && context.caller.permissions.covers(path)
            && context.space.vfs.is_visible(context.caller.protocol, path)
    };
    if let (Some(_), Ok(ParsedKey::File(path))) = (after_version, ParsedKey::parse(&listing.after))
        && is_listed(&path)
    {
        keys.push(ListEntry::Object { key: path.to_string(), file: None, attributes: None });
    }
    let current = listing.page(context)?;
    let last = current.lines.last().filter(|_| current.is_truncated).map(|line| line.text().to_owned());
    keys.extend(current.lines);
    let mut known: BTreeSet<String> = keys.iter().map(|line| line.text().to_owned()).collect();
    let from = std::cmp::max(&listing.prefix, &listing.after).clone();
    for key in removed.by_key.range(from..).map(|(key, _)| key).take_while(|key| key.starts_with(&listing.prefix)) {
        let line = match listing.common_prefix(key) {
            // A common prefix that the marker equals was listed with the previous page.
            Some(prefix) if listing.is_marker(&prefix) || *key <= listing.after => continue,
            Some(prefix) => ListEntry::Prefix(prefix),
            None if !is_after_marker(key) => continue,
            None => ListEntry::Object { key: key.clone(), file: None, attributes: None },
        };
        if last.as_ref().is_some_and(|last| line.text() >= last.as_str()) {
            break;
        }
        if TreePath::parse(key).is_ok_and(|path| is_listed(&path)) && known.insert(line.text().to_owned()) {
            keys.push(line);
        }
    }
    keys.sort_by(|a, b| a.text().cmp(b.text()));
    Ok((keys, last))
}

/// Reads a page, for at most so many bytes; the first entry is always included.
pub(crate) fn page(
    context: &S3RequestContext,
    listing: &ListQuery,
    after_version: Option<&str>,
    max_read_bytes: u64,
) -> Result<VersionListing, Fault> {
    context.protocol.etags.load(&context.space);
    let removed = context.protocol.removals.refresh(&context.space)?;
    let (keys, last) = keys(context, listing, (&removed, after_version))?;
    let mut page = VersionListing::default();
    // A common prefix counts as one line; the last line is the marker of the next page.
    let mut last_listed = None;
    for line in keys {
        let key = match line {
            ListEntry::Prefix(prefix) => {
                if page.lines() == listing.limit {
                    page.next = last_listed;
                    return Ok(page);
                }
                last_listed = Some((prefix.clone(), None));
                page.prefixes.push(prefix);
                continue;
            }
            ListEntry::Object { key, .. } => key,
        };
        let Ok(ParsedKey::File(path)) = ParsedKey::parse(&key) else { continue };
        let skipped = after_version.filter(|_| key == listing.after);
        let mut is_after_marker = skipped.is_none();
        for entry in entries(context, &path, removed.by_key.get(&key).map_or(&[][..], Vec::as_slice))? {
            if !is_after_marker {
                is_after_marker = Some(entry.id.as_str()) == skipped;
                continue;
            }
            page.read += unread_bytes(context, &entry)?;
            page.hit_read_limit = page.read > max_read_bytes && last_listed.is_some();
            if page.hit_read_limit || page.lines() == listing.limit {
                page.next = last_listed;
                return Ok(page);
            }
            // A version whose content is gone is skipped.
            let Some((size, etag)) = size_and_etag(context, &path, &entry)? else { continue };
            last_listed = Some((entry.key.clone(), Some(entry.id.clone())));
            page.entries.push((entry, size, etag));
        }
    }
    page.next = last.map(|last| (last, None));
    Ok(page)
}

/// Bytes that must be read to compute the ETag of a version.
fn unread_bytes(context: &S3RequestContext, entry: &VersionEntry) -> Result<u64, Fault> {
    let VersionKind::Stored(content) = &entry.kind else { return Ok(0) };
    if context.protocol.etags.cached_version(&context.space, content).is_some() {
        return Ok(0);
    }
    match context.space.vfs.stored_size(content) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(0),
        size => size,
    }
}

/// Size and ETag of a version; `None` when its content is gone.
fn size_and_etag(
    context: &S3RequestContext,
    path: &TreePath,
    entry: &VersionEntry,
) -> Result<Option<(u64, String)>, Fault> {
    let vfs = &context.space.vfs;
    let if_present = |content: Result<Bytes, Fault>| match content {
        Ok(content) => Ok(Some(content)),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        Err(fault) => Err(fault),
    };
    let content = match &entry.kind {
        VersionKind::Removal => return Ok(Some(Default::default())),
        VersionKind::Large(size, etag) => return Ok(Some((*size, etag.clone()))),
        VersionKind::Unlogged => {
            let content = if_present(vfs.read_version(path, &entry.id))?;
            return Ok(content.map(|content| (content.len() as u64, etag_of(&content))));
        }
        VersionKind::Stored(content) => content,
    };
    let etags = &context.protocol.etags;
    let (size, etag) = match etags.cached_version(&context.space, content) {
        Some(cached) => cached,
        None => {
            let Some(bytes) = if_present(vfs.stored_content(content))? else { return Ok(None) };
            let (size, md5) = (bytes.len() as u64, Md5::checksum(&bytes));
            etags.insert_version(&context.space, content, (size, md5));
            (size, hex(&md5))
        }
    };
    let multipart = if entry.is_latest { multipart_etag(context, path, content)? } else { None };
    Ok(Some((size, multipart.unwrap_or(etag))))
}

/// The multipart ETag of the newest version, if it has one.
fn multipart_etag(
    context: &S3RequestContext,
    path: &TreePath,
    content: &StoredContent,
) -> Result<Option<String>, Fault> {
    let record = metadata_at(context, path)?;
    let Some(etag) = record.etag else { return Ok(None) };
    let blob = match content {
        StoredContent::Blob(blob) => *blob,
        StoredContent::Converted(..) | StoredContent::Snapshot(..) => {
            svcfs_base::ETag::from_content(&context.space.vfs.stored_content(content)?)
        }
    };
    Ok((record.of == blob.to_string()).then_some(etag))
}

/// The metadata of the file at a path; empty when there is no file, or a link.
fn metadata_at(context: &S3RequestContext, path: &TreePath) -> Result<ObjectMetadata, Fault> {
    match ResolvedNode::at(context, path) {
        Ok(entry) if entry.is_file() => ObjectMetadata::of(context, &entry),
        Ok(_) | Err(_) => Ok(ObjectMetadata::default()),
    }
}

/// Reads a page: quickly when it needs few bytes, else in the slow lane.
async fn complete_page(
    context: &S3RequestContext,
    listing: ListQuery,
    marker: Option<String>,
) -> S3Result<VersionListing> {
    let operation = "ListObjectVersions";
    let (first_listing, version) = (listing.clone(), marker.clone());
    let quick = move |context: &S3RequestContext| {
        Ok(save_etags(context, page(context, &first_listing, version.as_deref(), MAX_FILE_BYTES as u64))?)
    };
    let quick = context.run(operation, quick).await?;
    if !quick.hit_read_limit {
        return Ok(quick);
    }
    let slow = move |context: &S3RequestContext| {
        Ok(save_etags(context, page(context, &listing, marker.as_deref(), MAX_READ_BYTES))?)
    };
    context.run_over(MAX_READ_BYTES, operation, slow).await
}

/// Saves the computed ETags.
fn save_etags<T>(context: &S3RequestContext, outcome: T) -> T {
    context.protocol.etags.save(&context.space);
    outcome
}

/// `ListObjectVersions`
pub(crate) async fn list(
    protocol: &Arc<S3Server>,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Read, "ListObjectVersions"))?;
    let input = request.input;
    let encoding = KeyEncoding::of(input.encoding_type.as_ref())?;
    let limit = usize::try_from(input.max_keys.unwrap_or(MAX_KEYS as i32)).unwrap_or_default().min(MAX_KEYS);
    let listing = ListQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        after: input.key_marker.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone(),
        limit,
    };
    let marker = input.version_id_marker.clone().filter(|marker| !marker.is_empty());
    let page = complete_page(&context, listing, marker).await?;
    let (mut versions, mut markers) = (Vec::new(), Vec::new());
    for (entry, size, etag) in page.entries {
        let (key, id) = (Some(encoding.text(&entry.key)), Some(entry.id));
        let (last_modified, is_latest) = (Some(Timestamp::from(entry.time)), Some(entry.is_latest));
        if matches!(entry.kind, VersionKind::Removal) {
            markers.push(DeleteMarkerEntry { is_latest, key, last_modified, owner: Some(owner()), version_id: id });
        } else {
            versions.push(ObjectVersion {
                e_tag: Some(ETag::Strong(etag)),
                is_latest,
                key,
                last_modified,
                owner: Some(owner()),
                size: i64::try_from(size).ok(),
                storage_class: Some(ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD)),
                version_id: id,
                ..ObjectVersion::default()
            });
        }
    }
    let (next_key, next_version) = page.next.map_or((None, None), |(key, version)| (Some(key), version));
    Ok(S3Response::new(ListObjectVersionsOutput {
        name: Some(input.bucket),
        prefix: input.prefix.map(|text| encoding.text(&text)),
        delimiter: input.delimiter.filter(|text| !text.is_empty()).map(|text| encoding.text(&text)),
        key_marker: input.key_marker.map(|text| encoding.text(&text)),
        version_id_marker: input.version_id_marker,
        max_keys: Some(limit as i32),
        is_truncated: Some(next_key.is_some()),
        next_key_marker: next_key.map(|text| encoding.text(&text)),
        next_version_id_marker: next_version,
        versions: Some(versions),
        delete_markers: Some(markers),
        common_prefixes: Some(encoding.prefixes(page.prefixes)),
        encoding_type: input.encoding_type,
        ..ListObjectVersionsOutput::default()
    }))
}
