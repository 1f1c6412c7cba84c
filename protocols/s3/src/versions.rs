//! Versions of objects: our history, under the names that history has for them.

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
use crate::key_walk::{ListEntry, ListQuery, MOST};
use crate::list_objects::MOST_READ;
use crate::object::S3Object;
use crate::object_metadata::ObjectMetadata;
use crate::operations::{KeyEncoding, owner};
use crate::removal_cache::{RemovalMarker, RemovedKeys};
use crate::resolved::ResolvedNode;

/// The version of what has none, as S3 calls it.
const NULL: &str = "null";

/// The object of a key, now or at a version.
///
/// # Errors
/// As [`Object::at`]; `NoSuchVersion` for one that is unknown, or does not have it.
pub(crate) fn object(
    asked: &S3RequestContext,
    key: &ParsedKey,
    version: Option<&str>,
) -> Result<S3Object, S3RequestError> {
    let Some(version) = version.filter(|version| *version != NULL) else { return Ok(S3Object::at(asked, key)?) };
    asked.check(key.path())?;
    let vfs = &asked.space.vfs;
    let unknown =
        || s3_error!(NoSuchVersion, "`{}` has no version `{}`", key.path(), svcfs_base::escape_unprintable(version));
    let path = match key {
        ParsedKey::File(path) if vfs.is_visible(asked.caller.protocol, path) => path,
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
    let at = versions.iter().position(|told| told.hash.to_string().starts_with(version));
    let told = at.and_then(|at| versions.get(at));
    let blob = svcfs_base::ETag::from_content(&content);
    // How it came is kept of the newest alone, and of earlier ones not even where they had the same content.
    let kept = if at == Some(0) { kept_at(asked, path)? } else { ObjectMetadata::default() };
    let record = if kept.of == blob.to_string() { kept.of_content() } else { ObjectMetadata::default() };
    Ok(S3Object {
        path: path.clone(),
        size: content.len() as u64,
        modified: told.map_or_else(SystemTime::now, |told| SystemTime::from(told.timestamp)),
        etag: record.etag.clone().unwrap_or_else(|| etag_of(&content)),
        blob: Some(blob),
        record,
        content: FileContent::InMemory(content),
        attributes: None,
    })
}

/// What the version is called that an object is now: one question to the log. None of a folder, of what a link leads to, and of what is no version yet.
pub(crate) fn current(asked: &S3RequestContext, key: &ParsedKey, object: &S3Object) -> Option<String> {
    let path = match key {
        ParsedKey::File(path) if *path == object.path && object.attributes.is_some() => path,
        ParsedKey::File(_) | ParsedKey::Folder(_) => return None,
    };
    let Some(blob) = object.blob else { return Some(NULL.to_owned()) };
    match asked.space.vfs.try_newest_version(path) {
        Ok(newest) => newest.filter(|newest| newest.etag == blob).map(|newest| newest.version.hash.to_string()),
        Err(fault) => {
            tracing::warn!(page.path = %path, error = ?fault, "what the version of an object is called cannot be told");
            None
        }
    }
}

/// One version, or the removal that followed one.
pub(crate) struct VersionEntry {
    key: String,
    pub(crate) id: String,
    time: SystemTime,
    is_latest: bool,
    what: VersionKind,
}

/// What a version is of.
enum VersionKind {
    Removal,
    /// What no version has: its size and ETag.
    Large(u64, String),
    Kept(StoredContent),
    /// To be asked for by its name.
    Named,
}

/// Versions and removals of a path, the newest first.
fn entries(asked: &S3RequestContext, path: &TreePath, removals: &[RemovalMarker]) -> Result<Vec<VersionEntry>, Fault> {
    let vfs = &asked.space.vfs;
    let entry = |id: String, time: SystemTime, what: VersionKind| VersionEntry {
        key: path.to_string(),
        id,
        time,
        is_latest: false,
        what,
    };
    let kept = vfs.stored_versions(path)?.into_iter().rev();
    let kept =
        kept.map(|kept| entry(kept.id.to_string(), SystemTime::from(kept.time), VersionKind::Kept(kept.content)));
    let mut all: Vec<_> = kept.collect();
    if asked.space.settings.versioning.strategy != svcfs_config::VersioningStrategy::Git {
        // Copies that no record tells of, because the log was made anew.
        let known: BTreeSet<_> = all.iter().map(|entry| entry.id.clone()).collect();
        let named = vfs.versions(path)?.into_iter().filter(|version| !known.contains(&version.hash.to_string()));
        all.extend(
            named.map(|named| entry(named.hash.to_string(), SystemTime::from(named.timestamp), VersionKind::Named)),
        );
    }
    let removals = removals.iter().map(|(id, time)| entry(id.to_string(), *time, VersionKind::Removal));
    let removals: Vec<_> = removals.collect();
    all.retain(|version| !removals.iter().any(|removal| removal.id == version.id));
    all.extend(removals);
    // History knows seconds: of what happened in one, the last is what is there now.
    let there = vfs.stat(asked.caller.protocol, path);
    let is_there = there.is_ok();
    all.sort_by_key(|entry| (Reverse(entry.time), matches!(entry.what, VersionKind::Removal) == is_there));
    if there.is_ok_and(|there| there.large_file().is_some()) {
        // What no version has stands in front of all of them; its removal of the page that was there is told behind it.
        let large = S3Object::at(asked, &ParsedKey::File(path.clone()))?;
        all.insert(0, entry(NULL.to_owned(), large.modified, VersionKind::Large(large.size, large.etag)));
    }
    if let Some(newest) = all.first_mut() {
        newest.is_latest = true;
    }
    Ok(all)
}

/// A page of versions, and where the next one begins.
#[derive(Default)]
pub(crate) struct VersionListing {
    pub(crate) entries: Vec<(VersionEntry, u64, String)>,
    prefixes: Vec<String>,
    pub(crate) next: Option<(String, Option<String>)>,
    /// Bytes that were read, or would have been for the entry that it ends in front of.
    read: u64,
    is_cut: bool,
}

impl VersionListing {
    const fn lines(&self) -> usize {
        self.entries.len() + self.prefixes.len()
    }
}

/// Keys with history, each once, in key order: those that are there, and those that were removed; and what the next page lies behind, as far as keys that are
/// there tell.
fn keys(
    asked: &S3RequestContext,
    listing: &ListQuery,
    (removed, after_version): (&RemovedKeys, Option<&str>),
) -> Result<(Vec<ListEntry>, Option<String>), Fault> {
    // With a version, the key it is of is looked at once more.
    let is_ahead = |key: &str| key > listing.after.as_str() || (after_version.is_some() && key == listing.after);
    let mut keys: Vec<ListEntry> = Vec::new();
    let is_told = |path: &TreePath| {
        path.as_str().starts_with(&listing.prefix)
            && asked.caller.permissions.covers(path)
            && asked.space.vfs.is_visible(asked.caller.protocol, path)
    };
    if let (Some(_), Ok(ParsedKey::File(path))) = (after_version, ParsedKey::parse(&listing.after))
        && is_told(&path)
    {
        keys.push(ListEntry::Object { key: path.to_string(), file: None, attributes: None });
    }
    let there = listing.page(asked)?;
    let last = there.lines.last().filter(|_| there.is_truncated).map(|line| line.text().to_owned());
    keys.extend(there.lines);
    let mut known: BTreeSet<String> = keys.iter().map(|line| line.text().to_owned()).collect();
    let from = std::cmp::max(&listing.prefix, &listing.after).clone();
    for key in removed.by_key.range(from..).map(|(key, _)| key).take_while(|key| key.starts_with(&listing.prefix)) {
        let line = match listing.together(key) {
            // Behind a marker lies what is greater; what is told together with it was told with it.
            Some(prefix) if listing.begins_behind(&prefix) || *key <= listing.after => continue,
            Some(prefix) => ListEntry::Prefix(prefix),
            None if !is_ahead(key) => continue,
            None => ListEntry::Object { key: key.clone(), file: None, attributes: None },
        };
        if last.as_ref().is_some_and(|last| line.text() >= last.as_str()) {
            break;
        }
        if TreePath::parse(key).is_ok_and(|path| is_told(&path)) && known.insert(line.text().to_owned()) {
            keys.push(line);
        }
    }
    keys.sort_by(|one, other| one.text().cmp(other.text()));
    Ok((keys, last))
}

/// A page, for which no more than so many bytes are read; the first of its entries is told whatever it has.
///
/// # Errors
/// Those of history, and of reading folders and files.
pub(crate) fn page(
    asked: &S3RequestContext,
    listing: &ListQuery,
    after_version: Option<&str>,
    most_read: u64,
) -> Result<VersionListing, Fault> {
    asked.protocol.etags.recall(&asked.space);
    let removed = asked.protocol.removals.up_to_now(&asked.space)?;
    let (keys, last) = keys(asked, listing, (&removed, after_version))?;
    let mut page = VersionListing::default();
    // What is told together is one line like any other, and the last line is what the next page lies behind.
    let mut last_told = None;
    for line in keys {
        let key = match line {
            ListEntry::Prefix(prefix) => {
                if page.lines() == listing.most {
                    page.next = last_told;
                    return Ok(page);
                }
                last_told = Some((prefix.clone(), None));
                page.prefixes.push(prefix);
                continue;
            }
            ListEntry::Object { key, .. } => key,
        };
        let Ok(ParsedKey::File(path)) = ParsedKey::parse(&key) else { continue };
        let skipped = after_version.filter(|_| key == listing.after);
        let mut is_ahead = skipped.is_none();
        for entry in entries(asked, &path, removed.by_key.get(&key).map_or(&[][..], Vec::as_slice))? {
            if !is_ahead {
                is_ahead = Some(entry.id.as_str()) == skipped;
                continue;
            }
            page.read += unread(asked, &entry)?;
            page.is_cut = page.read > most_read && last_told.is_some();
            if page.is_cut || page.lines() == listing.most {
                page.next = last_told;
                return Ok(page);
            }
            // One that cannot be had any more is not told.
            let Some((size, etag)) = described(asked, &path, &entry)? else { continue };
            last_told = Some((entry.key.clone(), Some(entry.id.clone())));
            page.entries.push((entry, size, etag));
        }
    }
    page.next = last.map(|last| (last, None));
    Ok(page)
}

/// Bytes that are to be read before the ETag of a version can be told.
fn unread(asked: &S3RequestContext, entry: &VersionEntry) -> Result<u64, Fault> {
    let VersionKind::Kept(content) = &entry.what else { return Ok(0) };
    if asked.protocol.etags.known_version(&asked.space, content).is_some() {
        return Ok(0);
    }
    match asked.space.vfs.stored_size(content) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(0),
        size => size,
    }
}

