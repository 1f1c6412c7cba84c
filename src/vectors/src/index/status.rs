//! What is known about the index: counts, missing pages and the last failure.

use std::sync::atomic::Ordering;

use super::{VectorIndex, VectorIndexError, VectorProblem, rows};

/// The state of a vector index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorStatus {
    /// Length of the vectors; none before the first answer of a remote embedder.
    pub dimensions: Option<usize>,
    /// Pages with chunks of the current model.
    pub pages: usize,
    /// Chunks that can be found. Until all pages have vectors of the model, they may be those of
    /// the previous one.
    pub chunks: usize,
    /// Pages that are not embedded or not stored yet.
    pub pending: usize,
    /// Why the last step failed.
    pub problem: Option<VectorProblem>,
}

impl VectorIndex {
    /// The state of the index.
    #[must_use]
    pub fn status(&self) -> VectorStatus {
        let count = |model| self.read(|connection| rows::counts(connection, model)).ok();
        let mut counts = self.counts.lock();
        *counts = counts.or_else(|| count(self.current.id));
        let (pages, mut chunks) = counts.unwrap_or_default();
        drop(counts);
        let previous = self.previous.read().as_ref().map(|previous| previous.id);
        if let Some(previous) = previous {
            chunks = count(previous).map_or(0, |(_, chunks)| chunks);
        }
        VectorStatus {
            dimensions: self.current.dimensions(),
            pages,
            chunks,
            pending: self.pending(),
            problem: self.problem(),
        }
    }

    /// Number of pages whose chunks are those of these settings.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`].
    pub fn embedded_pages(&self) -> Result<usize, VectorIndexError> {
        self.read(|connection| rows::embedded_pages(connection, self.current.id, &self.rules.name()))
    }

    /// Number of pages with vectors that a remote store does not have yet; 0 without one.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`].
    pub fn unstored_pages(&self) -> Result<usize, VectorIndexError> {
        match self.store {
            None => Ok(0),
            Some(_) if self.is_store_outdated.load(Ordering::Acquire) => Ok(self.status().pages),
            Some(_) => self.read(|connection| rows::unstored_pages(connection, self.current.id)),
        }
    }

    /// [`VectorStatus::pending`], without counting.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// [`VectorStatus::problem`], without counting.
    #[must_use]
    pub fn problem(&self) -> Option<VectorProblem> {
        self.problem.lock().clone()
    }

    /// Sets the number of pages that are not embedded or not stored yet, for
    /// [`VectorIndex::status`].
    pub fn set_pending(&self, pages: usize) {
        self.pending.store(pages, Ordering::Relaxed);
    }

    /// Sets why the last step failed, for [`VectorIndex::status`].
    pub fn set_problem(&self, problem: Option<VectorProblem>) {
        *self.problem.lock() = problem;
    }
}
