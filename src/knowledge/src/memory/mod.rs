//! What agents should know of a tree, and the episodes they remember in it.
//!
//! Invariant: an episode is an ordinary page. Frontmatter makes it an episode and marks it as
//! merged, so that people and every protocol can see and change it.

mod context;
mod operations;
mod overview;
mod report;
#[cfg(test)]
mod tests;

pub use context::{AgentContext, candidate_paths, read_context};
pub use operations::AREA;
pub use overview::describe_tree;
pub use report::{EpisodeReport, MemoryEpisode, report_episodes};
