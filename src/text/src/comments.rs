//! The comments of a page, which readers do not see.

use std::ops::Range;

use crate::frontmatter::split;
use crate::lines::LineStarts;
use crate::structure;

/// The byte ranges of the comments `%% … %%` of a page, in order, delimiters included.
#[must_use]
pub fn comments(text: &str) -> Vec<Range<usize>> {
    structure::parse(&split(text), &LineStarts::new(text)).comments
}