/// Size and ETag of a version; none of what cannot be had any more.
fn described(asked: &S3RequestContext, path: &TreePath, entry: &VersionEntry) -> Result<Option<(u64, String)>, Fault> {
    let vfs = &asked.space.vfs;
    let had = |content: Result<Bytes, Fault>| match content {
        Ok(content) => Ok(Some(content)),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        Err(fault) => Err(fault),
    };
    let content = match &entry.what {
        VersionKind::Removal => return Ok(Some(Default::default())),
        VersionKind::Large(size, etag) => return Ok(Some((*size, etag.clone()))),
        VersionKind::Named => {
            let content = had(vfs.read_version(path, &entry.id))?;
            return Ok(content.map(|content| (content.len() as u64, etag_of(&content))));
        }
        VersionKind::Kept(content) => content,
    };
    let etags = &asked.protocol.etags;
    let told = match etags.known_version(&asked.space, content) {
        Some(told) => told,
        None => {
            let Some(bytes) = had(vfs.stored_content(content))? else { return Ok(None) };
            let (size, md5) = (bytes.len() as u64, Md5::checksum(&bytes));
            etags.remember_version(&asked.space, content, (size, md5));
            (size, hex(&md5))
        }
    };
    let of_parts = if entry.is_latest { of_parts(asked, path, content)? } else { None };
    Ok(Some((told.0, of_parts.unwrap_or(told.1))))
}

