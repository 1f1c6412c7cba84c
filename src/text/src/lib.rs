//! Parsing, checking and editing the text of a page.
//!
//! Invariant: all functions are pure. None reads a file, a clock or a setting, none panics on any
//! input, and each runs in time linear in the length of its input.
//!
//! Positions (`line`, `column`, byte ranges) refer to the complete file, frontmatter included.
//! Lines and columns start at 1; a column counts characters.
//!
//! pulldown-cmark (CommonMark and the GitHub extensions) parses the structure of a page. Wiki links
//! are scanned here, in the text that pulldown-cmark does not report as code.

pub mod append_only;
pub mod canvas;
pub mod comments;
pub mod computed_block;
pub mod fold;
pub mod format;
pub mod frontmatter;
pub mod headings;
pub mod links;
pub mod lint;
pub mod merge;
pub mod metadata;
pub mod page;
pub mod passages;
pub mod replace;
pub mod sections;
pub mod snippet;

mod blocks;
mod changes;
mod lines;
mod literal_spans;
mod structure;
mod tables;

#[cfg(test)]
mod hostile;

pub use frontmatter::Frontmatter;
pub use headings::Heading;
pub use links::Link;
pub use metadata::PageMetadata;
pub use page::{Page, tags, tags_of_value};
