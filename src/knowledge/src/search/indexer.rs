//! The task that keeps the index up to date with the tree.
//!
//! One rule: the feed says which paths to look at, the tree says what is there. Doing a step twice, or after a crash in the
//! middle, gives the same index. Where the two say different things, the path is looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::{ETag, Fault, FileKind, Kind, Protocol, Seq, TreePath};
use svcfs_index::{IndexEntry, IndexFingerprint, MergeStep, PageDifference};
use svcfs_vfs::{EntryKind, EventChange, Vfs};
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use super::compare::made_anew;
use crate::files;
use crate::kernel::Space;

/// Events that are read together when the whole log is followed at once ([`catch_up`]).
const BATCH: usize = 1_000;

/// Pages that are taken in at once …
const MANY: usize = 1_000;

/// … unless they have this many bytes of text: several times as much is in memory meanwhile.
const MANY_BYTES: usize = 4 << 20;

/// While others write on, the indexer pauses after each pass as long as it took, and no longer than this: writers wait for an answer. It does
/// not when somebody waits for it, and when it is [`LATE`].
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// Older changes are taken in without a pause: answers are at most 500 ms old, and two passes under load take 300 ms.
const LATE: Duration = Duration::from_millis(100);

/// When nothing was written for so long, the index is put in order and memory is given back.
const RESTED: Duration = Duration::from_secs(2);

/// How often memory is given back while nothing is written: questions alone fill caches, too.
const RELEASE_INTERVAL: Duration = Duration::from_secs(15);

/// Follows the change feed of one space.
pub struct Indexer {
    space: Arc<Space>,
    /// Whether the whole tree was compared with an index that could not follow the feed from where it stood.
    is_caught_up: bool,
    /// Whether something was taken in since it last rested.
    is_warm: bool,
    /// The last pass that took in changes.
    last_pass: Option<IndexPass>,
}

/// A pass over new changes.
#[derive(Debug, Clone, Copy)]
struct IndexPass {
    ended: Instant,
    took: Duration,
    /// Whether further changes came meanwhile.
    is_followed: bool,
}

impl Indexer {
    /// The indexer of a space.
    pub const fn new(space: Arc<Space>) -> Self {
        Self { space, is_caught_up: false, is_warm: true, last_pass: None }
    }

    /// How long until the next changes are taken in; none when that is now. Changes that keep coming are taken in together: a transaction of
    /// many costs little more than one of one. The first one after a pause is taken in at once.
    fn wait(&self, cursor: Seq) -> Option<Duration> {
        let last_pass = self.last_pass?;
        let newest = self.space.vfs.feed().last_seq();
        let search = &self.space.settings.search;
        let waiting = newest.0.saturating_sub(cursor.0);
        if waiting == 0 || !search.async_index || self.space.freshness.is_demanded_beyond(cursor) {
            return None;
        }
        let pause = if last_pass.is_followed { last_pass.took.min(MAX_PAUSE) } else { Duration::ZERO };
        let is_full = waiting >= search.index_batch_max as u64;
        let window = if is_full { Duration::ZERO } else { Duration::from_millis(search.index_window_ms) };
        let is_late = self.space.freshness.is_older(cursor, LATE);
        let wait = if is_late { window } else { window.max(pause) };
        let left = wait.saturating_sub(last_pass.ended.elapsed());
        (!left.is_zero()).then_some(left)
    }

    /// Takes in the whole tree: an index that is new, or older than the feed reaches, or from another life of this root.
    fn read_everything(&self, stop: &StopToken) -> Result<(), Fault> {
        let Space { vfs, index, .. } = &*self.space;
        // Read before the walk: what is written meanwhile is looked at twice, never missed.
        let start = vfs.feed().last_seq();
        let kept = index.cursor()?;
        let mut gone: BTreeSet<TreePath> = index.paths(&TreePath::root())?.into_iter().collect();
        let pages = pages(vfs)?;
        for path in &pages {
            gone.remove(path);
        }
        let pages: Vec<TreePath> = pages.into_iter().chain(gone).collect();
        index.ingest_all(PathBatches::of(vfs, &pages).take_while(|_| !stop.is_requested()), kept)?;
        if stop.is_requested() {
            return Ok(());
        }
        index.ingest(&[], start)?;
        self.space.index_watermark.advance(start.0);
        Ok(())
    }

