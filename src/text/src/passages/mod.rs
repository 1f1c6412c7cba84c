//! The passages of a page: its paragraphs, list items, rows of tables and code, as plain text.
//!
//! They are the units of search by meaning, so markup, addresses and HTML are left out.

#[cfg(test)]
mod tests;

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Tag, TagEnd};

use crate::blocks::DATAVIEW_LANGUAGES;
use crate::frontmatter::{self, SplitPage};
use crate::headings::Heading;
use crate::lines::LineStarts;
use crate::links::{stem_of, without_wiki_markup};
use crate::page::aliases;
use crate::structure::{self, one_line, parser};

/// A page as a list of passages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagePassages {
    /// As [`Page::title`](crate::Page::title).
    pub title: String,
    /// Other names in the frontmatter.
    pub aliases: Vec<String>,
    /// The headings, in order.
    pub headings: Vec<Heading>,
    /// The passages, in order; none is empty.
    pub passages: Vec<Passage>,
}

/// One passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// What it is in the page.
    pub kind: PassageKind,
    /// Its text on one line, without markup.
    pub text: String,
    /// Index of the last heading before it.
    pub heading: Option<usize>,
    /// Its bytes in the page.
    pub range: Range<usize>,
    /// First and last line in the page, from 1.
    pub lines: (usize, usize),
    /// Whether it has links and no text outside of them.
    pub is_link_only: bool,
}

/// What a passage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassageKind {
    /// A paragraph.
    Paragraph,
    /// An item of a list, without the items inside it.
    ListItem,
    /// A row of a table.
    TableRow,
    /// A block of code.
    Code,
}

/// Splits a page into passages of at most `max_bytes` bytes of text: longer ones are split, at the
/// end of a sentence or a word where possible. `path` is the title of a page without one.
///
/// Headings, frontmatter, HTML and queries of Dataview are no passages.
#[must_use]
pub fn passages(path: &str, text: &str, max_bytes: usize) -> PagePassages {
    let split = frontmatter::split(text);
    let frontmatter = frontmatter::parse_split(&split);
    let lines = LineStarts::new(text);
    let headings = structure::parse(&split, &lines).headings;
    let title = frontmatter.text("title").or_else(|| {
        let heading = headings.iter().find(|heading| heading.level == 1 && !heading.is_nested);
        heading.map(|heading| heading.text.clone())
    });
    let mut reader = PassageReader {
        split: &split,
        lines: &lines,
        max_bytes,
        open: None,
        links: 0,
        skipped: 0,
        passages: Vec::new(),
    };
    for (event, range) in parser(split.body) {
        reader.handle_event(event, range.start + split.body_offset..range.end + split.body_offset);
    }
    reader.close();
    let mut passages = reader.passages;
    let mut next = 0;
    for passage in &mut passages {
        next += headings[next..].iter().take_while(|heading| heading.range.start <= passage.range.start).count();
        passage.heading = next.checked_sub(1);
    }
    PagePassages {
        title: title.unwrap_or_else(|| stem_of(path).to_owned()),
        aliases: aliases(&frontmatter),
        headings,
        passages,
    }
}

struct PassageReader<'r, 'a> {
    split: &'r SplitPage<'a>,
    lines: &'r LineStarts<'r>,
    max_bytes: usize,
    open: Option<OpenPassage>,
    /// Depth of links and images.
    links: usize,
    /// Depth of headings and of links whose text is their address.
    skipped: usize,
    passages: Vec<Passage>,
}

/// A passage whose end is not read yet.
struct OpenPassage {
    kind: PassageKind,
    text: String,
    /// The text outside of links.
    outside: String,
    has_links: bool,
    range: Range<usize>,
    /// Positions in the text and in the page at which pieces of text begin.
    pieces: Vec<(usize, usize)>,
}

