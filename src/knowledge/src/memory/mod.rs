//! What agents should know of a tree, and the episodes they remember in it.
//!
//! Invariant: an episode is an ordinary page. Frontmatter makes it an episode and marks it as
//! merged, so that people and every protocol can see and change it.

mod context;
mod episodes;
mod operations;
mod overview;
mod pages;
mod report;
#[cfg(test)]
mod tests;

pub use context::{AgentContext, candidate_paths, read_context};
pub use operations::AREA;
pub use overview::describe_tree;
pub(crate) use pages::{child, folder_for, pages_with};
pub use report::{EpisodeReport, MemoryEpisode, report_episodes};
