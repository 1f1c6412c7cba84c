//! Search by meaning: the vectors of the pages of a space, and the task that embeds pages.
//!
//! Invariant: only the task writes to the vectors, and only what is in the tree. They may be behind
//! the search index: an answer never waits for an embedder elsewhere.

mod indexer;
mod operations;
mod providers;
mod similar;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcfs_base::{Fault, Kind, Seq, TreePath};
use svcfs_config::{EmbedderProvider, VectorSettings};
use svcfs_vectors::{
    ChunkRules, NearChunk, PageText, VectorFilter, VectorIndex, VectorIndexError, VectorIndexOptions, VectorProblem,
};
use svcfs_work::Watermark;

pub use indexer::VectorIndexer;
pub use operations::AREA;
pub use providers::check_providers;
pub(crate) use similar::snippet;
pub use similar::{SimilarPage, similar_pages};

use crate::kernel::{OperationContext, Space};

/// How long an answer waits until the caller's own changes are embedded.
const OWN_CHANGE_TIMEOUT: Duration = Duration::from_millis(500);

/// A search that fails after this time has waited for a service without an answer …
const SLOW_FAILURE: Duration = Duration::from_secs(1);

/// … and for this time, others do not wait for it: each would have a place of the server.
const OUTAGE_PAUSE: Duration = Duration::from_secs(15);

impl Space {
    /// The same space with vectors of its pages.
    #[must_use]
    pub fn with_vectors(mut self, vectors: Option<Arc<PageVectors>>) -> Self {
        self.vectors = vectors;
        self
    }
}

/// The vectors of a space.
pub struct PageVectors {
    /// The index. Operations use [`PageVectors::of`], which waits for the caller's changes.
    pub index: VectorIndex,
    /// The feed position up to which changed pages are embedded. Pages that changed while the
    /// server was stopped may still be pending.
    pub watermark: Watermark,
    /// The last failure of a search that waited in vain.
    outage: Mutex<Option<(Instant, VectorProblem)>>,
    /// Pages whose texts the embedder refused, and why.
    refused: Mutex<BTreeMap<TreePath, String>>,
}

impl PageVectors {
    /// Opens the vectors of a space.
    ///
    /// # Errors
    /// `Invalid` for settings of the embedder or the store that cannot be used; `Unavailable` if
    /// the file cannot be opened.
    pub fn open(file: PathBuf, space: &str, settings: &VectorSettings) -> Result<Self, Fault> {
        let VectorSettings { worker_count, embedder, store, chunk_size, chunk_overlap } = settings;
        let rules = match embedder.provider {
            EmbedderProvider::Static => ChunkRules::Passages,
            _ => ChunkRules::Merged { size: *chunk_size, overlap: *chunk_overlap },
        };
        let workers = match embedder.provider {
            // More threads than processors make it slower.
            EmbedderProvider::Static => {
                (*worker_count).min(std::thread::available_parallelism().unwrap_or(*worker_count))
            }
            _ => *worker_count,
        };
        let (embedder, store) = (providers::open_embedder(embedder)?, providers::open_store(store, space)?);
        let index = VectorIndex::open(VectorIndexOptions { file, embedder, store, rules, workers })?;
        Ok(Self { index, watermark: Watermark::default(), outage: Mutex::new(None), refused: Mutex::default() })
    }

