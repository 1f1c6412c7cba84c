//! Checks that every written page must pass.

use bytes::Bytes;
use svcfs_base::{Caller, Fault, TreePath};

/// A file that is about to be written.
#[derive(Debug, Clone)]
pub struct ProposedFile {
    /// Its path.
    pub path: TreePath,
    /// Its content; a gate may replace it.
    pub content: Bytes,
    /// The current content at that path, if any.
    pub old_content: Option<Bytes>,
}

/// Reads a file as it is while the gates run; none if there is none.
pub type ReadPresent<'r> = &'r dyn Fn(&TreePath) -> Result<Option<Bytes>, Fault>;

/// A check that may rewrite or refuse a file, and never writes.
///
/// Upper layers provide gates: the write path depends on neither linter nor index.
pub trait WriteGate: Send + Sync + 'static {
    /// Checks one file. Only for versioned regular files outside `.svc` and for
    /// definitions in it, not for external edits.
    ///
    /// # Errors
    /// The refusal, worded for the writer.
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault>;

    /// Checks the removal or rename of a versioned file with this content. Not for the files of a
    /// renamed directory, see [`check_directory`](Self::check_directory).
    ///
    /// # Errors
    /// The refusal, worded for the caller.
    fn check_removal(&self, _caller: &Caller, _path: &TreePath, _content: &Bytes) -> Result<(), Fault> {
        Ok(())
    }

    /// Checks the rename of a directory. The tree is locked: only `read` may read it.
    ///
    /// # Errors
    /// The refusal, worded for the caller.
    fn check_directory(&self, _caller: &Caller, _path: &TreePath, _read: ReadPresent<'_>) -> Result<(), Fault> {
        Ok(())
    }
}
