//! Errors of the index.

use svcfs_base::Fault;

/// Why the index did not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The query is invalid. The text names the field and says what to do.
    #[error("`{field}`: {reason}")]
    Invalid {
        /// The invalid argument: `q`, `where`, `sort`, …
        field: &'static str,
        /// What is wrong with it, and what is valid.
        reason: String,
    },
    /// SQLite failed. The index is a cache and can be deleted and rebuilt.
    #[error("the search index database failed")]
    Database(#[from] rusqlite::Error),
    /// The directory or an old index file could not be changed on disk.
    #[error("cannot replace the search index file")]
    Disk(#[from] std::io::Error),
    /// A page could not be read. A rebuild that meets this keeps the old index.
    #[error("cannot read a page for the search index")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row holds a value that this version never writes. A rebuild repairs it.
    #[error("the search index has a damaged row: {0}")]
    Damaged(String),
}

impl IndexError {
    pub(crate) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { field, reason: why.into() }
    }
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Invalid { field, reason: why } => Self::invalid(field, why),
            IndexError::Database(source) if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                Self::disk_full("the search index (`.svc/state/index.db`)").with_source(source)
            }
            IndexError::Disk(source) if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::disk_full("the search index (`.svc/state/index.db`)").with_source(source)
            }
            IndexError::Database(_) | IndexError::Disk(_) | IndexError::Source(_) | IndexError::Damaged(_) => {
                Self::unavailable("search index not available").with_context(error.to_string()).with_source(error)
            }
        }
    }
}
