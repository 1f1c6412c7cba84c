//! What can go wrong in the index.

use svcfs_base::{Fault, Kind};

/// Why the index did not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// What the caller asked cannot be understood; the text names the field and says what to do.
    #[error("`{field}`: {reason}")]
    Invalid {
        /// The argument that is wrong: `q`, `where`, `sort`, …
        field: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// SQLite failed. The index can be deleted and made anew, so nothing is lost.
    #[error("the index database failed")]
    Database(#[from] rusqlite::Error),
    /// The directory or an old file of the index could not be changed on disk.
    #[error("the index file could not be replaced")]
    Disk(#[from] std::io::Error),
    /// What was to be indexed could not be read; a rebuild that meets this leaves the old index in place.
    #[error("a page could not be read for the index")]
    Source(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row holds what this version never writes; a rebuild repairs it.
    #[error("the index holds a damaged row: {0}")]
    Damaged(String),
}

impl IndexError {
    /// The value of `field` cannot be used.
    pub(crate) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { field, reason: why.into() }
    }
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Invalid { field, reason: why } => Self::invalid(field, why),
            IndexError::Database(source) if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                Self::new(Kind::NoSpace, "no space left on the server's disk for the search index").with_source(source)
            }
            IndexError::Disk(source) if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::new(Kind::NoSpace, "no space left on the server's disk for the search index").with_source(source)
            }
            IndexError::Database(_) | IndexError::Disk(_) | IndexError::Source(_) | IndexError::Damaged(_) => {
                Self::unavailable("search index not available").with_context(error.to_string()).with_source(error)
            }
        }
    }
}
