//! The headings of a page and their anchors.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

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
    /// Its anchor, unique in the page: that of its text ([`slug`]), with `-1`, `-2` … after the
    /// first.
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

/// The anchor of a heading by its text, by the rule of GitHub.
///
/// The text is in lower case; letters, marks and digits of every script, `-` and `_` (and other
/// connecting punctuation) remain; each space becomes `-`; all other characters, emoji included,
/// are removed. Two headings of a page may have the same anchor: see [`Heading::slug`].
#[must_use]
pub fn slug(text: &str) -> String {
    if text.is_ascii() {
        let slug = text.bytes().filter_map(|byte| match byte {
            b' ' => Some('-'),
            b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => Some(char::from(byte.to_ascii_lowercase())),
            _ => None,
        });
        return slug.collect();
    }
    let lower = text.to_lowercase();
    let slug = lower.chars().filter_map(|character| match character {
        ' ' => Some('-'),
        '-' => Some('-'),
        _ if character.is_alphabetic() => Some(character),
        _ => match character.general_category() {
            GeneralCategory::DecimalNumber
            | GeneralCategory::ConnectorPunctuation
            | GeneralCategory::NonspacingMark
            | GeneralCategory::SpacingMark
            | GeneralCategory::EnclosingMark => Some(character),
            _ => None,
        },
    });
    slug.collect()
}

/// The anchor that a link means with the text after `#`: the last of `Parent#Child`.
#[must_use]
pub fn anchor_of_link(heading: &str) -> String {
    slug(heading.rsplit('#').find(|part| !part.trim().is_empty()).unwrap_or_default().trim())
}

/// Makes the anchors of a page unique: the second of two alike is `…-1`, the third `…-2`.
#[derive(Default)]
pub(crate) struct UniqueSlugs {
    /// Each anchor given out, and the last number appended to it.
    last_numbers: HashMap<String, usize>,
}

impl UniqueSlugs {
    pub(crate) fn next(&mut self, slug: String) -> String {
        let Some(number) = self.last_numbers.get(&slug).copied() else {
            self.last_numbers.insert(slug.clone(), 0);
            return slug;
        };
        // a heading may be called `…-1` itself
        let is_free = |number: &usize| !self.last_numbers.contains_key(&format!("{slug}-{number}"));
        let number = (number + 1..).find(is_free).unwrap_or_default();
        let unique = format!("{slug}-{number}");
        self.last_numbers.insert(unique.clone(), 0);
        self.last_numbers.insert(slug, number);
        unique
    }
}
