//! A page of a listing, as both versions of the operation tell it: its lines, each object with its ETag.
//!
//! One rule: a page takes as long as it is long. Of objects whose ETags nobody knows, the bytes decide: few are read at once, many where minutes are
//! for, and with more than that a page ends before it is full.

use s3s::S3Result;
use s3s::dto::{CommonPrefix, ETag, Object, ObjectStorageClass, Owner, Timestamp};
use svcfs_base::{Fault, MAX_FILE_BYTES, TreePath};
use svcfs_vfs::Attributes;

use crate::asked::Asked;
use crate::listing::{Line, Listing, Page};
use crate::object;
use crate::operations::Encoding;
use crate::record::is_missing;
use crate::sums::etag_of;

/// Bytes of objects that are read for one page; the first of them is told whatever it has.
pub(crate) const MOST_READ: u64 = 1 << 30;

/// What both versions of the operation tell.
pub(crate) struct Told {
    pub(crate) objects: Vec<Object>,
    pub(crate) prefixes: Vec<CommonPrefix>,
    /// The last key, where there are more behind it.
    pub(crate) next: Option<String>,
}

/// How it is told.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) encoding: Encoding,
    pub(crate) owner: Option<Owner>,
}

/// A page, or as much of it as is known before many bytes are read.
enum Looked {
    Told(Told),
    Heavy(Page, u64),
}

/// The page of a listing.
///
/// # Errors
/// Those of reading folders and files.
pub(crate) async fn page(asked: &Asked, listing: Listing, manner: Manner) -> S3Result<Told> {
    let here = manner.clone();
    let looked = asked.run("ListObjects", move |asked| {
        asked.door.etags.recall(&asked.space);
        let page = listing.page(asked)?;
        Ok(match unread(asked, &page) {
            bytes if bytes > MAX_FILE_BYTES as u64 => Looked::Heavy(page, bytes),
            _ => Looked::Told(told(asked, page, (&here, MOST_READ))?),
        })
    });
    match looked.await? {
        Looked::Told(told) => Ok(told),
        Looked::Heavy(page, bytes) => {
            let tell = move |asked: &Asked| Ok(told(asked, page, (&manner, MOST_READ))?);
            asked.run_over(bytes, "ListObjects", tell).await
        }
    }
}

/// Bytes that are to be read before all of a page can be told.
fn unread(asked: &Asked, page: &Page) -> u64 {
    let of = |line: &Line| match line {
        Line::Object { file: Some(path), attributes: Some(attributes), .. } => object::unread(asked, path, attributes),
        Line::Object { .. } | Line::Prefix(_) => 0,
    };
    page.lines.iter().map(of).sum()
}

/// The lines of a page, up to the one for which more than so many bytes would be read.
///
/// # Errors
/// Those of reading files.
pub(crate) fn told(
    asked: &Asked,
    Page { lines, is_truncated }: Page,
    (Manner { encoding, owner }, most_read): (&Manner, u64),
) -> Result<Told, Fault> {
    let (mut told, mut last) = (Told { objects: Vec::new(), prefixes: Vec::new(), next: None }, None);
    let (mut read, mut is_truncated) = (0, is_truncated);
    for line in lines {
        let text = line.text().to_owned();
        match line {
            Line::Prefix(prefix) => told.prefixes.extend(encoding.prefixes(vec![prefix])),
            Line::Object { key, file, attributes } => {
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
    asked.door.etags.keep(&asked.space);
    Ok(told)
}

/// One object of a listing; none when it is gone meanwhile.
fn described(
    asked: &Asked,
    key: String,
    file: Option<(&TreePath, &Attributes)>,
    attributes: Option<&Attributes>,
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
