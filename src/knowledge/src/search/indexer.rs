//! The task that keeps the index up to date with the tree.
//!
//! Invariant: the feed says which paths to read, the tree says what they contain. Repeating a step,
//! or a crash in the middle of it, gives the same index. If they differ, the path is read again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::{ETag, Fault, FileKind, Kind, Protocol, Seq, TreePath};
use svcfs_index::{IndexEntry, IndexFingerprint, MergeStep, PageDifference};
use svcfs_text::canvas::is_canvas_path;
use svcfs_vfs::{EntryKind, EventChange, Vfs};
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use super::compare::build_scratch_index;
use crate::files;
use crate::kernel::Space;

/// Events per step when the full log is read ([`catch_up`]).
const BATCH_EVENTS: usize = 1_000;

/// Limit of pages in one transaction …
const MAX_BATCH_PAGES: usize = 1_000;

/// … and of their text: indexing needs several times as much memory.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// While writes continue, the indexer pauses after each step for as long as the step took, at most
/// this long: writers wait for the processor, too. It does not pause if a caller waits for the
/// index or if it is late ([`LATE_AFTER`]).
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// Older changes are indexed without a pause: answers may be at most 500 ms old, and two steps
/// under load take 300 ms.
const LATE_AFTER: Duration = Duration::from_millis(100);

/// After this time without writes the index is optimized and memory is released.
const IDLE_DELAY: Duration = Duration::from_secs(2);

/// Interval at which memory is released while there are no writes: reads fill caches, too.
const RELEASE_INTERVAL: Duration = Duration::from_secs(15);

/// Follows the change feed of one space.
pub struct Indexer {
    space: Arc<Space>,
    /// Whether the index can follow the feed; otherwise the full tree must be read first.
    can_follow_feed: bool,
    /// Whether changes were indexed since the last idle work.
    has_indexed: bool,
    /// The last step that indexed changes.
    last_pass: Option<IndexPass>,
}

/// A step that indexed changes.
#[derive(Debug, Clone, Copy)]
struct IndexPass {
    ended: Instant,
    duration: Duration,
    /// Whether further changes arrived during the step.
    has_more: bool,
}

impl Indexer {
    /// The indexer of a space.
    pub const fn new(space: Arc<Space>) -> Self {
        Self { space, can_follow_feed: false, has_indexed: true, last_pass: None }
    }

    /// Time until the next changes are indexed; none if now. Continuous changes are batched: a
    /// transaction with many costs little more than one with a single change. The first change
    /// after a pause is indexed immediately.
    fn next_delay(&self, cursor: Seq) -> Option<Duration> {
        let last_pass = self.last_pass?;
        let newest = self.space.vfs.feed().last_seq();
        let search = &self.space.settings.search;
        let pending = newest.0.saturating_sub(cursor.0);
        if pending == 0 || !search.async_index || self.space.freshness.is_demanded_beyond(cursor) {
            return None;
        }
        let pause = if last_pass.has_more { last_pass.duration.min(MAX_PAUSE) } else { Duration::ZERO };
        let is_full = pending >= search.index_batch_max as u64;
        let window = if is_full { Duration::ZERO } else { Duration::from_millis(search.index_window_ms) };
        let is_late = self.space.freshness.is_older(cursor, LATE_AFTER);
        let delay = if is_late { window } else { window.max(pause) };
        let remaining = delay.saturating_sub(last_pass.ended.elapsed());
        (!remaining.is_zero()).then_some(remaining)
    }

    /// Indexes the full tree: the index is new, older than the feed, or from another log.
    fn index_full_tree(&self, stop: &StopToken) -> Result<(), Fault> {
        let Space { vfs, index, .. } = &*self.space;
        // Read before the walk: a concurrent change may be indexed twice, but is never missed.
        let start = vfs.feed().last_seq();
        let cursor = index.cursor()?;
        let indexed = index.paths(&TreePath::root())?.into_iter().chain(index.asset_paths()?);
        let mut removed: BTreeSet<TreePath> = indexed.collect();
        let files = indexed_files(vfs)?;
        for path in &files {
            removed.remove(path);
        }
        let files: Vec<TreePath> = files.into_iter().chain(removed).collect();
        index.ingest_all(PathBatches::new(vfs, &files).take_while(|_| !stop.is_requested()), cursor)?;
        if stop.is_requested() {
            return Ok(());
        }
        index.ingest(&[], start)?;
        self.space.index_watermark.advance(start.0);
        Ok(())
    }

