//! The task that embeds pages.
//!
//! It follows the change feed, so that a changed page is embedded without waiting for the search
//! index. What changed while the server was stopped is found by comparing the pages of the search
//! index with the vectors, once; so a restart in the middle continues where it stopped. Changed
//! pages come before that backlog.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use svcfs_base::{ETag, Fault, FileKind, Kind, Protocol, Seq, TreePath};
use svcfs_vectors::{ChunkRules, EmbedError, PageText, VectorIndexError, VectorProblem};
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use super::PageVectors;
use crate::kernel::Space;

const MAX_EVENTS: usize = 1_000;

/// Limit of pages in one transaction, and of their text. With the static model a changed page waits
/// for one such batch at most; remote embedders take as much text in a few requests.
const MAX_BATCH_PAGES: usize = 256;
const MAX_BATCH_BYTES: usize = 256 << 10;
const MAX_REMOTE_BATCH_BYTES: usize = 2 << 20;

/// Interval at which it is checked whether the search index is complete, before the comparison.
const INDEX_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Delay after which a page is read again whose content differed from its event: an external
/// command may have changed it for a moment.
const RECHECK_DELAY: Duration = Duration::from_secs(2);

/// A service that asks to wait longer is asked again after this time.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Interval at which pages are tried again whose texts the embedder refused: the service may have
/// changed.
pub(super) const REFUSED_RETRY_INTERVAL: Duration = Duration::from_secs(3_600);

/// Time of a step for the transfer to a remote store, besides one batch.
const MAX_SYNC_TIME: Duration = Duration::from_secs(2);

/// Steps of all spaces that may wait for another server at the same time. The tasks of all spaces
/// share eight threads: servers that do not answer must not stop the search indexes.
const MAX_NETWORK_STEPS: usize = 4;

/// Delay of a step that would be one too many.
const NETWORK_STEP_DELAY: Duration = Duration::from_millis(250);

static NETWORK_STEPS: AtomicUsize = AtomicUsize::new(0);

/// A step that may wait for another server, while it runs.
struct NetworkStep;

impl NetworkStep {
    fn start() -> Option<Self> {
        let is_free = |count: usize| (count < MAX_NETWORK_STEPS).then_some(count + 1);
        NETWORK_STEPS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).is_ok().then_some(Self)
    }
}

