//! Recent changes, as a timeline and as feed documents.
//!
//! Invariant: an event is one path of one commit and comes from the log alone. git is not read, so
//! the cost does not depend on the length of the history.

mod feeds;
mod operations;
#[cfg(test)]
mod tests;

pub use feeds::{FeedItem, JsonFeed};
pub(crate) use feeds::{strip_invalid_xml, to_atom_time};
pub use operations::AREA;
