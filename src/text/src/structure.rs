//! One pass over the body of a page: headings, markdown links, and ranges without wiki links.
//!
//! All data from pulldown-cmark is collected here, so that indexing parses a page only once.

use std::ops::Range;

use pulldown_cmark::{CowStr, Event, HeadingLevel, LinkType, OffsetIter, Options, Parser, Tag, TagEnd};

use crate::frontmatter::SplitPage;
use crate::headings::{Heading, UniqueSlugs, slug};
use crate::lines::LineStarts;
use crate::links::{LinkKind, without_wiki_markup};
use crate::literal_spans::{LiteralKind, RangeCursor, literal_spans};
use crate::metadata::{ItemCollector, ItemStructure};

/// Maximum length of the excerpt of a page, in characters, without the `…` of a shortened one.
const EXCERPT_CHARS: usize = 300;

/// A markdown link or image with an unparsed target.
pub(crate) struct WrittenLink<'a> {
    /// [`LinkKind::Markdown`] or [`LinkKind::Image`].
    pub(crate) kind: LinkKind,
    /// The target with escapes and entities resolved, not percent-decoded.
    pub(crate) destination: CowStr<'a>,
    pub(crate) range: Range<usize>,
    /// End of its text in the page, before `]`.
    pub(crate) text_end: usize,
    pub(crate) label: String,
}

impl WrittenLink<'_> {
    /// Maximum length of a label: nested images must not copy a long one at every level.
    const MAX_LABEL_BYTES: usize = 512;

    fn add_to_label(&mut self, text: &str) {
        let capacity = Self::MAX_LABEL_BYTES.saturating_sub(self.label.len());
        self.label.push_str(&text[..text.floor_char_boundary(capacity)]);
    }
}

/// A link reference definition: `[label]: destination`.
pub(crate) struct LinkDefinition {
    pub(crate) destination: String,
    pub(crate) range: Range<usize>,
}

/// The result of one pass over a body. All ranges refer to the page, frontmatter included.
#[derive(Default)]
pub(crate) struct BodyStructure<'a> {
    pub(crate) headings: Vec<Heading>,
    pub(crate) links: Vec<WrittenLink<'a>>,
    pub(crate) definitions: Vec<LinkDefinition>,
    /// Code, HTML, comments, formulas and link targets, in order: `[[x]]` inside is not a link.
    pub(crate) opaque: Vec<Range<usize>>,
    /// The comments `%% … %%`, in order.
    pub(crate) comments: Vec<Range<usize>>,
    /// The items of all lists, in order.
    pub(crate) items: Vec<ItemStructure>,
    /// Text of the first paragraph on one line, at most [`EXCERPT_CHARS`] long.
    pub(crate) excerpt: String,
}

/// The markdown extensions of svcfs pages.
pub(crate) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_GFM);

/// pulldown-cmark with the markdown extensions of svcfs pages.
pub(crate) fn parser(body: &str) -> OffsetIter<'_> {
    Parser::new_ext(body, OPTIONS).into_offset_iter()
}

pub(crate) fn parse<'a>(split: &SplitPage<'a>, lines: &LineStarts<'_>) -> BodyStructure<'a> {
    let mut reader = StructureReader::new(split, lines);
    let mut events = parser(split.body);
    for (event, range) in &mut events {
        reader.handle_event(event, range.start + split.body_offset..range.end + split.body_offset);
    }
    let mut structure = reader.structure;
    structure.items = reader.items.items;
    for (_, definition) in events.reference_definitions().iter() {
        let span = &definition.span;
        let range = span.start + split.body_offset..span.end + split.body_offset;
        structure.opaque.push(range.clone());
        structure.definitions.push(LinkDefinition { destination: definition.dest.to_string(), range });
    }
    structure.opaque.sort_unstable_by_key(|range| range.start);
    structure.hide_literal_spans(split);
    structure
}