    /// What is done while nobody writes: first what makes questions quicker, half of the time and for as long as nothing changes, then memory is
    /// given back.
    fn rest(&self) -> NextStep {
        let begun = Instant::now();
        let vfs = Arc::clone(&self.space.vfs);
        let last = vfs.feed().last_seq();
        match self.space.index.merge_segments(move || vfs.feed().last_seq() != last) {
            Ok(MergeStep::Partial) => return NextStep::After(begun.elapsed()),
            Ok(MergeStep::Complete | MergeStep::Preempted) => {}
            // Questions are answered as before, and a failure would keep changes waiting that the index can take in.
            Err(error) => tracing::warn!(error = %error, "the parts of the search index could not be joined"),
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
        if !self.is_caught_up && (cursor == Seq(0) || cursor > self.space.vfs.feed().last_seq()) {
            self.read_everything(stop)?;
            self.is_caught_up = !stop.is_requested();
            return Ok(NextStep::Now);
        }
        self.is_caught_up = true;
        if let Some(wait) = self.wait(cursor) {
            return Ok(NextStep::After(wait));
        }
        let (begun, last) = (Instant::now(), self.space.vfs.feed().last_seq());
        Ok(match follow(&self.space, cursor, 2 * self.space.settings.search.index_batch_max)? {
            0 => {
                doubt(&self.space, cursor)?;
                let rest = if std::mem::take(&mut self.is_warm) { NextStep::After(RESTED) } else { self.drop_caches() };
                match (rest, self.space.recheck_queue.wait()) {
                    (NextStep::After(rest), Some(wait)) => NextStep::After(rest.min(wait)),
                    (rest, _) => rest,
                }
            }
            _ => {
                self.is_warm = true;
                let (ended, is_followed) = (Instant::now(), self.space.vfs.feed().last_seq() != last);
                self.last_pass = Some(IndexPass { ended, took: begun.elapsed(), is_followed });
                NextStep::Now
            }
        })
    }
}

/// Takes in the next changes; how many there were.
fn follow(space: &Space, cursor: Seq, max_events: usize) -> Result<usize, Fault> {
    let Space { vfs, index, .. } = space;
    let events = vfs.feed().events_after(cursor, max_events)?;
    let Some(last) = events.last().map(|event| event.seq) else {
        return Ok(0);
    };
    let changes = events.iter().flat_map(|event| &event.changes);
    let pages = changes.filter(|change| change.path.is_page() && !change.path.is_hidden());
    let text = |change: &EventChange| change.new.filter(|_| change.kind != FileKind::Symlink);
    let told: BTreeMap<TreePath, Option<ETag>> = pages.map(|change| (change.path.clone(), text(change))).collect();
    look(space, &told, cursor, last)?;
    if told.is_empty() {
        index.ingest(&[], last)?;
    }
    space.index_watermark.advance(last.0);
    Ok(events.len())
}

/// Takes in what stands at some paths, of which events told, and moves the cursor with the last of them.
fn look(space: &Space, told: &BTreeMap<TreePath, Option<ETag>>, cursor: Seq, last: Seq) -> Result<(), Fault> {
    let paths: Vec<TreePath> = told.keys().cloned().collect();
    let mut batches = PathBatches::of(&space.vfs, &paths);
    while let Some(batch) = batches.next() {
        let batch = batch?;
        space.index.ingest(&batch, if batches.is_over() { last } else { cursor })?;
        for read in &batch {
            space.recheck_queue.weigh(read, told.get(read.path()).copied().flatten());
        }
    }
    Ok(())
}

/// Looks again at what was not as its event told, when it is time.
fn doubt(space: &Space, cursor: Seq) -> Result<(), Fault> {
    let told = space.recheck_queue.due();
    if !told.is_empty() {
        look(space, &told, cursor, cursor)?;
        space.recheck_queue.looked();
    }
    Ok(())
}

/// The pages of a tree that belong into its index.
fn pages(vfs: &Vfs) -> Result<Vec<TreePath>, Fault> {
    let files = vfs.walk(Protocol::Internal, &TreePath::root())?.into_iter();
    let pages = files.filter(|file| file.path.is_page() && !file.path.is_hidden());
    Ok(pages.map(|file| file.path).collect())
}

/// What stands at some paths, as much of it as is taken in at once. It is durable before it is indexed: a page may stand there newer than
/// the events tell, and were that save lost with the power, the index would keep its words for ever.
struct PathBatches<'v> {
    vfs: &'v Vfs,
    paths: std::slice::Iter<'v, TreePath>,
}

impl<'v> PathBatches<'v> {
    fn of(vfs: &'v Vfs, paths: &'v [TreePath]) -> Self {
        Self { vfs, paths: paths.iter() }
    }

    fn is_over(&self) -> bool {
        self.paths.as_slice().is_empty()
    }

