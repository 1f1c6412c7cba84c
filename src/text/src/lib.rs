//! Everything svcfs knows about the text of a page.
//!
//! One rule: text in, answers out. No function here reads a file, a clock or a setting, none panics whatever the
//! bytes are, and each takes time proportional to the length of its input.
//!
//! Positions given out (`line`, `column`, byte ranges) always count in the whole file, frontmatter included; lines and
//! columns start at 1 and a column counts characters.
//!
//! The structure of a page comes from pulldown-cmark (CommonMark and the GitHub extensions); wiki links are scanned here,
//! over the text that pulldown-cmark says is not code.

pub mod computed_block;
pub mod format;
pub mod frontmatter;
pub mod headings;
pub mod links;
pub mod lint;
pub mod page;
pub mod sections;
pub mod snippet;
pub mod tasks;

mod blocks;
mod lines;
mod structure;
mod tables;

#[cfg(test)]
mod hostile;

pub use frontmatter::Frontmatter;
pub use headings::Heading;
pub use links::Link;
pub use page::{Page, tags};