impl BodyStructure<'_> {
    /// Links in comments and formulas are none.
    fn hide_literal_spans(&mut self, split: &SplitPage<'_>) {
        let spans = literal_spans(split, &self.opaque);
        if spans.is_empty() {
            return;
        }
        let ranges: Vec<Range<usize>> = spans.iter().map(|span| span.range.clone()).collect();
        let comments = spans.into_iter().filter(|span| span.kind == LiteralKind::Comment);
        self.comments = comments.map(|span| span.range).collect();
        // links are in the order of their ends, so that nested ones come first
        self.links.sort_by_key(|link| link.range.start);
        let mut cursor = RangeCursor::new(&ranges);
        self.links.retain(|link| cursor.covered_until(link.range.start).is_none());
        let is_literal = |at: usize| {
            let after = ranges.partition_point(|range| range.start <= at);
            after > 0 && at < ranges[after - 1].end
        };
        self.definitions.retain(|definition| !is_literal(definition.range.start));
        self.opaque.extend(ranges.iter().cloned());
        self.opaque.sort_unstable_by_key(|range| range.start);
    }
}

struct StructureReader<'r, 'a> {
    split: &'r SplitPage<'a>,
    lines: &'r LineStarts<'r>,
    structure: BodyStructure<'a>,
    depth: usize,
    slugs: UniqueSlugs,
    heading: Option<(u8, usize, String)>,
    paragraph: Option<ExcerptText>,
    open_links: Vec<WrittenLink<'a>>,
    open_images: usize,
    items: ItemCollector,
}

impl<'r, 'a> StructureReader<'r, 'a> {
    fn new(split: &'r SplitPage<'a>, lines: &'r LineStarts<'r>) -> Self {
        Self {
            split,
            lines,
            structure: BodyStructure::default(),
            depth: 0,
            slugs: UniqueSlugs::default(),
            heading: None,
            paragraph: None,
            open_links: Vec::new(),
            open_images: 0,
            items: ItemCollector::default(),
        }
    }

