//! What agents know of a tree before they read it, and what they remember in it (contract 4.16, gaps.md 4.16).
//!
//! One rule: an episode is a page like any other; what makes it one, and what says that it was taken up elsewhere, stands in
//! frontmatter, so that people and every door can see and change it.

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
