//! Search by words and by frontmatter, and the task that keeps the index up to date.
//!
//! Invariant: only the indexer writes to the index, and only what is in the tree.

mod by_meaning;
mod compare;
mod evaluation;
mod grep;
pub(crate) mod hybrid;
mod indexer;
mod operations;
pub(crate) mod past_search;
mod result_text;
mod semantic;
mod stale_reads;
mod suggest;
#[cfg(test)]
mod tests;
pub(crate) mod vector_leg;

pub use compare::{IndexState, compare_index};
pub use indexer::{Indexer, ReindexReport, check_index, reindex};
pub use operations::AREA;
pub(crate) use operations::require_index;
pub use stale_reads::RecheckQueue;