    /// Work while there are no writes: merges index segments, for half of the time at most, and
    /// stops if a change arrives; then releases memory.
    fn run_idle_work(&self) -> NextStep {
        let started_at = Instant::now();
        let vfs = Arc::clone(&self.space.vfs);
        let last = vfs.feed().last_seq();
        match self.space.index.merge_segments(move || vfs.feed().last_seq() != last) {
            Ok(MergeStep::Partial) => return NextStep::After(started_at.elapsed()),
            Ok(MergeStep::Complete | MergeStep::Preempted) => {}
            // Only a slower search: failing the step would block indexing.
            Err(error) => {
                tracing::warn!(error = %error, "cannot merge segments of the search index; search may be slower")
            }
        }
        if self.space.index.release_memory() {
            self.space.graph.drop_caches();
        }
        NextStep::After(RELEASE_INTERVAL)
    }
}

impl Task for Indexer {
    const NAME: &'static str = "indexer";
    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        let cursor = self.space.index.cursor().map_err(Fault::from)?;
        if !self.can_follow_feed && (cursor == Seq(0) || cursor > self.space.vfs.feed().last_seq()) {
            self.index_full_tree(stop)?;
            self.can_follow_feed = !stop.is_requested();
            return Ok(NextStep::Now);
        }
        self.can_follow_feed = true;
        if let Some(next_delay) = self.next_delay(cursor) {
            return Ok(NextStep::After(next_delay));
        }
        let (started_at, last) = (Instant::now(), self.space.vfs.feed().last_seq());
        Ok(match index_events(&self.space, cursor, 2 * self.space.settings.search.index_batch_max)? {
            0 => {
                recheck(&self.space, cursor)?;
                let idle = if std::mem::take(&mut self.has_indexed) {
                    NextStep::After(IDLE_DELAY)
                } else {
                    self.run_idle_work()
                };
                match (idle, self.space.recheck_queue.wait()) {
                    (NextStep::After(idle), Some(recheck)) => NextStep::After(idle.min(recheck)),
                    (idle, _) => idle,
                }
            }
            _ => {
                self.has_indexed = true;
                let (ended, has_more) = (Instant::now(), self.space.vfs.feed().last_seq() != last);
                self.last_pass = Some(IndexPass { ended, duration: started_at.elapsed(), has_more });
                NextStep::Now
            }
        })
    }
}

/// Indexes the next changes; returns their number.
fn index_events(space: &Space, cursor: Seq, max_events: usize) -> Result<usize, Fault> {
    let Space { vfs, index, .. } = space;
    let events = vfs.feed().events_after(cursor, max_events)?;
    let Some(last) = events.last().map(|event| event.seq) else {
        return Ok(0);
    };
    let changes = events.iter().flat_map(|event| &event.changes);
    let files = changes.filter(|change| vfs.hidden_files().lists(&change.path));
    let text = |change: &EventChange| change.new.filter(|_| change.kind != FileKind::Symlink);
    let expected: BTreeMap<TreePath, Option<ETag>> = files.map(|change| (change.path.clone(), text(change))).collect();
    index_paths(space, &expected, cursor, last)?;
    if expected.is_empty() {
        index.ingest(&[], last)?;
    }
    space.index_watermark.advance(last.0);
    Ok(events.len())
}

