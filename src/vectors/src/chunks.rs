//! The chunks of a page: the texts that get a vector each.

#[cfg(test)]
mod tests;

use std::ops::Range;

use svcfs_text::passages::{PagePassages, Passage, PassageKind, passages};

/// Later chunks of a page are ignored, so that a huge page neither fills the memory nor the
/// answers.
pub const MAX_CHUNKS_PER_PAGE: usize = 4_096;

/// Characters of a chunk of a few paragraphs: a shorter text says too little for its vector, and
/// the vector of a longer one is near to nothing.
const MIN_CHARS: usize = 40;
const MAX_CHARS: usize = 600;

/// Bytes of a text, and tokens of a word, that models count as one token.
const BYTES_PER_TOKEN: f32 = 3.6;
const TOKENS_PER_WORD: f32 = 1.3;

/// How pages are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkRules {
    /// For the static model: a paragraph, or neighbouring items or rows, of 40 to 600 characters;
    /// title and headings are a chunk. Code and lists of links have none.
    Passages,
    /// For models that read long texts: passages are merged. Both numbers count tokens, estimated.
    Merged {
        /// Limit of a chunk.
        size: usize,
        /// How much of a chunk the next one repeats.
        overlap: usize,
    },
}

/// A text with its place in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Anchor of the heading above its start.
    pub heading: Option<String>,
    /// First and last line in the page, from 1.
    pub lines: (u32, u32),
    /// Its bytes in the page.
    pub range: Range<usize>,
    /// What gets the vector: without markup, on one line.
    pub text: String,
}

impl ChunkRules {
    /// Identifies the rules and the version of this code: chunks of other rules are outdated.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Passages => "passages 1".to_owned(),
            Self::Merged { size, overlap } => format!("merged 1 {size} {overlap}"),
        }
    }
}

/// Tokens of a text for any model, estimated from above.
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    let words = text.split_whitespace().count() as f32 * TOKENS_PER_WORD;
    (text.len() as f32 / BYTES_PER_TOKEN).max(words).ceil() as usize
}

/// Splits a page. `path` is the title of a page without one.
#[must_use]
pub fn chunks(path: &str, text: &str, rules: ChunkRules) -> Vec<Chunk> {
    let max_bytes = match rules {
        ChunkRules::Passages => MAX_CHARS,
        // Pieces that an overlap can repeat.
        ChunkRules::Merged { size, overlap } => (overlap * 3).clamp(120, MAX_CHARS).min((size * 3).max(16)),
    };
    let page = passages(path, text, max_bytes);
    let mut chunks = match rules {
        ChunkRules::Passages => split_by_passages(&page),
        ChunkRules::Merged { size, overlap } => merge_passages(&page, size, overlap),
    };
    chunks.truncate(MAX_CHUNKS_PER_PAGE);
    chunks
}

fn split_by_passages(page: &PagePassages) -> Vec<Chunk> {
    let mut chunks = vec![title_chunk(page)];
    let is_text = |passage: &&Passage| passage.kind != PassageKind::Code && !passage.is_link_only;
    let passages: Vec<&Passage> = page.passages.iter().filter(is_text).collect();
    for section in passages.chunk_by(|a, b| a.heading == b.heading) {
        let mut groups: Vec<Vec<&Passage>> = Vec::new();
        for passage in section {
            match groups.last_mut() {
                Some(group) if belongs_to(group, passage) => group.push(passage),
                _ => groups.push(vec![passage]),
            }
        }
        // A short end joins the text before it.
        if let [.., previous, last] = groups.as_mut_slice()
            && chars(last) < MIN_CHARS
            && chars(previous) + chars(last) < MAX_CHARS
        {
            previous.append(last);
            groups.pop();
        }
        chunks.extend(groups.iter().filter_map(|group| chunk_of(page, group)));
    }
    chunks
}

/// Whether a passage continues a group: the group is short, or both are items or rows.
fn belongs_to(group: &[&Passage], passage: &Passage) -> bool {
    let is_list = |passage: &Passage| passage.kind != PassageKind::Paragraph;
    let continues = group.last().is_some_and(|last| is_list(last) && is_list(passage));
    let length = chars(group);
    (continues || length < MIN_CHARS) && length + passage.text.chars().count() < MAX_CHARS
}

fn chars(group: &[&Passage]) -> usize {
    group.iter().map(|passage| passage.text.chars().count() + 1).sum()
}