    /// The vectors of the space of a call, with the changes of its caller where that takes less
    /// than half a second. Notes how many pages are not embedded yet.
    ///
    /// # Errors
    /// `NotEnabled` if the search by meaning is disabled.
    pub fn of<'s>(cx: &OperationContext<'s>) -> Result<&'s Self, Fault> {
        let vectors = Self::of_space(cx.space)?;
        let own = cx.space.freshness.last_own_change(cx.caller);
        vectors.wait(own, OWN_CHANGE_TIMEOUT);
        if let Some(note) = vectors.note() {
            cx.add_note(note);
        }
        Ok(vectors)
    }

    /// The vectors of a space.
    ///
    /// # Errors
    /// `Unavailable` if the search by meaning is disabled.
    pub fn of_space(space: &Space) -> Result<&Self, Fault> {
        space.vectors.as_deref().ok_or_else(|| {
            Fault::new(
                Kind::NotEnabled,
                "search by meaning is disabled; set `search.vector.enabled = true` in `.svc/config.toml` and restart \
                 the server",
            )
        })
    }

    /// The chunks that are nearest to a question, the nearest first.
    ///
    /// # Errors
    /// Why there is no answer; soon after a service did not answer in time, at once.
    pub fn search(&self, question: &str, limit: usize, filter: &VectorFilter) -> Result<Vec<NearChunk>, VectorProblem> {
        let outage = self.outage.lock().clone();
        if let Some((_, problem)) = outage.filter(|(time, _)| time.elapsed() < OUTAGE_PAUSE) {
            return Err(problem);
        }
        let start = Instant::now();
        self.index.search(question, limit, filter).map_err(|error| {
            let problem = VectorProblem { message: error.to_string(), summary: error.summary() };
            if start.elapsed() >= SLOW_FAILURE {
                *self.outage.lock() = Some((Instant::now(), problem.clone()));
            }
            problem
        })
    }

    /// As [`VectorIndex::update`].
    fn update(&self, pages: &[PageText]) -> Result<(), VectorIndexError> {
        self.index.update(pages)?;
        let mut refused = self.refused.lock();
        pages.iter().for_each(|page| drop(refused.remove(&page.path)));
        Ok(())
    }

    /// As [`VectorIndex::remove`].
    fn remove(&self, paths: &[TreePath]) -> Result<(), VectorIndexError> {
        self.index.remove(paths)?;
        let mut refused = self.refused.lock();
        paths.iter().for_each(|path| drop(refused.remove(path)));
        Ok(())
    }

    /// Notes that the embedder refuses the text of a page. Vectors of an older text are removed.
    fn refuse(&self, path: &TreePath, reason: String) -> Result<(), VectorIndexError> {
        self.index.remove(std::slice::from_ref(path))?;
        if !self.refused.lock().contains_key(path) {
            tracing::warn!(page.path = %path, error = reason, "the embedder refuses a page; it is not found by meaning");
        }
        self.refused.lock().insert(path.clone(), reason);
        Ok(())
    }

    /// The pages whose texts the embedder refuses, for operators.
    pub fn refused_pages(&self) -> Option<String> {
        let refused = self.refused.lock();
        let (path, reason) = refused.first_key_value()?;
        Some(match refused.len() {
            1 => format!("the embedder refuses `{path}`, which cannot be found by meaning until it changes: {reason}"),
            count => format!(
                "the embedder refuses {count} pages, which cannot be found by meaning until they change; \
                 the first is `{path}`: {reason}"
            ),
        })
    }

    /// Waits until changed pages up to a position are embedded; false on timeout, and at once while
    /// the embedder fails.
    pub fn wait(&self, position: Seq, timeout: Duration) -> bool {
        if self.watermark.level() >= position.0 {
            return true;
        }
        self.index.problem().is_none() && self.watermark.wait(position.0, timeout)
    }

    /// What readers should know: pages that are not embedded yet, and why.
    pub fn note(&self) -> Option<String> {
        let pages = match self.index.pending() {
            0 => return None,
            1 => "1 page is".to_owned(),
            pending => format!("{pending} pages are"),
        };
        let reason = self.index.problem().map(|problem| format!(": {}", problem.summary)).unwrap_or_default();
        Some(match self.index.answering_model() == self.index.embedder().model() {
            true => format!("{pages} not embedded yet and cannot be found by meaning{reason}"),
            false => format!("{pages} not embedded with the new model yet; the embedded model answers{reason}"),
        })
    }
}
