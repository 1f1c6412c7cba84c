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
mod highlight;
mod markdown;
mod parts;
mod sanitize;
#[cfg(test)]
mod tests;

use svcfs_text::replace::replace_ranges;
use svcfs_text::{Heading, Page, comments};

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
    /// The links, embeds and images that lead to files of the tree.
    pub links: Vec<PageLink>,
    parts: Vec<Part>,
    slots: Vec<Slot>,
}

struct Summary {
    title: String,
    excerpt: String,
}

impl Summary {
    /// Title and excerpt without what is in comments.
    fn of(path: &str, text: &str, page: Page<'_>) -> Self {
        let hidden = comments::comments(text);
        if hidden.is_empty() {
            return Self { title: page.title, excerpt: page.excerpt };
        }
        let visible = replace_ranges(text, hidden.into_iter().map(|range| (range, "")));
        let page = Page::parse(path, &visible);
        Self { title: page.title, excerpt: page.excerpt }
    }
}

/// Parses a page.
#[must_use]
pub fn parse(path: &str, text: &str) -> ParsedPage {
    let page = Page::parse(path, text);
    let markdown::Rendered { html, slots, headings } = markdown::render(text, &page);
    let parts = parts::split(&sanitize::page(&html));
    let links = parts::tree_links(&parts, &slots);
    let Summary { title, excerpt } = Summary::of(path, text, page);
    ParsedPage { title, toc: headings, excerpt, links, parts, slots }
}

impl ParsedPage {
    /// The HTML for one reader. `id_prefix` is put before ids and local links, so that embedded
    /// pages do not repeat those of the page.
    pub fn fill(&self, filler: &mut dyn PageFiller, id_prefix: &str) -> String {
        parts::fill(&self.parts, &self.slots, filler, id_prefix)
    }
}
