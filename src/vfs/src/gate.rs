//! What every written page must pass.

use bytes::Bytes;
use svcfs_base::{Caller, Fault, TreePath};

/// One file on its way into the tree.
#[derive(Debug, Clone)]
pub struct ProposedFile {
    /// Where it will stand.
    pub path: TreePath,
    /// Its content; a gate may replace it.
    pub content: Bytes,
    /// The content that stands there now, if any.
    pub old_content: Option<Bytes>,
}

/// A check that may rewrite or refuse a file, and never writes.
///
/// Gates come from above, so that the write path needs neither the linter nor the index.
pub trait WriteGate: Send + Sync + 'static {
    /// Looks at one file. Only regular files outside `.svc` that are versioned come here; edits made behind the server do
    /// not: they cannot be refused.
    ///
    /// # Errors
    /// The refusal, as the writer should read it.
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault>;
}