/// Indexes these paths, compares them with the events, and moves the cursor at the end.
fn index_paths(
    space: &Space,
    expected: &BTreeMap<TreePath, Option<ETag>>,
    cursor: Seq,
    last: Seq,
) -> Result<(), Fault> {
    let paths: Vec<TreePath> = expected.keys().cloned().collect();
    let mut batches = PathBatches::new(&space.vfs, &paths);
    while let Some(batch) = batches.next() {
        let batch = batch?;
        space.index.ingest(&batch, if batches.is_finished() { last } else { cursor })?;
        for read in &batch {
            space.recheck_queue.observe(read, expected.get(read.path()).copied().flatten());
        }
    }
    Ok(())
}

/// Reads paths again whose content differed from their event, if due.
fn recheck(space: &Space, cursor: Seq) -> Result<(), Fault> {
    let expected = space.recheck_queue.due();
    if !expected.is_empty() {
        index_paths(space, &expected, cursor, cursor)?;
        space.recheck_queue.rechecked();
    }
    Ok(())
}

/// The files of a tree that are indexed: pages, and other files except links.
fn indexed_files(vfs: &Vfs) -> Result<Vec<TreePath>, Fault> {
    let files = vfs.walk(Protocol::Internal, &TreePath::root())?.into_iter();
    let is_file = |kind: EntryKind| kind == EntryKind::File;
    let files = files.filter(|file| file.path.is_page() || is_file(file.attributes.kind));
    Ok(files.map(|file| file.path).filter(|path| vfs.hidden_files().lists(path)).collect())
}

/// Reads the content of paths in batches. It waits until the content is durable: a page may be
/// newer than its event, and if a power failure lost that save, the index would keep its words.
struct PathBatches<'v> {
    vfs: &'v Vfs,
    paths: std::slice::Iter<'v, TreePath>,
}

impl<'v> PathBatches<'v> {
    fn new(vfs: &'v Vfs, paths: &'v [TreePath]) -> Self {
        Self { vfs, paths: paths.iter() }
    }

    fn is_finished(&self) -> bool {
        self.paths.as_slice().is_empty()
    }

    fn read(&mut self) -> Result<Vec<IndexEntry>, Fault> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < MAX_BATCH_PAGES && bytes < MAX_BATCH_BYTES {
            let Some(path) = self.paths.next() else { break };
            let entry = entry(self.vfs, path)?;
            bytes += match &entry {
                IndexEntry::Page { text, .. } | IndexEntry::Canvas { text, .. } => text.len(),
                IndexEntry::Asset(_) | IndexEntry::Deleted(_) => 0,
            };
            batch.push(entry);
        }
        self.vfs.wait_applied()?;
        Ok(batch)
    }
}

impl Iterator for PathBatches<'_> {
    type Item = Result<Vec<IndexEntry>, Fault>;
    fn next(&mut self) -> Option<Self::Item> {
        (!self.is_finished()).then(|| self.read())
    }
}

/// The index entry of a path. Symbolic links are not indexed: their target is. Of files that are
/// not pages only the name counts, and of canvases the links. A file that git tracks no longer
/// and ignores is not indexed.
fn entry(vfs: &Vfs, path: &TreePath) -> Result<IndexEntry, Fault> {
    if !vfs.is_versioned(path) {
        return Ok(IndexEntry::Deleted(path.clone()));
    }
    let read = || -> Result<IndexEntry, Fault> {
        match vfs.stat(Protocol::Internal, path)?.kind {
            EntryKind::File if path.is_page() => {
                let file = vfs.read(Protocol::Internal, path)?;
                Ok(IndexEntry::Page {
                    path: path.clone(),
                    etag: file.etag,
                    text: String::from_utf8_lossy(&file.content).into_owned(),
                    modified: files::to_timestamp(file.attributes.modified),
                })
            }
            EntryKind::File if is_canvas_path(path.as_str()) => {
                let file = vfs.read(Protocol::Internal, path)?;
                let text = String::from_utf8_lossy(&file.content).into_owned();
                Ok(IndexEntry::Canvas { path: path.clone(), etag: file.etag, text })
            }
            EntryKind::File => Ok(IndexEntry::Asset(path.clone())),
            EntryKind::Directory | EntryKind::Symlink | EntryKind::Special(_) => Ok(IndexEntry::Deleted(path.clone())),
        }
    };
    match read() {
        Ok(entry) => Ok(entry),
        Err(fault) if is_file_error(fault.kind()) => {
            if fault.kind() != Kind::NotFound {
                tracing::warn!(page.path = %path, error = ?fault, "cannot read a page; it is not indexed");
            }
            Ok(IndexEntry::Deleted(path.clone()))
        }
        Err(fault) => Err(fault),
    }
}

