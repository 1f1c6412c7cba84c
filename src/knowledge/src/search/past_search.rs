//! Search of an earlier tree.
//!
//! No index has the pages of an earlier commit. Those that have a word of the query are read, the
//! ones with most of the words are indexed in a temporary index, and that is searched: the same
//! syntax, ranking and snippets as now, except that links from other pages do not count.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use svcfs_base::{ETag, Fault, Kind, Seq, TreePath};
use svcfs_index::{Index, IndexEntry, SearchQuery};
use svcfs_text::fold::fold_word;
use svcfs_vfs::{PastState, StoredContent};
use tempfile::TempDir;

use super::suggest::{self, SuggestedAnswer};
use crate::kernel::OperationContext;

/// Pages that are indexed at most: about 300 ms.
const MAX_INDEXED: usize = 1_000;

/// Text of these pages at most.
const MAX_INDEXED_BYTES: usize = 32 << 20;

/// Pages per transaction, and their text: the time is checked between two of them.
const MAX_BATCH_PAGES: usize = 250;
const MAX_BATCH_BYTES: usize = 256 << 10;

/// Indexes that are built at the same time, and calls that wait for that. A build may use a
/// processor for most of the timeout, and several times the text of its pages on disk and in
/// memory.
const MAX_BUILDS: usize = 2;
const MAX_WAITING: usize = 8;

/// Inflected forms share this beginning; the index compares them exactly.
const STEM_LETTERS: usize = 3;

static BUILDS: Mutex<BuildCounts> = Mutex::new(BuildCounts { running: 0, waiting: 0 });
static BUILD_FINISHED: Condvar = Condvar::new();

struct BuildCounts {
    running: usize,
    waiting: usize,
}

/// The right to build an index.
struct BuildPermit;

impl BuildPermit {
    /// Waits until other builds are finished.
    fn acquire(deadline: Instant) -> Result<Self, Fault> {
        let busy = || {
            let message = "other searches of earlier trees are running; try again in a moment";
            Fault::new(Kind::RateLimited, message).with_detail("retry_after", 2)
        };
        let mut counts = BUILDS.lock();
        if counts.waiting >= MAX_WAITING {
            return Err(busy());
        }
        counts.waiting += 1;
        while counts.running >= MAX_BUILDS && !BUILD_FINISHED.wait_until(&mut counts, deadline).timed_out() {}
        counts.waiting -= 1;
        if counts.running >= MAX_BUILDS {
            return Err(busy());
        }
        counts.running += 1;
        Ok(Self)
    }
}

impl Drop for BuildPermit {
    fn drop(&mut self) {
        BUILDS.lock().running -= 1;
        BUILD_FINISHED.notify_one();
    }
}

/// The index of the pages of an earlier tree that may match a query.
pub struct PastIndex {
    /// The index.
    pub index: Index,
    /// Whether pages are missing because the timeout (`dataview.query_timeout`) or the limit of
    /// indexed pages was reached.
    pub is_cut: bool,
    /// Removed with the index.
    _directory: TempDir,
}

/// The pages of an earlier tree that match a query, and whether pages are missing.
///
/// # Errors
/// Those of [`build`].
pub fn search(
    cx: &OperationContext<'_>,
    state: &PastState,
    query: SearchQuery,
    threshold: Option<f64>,
) -> Result<(SuggestedAnswer, bool), Fault> {
    let past = build(cx, state, (&query.q, query.folder.as_ref()))?;
    Ok((suggest::search(&past.index, query, threshold)?, past.is_cut))
}

