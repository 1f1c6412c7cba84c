//! Comparison of a closed index with one that is built from the same pages.

use std::error::Error;
use std::path::Path;

use svcfs_base::{ETag, Seq, Timestamp, TreePath};
use svcfs_index::{Index, IndexEntry, IndexError, IndexFingerprint, IndexInspection, PageDifference};
use svcfs_text::canvas::is_canvas_path;

/// Pages per transaction.
const BATCH_PAGES: usize = 500;

/// The result of comparing an index with its pages.
#[derive(Debug)]
pub enum IndexState {
    /// There is no index.
    Absent,
    /// It is damaged; the error of SQLite.
    Damaged(String),
    /// It was written by another version of svcfs.
    Outdated,
    /// It is current up to this log position, not the newest one.
    OtherSeq(Seq),
    /// It differs for these pages; none if only its word lists differ.
    Different(Vec<PageDifference>),
    /// It is correct; the number of pages.
    Equal(usize),
}

/// Compares the index in `file` with one built in the empty directory `scratch` from `pages`, the
/// pages of the tree at log position `last`. The old index stays unchanged. `read` returns the
/// content of a page; `progress` gets the number of pages read and the total.
///
/// # Errors
/// [`IndexError`] if one of them cannot be read or built.
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
    let pages = add_ignored_pages(pages, &old, &read);
    let assets: Vec<IndexEntry> = old.assets.keys().filter_map(|path| Some(asset_entry(path, &read(path)?))).collect();
    let batches = pages.chunks(BATCH_PAGES).enumerate().map(|(done, batch)| {
        progress(done * BATCH_PAGES, pages.len());
        Ok::<_, IndexError>(batch.iter().filter_map(|path| Some(entry(path, &read(path)?))).collect())
    });
    let batches = batches.chain([Ok(assets)]);
    let rebuilt = build_scratch_index(scratch, &old, batches, last)?;
    Ok(if old.is_equivalent_to(&rebuilt) {
        IndexState::Equal(rebuilt.pages)
    } else {
        IndexState::Different(old.differences(&rebuilt))
    })
}

/// The fingerprint of an index built in an empty directory with the options of an old one.
///
/// # Errors
/// [`IndexError`] if it cannot be built; the error of a batch is its source.
pub(super) fn build_scratch_index<E: Into<Box<dyn Error + Send + Sync>>>(
    scratch: &Path,
    old: &IndexFingerprint,
    batches: impl Iterator<Item = Result<Vec<IndexEntry>, E>>,
    last: Seq,
) -> Result<IndexFingerprint, IndexError> {
    let rebuilt = Index::open(&scratch.join("index.db"))?.with_typed_links(old.typed_links.clone())?;
    let rebuilt = rebuilt.with_hidden_files(old.hidden_files.clone())?;
    let rebuilt = rebuilt.with_hot_fields(&old.hot_fields)?;
    rebuilt.ingest_all(batches, last)?;
    rebuilt.fingerprint()
}

/// Adds pages that git ignores: they are indexed if they were written through a protocol.
fn add_ignored_pages(
    mut pages: Vec<TreePath>,
    old: &IndexFingerprint,
    read: impl Fn(&TreePath) -> Option<Vec<u8>>,
) -> Vec<TreePath> {
    pages.retain(|path| path.is_page() && old.hidden_files.lists(path));
    pages.sort();
    let ignored = old.page_digests.keys().filter(|path| pages.binary_search(path).is_err() && read(path).is_some());
    let ignored: Vec<_> = ignored.cloned().collect();
    pages.extend(ignored);
    pages
}

fn asset_entry(path: &TreePath, content: &[u8]) -> IndexEntry {
    if !is_canvas_path(path.as_str()) {
        return IndexEntry::Asset(path.clone());
    }
    let text = String::from_utf8_lossy(content).into_owned();
    IndexEntry::Canvas { path: path.clone(), etag: ETag::from_content(content), text }
}

fn entry(path: &TreePath, content: &[u8]) -> IndexEntry {
    IndexEntry::Page {
        path: path.clone(),
        etag: ETag::from_content(content),
        text: String::from_utf8_lossy(content).into_owned(),
        // Not compared.
        modified: Timestamp::UNIX_EPOCH,
    }
}

#[cfg(test)]
mod tests;
