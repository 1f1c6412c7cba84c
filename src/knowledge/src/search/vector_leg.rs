//! The passages whose meaning is nearest to a question.

use svcfs_base::{Fault, TreePath};
use svcfs_vectors::{NearChunk, VectorFilter, VectorProblem};

use crate::kernel::{OperationContext, Space};
use crate::vectors::PageVectors;

/// Passages that are requested: enough for 200 pages, whose best passages they are.
pub const MAX_PASSAGES: usize = 400;

/// Whether the settings enable search by meaning.
pub const fn is_enabled(space: &Space) -> bool {
    space.vectors.is_some()
}

/// Refuses a call that needs search by meaning when it is disabled.
///
/// # Errors
/// `Unavailable`.
pub fn require(space: &Space) -> Result<(), Fault> {
    PageVectors::of_space(space).map(drop)
}

/// The passages at or below a folder that are nearest to a question, nearest first; `None` when the
/// settings do not enable search by meaning. Pages that have no vectors yet are noted.
///
/// # Errors
/// A text for the caller when it cannot answer now.
pub fn search(
    cx: &OperationContext<'_>,
    question: &str,
    limit: usize,
    folder: Option<&TreePath>,
) -> Option<Result<Vec<NearChunk>, String>> {
    let vectors = PageVectors::of(cx).ok()?;
    let near = vectors.search(question, limit, &VectorFilter { folder: folder.cloned() });
    Some(near.map_err(|VectorProblem { message, summary }| {
        tracing::warn!(space = cx.space.name, error = message, "search by meaning failed; answering by words");
        format!("search by meaning is not available now, only words were searched: {summary}")
    }))
}