/// The ETag that the newest version has as an object, where that is another: of an upload in parts.
fn of_parts(asked: &S3RequestContext, path: &TreePath, content: &StoredContent) -> Result<Option<String>, Fault> {
    let record = kept_at(asked, path)?;
    let Some(etag) = record.etag else { return Ok(None) };
    let blob = match content {
        StoredContent::Blob(blob) => *blob,
        StoredContent::Snapshot(..) => svcfs_base::ETag::from_content(&asked.space.vfs.stored_content(content)?),
    };
    Ok((record.of == blob.to_string()).then_some(etag))
}

/// What is kept of the file that stands at a path; nothing where none does any more, or a link that leads elsewhere.
fn kept_at(asked: &S3RequestContext, path: &TreePath) -> Result<ObjectMetadata, Fault> {
    match ResolvedNode::at(asked, path) {
        Ok(found) if found.is_file() => ObjectMetadata::of(asked, &found),
        Ok(_) | Err(_) => Ok(ObjectMetadata::default()),
    }
}

/// A page: at once where little is read for it, else where there is time.
async fn whole_page(asked: &S3RequestContext, listing: ListQuery, marker: Option<String>) -> S3Result<VersionListing> {
    let what = "ListObjectVersions";
    let (here, version) = (listing.clone(), marker.clone());
    let quick =
        move |asked: &S3RequestContext| Ok(kept(asked, page(asked, &here, version.as_deref(), MAX_FILE_BYTES as u64))?);
    let quick = asked.run(what, quick).await?;
    if !quick.is_cut {
        return Ok(quick);
    }
    let slow = move |asked: &S3RequestContext| Ok(kept(asked, page(asked, &listing, marker.as_deref(), MOST_READ))?);
    asked.run_over(MOST_READ, what, slow).await
}

/// Writes down what was found out.
fn kept<T>(asked: &S3RequestContext, outcome: T) -> T {
    asked.protocol.etags.keep(&asked.space);
    outcome
}

/// `ListObjectVersions`
pub(crate) async fn list(
    protocol: &Arc<S3Server>,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Read, "ListObjectVersions"))?;
    let input = request.input;
    let encoding = KeyEncoding::of(input.encoding_type.as_ref())?;
    let most = usize::try_from(input.max_keys.unwrap_or(MOST as i32)).unwrap_or_default().min(MOST);
    let listing = ListQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        after: input.key_marker.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone(),
        most,
    };
    let marker = input.version_id_marker.clone().filter(|marker| !marker.is_empty());
    let page = whole_page(&asked, listing, marker).await?;
    let (mut versions, mut markers) = (Vec::new(), Vec::new());
    for (entry, size, etag) in page.entries {
        let (key, id) = (Some(encoding.text(&entry.key)), Some(entry.id));
        let (last_modified, is_latest) = (Some(Timestamp::from(entry.time)), Some(entry.is_latest));
        if matches!(entry.what, VersionKind::Removal) {
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
        max_keys: Some(most as i32),
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
