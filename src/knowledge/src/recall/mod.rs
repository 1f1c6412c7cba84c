//! Excerpts of the pages that answer a question, within a budget of tokens, with citations.
//!
//! Invariant: the text of an answer never costs more than the budget by [`budget::TokenCount`], and
//! an excerpt is exactly the bytes of the cited lines at the cited commit.

mod budget;
mod candidates;
mod operations;
mod sections;
mod selection;
#[cfg(test)]
mod tests;
mod text;
mod trust;

pub use operations::AREA;
pub(crate) use text::quote_external;
pub(crate) use trust::{end_of, is_external};
