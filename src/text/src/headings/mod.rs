//! The headings of a page and their anchors.

#[cfg(test)]
mod tests;

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use crate::frontmatter::split;
use crate::lines::LineStarts;
use crate::structure;

/// One heading of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Heading {
    /// 1 for `#` to 6 for `######`.
    pub level: u8,
    /// The text of the heading, without markup.
    pub text: String,
    /// Its anchor, as computed by [`slug`].
    pub slug: String,
    /// Its line in the page, from 1.
    #[serde(skip)]
    pub line: usize,
    /// Its bytes in the page, with the underline of a Setext heading.
    #[serde(skip)]
    pub range: Range<usize>,
    /// Whether it is inside a quote, a list item or a footnote.
    #[serde(skip)]
    pub is_nested: bool,
}

/// The non-empty headings of a page, in order, ATX and Setext, outside code and frontmatter.
#[must_use]
pub fn headings(text: &str) -> Vec<Heading> {
    structure::parse(&split(text), &LineStarts::new(text)).headings
}

/// The anchor of a heading.
///
/// Letters become lower case; `a-z` and `0-9` remain; a run of spaces, tabs, `-` and `_` becomes
/// one `-`, but not at either end; all other characters, non-ASCII letters included, are removed.
/// Anchors need not be unique.
#[must_use]
pub fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            'a'..='z' | '0'..='9' => slug.push(character),
            'A'..='Z' => slug.push(character.to_ascii_lowercase()),
            ' ' | '\t' | '-' | '_' if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    if slug.ends_with('-') {
        slug.pop();
    }
    slug
}
