//! From byte offsets to lines and columns, and from a line to its text.

use std::ops::Range;

/// Where each line of a text begins.
///
/// A line ends at `\n`, for that is what editors, grep and git count; a `\r` before it belongs to the ending.
pub(crate) struct LineStarts<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineStarts<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let after_endings = text.match_indices('\n').map(|(at, _)| at + 1).filter(|start| *start < text.len());
        Self { text, starts: std::iter::once(0).chain(after_endings).collect() }
    }

    /// Number of lines; an empty text has one, and a final line ending does not begin another.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Index (from 0) of the line that holds the byte at `offset`.
    pub(crate) fn index_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// Byte offset of the beginning of the line with this index; the end of the text past the last line.
    pub(crate) fn start(&self, index: usize) -> usize {
        self.starts.get(index).copied().unwrap_or(self.text.len())
    }

    /// Byte range of the line with this index, line ending included.
    pub(crate) fn range(&self, index: usize) -> Range<usize> {
        self.start(index)..self.start(index + 1)
    }

    /// The line with this index, without its line ending.
    pub(crate) fn line(&self, index: usize) -> &'a str {
        self.text.get(self.range(index)).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    /// Column (from 1, in characters) of a byte offset in its line.
    pub(crate) fn column(&self, offset: usize) -> usize {
        let start = self.start(self.index_of(offset));
        self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1)
    }
}
