//! An index nobody has opened, held against one that is made from the same pages.

use std::error::Error;
use std::path::Path;

use svcfs_base::{ETag, Seq, Timestamp, TreePath};
use svcfs_index::{Index, IndexEntry, IndexError, IndexFingerprint, IndexInspection, PageDifference};

/// Pages in one transaction.
const BATCH: usize = 500;

/// What an index is found to be, beside the pages it is of.
#[derive(Debug)]
pub enum IndexState {
    /// There is none.
    Absent,
    /// It is damaged, in SQLite's words.
    Damaged(String),
    /// It is of another version of svcfs.
    Outdated,
    /// It reflects the tree up to this position of the log, which is another than the newest.
    OtherSeq(Seq),
    /// It is not what the pages make; the pages for which it is not, none when only its word lists are wrong.
    Different(Vec<PageDifference>),
    /// It is what the pages make: so many.
    Equal(usize),
}

/// Compares the index in `file` with one that is made in the empty directory `scratch` from `pages`, the pages of the tree at
/// position `last` of the log; the old one stays as it is. `read` gives the content of a page, `progress` is told how many were
/// read, and of how many.
///
/// # Errors
/// [`IndexError`] when one of them cannot be read or made.
pub fn compare_index(
    (file, scratch): (&Path, &Path),
    (pages, last): (Vec<TreePath>, Seq),
    read: impl Fn(&TreePath) -> Option<Vec<u8>>,
    mut progress: impl FnMut(usize, usize),
) -> Result<IndexState, IndexError> {
    let old = match Index::inspect(file)? {
        IndexInspection::Absent => return Ok(IndexState::Absent),
        IndexInspection::Damaged(what) => return Ok(IndexState::Damaged(what)),
        IndexInspection::Outdated => return Ok(IndexState::Outdated),
        IndexInspection::Intact(cursor, _) if cursor != last => return Ok(IndexState::OtherSeq(cursor)),
        IndexInspection::Intact(_, old) => old,
    };
    if let Some(damage) = old.damage {
        return Ok(IndexState::Damaged(damage));
    }
    let pages = with_ignored(pages, &old, &read);
    let batches = pages.chunks(BATCH).enumerate().map(|(done, batch)| {
        progress(done * BATCH, pages.len());
        Ok::<_, IndexError>(batch.iter().filter_map(|path| Some(entry(path, &read(path)?))).collect())
    });
    let fresh = made_anew(scratch, &old, batches, last)?;
    Ok(if old.is_equivalent_to(&fresh) {
        IndexState::Equal(fresh.pages)
    } else {
        IndexState::Different(old.differences(&fresh))
    })
}

/// What an index is that is made in an empty directory, the same way as an old one.
///
/// # Errors
/// [`IndexError`] when it cannot be made; what a batch fails with is its source.
pub(super) fn made_anew<E: Into<Box<dyn Error + Send + Sync>>>(
    scratch: &Path,
    old: &IndexFingerprint,
    batches: impl Iterator<Item = Result<Vec<IndexEntry>, E>>,
    last: Seq,
) -> Result<IndexFingerprint, IndexError> {
    let fresh = Index::open(&scratch.join("index.db"))?.with_typed_links(old.typed_links.clone())?;
    let fresh = fresh.with_hot_fields(&old.hot_fields)?;
    fresh.ingest_all(batches, last)?;
    fresh.fingerprint()
}

/// Pages that somebody told git to leave alone are indexed when they came in through a door.
fn with_ignored(
    mut pages: Vec<TreePath>,
    old: &IndexFingerprint,
    read: impl Fn(&TreePath) -> Option<Vec<u8>>,
) -> Vec<TreePath> {
    pages.retain(|path| path.is_page() && !path.is_hidden());
    pages.sort();
    let ignored = old.page_digests.keys().filter(|path| pages.binary_search(path).is_err() && read(path).is_some());
    let ignored: Vec<_> = ignored.cloned().collect();
    pages.extend(ignored);
    pages
}

fn entry(path: &TreePath, content: &[u8]) -> IndexEntry {
    IndexEntry::Page {
        path: path.clone(),
        etag: ETag::from_content(content),
        text: String::from_utf8_lossy(content).into_owned(),
        // No part of what is compared.
        modified: Timestamp::UNIX_EPOCH,
    }
}

#[cfg(test)]
mod tests;
