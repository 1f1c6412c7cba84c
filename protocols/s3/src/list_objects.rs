//! A page of a listing, as both versions of the operation tell it: its lines, each object with its ETag.
//!
//! One rule: a page takes as long as it is long. Of objects whose ETags nobody knows, the bytes decide: few are read at once, many where minutes are
//! for, and with more than that a page ends before it is full.

use s3s::S3Result;
use s3s::dto::{CommonPrefix, ETag, Object, ObjectStorageClass, Owner, Timestamp};
use svcfs_base::{Fault, MAX_FILE_BYTES, TreePath};
use svcfs_vfs::PathAttributes;

use crate::checksums::etag_of;
use crate::context::S3RequestContext;
use crate::key_walk::{KeyPage, ListEntry, ListQuery};
use crate::object;
use crate::object_metadata::is_missing;
use crate::operations::KeyEncoding;

/// Bytes of objects that are read for one page; the first of them is told whatever it has.
pub(crate) const MOST_READ: u64 = 1 << 30;

/// What both versions of the operation tell.
pub(crate) struct ListResult {
    pub(crate) objects: Vec<Object>,
    pub(crate) prefixes: Vec<CommonPrefix>,
    /// The last key, where there are more behind it.
    pub(crate) next: Option<String>,
}

/// How it is told.
#[derive(Clone)]
pub(crate) struct ListOptions {
    pub(crate) encoding: KeyEncoding,
    pub(crate) owner: Option<Owner>,
}

/// A page, or as much of it as is known before many bytes are read.
enum ListAttempt {
    Told(ListResult),
    Heavy(KeyPage, u64),
}

/// The page of a listing.
///
/// # Errors
/// Those of reading folders and files.
pub(crate) async fn page(asked: &S3RequestContext, listing: ListQuery, manner: ListOptions) -> S3Result<ListResult> {
    let here = manner.clone();
    let looked = asked.run("ListObjects", move |asked| {
        asked.protocol.etags.recall(&asked.space);
        let page = listing.page(asked)?;
        Ok(match unread(asked, &page) {
            bytes if bytes > MAX_FILE_BYTES as u64 => ListAttempt::Heavy(page, bytes),
            _ => ListAttempt::Told(told(asked, page, (&here, MOST_READ))?),
        })
    });
    match looked.await? {
        ListAttempt::Told(told) => Ok(told),
        ListAttempt::Heavy(page, bytes) => {
            let tell = move |asked: &S3RequestContext| Ok(told(asked, page, (&manner, MOST_READ))?);
            asked.run_over(bytes, "ListObjects", tell).await
        }
    }
}

/// Bytes that are to be read before all of a page can be told.
fn unread(asked: &S3RequestContext, page: &KeyPage) -> u64 {
    let of = |line: &ListEntry| match line {
        ListEntry::Object { file: Some(path), attributes: Some(attributes), .. } => {
            object::unread(asked, path, attributes)
        }
        ListEntry::Object { .. } | ListEntry::Prefix(_) => 0,
    };
    page.lines.iter().map(of).sum()
}

/// The lines of a page, up to the one for which more than so many bytes would be read.
///
/// # Errors
/// Those of reading files.
pub(crate) fn told(
    asked: &S3RequestContext,
    KeyPage { lines, is_truncated }: KeyPage,
    (ListOptions { encoding, owner }, most_read): (&ListOptions, u64),
) -> Result<ListResult, Fault> {
    let (mut told, mut last) = (ListResult { objects: Vec::new(), prefixes: Vec::new(), next: None }, None);
    let (mut read, mut is_truncated) = (0, is_truncated);
    for line in lines {
        let text = line.text().to_owned();
        match line {
            ListEntry::Prefix(prefix) => told.prefixes.extend(encoding.prefixes(vec![prefix])),
            ListEntry::Object { key, file, attributes } => {
                let there = file.as_ref().zip(attributes.as_deref());
                read += there.map_or(0, |(path, attributes)| object::unread(asked, path, attributes));
                if read > most_read && last.is_some() {
                    is_truncated = true;
                    break;
                }
                let described = described(asked, encoding.text(&key), there, attributes.as_deref())?;
                told.objects.extend(described.map(|object| Object { owner: owner.clone(), ..object }));
            }
        }
        last = Some(text);
    }
    told.next = last.filter(|_| is_truncated);
    asked.protocol.etags.keep(&asked.space);
    Ok(told)
}

/// One object of a listing; none when it is gone meanwhile.
fn described(
    asked: &S3RequestContext,
    key: String,
    file: Option<(&TreePath, &PathAttributes)>,
    attributes: Option<&PathAttributes>,
) -> Result<Option<Object>, Fault> {
    let (etag, size) = match file {
        Some((path, attributes)) => match object::etag(asked, path, attributes) {
            Err(fault) if is_missing(&fault) => return Ok(None),
            etag => (etag?, attributes.size),
        },
        None => (etag_of(b""), 0),
    };
    let modified = attributes.map(|attributes| attributes.modified);
    Ok(Some(Object {
        e_tag: Some(ETag::Strong(etag)),
        key: Some(key),
        last_modified: modified.map(Timestamp::from),
        size: i64::try_from(size).ok(),
        storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
        ..Object::default()
    }))
}
