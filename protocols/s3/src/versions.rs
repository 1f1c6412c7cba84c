//! Versions of objects: our history, under the names that history has for them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use s3s::dto::{
    DeleteMarkerEntry, ETag, ListObjectVersionsInput, ListObjectVersionsOutput, ObjectVersion,
    ObjectVersionStorageClass, Timestamp,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Fault, Kind, Scope, TreePath};
use svcfs_vfs::{Action, Content};

use crate::Door;
use crate::asked::{Asked, Refused};
use crate::key::Key;
use crate::listing::{Line, Listing, MOST};
use crate::object::Object;
use crate::operations::{Encoding, owner};
use crate::record::Record;
use crate::sums::etag_of;

/// Records of history that are looked through for what was removed.
const MAX_CHANGES: usize = 100_000;
/// The version of what has none, as S3 calls it.
const NULL: &str = "null";

/// The object of a key, now or at a version.
///
/// # Errors
/// As [`Object::at`]; `NoSuchVersion` for one that is unknown, or does not have it.
pub(crate) fn object(asked: &Asked, key: &Key, version: Option<&str>) -> Result<Object, Refused> {
    let Some(version) = version.filter(|version| *version != NULL) else { return Ok(Object::at(asked, key)?) };
    asked.check(key.path())?;
    let vfs = &asked.space.vfs;
    let unknown = || s3_error!(NoSuchVersion, "`{}` has no version `{}`", key.path(), svcfs_base::plain(version));
    let path = match key {
        Key::File(path) if vfs.is_visible(asked.caller.door, path) => path,
        Key::File(_) | Key::Folder(_) => return Err(unknown().into()),
    };
    let content = match vfs.version(path, version) {
        Err(fault) if fault.kind() == Kind::NotFound && vfs.is_removal(path, version)? => {
            return Err(s3_error!(MethodNotAllowed, "`{path}` was removed by that version; it has no content").into());
        }
        Err(fault) if fault.kind() == Kind::NotFound => return Err(unknown().into()),
        content => content?,
    };
    let versions = vfs.versions(path)?;
    let told = versions.iter().find(|told| told.hash.to_string().starts_with(version));
    Ok(Object {
        path: path.clone(),
        size: content.len() as u64,
        modified: told.map_or_else(SystemTime::now, |told| SystemTime::from(told.timestamp)),
        etag: etag_of(&content),
        blob: Some(svcfs_base::ETag::of(&content)),
        record: Record::default(),
        content: Content::Here(content),
        attributes: None,
    })
}

/// What the version is called that an object is now: one question to the log. None of a folder, of what a link leads to, and of what is no version yet.
pub(crate) fn current(asked: &Asked, key: &Key, object: &Object) -> Option<String> {
    let path = match key {
        Key::File(path) if *path == object.path && object.attributes.is_some() => path,
        Key::File(_) | Key::Folder(_) => return None,
    };
    let Some(blob) = object.blob else { return Some(NULL.to_owned()) };
    match asked.space.vfs.known_version(path) {
        Ok(newest) => newest.filter(|newest| newest.etag == blob).map(|newest| newest.version.hash.to_string()),
        Err(fault) => {
            tracing::warn!(page.path = %path, error = ?fault, "what the version of an object is called cannot be told");
            None
        }
    }
}

/// One version, or the removal that followed one.
struct Entry {
    key: String,
    id: String,
    time: SystemTime,
    is_removal: bool,
    is_latest: bool,
    /// Size and ETag of what no version has.
    large: Option<(u64, String)>,
}

/// Versions and removals of a path, the newest first.
fn entries(asked: &Asked, path: &TreePath, removals: &[(String, SystemTime)]) -> Result<Vec<Entry>, Fault> {
    let versions = asked.space.vfs.versions(path)?.into_iter();
    let entry = |id: String, time: SystemTime, is_removal: bool| Entry {
        key: path.to_string(),
        id,
        time,
        is_removal,
        is_latest: false,
        large: None,
    };
    let mut all: Vec<_> =
        versions.map(|version| entry(version.hash.to_string(), SystemTime::from(version.timestamp), false)).collect();
    all.retain(|version| !removals.iter().any(|(id, _)| *id == version.id));
    all.extend(removals.iter().map(|(id, time)| entry(id.clone(), *time, true)));
    // History knows seconds: of what happened in one, the last is what is there now.
    let there = asked.space.vfs.stat(asked.caller.door, path);
    let is_there = there.is_ok();
    all.sort_by_key(|entry| (Reverse(entry.time), entry.is_removal == is_there));
    if there.is_ok_and(|there| there.large().is_some()) {
        // What no version has stands in front of all of them; its removal of the page that was there is told behind it.
        let large = Object::at(asked, &Key::File(path.clone()))?;
        let told = Entry { large: Some((large.size, large.etag)), ..entry(NULL.to_owned(), large.modified, false) };
        all.insert(0, told);
    }
    if let Some(newest) = all.first_mut() {
        newest.is_latest = true;
    }
    Ok(all)
}

/// What was removed, by path.
fn removals(asked: &Asked, prefix: &str) -> Result<BTreeMap<TreePath, Vec<(String, SystemTime)>>, Fault> {
    let (vfs, caller) = (&asked.space.vfs, &asked.caller);
    let mut removed: BTreeMap<TreePath, Vec<_>> = BTreeMap::new();
    for change in vfs.changes(None, MAX_CHANGES)?.changes {
        let is_meant = change.action == Action::Delete
            && change.path.as_str().starts_with(prefix)
            && caller.reach.covers(&change.path)
            && vfs.is_visible(caller.door, &change.path);
        if is_meant {
            removed.entry(change.path).or_default().push((change.seq.to_string(), SystemTime::from(change.timestamp)));
        }
    }
    Ok(removed)
}