    fn handle_event(&mut self, event: Event<'a>, range: Range<usize>) {
        if let Some(link) = self.open_links.last_mut()
            && !matches!(event, Event::End(TagEnd::Link | TagEnd::Image))
        {
            link.text_end = link.text_end.max(range.end);
        }
        match event {
            Event::Start(tag) => self.open(tag, range),
            Event::End(tag) => self.close(tag, range),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.structure.opaque.push(range);
                self.text(&text);
            }
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            Event::InlineHtml(_) => self.structure.opaque.push(range),
            _ => {}
        }
    }

    fn open(&mut self, tag: Tag<'a>, range: Range<usize>) {
        match tag {
            Tag::Heading { level, .. } => self.heading = Some((level_of(level), range.start, String::new())),
            Tag::Paragraph if self.structure.excerpt.is_empty() => self.paragraph = Some(ExcerptText::default()),
            Tag::CodeBlock(_) => self.structure.opaque.push(range),
            Tag::HtmlBlock => self.html_block(range),
            Tag::List(_) => self.items.open_list(range.start),
            Tag::Item => {
                let start = self.split.body_offset;
                self.items.open_item((self.split.body, start), range);
                self.depth += 1;
            }
            Tag::BlockQuote(_) | Tag::FootnoteDefinition(_) => self.depth += 1,
            Tag::Link { link_type, dest_url, .. } => self.open_link(LinkKind::Markdown, link_type, dest_url, range),
            Tag::Image { link_type, dest_url, .. } => self.open_link(LinkKind::Image, link_type, dest_url, range),
            _ => {}
        }
    }

    fn open_link(&mut self, kind: LinkKind, form: LinkType, destination: CowStr<'a>, range: Range<usize>) {
        if matches!(form, LinkType::Autolink | LinkType::Email) {
            self.structure.opaque.push(range.clone());
        }
        // reference links are handled by their definitions; an empty destination marks them here
        let destination = if form == LinkType::Inline { destination } else { CowStr::Borrowed("") };
        let text_end = range.start + if kind == LinkKind::Image { 2 } else { 1 };
        self.open_images += usize::from(kind == LinkKind::Image);
        self.open_links.push(WrittenLink { kind, destination, range, text_end, label: String::new() });
    }

    fn close(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::Heading(_) => self.close_heading(range),
            TagEnd::Paragraph => {
                self.items.text(" ");
                if let Some(excerpt) = self.paragraph.take() {
                    self.structure.excerpt = excerpt.finish();
                }
            }
            TagEnd::Item => {
                self.items.close_item();
                self.depth = self.depth.saturating_sub(1);
            }
            TagEnd::BlockQuote(_) | TagEnd::FootnoteDefinition => self.depth = self.depth.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.close_link(),
            _ => {}
        }
    }

    fn close_link(&mut self) {
        let Some(link) = self.open_links.pop() else { return };
        self.open_images -= usize::from(link.kind == LinkKind::Image);
        if let Some(outer) = self.open_links.last_mut() {
            outer.text_end = outer.text_end.max(link.range.end);
            outer.add_to_label(&link.label);
        }
        if !link.destination.is_empty() {
            self.structure.opaque.push(link.text_end..link.range.end);
            self.structure.links.push(link);
        }
    }

    fn close_heading(&mut self, range: Range<usize>) {
        let Some((level, start, text)) = self.heading.take() else {
            return;
        };
        let written = without_wiki_markup(&text);
        let text = one_line(&written);
        if text.is_empty() {
            return;
        }
        self.structure.headings.push(Heading {
            level,
            slug: self.slugs.next(slug(written.trim())),
            text,
            line: self.lines.index_of(start) + 1,
            range,
            is_nested: self.depth > 0,
        });
    }

    fn text(&mut self, text: &str) {
        if let Some((_, _, heading)) = &mut self.heading {
            heading.push_str(text);
        }
        if let Some(link) = self.open_links.last_mut() {
            link.add_to_label(text);
        }
        self.items.text(text);
        // the alternative text of an image is not part of the paragraph
        if let Some(excerpt) = &mut self.paragraph
            && self.open_images == 0
        {
            excerpt.push(text);
        }
    }

    /// Marks opaque ranges in raw HTML: all of `<pre>`, `<script>` and similar, else the comments.
    fn html_block(&mut self, range: Range<usize>) {
        const VERBATIM: [&str; 4] = ["<pre", "<script", "<style", "<textarea"];
        let start = range.start - self.split.body_offset;
        let Some(html) = self.split.body.get(start..range.end - self.split.body_offset) else {
            return;
        };
        let head = html.trim_start().get(..10).unwrap_or(html.trim_start()).to_ascii_lowercase();
        if VERBATIM.iter().any(|tag| head.starts_with(tag)) {
            self.structure.opaque.push(range);
            return;
        }
        let mut from = 0;
        while let Some(at) = html[from..].find("<!--").map(|at| at + from) {
            let end = html[at..].find("-->").map_or(html.len(), |length| at + length + 3);
            self.structure.opaque.push(range.start + at..range.start + end);
            from = end;
        }
    }
}

fn level_of(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// Trims the text and collapses white space.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// The start of a paragraph, as far as an excerpt needs it.
#[derive(Default)]
struct ExcerptText {
    text: String,
    is_cut: bool,
}

impl ExcerptText {
    /// Four bytes per character, and the same again for link targets, which are removed.
    const MAX_TEXT_BYTES: usize = 8 * EXCERPT_CHARS;

    fn push(&mut self, text: &str) {
        if self.text.len() < Self::MAX_TEXT_BYTES {
            self.text.push_str(text);
        } else {
            self.is_cut = true;
        }
    }

    fn finish(self) -> String {
        // An embed is shown as its name.
        let text = one_line(&without_wiki_markup(&self.text.replace("![[", "[[")));
        match text.char_indices().nth(EXCERPT_CHARS) {
            Some((end, _)) => format!("{}…", text[..end].trim_end()),
            None if self.is_cut => format!("{text}…"),
            None => text,
        }
    }
}
