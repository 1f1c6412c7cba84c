//! How pages hang together (contract 4.6).
//!
//! One rule: links are read by the index; here they are only asked for.

mod operations;
#[cfg(test)]
mod tests;

pub use operations::AREA;
