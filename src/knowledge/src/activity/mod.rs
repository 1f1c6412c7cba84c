//! What happened lately, for people and for feed readers (contract 4.17).
//!
//! One rule: an event is one path of one commit, as the log has it; nothing is looked up in git, so an answer costs the same
//! after ten commits and after a million.

mod feeds;
mod operations;
#[cfg(test)]
mod tests;

pub use feeds::{FeedItem, JsonFeed};
pub use operations::AREA;
