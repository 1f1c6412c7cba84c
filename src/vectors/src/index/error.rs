//! Errors of the vector index.

use svcfs_base::Fault;

use crate::{EmbedError, StoreError};

/// Why the vector index did not answer.
#[derive(Debug, thiserror::Error)]
pub enum VectorIndexError {
    /// The embedder gave no vectors.
    #[error(transparent)]
    Embedder(#[from] EmbedError),
    /// The vector store has vectors of another model or another `vectors.db`.
    #[error("the vector database is not filled yet")]
    StoreOutdated,
    /// The vector store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// SQLite failed. `vectors.db` is a cache and can be deleted.
    #[error("the database of vectors failed")]
    Database(#[from] rusqlite::Error),
    /// An old file could not be replaced.
    #[error("cannot replace the database of vectors")]
    Disk(#[from] std::io::Error),
    /// A row holds a value that this version never writes.
    #[error("the database of vectors has a damaged row: {0}; delete `.svc/state/vectors.db` and restart the server")]
    Damaged(String),
}

impl VectorIndexError {
    /// The reason for readers, without what a service answers: that may name accounts and internal
    /// addresses.
    #[must_use]
    pub const fn summary(&self) -> &'static str {
        match self {
            Self::Embedder(_) => "the embedder does not answer; `svcfs status` shows the reason",
            Self::StoreOutdated => "the vector database is not filled yet",
            Self::Store(_) => "the vector database does not answer; `svcfs status` shows the reason",
            Self::Database(_) | Self::Disk(_) | Self::Damaged(_) => {
                "`.svc/state/vectors.db` cannot be used; `svcfs status` shows the reason"
            }
        }
    }
}

/// Why vectors are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorProblem {
    /// For operators; it may have texts of a service.
    pub message: String,
    /// [`VectorIndexError::summary`].
    pub summary: &'static str,
}

impl From<VectorIndexError> for Fault {
    fn from(error: VectorIndexError) -> Self {
        match error {
            VectorIndexError::Embedder(error) => error.into(),
            VectorIndexError::Store(_) | VectorIndexError::StoreOutdated => Self::unavailable(error.to_string()),
            VectorIndexError::Database(source) if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                Self::disk_full("the search by meaning (`.svc/state/vectors.db`)").with_source(source)
            }
            VectorIndexError::Disk(source) if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::disk_full("the search by meaning (`.svc/state/vectors.db`)").with_source(source)
            }
            VectorIndexError::Database(_) | VectorIndexError::Disk(_) | VectorIndexError::Damaged(_) => {
                Self::unavailable("search by meaning not available").with_context(error.to_string()).with_source(error)
            }
        }
    }
}