/// Indexes the pages of an earlier tree, at or below a folder, with most of the words of a query.
///
/// # Errors
/// `RateLimited` while many others run; those of the index, of git, and of the temporary directory.
pub fn build(
    cx: &OperationContext<'_>,
    state: &PastState,
    (q, folder): (&str, Option<&TreePath>),
) -> Result<PastIndex, Fault> {
    let timeout = cx.settings().dataview.query_timeout;
    let _permit = BuildPermit::acquire(Instant::now() + timeout)?;
    // Half of the time is for reading, most of the rest for indexing.
    let start = Instant::now();
    let (candidates, mut is_cut) = candidates(cx, state, (q, folder), start + timeout / 2)?;
    let deadline = start + timeout / 2 + timeout / 4;
    let directory = tempfile::tempdir().map_err(Fault::internal)?;
    let index = Index::open(&directory.path().join("index.db"))?.with_link_resolution(cx.space.index.link_resolution());
    let index = index.with_hidden_files(cx.space.vfs.hidden_files().clone())?;
    let mut remaining = candidates.as_slice();
    while !remaining.is_empty() {
        if Instant::now() >= deadline {
            is_cut = true;
            break;
        }
        let (batch, others) = remaining.split_at(batch_length(remaining));
        remaining = others;
        let entries = batch.iter().map(|(path, text)| IndexEntry::Page {
            path: path.clone(),
            etag: ETag::from_content(text.as_bytes()),
            text: text.clone(),
            modified: state.time,
        });
        index.ingest(&entries.collect::<Vec<_>>(), Seq(1))?;
    }
    Ok(PastIndex { index, is_cut, _directory: directory })
}

/// The number of pages of the next transaction.
fn batch_length(pages: &[(TreePath, String)]) -> usize {
    let mut bytes = 0;
    let fits = |page: &&(TreePath, String)| {
        bytes += page.1.len();
        bytes <= MAX_BATCH_BYTES
    };
    pages.iter().take(MAX_BATCH_PAGES).take_while(fits).count().max(1)
}

/// The pages with most of the words, and whether others are missing.
fn candidates(
    cx: &OperationContext<'_>,
    state: &PastState,
    (q, folder): (&str, Option<&TreePath>),
    deadline: Instant,
) -> Result<(Vec<(TreePath, String)>, bool), Fault> {
    let vfs = &cx.space.vfs;
    let files = vfs.past_files(state, folder.unwrap_or(&TreePath::root()))?;
    let is_listed = |path: &TreePath| path.is_page() && vfs.hidden_files().lists(path);
    let stems = stems(q);
    let mut is_cut = false;
    // By the number of words, the best last.
    let mut by_words: BTreeMap<usize, Vec<(TreePath, StoredContent)>> = BTreeMap::new();
    for (path, stored) in files.into_iter().filter(|(path, _)| is_listed(path)) {
        if deadline.saturating_duration_since(Instant::now()) == Duration::ZERO {
            is_cut = true;
            break;
        }
        let content = vfs.stored_content(&stored)?;
        let text = fold_word(&String::from_utf8_lossy(&content)).into_owned() + &fold_word(path.as_str());
        let words = stems.iter().filter(|stem| text.contains(stem.as_str())).count();
        if words > 0 || stems.is_empty() {
            by_words.entry(words).or_default().push((path, stored));
        }
    }
    let (mut candidates, mut bytes) = (Vec::new(), 0);
    for (path, stored) in by_words.into_values().rev().flatten() {
        if candidates.len() == MAX_INDEXED || bytes > MAX_INDEXED_BYTES {
            is_cut = true;
            break;
        }
        let text = String::from_utf8_lossy(&vfs.stored_content(&stored)?).into_owned();
        bytes += text.len();
        candidates.push((path, text));
    }
    Ok((candidates, is_cut))
}

/// The beginnings of the words of a query, which a matching page has. Operators may be among them:
/// then some more pages are read. Empty for a query without words, and where a field (`path:`)
/// selects pages that need not have its text.
fn stems(q: &str) -> Vec<String> {
    if q.contains(':') || q.split_whitespace().any(|word| word == "NOT") {
        return Vec::new();
    }
    let words = q.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    let stem = |word: &str| fold_word(word).chars().take(STEM_LETTERS).collect::<String>();
    let mut stems: Vec<String> = words.map(stem).collect();
    stems.sort_unstable();
    stems.dedup();
    stems
}
