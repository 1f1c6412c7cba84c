//! The passages whose meaning is nearest to a question.

use svcfs_base::{Fault, TreePath};
use svcfs_vectors::{NearChunk, VectorFilter, VectorProblem};

use crate::kernel::{OperationContext, Space};
use crate::vectors::PageVectors;

/// Passages that are requested: enough for 200 pages, whose best passages they are.
pub const MAX_PASSAGES: usize = 400;

/// What the search by meaning returned.
#[derive(Debug, Clone, PartialEq)]
pub enum VectorLeg {
    /// The settings do not enable it.
    Disabled,
    /// It cannot answer now; the text is for the caller.
    Unavailable(String),
    /// The passages, nearest first.
    Answered(Vec<NearChunk>),
}

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

/// The passages at or below a folder that are nearest to a question. Pages that have no vectors
/// yet are noted.
pub fn search(cx: &OperationContext<'_>, question: &str, limit: usize, folder: Option<&TreePath>) -> VectorLeg {
    let Ok(vectors) = PageVectors::of(cx) else { return VectorLeg::Disabled };
    match vectors.search(question, limit, &VectorFilter { folder: folder.cloned() }) {
        Ok(near) => VectorLeg::Answered(near),
        Err(VectorProblem { message, summary }) => {
            tracing::warn!(space = cx.space.name, error = message, "search by meaning failed; answering by words");
            let text = format!("search by meaning is not available now, only words were searched: {summary}");
            VectorLeg::Unavailable(text)
        }
    }
}
