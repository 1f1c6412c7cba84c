//! Markdown to sanitised HTML.
//!
//! Invariant: all functions are pure. [`parse`] gives the same parts for the same text, so a caller
//! may cache them by content; what depends on the reader (links, images, embeds, queries) is filled
//! in by [`ParsedPage::fill`], through a [`PageFiller`].
//!
//! Invariant: no HTML of a page reaches the output without the sanitiser (ammonia). The parts are
//! cut out of its output, in which every `<` outside of a tag is escaped and each attribute is
//! quoted.
#![warn(missing_docs)]

mod callouts;
mod escape;
mod markdown;
mod parts;
mod sanitize;
#[cfg(test)]
mod tests;

use svcfs_text::{Heading, Page};

pub use escape::escape_html;
pub use parts::{PageFiller, PageLink, QueryBlock};

use parts::{Part, Slot};

/// A page whose HTML is parsed and sanitised, without what depends on the reader.
#[derive(Debug, Clone)]
pub struct ParsedPage {
    /// Title of the page.
    pub title: String,
    /// Its headings, in order; their anchors are ids in the HTML.
    pub toc: Vec<Heading>,
    /// The first paragraph as text.
    pub excerpt: String,
    parts: Vec<Part>,
    slots: Vec<Slot>,
}

/// Parses a page.
#[must_use]
pub fn parse(path: &str, text: &str) -> ParsedPage {
    let page = Page::parse(path, text);
    let markdown::Rendered { html, slots, headings } = markdown::render(text, &page);
    let parts = parts::split(&sanitize::page(&html));
    ParsedPage { title: page.title, toc: headings, excerpt: page.excerpt, parts, slots }
}

/// Renders markdown that svcfs wrote, such as the result of a query, as inner HTML for this page.
pub fn fill_markdown(text: &str, filler: &mut dyn PageFiller, id_prefix: &str) -> String {
    parse("", text).fill(filler, id_prefix)
}

impl ParsedPage {
    /// The HTML for one reader. `id_prefix` is put before ids and local links, so that embedded
    /// pages do not repeat those of the page.
    pub fn fill(&self, filler: &mut dyn PageFiller, id_prefix: &str) -> String {
        parts::fill(&self.parts, &self.slots, filler, id_prefix)
    }
}
