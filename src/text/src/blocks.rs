//! The blocks of a body for the linter and the formatter. All ranges are offsets in the body.

use std::ops::Range;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, Tag, TagEnd};

use crate::structure::parser;

/// Languages of the blocks that contain a query of Dataview or one of its scripts.
pub(crate) const DATAVIEW_LANGUAGES: [&str; 2] = ["dataview", "dataviewjs"];

/// The blocks found in one pass over a body.
#[derive(Default)]
pub(crate) struct BodyBlocks {
    /// Code blocks and raw HTML, in order; they must not change.
    pub(crate) verbatim: Vec<Range<usize>>,
    pub(crate) fences: Vec<CodeFence>,
    pub(crate) tables: Vec<TableBlock>,
    pub(crate) paragraphs: Vec<Range<usize>>,
    pub(crate) lists: Vec<ListBlock>,
    pub(crate) empty_images: Vec<usize>,
}

pub(crate) struct CodeFence {
    pub(crate) range: Range<usize>,
    /// The first word after the fence.
    pub(crate) language: String,
    /// The code; stored for `mermaid` and [`DATAVIEW_LANGUAGES`] only.
    pub(crate) code: String,
}

/// A table: a header, a separator, and rows.
pub(crate) struct TableBlock {
    pub(crate) alignments: Vec<Alignment>,
    /// Header first; the separator is the line after it.
    pub(crate) rows: Vec<Range<usize>>,
}

pub(crate) struct ListBlock {
    /// The first number of a numbered list.
    pub(crate) start: Option<u64>,
    /// The items, each starting at its marker.
    pub(crate) items: Vec<Range<usize>>,
    /// The directly preceding list in the same container.
    pub(crate) follows: Option<usize>,
}

impl BodyBlocks {
    pub(crate) fn of(body: &str) -> Self {
        let mut collector = BlockCollector { blocks: Self::default(), open_lists: Vec::new(), containers: vec![None] };
        for (event, range) in parser(body) {
            collector.handle_event(event, range);
        }
        for item in collector.blocks.lists.iter_mut().flat_map(|list| &mut list.items) {
            // pulldown-cmark includes the indentation of a marker in its item
            item.start += body[item.clone()].bytes().take_while(u8::is_ascii_whitespace).count();
        }
        collector.blocks
    }

    /// Whether the range overlaps code or raw HTML.
    pub(crate) fn is_verbatim(&self, range: &Range<usize>) -> bool {
        let after = self.verbatim.partition_point(|block| block.start < range.end);
        after > 0 && self.verbatim[after - 1].end > range.start
    }
}

impl CodeFence {
    /// The fence: a run of one character.
    pub(crate) fn marker<'a>(&self, body: &'a str) -> Option<&'a str> {
        let block = body.get(self.range.clone())?;
        let start = block.find(['`', '~'])?;
        let character = block[start..].chars().next()?;
        let length = block[start..].bytes().take_while(|byte| char::from(*byte) == character).count();
        Some(&block[start..start + length])
    }

    /// Whether the block extends to the end of the page because no fence closes it.
    pub(crate) fn is_unclosed(&self, body: &str) -> bool {
        let (Some(block), Some(marker)) = (body.get(self.range.clone()), self.marker(body)) else {
            return false;
        };
        if !body[self.range.end..].trim().is_empty() {
            return false;
        }
        let Some((_, content)) = block.split_once(['\n', '\r']) else {
            return true;
        };
        let last = content.trim_end_matches(['\n', '\r']).rsplit(['\n', '\r']).next().unwrap_or_default();
        let run = last.trim_start_matches([' ', '\t', '>']).trim_end();
        !(run.len() >= marker.len() && run.chars().all(|character| marker.starts_with(character)))
    }
}

struct BlockCollector {
    blocks: BodyBlocks,
    open_lists: Vec<usize>,
    /// For each open container its list that another one would follow directly.
    containers: Vec<Option<usize>>,
}

impl BlockCollector {
    fn handle_event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.open(tag, range),
            Event::End(tag) => self.close(tag),
            Event::Text(text) => {
                // the text of a fence comes between its start and end events
                if let Some(fence) = self.blocks.fences.last_mut()
                    && (fence.language == "mermaid" || DATAVIEW_LANGUAGES.contains(&fence.language.as_str()))
                    && fence.range.contains(&range.start)
                {
                    fence.code.push_str(&text);
                }
            }
            Event::Rule => self.separate_lists(),
            _ => {}
        }
    }

    fn open(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph => {
                self.separate_lists();
                self.blocks.paragraphs.push(range);
            }
            Tag::Heading { .. } => self.separate_lists(),
            Tag::CodeBlock(kind) => {
                self.separate_lists();
                self.blocks.verbatim.push(range.clone());
                if let CodeBlockKind::Fenced(info) = kind {
                    let language = info.split([' ', '\t', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
                    self.blocks.fences.push(CodeFence { range, language, code: String::new() });
                }
            }
            Tag::HtmlBlock => {
                self.separate_lists();
                self.blocks.verbatim.push(range);
            }
            Tag::Table(alignments) => {
                self.separate_lists();
                self.blocks.tables.push(TableBlock { alignments, rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = self.blocks.tables.last_mut() {
                    table.rows.push(range);
                }
            }
            Tag::BlockQuote(_) | Tag::FootnoteDefinition(_) => {
                self.separate_lists();
                self.containers.push(None);
            }
            Tag::List(start) => self.open_list(start),
            Tag::Item => {
                if let Some(list) = self.open_lists.last().and_then(|open| self.blocks.lists.get_mut(*open)) {
                    list.items.push(range);
                }
                self.containers.push(None);
            }
            Tag::Image { dest_url, .. } if dest_url.is_empty() => self.blocks.empty_images.push(range.start),
            _ => {}
        }
    }

    fn open_list(&mut self, start: Option<u64>) {
        self.open_lists.push(self.blocks.lists.len());
        self.blocks.lists.push(ListBlock {
            start,
            items: Vec::new(),
            follows: self.containers.last().copied().flatten(),
        });
    }

    fn close(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::BlockQuote(_) | TagEnd::FootnoteDefinition | TagEnd::Item => {
                self.containers.pop();
            }
            TagEnd::List(_) => {
                if let (Some(closed), Some(adjacent)) = (self.open_lists.pop(), self.containers.last_mut()) {
                    *adjacent = Some(closed);
                }
            }
            _ => {}
        }
    }

    /// Another block separates the lists of this container.
    fn separate_lists(&mut self) {
        if let Some(adjacent) = self.containers.last_mut() {
            *adjacent = None;
        }
    }
}
