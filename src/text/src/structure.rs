//! One pass over the body of a page: headings, the links written in markdown, and where brackets are only text.
//!
//! Everything that pulldown-cmark can tell is asked of it here, once, so that a page is parsed a single time on its way
//! into the index.

use std::ops::Range;

use pulldown_cmark::{CowStr, Event, HeadingLevel, LinkType, OffsetIter, Options, Parser, Tag, TagEnd};

use crate::frontmatter::SplitPage;
use crate::headings::{Heading, slug};
use crate::lines::LineStarts;
use crate::links::{LinkKind, without_wiki_markup};

/// Longest excerpt of a page, in characters, not counting the `…` of one that was cut (gaps.md 4.17, /peek).
const EXCERPT_CHARS: usize = 300;

/// A link or image written in markdown, before its target is looked at.
pub(crate) struct WrittenLink<'a> {
    /// [`LinkKind::Markdown`] or [`LinkKind::Image`].
    pub(crate) kind: LinkKind,
    /// The target as the author meant it: escapes and entities resolved, percent signs untouched.
    pub(crate) destination: CowStr<'a>,
    /// The whole link in the page.
    pub(crate) range: Range<usize>,
    /// Where its text ends in the page: the `]` that follows.
    pub(crate) text_end: usize,
    pub(crate) label: String,
}

impl WrittenLink<'_> {
    /// Labels are kept up to this many bytes: images in images in images must not copy a long one at every level.
    const MAX_LABEL: usize = 512;

    fn add_to_label(&mut self, text: &str) {
        let room = Self::MAX_LABEL.saturating_sub(self.label.len());
        self.label.push_str(&text[..text.floor_char_boundary(room)]);
    }
}

/// A link reference definition: `[label]: destination`.
pub(crate) struct LinkDefinition {
    pub(crate) destination: String,
    pub(crate) range: Range<usize>,
}

/// What one pass over a body finds. All ranges count in the page, frontmatter included.
#[derive(Default)]
pub(crate) struct BodyStructure<'a> {
    pub(crate) headings: Vec<Heading>,
    pub(crate) links: Vec<WrittenLink<'a>>,
    pub(crate) definitions: Vec<LinkDefinition>,
    /// Code, comments and link targets, in order: `[[x]]` inside is not a link.
    pub(crate) opaque: Vec<Range<usize>>,
    /// Text of the first paragraph, one line, at most [`EXCERPT_CHARS`] long.
    pub(crate) excerpt: String,
}

/// pulldown-cmark, set to the markdown that svcfs pages are written in.
pub(crate) fn parser(body: &str) -> OffsetIter<'_> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM;
    Parser::new_ext(body, options).into_offset_iter()
}

/// Read the structure of a page's body.
pub(crate) fn read<'a>(split: &SplitPage<'a>, lines: &LineStarts<'_>) -> BodyStructure<'a> {
    let mut reader = StructureReader::new(split, lines);
    let mut events = parser(split.body);
    for (event, range) in &mut events {
        reader.take(event, range.start + split.body_offset..range.end + split.body_offset);
    }
    let mut structure = reader.structure;
    for (_, definition) in events.reference_definitions().iter() {
        let span = &definition.span;
        let range = span.start + split.body_offset..span.end + split.body_offset;
        structure.opaque.push(range.clone());
        structure.definitions.push(LinkDefinition { destination: definition.dest.to_string(), range });
    }
    structure.opaque.sort_unstable_by_key(|range| range.start);
    structure
}

/// The state of the pass.
struct StructureReader<'r, 'a> {
    split: &'r SplitPage<'a>,
    lines: &'r LineStarts<'r>,
    structure: BodyStructure<'a>,
    /// How many blocks that contain blocks (quotes, list items) are open.
    depth: usize,
    heading: Option<(u8, usize, String)>,
    paragraph: Option<ExcerptText>,
    open_links: Vec<WrittenLink<'a>>,
    /// How many of the open links are images.
    open_images: usize,
}

impl<'r, 'a> StructureReader<'r, 'a> {
    fn new(split: &'r SplitPage<'a>, lines: &'r LineStarts<'r>) -> Self {
        Self {
            split,
            lines,
            structure: BodyStructure::default(),
            depth: 0,
            heading: None,
            paragraph: None,
            open_links: Vec::new(),
            open_images: 0,
        }
    }

    fn take(&mut self, event: Event<'a>, range: Range<usize>) {
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
            Tag::BlockQuote(_) | Tag::Item | Tag::FootnoteDefinition(_) => self.depth += 1,
            Tag::Link { link_type, dest_url, .. } => self.open_link(LinkKind::Markdown, link_type, dest_url, range),
            Tag::Image { link_type, dest_url, .. } => self.open_link(LinkKind::Image, link_type, dest_url, range),
            _ => {}
        }
    }

    fn open_link(&mut self, kind: LinkKind, form: LinkType, destination: CowStr<'a>, range: Range<usize>) {
        if matches!(form, LinkType::Autolink | LinkType::Email) {
            self.structure.opaque.push(range.clone());
        }
        // links by reference are found through their definition; an empty destination marks them here
        let destination = if form == LinkType::Inline { destination } else { CowStr::Borrowed("") };
        let text_end = range.start + if kind == LinkKind::Image { 2 } else { 1 };
        self.open_images += usize::from(kind == LinkKind::Image);
        self.open_links.push(WrittenLink { kind, destination, range, text_end, label: String::new() });
    }

    fn close(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::Heading(_) => self.close_heading(range),
            TagEnd::Paragraph => {
                if let Some(excerpt) = self.paragraph.take() {
                    self.structure.excerpt = excerpt.finish();
                }
            }
            TagEnd::BlockQuote(_) | TagEnd::Item | TagEnd::FootnoteDefinition => {
                self.depth = self.depth.saturating_sub(1);
            }
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
        let text = one_line(&without_wiki_markup(&text));
        if text.is_empty() {
            return;
        }
        self.structure.headings.push(Heading {
            level,
            slug: slug(&text),
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
        // what an image shows is not said by the paragraph
        if let Some(excerpt) = &mut self.paragraph
            && self.open_images == 0
        {
            excerpt.push(text);
        }
    }

    /// Mark what a block of raw HTML hides: all of `<pre>`, `<script>` and their like, else its comments.
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

/// Trim, and make every run of white space one space.
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

/// The text of a paragraph, kept only as far as an excerpt can show it.
#[derive(Default)]
struct ExcerptText {
    text: String,
    full: bool,
}

impl ExcerptText {
    /// Bytes after which no more text can matter: four a character, and room for link targets that will not show.
    const ENOUGH: usize = 8 * EXCERPT_CHARS;

    fn push(&mut self, text: &str) {
        if self.text.len() < Self::ENOUGH {
            self.text.push_str(text);
        } else {
            self.full = true;
        }
    }

    fn finish(self) -> String {
        let text = one_line(&without_wiki_markup(&self.text));
        match text.char_indices().nth(EXCERPT_CHARS) {
            Some((end, _)) => format!("{}…", text[..end].trim_end()),
            None if self.full => format!("{text}…"),
            None => text,
        }
    }
}
