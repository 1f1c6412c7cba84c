//! Why a backup failed.

use std::io;
use std::path::Path;

use svcfs_base::Timestamp;

/// A failure with what to do next. The text has no passwords.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackupError {
    message: String,
    needs_operator: bool,
}

impl BackupError {
    /// A failure that may end by itself, such as of the network or a full disk.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), needs_operator: false }
    }

    /// A refusal: it stays until a person does something.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), needs_operator: true }
    }

    /// The refusal of a remote that had a backup and has none now.
    pub(crate) fn lost(verified: Timestamp, missing: &str) -> Self {
        Self::refused(format!(
            "the remote had a backup at {verified:.0} and has no {missing} now: mount its disk, or correct \
             `backup.remote`; `svcfs backup --accept-empty` makes a new full backup there"
        ))
    }

    /// A failure of a file operation.
    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(format!("cannot {action} `{}`: {error}", path.display()))
    }

    /// Whether it stays until a person does something.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        self.needs_operator
    }
}