    fn read(&mut self) -> Result<Vec<IndexEntry>, Fault> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < MANY && bytes < MANY_BYTES {
            let Some(path) = self.paths.next() else { break };
            let entry = entry(self.vfs, path)?;
            bytes += match &entry {
                IndexEntry::Page { text, .. } => text.len(),
                IndexEntry::Deleted(_) => 0,
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
        (!self.is_over()).then(|| self.read())
    }
}

/// What stands at a path now, as the index is told of it. Links are not pages: their text is indexed where it stands.
fn entry(vfs: &Vfs, path: &TreePath) -> Result<IndexEntry, Fault> {
    let read = || match vfs.stat(Protocol::Internal, path)?.kind {
        EntryKind::File => vfs.read(Protocol::Internal, path).map(Some),
        EntryKind::Directory | EntryKind::Symlink | EntryKind::Special(_) => Ok(None),
    };
    match read() {
        Ok(Some(file)) => Ok(IndexEntry::Page {
            path: path.clone(),
            etag: file.etag,
            text: String::from_utf8_lossy(&file.content).into_owned(),
            modified: files::to_timestamp(file.attributes.modified),
        }),
        Ok(None) => Ok(IndexEntry::Deleted(path.clone())),
        Err(fault) if is_about_the_file(fault.kind()) => {
            if fault.kind() != Kind::NotFound {
                tracing::warn!(page.path = %path, error = ?fault, "page cannot be read; it is left out of the index");
            }
            Ok(IndexEntry::Deleted(path.clone()))
        }
        Err(fault) => Err(fault),
    }
}

/// Whether trying again cannot help: the file is gone or of no use, while other files can be read. Everything else is the
/// server's trouble, and waiting for its end keeps pages from dropping out of the index.
fn is_about_the_file(kind: Kind) -> bool {
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
        | Kind::Unauthenticated
        | Kind::ReadOnly
        | Kind::NotEmpty
        | Kind::UnsupportedType
        | Kind::RateLimited
        | Kind::Disabled
        | Kind::Unavailable
        | Kind::Upstream
        | Kind::NoSpace
        | Kind::DiskFailed
        | Kind::Internal => false,
    }
}

/// What an index was found to be beside one that was made anew.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ReindexReport {
    /// Pages in the new one.
    pub pages: usize,
    /// The index as it was.
    pub before: IndexFingerprint,
    /// The one made anew.
    pub after: IndexFingerprint,
    /// Pages for which the two differ, in path order; none when the old index was right.
    pub differences: Vec<PageDifference>,
}

impl ReindexReport {
    fn of(before: IndexFingerprint, after: IndexFingerprint) -> Self {
        Self { pages: after.pages, differences: before.differences(&after), before, after }
    }
}

/// Makes the index of a space anew from its tree, while questions are answered from the old one, and compares the two.
///
/// `progress` is told the number of pages read and how many there are.
///
/// # Errors
/// Those of the tree and of the index; the old index then stays.
pub fn reindex(space: &Space, mut progress: impl FnMut(usize, usize)) -> Result<ReindexReport, Fault> {
    let Space { vfs, index, .. } = space;
    catch_up(space)?;
    let before = index.fingerprint()?;
    let start = vfs.feed().last_seq();
    let pages = pages(vfs)?;
    let total = pages.len();
    index.rebuild(pages.iter().map(|path| entry(vfs, path)), start, |done| progress(done, total))?;
    Ok(ReindexReport::of(before, index.fingerprint()?))
}

/// Compares the index of a space with one that is made from its tree in the empty directory `scratch`. The old one stays, right or wrong;
/// it only reads what it has not read yet.
///
/// `progress` is told the number of pages read and how many there are.
///
/// # Errors
/// Those of the tree and of the indexes.
pub fn check_index(
    space: &Space,
    scratch: &Path,
    mut progress: impl FnMut(usize, usize),
) -> Result<ReindexReport, Fault> {
    let Space { vfs, index, .. } = space;
    catch_up(space)?;
    let before = index.fingerprint()?;
    let pages = pages(vfs)?;
    let mut read = 0;
    let batches = PathBatches::of(vfs, &pages).inspect(|batch| {
        read += batch.as_ref().map_or(0, Vec::len);
        progress(read, pages.len());
    });
    let fresh = made_anew(scratch, &before, batches, index.cursor()?)?;
    Ok(ReindexReport::of(before, fresh))
}

/// What an index has not read yet is no fault of its. One that never read the whole tree stays as it is.
fn catch_up(space: &Space) -> Result<(), Fault> {
    let mut cursor = space.index.cursor()?;
    while cursor > Seq(0) && follow(space, cursor, BATCH)? > 0 {
        cursor = space.index.cursor()?;
    }
    Ok(())
}