impl Drop for NetworkStep {
    fn drop(&mut self) {
        NETWORK_STEPS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Follows the change feed of one space.
pub struct VectorIndexer {
    space: Arc<Space>,
    vectors: Arc<PageVectors>,
    /// Position up to which events were read; none before the first step.
    position: Option<Seq>,
    /// Paths of events, with the hash of the newest content.
    changed: Vec<(TreePath, Option<ETag>)>,
    /// Pages that differ from the vectors; none before the comparison.
    backlog: Option<Vec<TreePath>>,
    /// Pages of the backlog that did not exist at the comparison.
    deleted: Vec<TreePath>,
    /// Pages that differed from their events, and when they are read again.
    recheck: (Vec<TreePath>, Instant),
    /// When the embedder accepts the next request, if it asked to wait.
    retry_at: Option<Instant>,
    /// When refused pages are tried again; none without any.
    retry_refused_at: Option<Instant>,
}

/// What was read of the next paths.
#[derive(Default)]
struct PathBatch {
    pages: Vec<PageText>,
    removed: Vec<TreePath>,
    /// Those that differ from their events.
    differing: Vec<TreePath>,
    /// Number of paths.
    paths: usize,
}

impl VectorIndexer {
    /// The indexer of a space; none without vectors.
    pub fn for_space(space: &Arc<Space>) -> Option<Self> {
        let vectors = Arc::clone(space.vectors.as_ref()?);
        Some(Self {
            space: Arc::clone(space),
            vectors,
            position: None,
            changed: Vec::new(),
            backlog: None,
            deleted: Vec::new(),
            recheck: (Vec::new(), Instant::now()),
            retry_at: None,
            retry_refused_at: None,
        })
    }

    /// Embeds all pages now, for a command that asks once; `on_step` is called after each part. A
    /// failure is noted in answers and logged.
    pub fn run_once(mut self, mut on_step: impl FnMut()) {
        let stop = StopToken::new();
        while matches!(self.step(&stop), Ok(NextStep::Now)) {
            on_step();
        }
        if let Some(problem) = self.vectors.index.problem() {
            tracing::warn!(error = problem.message, "pages cannot be embedded");
        }
    }

    /// Reads events since the last time.
    fn read_events(&mut self) -> Result<(), Fault> {
        let vfs = &self.space.vfs;
        let mut position = match self.position {
            Some(position) => position,
            // The comparison finds what happened before.
            None => vfs.feed().last_seq(),
        };
        let mut changed: Vec<(TreePath, Option<ETag>)> = Vec::new();
        loop {
            let events = vfs.feed().events_after(position, MAX_EVENTS)?;
            let Some(last) = events.last().map(|event| event.seq) else { break };
            let changes = events.iter().flat_map(|event| &event.changes);
            for change in changes.filter(|change| change.path.is_page() && vfs.hidden_files().lists(&change.path)) {
                changed.push((change.path.clone(), change.new.filter(|_| change.kind != FileKind::Symlink)));
            }
            position = last;
        }
        self.position = Some(position);
        if !changed.is_empty() {
            // The newest event of a path counts, at the place of the first one.
            let mut newest: HashMap<TreePath, Option<ETag>> = HashMap::new();
            let all = std::mem::take(&mut self.changed).into_iter().chain(changed);
            let all: Vec<(TreePath, Option<ETag>)> = all.collect();
            newest.extend(all.iter().cloned());
            let paths = all.into_iter().map(|(path, _)| path);
            self.changed = paths.filter_map(|path| newest.remove_entry(&path)).collect();
        }
        Ok(())
    }

    /// Finds the pages whose vectors are missing, outdated, or of a page that does not exist; false
    /// while the search index is incomplete.
    fn compare(&mut self) -> Result<bool, Fault> {
        let position = self.position.unwrap_or(Seq(0));
        if self.space.index_watermark.level() < position.0 || self.space.index.cursor()? == Seq(0) && position > Seq(0)
        {
            let pages = self.space.index.page_count()?;
            self.vectors.index.set_pending(pages.saturating_sub(self.vectors.index.embedded_pages()?));
            return Ok(false);
        }
        let (indexed, embedded) = (self.space.index.etags()?, self.vectors.index.etags()?);
        let mut backlog: BTreeSet<TreePath> = self.vectors.index.paths()?;
        let mut deleted = backlog.clone();
        for (path, etag) in indexed {
            deleted.remove(&path);
            match embedded.get(&path) {
                Some(embedded) if *embedded == etag => {
                    backlog.remove(&path);
                }
                Some(_) | None => {
                    backlog.insert(path);
                }
            }
        }
        self.deleted = deleted.into_iter().collect();
        // Taken from the end.
        self.backlog = Some(backlog.into_iter().rev().collect());
        Ok(true)
    }

    fn max_batch_bytes(&self) -> usize {
        match self.vectors.index.rules() {
            ChunkRules::Passages => MAX_BATCH_BYTES,
            ChunkRules::Merged { .. } => MAX_REMOTE_BATCH_BYTES,
        }
    }

    /// Reads the next paths.
    fn read_batch<'p>(
        &self,
        paths: impl Iterator<Item = (&'p TreePath, Option<Option<ETag>>)>,
    ) -> Result<PathBatch, Fault> {
        let (mut batch, mut bytes) = (PathBatch::default(), 0);
        for (path, expected) in paths.take(MAX_BATCH_PAGES) {
            let page = if expected == Some(None) { None } else { self.read_page(path)? };
            let etag = page.as_ref().map(|page| page.etag);
            if expected.is_some_and(|expected| expected != etag) {
                batch.differing.push(path.clone());
            }
            bytes += page.as_ref().map_or(0, |page| page.text.len());
            match page {
                Some(page) => batch.pages.push(page),
                None => batch.removed.push(path.clone()),
            }
            batch.paths += 1;
            if bytes >= self.max_batch_bytes() {
                break;
            }
        }
        Ok(batch)
    }

    /// The text of a page; none if it is no page.
    fn read_page(&self, path: &TreePath) -> Result<Option<PageText>, Fault> {
        match self.space.vfs.read(Protocol::Internal, path) {
            Ok(file) => {
                let text = String::from_utf8_lossy(&file.content).into_owned();
                Ok(Some(PageText { path: path.clone(), etag: file.etag, text }))
            }
            Err(fault) if fault.kind().http() < 500 => Ok(None),
            Err(fault) if fault.kind() == Kind::Unavailable => Err(fault),
            Err(fault) => {
                tracing::warn!(page.path = %path, error = ?fault, "cannot read a page; it is not found by meaning");
                Ok(None)
            }
        }
    }

    /// Embeds the next pages; false if there are none.
    fn embed_next(&mut self, stop: &StopToken) -> Result<bool, VectorIndexFailure> {
        let is_changed = !self.changed.is_empty();
        let batch = if is_changed {
            self.read_batch(self.changed.iter().map(|(path, etag)| (path, Some(*etag))))?
        } else {
            let backlog = self.backlog.iter().flatten().rev();
            self.read_batch(backlog.map(|path| (path, None)))?
        };
        // Pages first: the texts of a renamed page are not embedded again.
        match self.embed(&batch.pages, stop) {
            Ok(true) => self.vectors.remove(&batch.removed)?,
            Ok(false) => return Ok(true),
            Err(error) => {
                self.remove_deleted(batch.removed)?;
                return Err(error.into());
            }
        }
        if !batch.differing.is_empty() {
            self.recheck.0.extend(batch.differing);
            self.recheck.1 = Instant::now() + RECHECK_DELAY;
        }
        if is_changed {
            self.changed.drain(..batch.paths);
        } else if let Some(backlog) = &mut self.backlog {
            backlog.truncate(backlog.len() - batch.paths);
        }
        if self.changed.is_empty()
            && let Some(position) = self.position
        {
            self.vectors.watermark.advance(position.0);
        }
        Ok(batch.paths > 0)
    }

    /// Embeds pages, without those whose texts the embedder refuses; false if it was stopped.
    fn embed(&mut self, pages: &[PageText], stop: &StopToken) -> Result<bool, VectorIndexError> {
        match self.vectors.update(pages) {
            Err(VectorIndexError::Embedder(error)) if error.may_concern_text() => {
                // A service that refuses every text must not cost a request for each page.
                if self.vectors.index.check_embedder().is_err() {
                    return Err(error.into());
                }
                if let [page] = pages {
                    self.refuse(page, &error)?;
                    return Ok(true);
                }
            }
            outcome => return outcome.map(|()| true),
        }
        for page in pages {
            if stop.is_requested() {
                return Ok(false);
            }
            self.embed(std::slice::from_ref(page), stop)?;
        }
        Ok(true)
    }

    fn refuse(&mut self, page: &PageText, error: &EmbedError) -> Result<(), VectorIndexError> {
        self.retry_refused_at.get_or_insert_with(|| Instant::now() + REFUSED_RETRY_INTERVAL);
        self.vectors.refuse(&page.path, error.to_string())
    }

    /// Removes the vectors of deleted pages, which does not need the embedder: they must not be
    /// found until it answers again.
    fn remove_deleted(&mut self, mut removed: Vec<TreePath>) -> Result<(), VectorIndexFailure> {
        for path in std::mem::take(&mut self.deleted) {
            if self.read_page(&path)?.is_none() {
                removed.push(path);
            }
        }
        let deleted = self.changed.extract_if(.., |(_, etag)| etag.is_none()).map(|(path, _)| path);
        removed.extend(deleted);
        Ok(self.vectors.remove(&removed)?)
    }

    fn count_pending(&self) -> Result<(), VectorIndexError> {
        if let Some(backlog) = &self.backlog {
            let unstored = self.vectors.index.unstored_pages()?;
            self.vectors.index.set_pending(backlog.len() + self.changed.len() + unstored);
        }
        Ok(())
    }

    fn run(&mut self, stop: &StopToken) -> Result<NextStep, VectorIndexFailure> {
        self.read_events()?;
        if self.backlog.is_none() && !self.compare()? {
            while !self.changed.is_empty() && !stop.is_requested() {
                self.embed_next(stop)?;
            }
            self.vectors.watermark.advance(self.position.unwrap_or(Seq(0)).0);
            return Ok(NextStep::After(INDEX_POLL_INTERVAL));
        }
        self.count_pending()?;
        let has_more = self.embed_next(stop)?;
        self.count_pending()?;
        // A store that is filled again must not delay changed pages.
        let end = Instant::now() + MAX_SYNC_TIME;
        let is_stored = self.vectors.index.sync_store(|| stop.is_requested() || Instant::now() >= end)?;
        if has_more || !is_stored {
            return Ok(NextStep::Now);
        }
        self.vectors.index.finish()?;
        Ok(self.queue_retries())
    }

    /// Adds pages to the backlog that are read again, once it is time.
    fn queue_retries(&mut self) -> NextStep {
        let recheck_at = (!self.recheck.0.is_empty()).then_some(self.recheck.1);
        let Some(due) = recheck_at.or(self.retry_refused_at) else { return NextStep::WhenSignalled };
        let remaining = due.saturating_duration_since(Instant::now());
        if !remaining.is_zero() {
            return NextStep::After(remaining);
        }
        let paths = match recheck_at {
            Some(_) => std::mem::take(&mut self.recheck.0),
            None => {
                self.retry_refused_at = None;
                self.vectors.refused.lock().keys().cloned().collect()
            }
        };
        self.backlog.get_or_insert_default().extend(paths);
        NextStep::Now
    }
}

/// Why a step failed.
struct VectorIndexFailure {
    fault: Fault,
    /// The reason for readers.
    summary: &'static str,
    /// How long the embedder asked to wait.
    wait: Option<Duration>,
}

impl From<Fault> for VectorIndexFailure {
    fn from(fault: Fault) -> Self {
        Self { fault, summary: "pages cannot be read; `svcfs status` shows the reason", wait: None }
    }
}

impl From<VectorIndexError> for VectorIndexFailure {
    fn from(error: VectorIndexError) -> Self {
        let wait = match &error {
            VectorIndexError::Embedder(EmbedError::Unavailable { retry_after, .. }) => *retry_after,
            _ => None,
        };
        Self { summary: error.summary(), wait: wait.map(|time| time.min(MAX_RETRY_AFTER)), fault: error.into() }
    }
}

impl Task for VectorIndexer {
    const NAME: &'static str = "vectors";
    /// A request to an embedder may wait for its timeout; a restart continues where it was.
    const MAX_STOP_WAIT: Option<Duration> = Some(Duration::from_secs(2));

    fn step(&mut self, stop: &StopToken) -> Result<NextStep, TaskFailure> {
        if self.position.is_none() {
            // So that the first search need not.
            self.vectors.index.load().map_err(Fault::from)?;
        }
        // Changed pages wake the task, and must not shorten the wait that a service asked for.
        let wait = self.retry_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        if !wait.is_zero() {
            self.read_events()?;
            self.remove_deleted(Vec::new())
                .and_then(|()| Ok(self.count_pending()?))
                .map_err(|failure| failure.fault)?;
            return Ok(NextStep::After(wait));
        }
        self.retry_at = None;
        let network_step = self.vectors.index.uses_network().then(NetworkStep::start);
        if let Some(None) = network_step {
            return Ok(NextStep::After(NETWORK_STEP_DELAY));
        }
        let outcome = self.run(stop);
        drop(network_step);
        let outcome = self.count_pending().map_err(Into::into).and(outcome);
        match outcome {
            Ok(next) => {
                self.vectors.index.set_problem(None);
                Ok(next)
            }
            Err(VectorIndexFailure { fault, summary, wait }) => {
                self.vectors.index.set_problem(Some(VectorProblem { message: fault.message().to_owned(), summary }));
                let Some(time) = wait else { return Err(fault.into()) };
                self.retry_at = Instant::now().checked_add(time);
                Ok(NextStep::After(time))
            }
        }
    }
}