fn chunk_of(page: &PagePassages, group: &[&Passage]) -> Option<Chunk> {
    let (first, last) = (group.first()?, group.last()?);
    let heading = first.heading.and_then(|index| page.headings.get(index));
    let texts: Vec<&str> = group.iter().map(|passage| passage.text.as_str()).collect();
    let text = texts.join(if first.kind == PassageKind::Paragraph { " " } else { "; " });
    // A few words mean little without their heading.
    let is_short = text.chars().count() < MIN_CHARS;
    let context = heading.map_or(page.title.as_str(), |heading| heading.text.as_str());
    let text = if is_short { format!("{context}: {text}") } else { text };
    Some(Chunk {
        heading: heading.map(|heading| heading.slug.clone()),
        lines: (line(first.lines.0), line(last.lines.1)),
        range: first.range.start..last.range.end,
        text,
    })
}

/// The title, the other names and the headings of a page.
fn title_chunk(page: &PagePassages) -> Chunk {
    let mut text = page.title.clone();
    let headings = page.headings.iter().map(|heading| heading.text.as_str());
    for name in page.aliases.iter().map(String::as_str).chain(headings) {
        if text.len() + name.len() >= MAX_CHARS {
            break;
        }
        if name != page.title {
            text.push_str(". ");
            text.push_str(name);
        }
    }
    text.truncate(text.floor_char_boundary(MAX_CHARS));
    let first = page.headings.first();
    let number = line(first.map_or(1, |heading| heading.line));
    let range = first.map_or(0..0, |heading| heading.range.clone());
    Chunk { heading: first.map(|heading| heading.slug.clone()), lines: (number, number), range, text }
}

fn merge_passages(page: &PagePassages, size: usize, overlap: usize) -> Vec<Chunk> {
    let mut merger = PassageMerger { page, size, chunks: Vec::new(), pieces: Vec::new(), tokens: 0, new_pieces: 0 };
    let mut headings = page.headings.iter().enumerate().peekable();
    for passage in page.passages.iter().filter(|passage| !passage.is_link_only) {
        while let Some((index, heading)) = headings.next_if(|(_, next)| next.range.start <= passage.range.start) {
            let lines = (heading.line, heading.line);
            merger.push(
                MergedPiece { heading: Some(index), lines, range: heading.range.clone(), text: &heading.text },
                overlap,
            );
        }
        let Passage { heading, lines, range, text, .. } = passage;
        merger.push(MergedPiece { heading: *heading, lines: *lines, range: range.clone(), text }, overlap);
    }
    merger.finish();
    if merger.chunks.is_empty() { vec![title_chunk(page)] } else { merger.chunks }
}

#[derive(Clone)]
struct MergedPiece<'p> {
    heading: Option<usize>,
    lines: (usize, usize),
    range: Range<usize>,
    text: &'p str,
}

struct PassageMerger<'p> {
    page: &'p PagePassages,
    size: usize,
    chunks: Vec<Chunk>,
    pieces: Vec<MergedPiece<'p>>,
    tokens: usize,
    /// Pieces after the overlap.
    new_pieces: usize,
}

impl<'p> PassageMerger<'p> {
    fn push(&mut self, piece: MergedPiece<'p>, overlap: usize) {
        let tokens = estimate_tokens(piece.text);
        if self.new_pieces > 0 && self.tokens + tokens > self.size {
            self.finish();
            self.repeat(overlap.min(self.size.saturating_sub(tokens)));
        }
        self.tokens += tokens;
        self.new_pieces += 1;
        self.pieces.push(piece);
    }

    /// Begins a chunk with the end of the last one.
    fn repeat(&mut self, overlap: usize) {
        let mut tokens = 0;
        let repeated = self.pieces.iter().rev().take_while(|piece| {
            tokens += estimate_tokens(piece.text);
            tokens <= overlap
        });
        let start = self.pieces.len() - repeated.count();
        self.pieces.drain(..start);
        self.tokens = self.pieces.iter().map(|piece| estimate_tokens(piece.text)).sum();
        self.new_pieces = 0;
    }

    fn finish(&mut self) {
        let (Some(first), Some(last), true) = (self.pieces.first(), self.pieces.last(), self.new_pieces > 0) else {
            return;
        };
        let texts: Vec<&str> = self.pieces.iter().map(|piece| piece.text).collect();
        let is_first = self.chunks.is_empty() && texts.first().is_none_or(|text| *text != self.page.title);
        let title = if is_first { format!("{}\n", self.page.title) } else { String::new() };
        self.chunks.push(Chunk {
            heading: first.heading.and_then(|index| self.page.headings.get(index)).map(|heading| heading.slug.clone()),
            lines: (line(first.lines.0), line(last.lines.1)),
            range: first.range.start..last.range.end,
            text: title + &texts.join("\n"),
        });
        self.new_pieces = 0;
    }
}

fn line(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