impl PassageReader<'_, '_> {
    fn handle_event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(&tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text, &range);
            }
            Event::SoftBreak | Event::HardBreak => self.text(" ", &range),
            Event::FootnoteReference(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Heading { .. } => {
                self.close();
                self.skipped += 1;
            }
            Tag::Paragraph => match &self.open {
                // The first paragraph of a loose item is the text of the item.
                Some(open) if open.kind == PassageKind::ListItem && open.text.is_empty() => {}
                _ => self.open(PassageKind::Paragraph, range),
            },
            Tag::Item => self.open(PassageKind::ListItem, range),
            Tag::TableHead | Tag::TableRow => self.open(PassageKind::TableRow, range),
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) if is_generated(info) => {
                self.close();
                self.skipped += 1;
            }
            Tag::CodeBlock(_) => self.open(PassageKind::Code, range),
            Tag::HtmlBlock | Tag::List(_) | Tag::Table(_) | Tag::BlockQuote(_) | Tag::FootnoteDefinition(_) => {
                self.close();
            }
            Tag::Link { link_type, .. } => self.start_link(matches!(link_type, LinkType::Autolink | LinkType::Email)),
            Tag::Image { .. } => self.start_link(false),
            _ => {}
        }
    }

    fn start_link(&mut self, is_address: bool) {
        self.links += 1;
        self.skipped += usize::from(is_address || self.skipped > 0);
        if let Some(open) = &mut self.open {
            open.has_links = true;
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => self.skipped = self.skipped.saturating_sub(1),
            TagEnd::CodeBlock if self.open.is_none() => self.skipped = self.skipped.saturating_sub(1),
            TagEnd::Paragraph | TagEnd::Item | TagEnd::TableHead | TagEnd::TableRow | TagEnd::CodeBlock => self.close(),
            TagEnd::TableCell => self.text(", ", &(0..0)),
            TagEnd::Link | TagEnd::Image => {
                self.links = self.links.saturating_sub(1);
                self.skipped = self.skipped.saturating_sub(1);
            }
            _ => {}
        }
    }

    fn open(&mut self, kind: PassageKind, range: Range<usize>) {
        self.close();
        self.open = Some(OpenPassage {
            kind,
            text: String::new(),
            outside: String::new(),
            has_links: false,
            range: range.start..range.start,
            pieces: Vec::new(),
        });
    }

    fn text(&mut self, text: &str, range: &Range<usize>) {
        let Some(open) = self.open.as_mut().filter(|_| self.skipped == 0) else { return };
        if !range.is_empty() {
            open.pieces.push((open.text.len(), range.start));
            open.range.end = open.range.end.max(range.end);
        }
        open.text.push_str(text);
        if self.links == 0 {
            open.outside.push_str(text);
        }
    }

    /// Ends the open passage, if it has text.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let without_targets = without_wiki_markup(&open.text);
        if !without_targets.contains(char::is_alphanumeric) {
            return;
        }
        let (outside, has_wiki_links) = without_wiki_links(&open.outside);
        let is_link_only = (open.has_links || has_wiki_links) && !outside.contains(char::is_alphanumeric);
        for part in parts(&open.text, self.max_bytes) {
            let text = one_line(&without_wiki_markup(&open.text[part.clone()]));
            let text = text.trim_matches([',', ' ']);
            if !text.contains(char::is_alphanumeric) {
                continue;
            }
            let start = if part.start == 0 { open.range.start } else { open.position(part.start) };
            let end = if part.end == open.text.len() { open.range.end } else { open.position(part.end) };
            let range = start..end.max(start);
            let last = self.lines.index_of(range.end.saturating_sub(1).max(range.start));
            self.passages.push(Passage {
                kind: open.kind,
                text: text.to_owned(),
                heading: None,
                lines: (self.lines.index_of(range.start) + 1, last + 1),
                range,
                is_link_only,
            });
        }
        debug_assert!(open.range.start >= self.split.body_offset, "ranges are those of the page");
    }
}

impl OpenPassage {
    /// The position in the page of a position in the text: exact where the text equals the page.
    fn position(&self, at: usize) -> usize {
        let after = self.pieces.partition_point(|(start, _)| *start <= at);
        let piece = after.checked_sub(1).map(|index| self.pieces[index]);
        let next = self.pieces.get(after).map_or(self.range.end, |(_, position)| *position);
        piece.map_or(self.range.start, |(start, position)| (position + (at - start)).min(next))
    }
}

/// Code that is a query or a drawing.
fn is_generated(info: &str) -> bool {
    let language = info.split([' ', '\t', ',', '{']).next().unwrap_or_default();
    language.eq_ignore_ascii_case("mermaid")
        || DATAVIEW_LANGUAGES.iter().any(|name| language.eq_ignore_ascii_case(name))
}

/// The text without `[[links]]` and bare addresses, and whether it had any.
fn without_wiki_links(text: &str) -> (String, bool) {
    let (mut outside, mut rest, mut has_links) = (String::new(), text, false);
    while let Some(start) = rest.find("[[") {
        let Some(length) = rest[start..].find("]]") else { break };
        outside.push_str(&rest[..start]);
        rest = &rest[start + length + 2..];
        has_links = true;
    }
    outside.push_str(rest);
    let is_address = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
    has_links |= outside.split_whitespace().any(|word| is_address(&word));
    let words: Vec<&str> = outside.split_whitespace().filter(|word| !is_address(word)).collect();
    (words.join(" "), has_links)
}

/// Ranges of at most `max_bytes` bytes, in order, that cover a text.
fn parts(text: &str, max_bytes: usize) -> Vec<Range<usize>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    while text.len() - start > max_bytes {
        let limit = text.floor_char_boundary(start + max_bytes.max(4));
        let window = &text[start..limit];
        // A part that is much shorter than the limit says too little.
        let min = window.len() / 3;
        let sentence = || {
            let ends = window.char_indices().filter(|(_, character)| matches!(character, '.' | '!' | '?' | ';' | '\n'));
            let mut ends = ends.map(|(at, character)| at + character.len_utf8());
            let before_space = ends.rfind(|end| window[*end..].starts_with(char::is_whitespace));
            let ideographic = window.rfind(['。', '！', '？', '；']).map(|at| at + '。'.len_utf8());
            before_space.max(ideographic).filter(|end| *end > min)
        };
        let word = || window.rfind(char::is_whitespace).map(|at| at + 1).filter(|end| *end > min);
        let end = sentence().or_else(word).map_or(limit, |length| text.floor_char_boundary(start + length));
        parts.push(start..end);
        start = end;
    }
    parts.push(start..text.len());
    parts
}
