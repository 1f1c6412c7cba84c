//! The headings of a page and the anchors that lead to them.

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
    /// The words of the heading, without markup.
    pub text: String,
    /// The anchor that leads to it, as [`slug`] makes it.
    pub slug: String,
    /// Its line in the page, from 1.
    #[serde(skip)]
    pub line: usize,
    /// Its bytes in the page, underline of a Setext heading included.
    #[serde(skip)]
    pub range: Range<usize>,
    /// Does it stand inside a quote, a list item or a footnote?
    #[serde(skip)]
    pub is_nested: bool,
}

/// The headings of a page, in order: `#` and underlined ones, outside code and frontmatter; empty ones are left out.
#[must_use]
pub fn headings(text: &str) -> Vec<Heading> {
    structure::read(&split(text), &LineStarts::of(text)).headings
}

/// The anchor of a heading (gaps.md 4.3, GET /toc).
///
/// Lower case; `a-z` and `0-9` stay; a run of spaces, tabs, `-` and `_` becomes one `-`, never at either end; every other
/// character, non-ASCII letters included, is dropped. Two headings may have the same anchor.
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
