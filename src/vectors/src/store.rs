//! What finds the nearest of many vectors.

use svcfs_base::TreePath;

use crate::NearVector;

/// A vector to store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredVector {
    /// Identifies the chunk in `vectors.db`; a later vector with the same id replaces it.
    pub id: i64,
    /// The page of the chunk.
    pub path: TreePath,
    /// Length 1.
    pub vector: Vec<f32>,
}

/// Which vectors a search may return.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VectorFilter {
    /// Only those of pages at or below this path.
    pub folder: Option<TreePath>,
}

impl VectorFilter {
    /// Whether a page may be returned.
    #[must_use]
    pub fn includes(&self, page: &TreePath) -> bool {
        self.folder.as_ref().is_none_or(|folder| page.is_under(folder))
    }

    /// The folder; none for all pages.
    #[must_use]
    pub fn below(&self) -> Option<&TreePath> {
        self.folder.as_ref().filter(|folder| !folder.is_root())
    }
}

/// Why a store did not answer. Callers then search by words and say so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(
    /// The store, what failed, and what to do.
    pub String,
);

/// Stores the vectors of one space and finds the nearest. Calls block and may come from several
/// threads. `vectors.db` remains the record of what is stored: after an error, the caller repeats
/// the call.
pub trait VectorStore: Send + Sync {
    /// Stores vectors; those with a known id are replaced. Creates collection or table at first
    /// use, with the length of these vectors.
    ///
    /// # Errors
    /// [`StoreError`]; some vectors may be stored.
    fn upsert(&self, vectors: &[StoredVector]) -> Result<(), StoreError>;

    /// Removes vectors. Unknown ids are no error.
    ///
    /// # Errors
    /// [`StoreError`]; some may be removed.
    fn delete(&self, ids: &[i64]) -> Result<(), StoreError>;

    /// Removes all vectors of this space, for example after a change of the model.
    ///
    /// # Errors
    /// [`StoreError`].
    fn clear(&self) -> Result<(), StoreError>;

    /// The nearest vectors by cosine, the nearest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn search(&self, question: &[f32], limit: usize, filter: &VectorFilter) -> Result<Vec<NearVector>, StoreError>;
}