/// A page of versions, and where the next one begins.
struct Page {
    entries: Vec<(Entry, u64, String)>,
    prefixes: Vec<String>,
    next: Option<(String, Option<String>)>,
}

impl Page {
    const fn lines(&self) -> usize {
        self.entries.len() + self.prefixes.len()
    }
}

/// Keys with history, each once, in key order: those that are there, and those that were removed.
fn page(asked: &Asked, listing: &Listing, after_version: Option<&str>) -> Result<Page, Fault> {
    let removed = removals(asked, &listing.prefix)?;
    // With a version, the key it is of is looked at once more.
    let is_ahead = |key: &str| key > listing.after.as_str() || (after_version.is_some() && key == listing.after);
    let mut keys: Vec<Line> = Vec::new();
    let is_told = |path: &TreePath| {
        path.as_str().starts_with(&listing.prefix)
            && asked.caller.reach.covers(path)
            && asked.space.vfs.is_visible(asked.caller.door, path)
    };
    if let (Some(_), Ok(Key::File(path))) = (after_version, Key::parse(&listing.after))
        && is_told(&path)
    {
        keys.push(Line::Object { key: path.to_string(), file: None, attributes: None });
    }
    let there = listing.page(asked)?;
    let last = there.lines.last().filter(|_| there.is_truncated).map(|line| line.text().to_owned());
    keys.extend(there.lines);
    let mut known: BTreeSet<String> = keys.iter().map(|line| line.text().to_owned()).collect();
    for path in removed.keys() {
        let line = match listing.together(path.as_str()) {
            // Behind a marker lies what is greater; what is told together with it was told with it.
            Some(prefix) if listing.begins_behind(&prefix) || *path.as_str() <= *listing.after => continue,
            Some(prefix) => Line::Prefix(prefix),
            None if !is_ahead(path.as_str()) => continue,
            None => Line::Object { key: path.to_string(), file: None, attributes: None },
        };
        let is_on_page = last.as_ref().is_none_or(|last| line.text() < last.as_str());
        if is_on_page && known.insert(line.text().to_owned()) {
            keys.push(line);
        }
    }
    keys.sort_by(|one, other| one.text().cmp(other.text()));
    let mut page = Page { entries: Vec::new(), prefixes: Vec::new(), next: None };
    // What is told together is one line like any other, and the last line is what the next page lies behind.
    let mut last_told = None;
    for line in keys {
        let key = match line {
            Line::Prefix(prefix) => {
                if page.lines() == listing.most {
                    page.next = last_told;
                    return Ok(page);
                }
                last_told = Some((prefix.clone(), None));
                page.prefixes.push(prefix);
                continue;
            }
            Line::Object { key, .. } => key,
        };
        let Ok(Key::File(path)) = Key::parse(&key) else { continue };
        let skipped = after_version.filter(|_| key == listing.after);
        let mut is_ahead = skipped.is_none();
        for entry in entries(asked, &path, removed.get(&path).map_or(&[][..], Vec::as_slice))? {
            if !is_ahead {
                is_ahead = Some(entry.id.as_str()) == skipped;
                continue;
            }
            if page.lines() == listing.most {
                page.next = last_told;
                return Ok(page);
            }
            let (size, etag) = match (&entry.large, entry.is_removal) {
                (Some(large), _) => large.clone(),
                (None, true) => Default::default(),
                (None, false) => match asked.space.vfs.version(&path, &entry.id) {
                    Ok(content) => (content.len() as u64, etag_at(asked, (&path, entry.is_latest), &content)),
                    // It cannot be had any more.
                    Err(fault) if fault.kind() == Kind::NotFound => continue,
                    Err(fault) => return Err(fault),
                },
            };
            last_told = Some((entry.key.clone(), Some(entry.id.clone())));
            page.entries.push((entry, size, etag));
        }
    }
    page.next = last.map(|last| (last, None));
    Ok(page)
}

/// The ETag of a version: of the newest one, the one that the object is told with, which may be that of an upload in parts.
fn etag_at(asked: &Asked, (path, is_latest): (&TreePath, bool), content: &[u8]) -> String {
    let there = if is_latest { Object::at(asked, &Key::File(path.clone())).ok() } else { None };
    let same = there.filter(|there| there.blob == Some(svcfs_base::ETag::of(content)));
    same.map_or_else(|| etag_of(content), |there| there.etag)
}

/// `ListObjectVersions`
pub(crate) async fn list(
    door: &Arc<Door>,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let asked = door.asked(&request, &request.input.bucket, (Scope::Read, "ListObjectVersions"))?;
    let input = request.input;
    let encoding = Encoding::of(input.encoding_type.as_ref())?;
    let most = usize::try_from(input.max_keys.unwrap_or(MOST as i32)).unwrap_or_default().min(MOST);
    let listing = Listing {
        prefix: input.prefix.clone().unwrap_or_default(),
        after: input.key_marker.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone(),
        most,
    };
    let marker = input.version_id_marker.clone().filter(|marker| !marker.is_empty());
    let page = asked.run("ListObjectVersions", move |asked| Ok(page(asked, &listing, marker.as_deref())?)).await?;
    let (mut versions, mut markers) = (Vec::new(), Vec::new());
    for (entry, size, etag) in page.entries {
        let (key, id) = (Some(encoding.text(&entry.key)), Some(entry.id));
        let (last_modified, is_latest) = (Some(Timestamp::from(entry.time)), Some(entry.is_latest));
        if entry.is_removal {
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
        delimiter: input.delimiter.map(|text| encoding.text(&text)),
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
