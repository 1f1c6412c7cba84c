//! One page of ListObjects, in both versions: keys, common prefixes, and the ETag of each object.
//!
//! Invariant: the time for a page is proportional to its length. Bytes that must be read for
//! missing ETags are limited: few are read in the quick lane, more in the slow lane, and beyond the
//! limit the page ends early.

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

/// Bytes read for one page; its first object is always included.
pub(crate) const MAX_READ_BYTES: u64 = 1 << 30;

/// A page for both versions of the operation.
pub(crate) struct ListResult {
    pub(crate) objects: Vec<Object>,
    pub(crate) prefixes: Vec<CommonPrefix>,
    /// The last key, if there are more.
    pub(crate) next: Option<String>,
}

/// Options of a listing.
#[derive(Clone)]
pub(crate) struct ListOptions {
    pub(crate) encoding: KeyEncoding,
    pub(crate) owner: Option<Owner>,
}

/// A page, or what is left to do when it needs many bytes.
enum ListAttempt {
    Complete(ListResult),
    Heavy(KeyPage, u64),
}

/// Reads a page.
pub(crate) async fn page(context: &S3RequestContext, listing: ListQuery, options: ListOptions) -> S3Result<ListResult> {
    let first_options = options.clone();
    let attempt = context.run("ListObjects", move |context| {
        context.protocol.etags.load(&context.space);
        let page = listing.page(context)?;
        Ok(match unread_bytes(context, &page) {
            bytes if bytes > MAX_FILE_BYTES as u64 => ListAttempt::Heavy(page, bytes),
            _ => ListAttempt::Complete(complete_page(context, page, (&first_options, MAX_READ_BYTES))?),
        })
    });
    match attempt.await? {
        ListAttempt::Complete(result) => Ok(result),
        ListAttempt::Heavy(page, bytes) => {
            let complete =
                move |context: &S3RequestContext| Ok(complete_page(context, page, (&options, MAX_READ_BYTES))?);
            context.run_over(bytes, "ListObjects", complete).await
        }
    }
}

/// Bytes that must be read for all ETags of a page.
fn unread_bytes(context: &S3RequestContext, page: &KeyPage) -> u64 {
    let of = |line: &ListEntry| match line {
        ListEntry::Object { file: Some(path), attributes: Some(attributes), .. } => {
            object::unread_bytes(context, path, attributes)
        }
        ListEntry::Object { .. } | ListEntry::Prefix(_) => 0,
    };
    page.lines.iter().map(of).sum()
}

/// Completes the lines of a page, up to the read limit.
pub(crate) fn complete_page(
    context: &S3RequestContext,
    KeyPage { lines, is_truncated }: KeyPage,
    (ListOptions { encoding, owner }, max_read_bytes): (&ListOptions, u64),
) -> Result<ListResult, Fault> {
    let (mut result, mut last) = (ListResult { objects: Vec::new(), prefixes: Vec::new(), next: None }, None);
    let (mut read, mut is_truncated) = (0, is_truncated);
    for line in lines {
        let text = line.text().to_owned();
        match line {
            ListEntry::Prefix(prefix) => result.prefixes.extend(encoding.prefixes(vec![prefix])),
            ListEntry::Object { key, file, attributes } => {
                let stored = file.as_ref().zip(attributes.as_deref());
                read += stored.map_or(0, |(path, attributes)| object::unread_bytes(context, path, attributes));
                if read > max_read_bytes && last.is_some() {
                    is_truncated = true;
                    break;
                }
                let object = list_object(context, encoding.text(&key), stored, attributes.as_deref())?;
                result.objects.extend(object.map(|object| Object { owner: owner.clone(), ..object }));
            }
        }
        last = Some(text);
    }
    result.next = last.filter(|_| is_truncated);
    context.protocol.etags.save(&context.space);
    Ok(result)
}

/// One listed object; `None` when it was removed since.
fn list_object(
    context: &S3RequestContext,
    key: String,
    file: Option<(&TreePath, &PathAttributes)>,
    attributes: Option<&PathAttributes>,
) -> Result<Option<Object>, Fault> {
    let (etag, size) = match file {
        Some((path, attributes)) => match object::etag(context, path, attributes) {
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
