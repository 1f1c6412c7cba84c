//! What can go wrong on the disk.

use svcfs_base::{Fault, Kind, TreePath};

/// A failure of the disk, of git or of SQLite.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused something on a path of the tree.
    #[error("`{path}`: {source}")]
    Disk {
        /// Which path.
        path: TreePath,
        /// What it said.
        source: std::io::Error,
    },
    /// A part of the path is a link, which is not followed here.
    #[error("a part of `{0}` is a symbolic link")]
    Linked(TreePath),
    /// libgit2 failed.
    #[error("git: {0}")]
    Git(#[from] git2::Error),
    /// git cannot record this path, such as one named `.git`.
    #[error("git cannot record `{path}`: {reason}")]
    Unrecordable {
        /// Which path.
        path: TreePath,
        /// Why.
        reason: String,
    },
    /// SQLite failed.
    #[error("log.db: {0}")]
    Database(#[from] rusqlite::Error),
    /// A file of our own state could not be read or written.
    #[error("state: {0}")]
    State(#[from] std::io::Error),
    /// A stored value makes no sense.
    #[error("state is damaged: {0}")]
    Damaged(String),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Disk { path, source } => Self::io(&path, source),
            StoreError::Linked(path) => {
                Self::invalid("path", format_args!("a part of `{path}` is a symbolic link; use the path it leads to"))
            }
            StoreError::Unrecordable { path, reason } => {
                Self::invalid("path", format_args!("git cannot record `{path}`: {reason}; choose another name"))
            }
            StoreError::Database(source) if is_full(&source) => no_space(source),
            StoreError::State(source) if source.kind() == std::io::ErrorKind::StorageFull => no_space(source),
            StoreError::State(source) if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => read_only(source),
            StoreError::Database(source) if source.sqlite_error_code() == Some(rusqlite::ErrorCode::ReadOnly) => {
                read_only(source)
            }
            StoreError::Git(source)
                if source.class() == git2::ErrorClass::Os && source.message().contains("No space left") =>
            {
                no_space(source)
            }
            other @ (StoreError::Git(_) | StoreError::Database(_) | StoreError::State(_) | StoreError::Damaged(_)) => {
                Self::internal(other)
            }
        }
    }
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

fn no_space(source: impl std::error::Error + Send + Sync + 'static) -> Fault {
    Fault::new(Kind::NoSpace, "no space left on the server's disk; nothing was written").caused_by(source)
}

fn read_only(source: impl std::error::Error + Send + Sync + 'static) -> Fault {
    Fault::new(Kind::ReadOnly, "the server's disk is read-only; nothing was written").caused_by(source)
}
