//! What every written page must pass.
use bytes::Bytes;
use svcfs_base::{Caller, Fault, TreePath};

/// One file on its way into the tree.
pub struct Proposal {
    /// Where it will stand.
    pub path: TreePath,
    /// Its content; a gate may replace it.
    pub content: Bytes,
    /// The content that stands there now, if any.
    pub before: Option<Bytes>,
}

/// A check that may rewrite or refuse a file, and never writes.
pub trait Gate: Send + Sync + 'static {
    /// Looks at one page (only regular, versioned files outside `.svc` come here).
    ///
    /// # Errors
    /// The refusal, as the writer should read it.
    fn pass(&self, caller: &Caller, proposal: &mut Proposal) -> Result<(), Fault>;
}
