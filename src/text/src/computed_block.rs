//! The computed result in a view page.

use std::ops::Range;

/// The line above the result.
pub const START_MARKER: &str = "<!-- svc:auto -->";
/// The line below the result.
pub const END_MARKER: &str = "<!-- /svc-view -->";

/// Location of a result in the text of a page, marker lines included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComputedAnswer {
    /// No result yet.
    Absent,
    /// Starts at this byte; the end marker is missing.
    Unterminated(usize),
    /// The byte range of the result.
    Present(Range<usize>),
}

/// Locates the result in the body of a page.
#[must_use]
pub fn find_answer(body: &str) -> ComputedAnswer {
    let mut start = None;
    let mut offset = 0;
    for line in body.split_inclusive('\n') {
        match (start, line.trim()) {
            (None, START_MARKER) => start = Some(offset),
            (Some(start), END_MARKER) => return ComputedAnswer::Present(start..offset + line.len()),
            _ => {}
        }
        offset += line.len();
    }
    start.map_or(ComputedAnswer::Absent, ComputedAnswer::Unterminated)
}

/// A ```` ```dataview ```` block in the body of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataviewBlock<'b> {
    /// The text between the fences.
    pub query: &'b str,
    /// The line of its first fence in the body, from 1.
    pub line: usize,
    /// The byte after its last line.
    pub end: usize,
    /// Whether it is a `dataviewjs` block.
    pub is_script: bool,
}

/// Of a block without its end: its line, the start of its query, and whether it is a script.
type OpenBlock = (usize, usize, bool);

/// The ```` ```dataview ```` and ```` ```dataviewjs ```` blocks of a body, in order. A block
/// without an end ends with the body.
#[must_use]
pub fn dataview_blocks(body: &str) -> Vec<DataviewBlock<'_>> {
    let mut blocks = Vec::new();
    // The open fence: its character and length, and the block if it is one of Dataview.
    let mut open: Option<(char, usize, Option<OpenBlock>)> = None;
    let mut offset = 0;
    for (index, line) in body.split_inclusive('\n').enumerate() {
        let (start, end) = (offset, offset + line.len());
        offset = end;
        let text = line.trim();
        let Some(mark) = text.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let length = text.chars().take_while(|c| *c == mark).count();
        let info = text[length..].trim();
        match open {
            None if length >= 3 && !info.contains('`') => {
                let name = info.split_whitespace().next().unwrap_or_default();
                let is_script = name.eq_ignore_ascii_case("dataviewjs");
                let is_block = is_script || name.eq_ignore_ascii_case("dataview");
                open = Some((mark, length, is_block.then_some((index + 1, end, is_script))));
            }
            Some((known, min_length, block)) if mark == known && length >= min_length && info.is_empty() => {
                if let Some((line, query_start, is_script)) = block {
                    blocks.push(DataviewBlock { query: &body[query_start..start], line, end, is_script });
                }
                open = None;
            }
            _ => {}
        }
    }
    if let Some((_, _, Some((line, query_start, is_script)))) = open {
        blocks.push(DataviewBlock { query: &body[query_start..], line, end: body.len(), is_script });
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::{ComputedAnswer, dataview_blocks, find_answer};

    #[test]
    fn dataview_blocks_are_read_from_their_fences() {
        let body = "```dataview\nLIST\n```\n\n````md\n```dataview\nTASK\n```\n````\n~~~ dataviewjs\ndv.x\n~~~\n```dataview\nTABLE";
        let blocks = dataview_blocks(body);
        let read: Vec<_> = blocks.iter().map(|block| (block.query, block.line, block.is_script)).collect();
        assert_eq!(read, [("LIST\n", 1, false), ("dv.x\n", 10, true), ("TABLE", 13, false)]);
        assert_eq!(&body[..blocks[0].end], "```dataview\nLIST\n```\n");
    }

    #[test]
    fn an_answer_is_placed_between_its_marker_lines() {
        let page = "a\n<!-- svc:auto -->\n- [ ] b\n<!-- /svc-view -->\nc\n";
        let ComputedAnswer::Present(range) = find_answer(page) else { panic!("it is there") };
        assert_eq!((&page[..range.start], &page[range.end..]), ("a\n", "c\n"));
        assert_eq!(find_answer("a\n<!-- svc:auto -->\nb\n"), ComputedAnswer::Unterminated(2));
        assert_eq!(find_answer("a\n<!-- /svc-view -->\n"), ComputedAnswer::Absent);
    }
}
