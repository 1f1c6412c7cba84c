//! The computed result in a view page.

use std::ops::Range;

use crate::blocks::{BodyBlocks, CodeFence, DATAVIEW_LANGUAGES};

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

impl ComputedAnswer {
    /// The bytes of a body that belong to the result; without an end marker, all that follow.
    #[must_use]
    pub fn range_in(self, body: &str) -> Option<Range<usize>> {
        match self {
            Self::Absent => None,
            Self::Unterminated(start) => Some(start..body.len()),
            Self::Present(range) => Some(range),
        }
    }
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
pub struct DataviewBlock {
    /// The text between the fences, without the marks of a quote or the indentation of a list.
    pub query: String,
    /// The line of its first fence in the body, from 1.
    pub line: usize,
    /// The byte after its last line.
    pub end: usize,
    /// Whether it is a `dataviewjs` block.
    pub is_script: bool,
}

/// The ```` ```dataview ```` and ```` ```dataviewjs ```` blocks of a body, in order. A block
/// without an end ends with the body.
#[must_use]
pub fn dataview_blocks(body: &str) -> Vec<DataviewBlock> {
    let fences = BodyBlocks::of(body).fences.into_iter();
    let blocks = fences.filter(|fence| DATAVIEW_LANGUAGES.contains(&fence.language.as_str()));
    let block = |fence: CodeFence| DataviewBlock {
        line: body[..fence.range.start].matches('\n').count() + 1,
        end: end_of_line(body, fence.range.end),
        is_script: fence.language == "dataviewjs",
        query: fence.code,
    };
    blocks.map(block).collect()
}

/// The start of the line after the one that ends at or contains this byte.
fn end_of_line(body: &str, offset: usize) -> usize {
    if body[..offset].ends_with('\n') {
        return offset;
    }
    body[offset..].find('\n').map_or(body.len(), |length| offset + length + 1)
}

#[cfg(test)]
mod tests {
    use super::{ComputedAnswer, dataview_blocks, find_answer};

    #[test]
    fn dataview_blocks_are_read_from_their_fences() {
        let body = "```dataview\nLIST\n```\n\n````md\n```dataview\nTASK\n```\n````\n~~~ dataviewjs\ndv.x\n~~~\n```dataview\nTABLE";
        let blocks = dataview_blocks(body);
        let read: Vec<_> = blocks.iter().map(|block| (block.query.as_str(), block.line, block.is_script)).collect();
        assert_eq!(read, [("LIST\n", 1, false), ("dv.x\n", 10, true), ("TABLE", 13, false)]);
        assert_eq!(&body[..blocks[0].end], "```dataview\nLIST\n```\n");
    }

    #[test]
    fn only_fences_of_markdown_are_dataview_blocks() {
        let queries = |body: &str| dataview_blocks(body).into_iter().map(|block| block.query).collect::<Vec<_>>();
        let table: [(&str, &[&str]); 6] = [
            ("    ```dataview\n    LIST\n    ```\n", &[]),
            ("> ```dataview\n> LIST\n> FROM #a\n> ```\n", &["LIST\nFROM #a\n"]),
            ("- item\n  ```Dataview\n  LIST\n  ```\n", &["LIST\n"]),
            ("<!--\n```dataview\nLIST\n```\n-->\n", &[]),
            ("```dataview\r\nLIST\r\n```\r\n", &["LIST\n"]),
            ("```dataviewer\nLIST\n```\n", &[]),
        ];
        for (body, expected) in table {
            assert_eq!(queries(body), expected, "{body:?}");
        }
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