/// Whether a retry cannot help, because the file itself is missing or unusable. Other errors are
/// temporary problems of the server: after a retry the page stays in the index.
fn is_file_error(kind: Kind) -> bool {
    match kind {
        Kind::NotFound
        | Kind::Stale
        | Kind::IsDirectory
        | Kind::NotDirectory
        | Kind::Forbidden
        | Kind::Invalid
        | Kind::NameTooLong
        | Kind::TooLarge => true,
        Kind::Exists
        | Kind::Conflict
        | Kind::Locked
        | Kind::PreconditionFailed
        | Kind::Rejected
        | Kind::NotAllowed
        | Kind::Unauthenticated
        | Kind::ReadOnly
        | Kind::NotEmpty
        | Kind::UnsupportedType
        | Kind::RateLimited
        | Kind::Disabled
        | Kind::NotEnabled
        | Kind::Unavailable
        | Kind::Upstream
        | Kind::NoSpace
        | Kind::DiskFailed
        | Kind::FetchFailed
        | Kind::Internal => false,
    }
}

/// Comparison of an index with a rebuilt one.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ReindexReport {
    /// Number of pages in the rebuilt index.
    pub pages: usize,
    /// The index before.
    pub before: IndexFingerprint,
    /// The rebuilt index.
    pub after: IndexFingerprint,
    /// Pages that differ, in path order; empty if the old index was correct.
    pub differences: Vec<PageDifference>,
}

impl ReindexReport {
    fn new(before: IndexFingerprint, after: IndexFingerprint) -> Self {
        Self { pages: after.pages, differences: before.differences(&after), before, after }
    }
}

/// Rebuilds the index of a space from its tree and compares it with the old one, which answers
/// reads until then.
///
/// `progress` gets the number of files read and the total.
///
/// # Errors
/// Those of the tree and of the index; the old index then stays.
pub fn reindex(space: &Space, mut progress: impl FnMut(usize, usize)) -> Result<ReindexReport, Fault> {
    let Space { vfs, index, .. } = space;
    catch_up(space)?;
    let before = index.fingerprint()?;
    let start = vfs.feed().last_seq();
    let files = indexed_files(vfs)?;
    let total = files.len();
    index.rebuild(files.iter().map(|path| entry(vfs, path)), start, |done| progress(done, total))?;
    Ok(ReindexReport::new(before, index.fingerprint()?))
}

/// Compares the index of a space with one built from its tree in the empty directory `scratch`. The
/// index is brought up to date first, and not repaired.
///
/// `progress` gets the number of files read and the total.
pub fn check_index(
    space: &Space,
    scratch: &Path,
    mut progress: impl FnMut(usize, usize),
) -> Result<ReindexReport, Fault> {
    let Space { vfs, index, .. } = space;
    catch_up(space)?;
    let before = index.fingerprint()?;
    let files = indexed_files(vfs)?;
    let mut read = 0;
    let batches = PathBatches::new(vfs, &files).inspect(|batch| {
        read += batch.as_ref().map_or(0, Vec::len);
        progress(read, files.len());
    });
    let rebuilt = build_scratch_index(scratch, &before, batches, index.cursor()?)?;
    Ok(ReindexReport::new(before, rebuilt))
}

/// Indexes pending changes, so that they do not count as differences. An empty index stays as it
/// is.
fn catch_up(space: &Space) -> Result<(), Fault> {
    let mut cursor = space.index.cursor()?;
    while cursor > Seq(0) && index_events(space, cursor, BATCH_EVENTS)? > 0 {
        cursor = space.index.cursor()?;
    }
    Ok(())
}
