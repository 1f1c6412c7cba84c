//! Conversion of byte offsets to lines and columns.

use std::ops::Range;

/// Start offset of each line of a text.
///
/// A line ends at `\n`, as in editors, grep and git; a preceding `\r` belongs to the line ending.
pub(crate) struct LineStarts<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineStarts<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let next_starts = text.match_indices('\n').map(|(offset, _)| offset + 1).filter(|start| *start < text.len());
        Self { text, starts: std::iter::once(0).chain(next_starts).collect() }
    }

    /// Number of lines; an empty text has one, and a final line ending does not start another.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Index (from 0) of the line that contains the byte at `offset`.
    pub(crate) fn index_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// Byte offset of the start of the line with this index; the end of the text past the last
    /// line.
    pub(crate) fn start(&self, index: usize) -> usize {
        self.starts.get(index).copied().unwrap_or(self.text.len())
    }

    /// Byte range of the line with this index, line ending included.
    pub(crate) fn range(&self, index: usize) -> Range<usize> {
        self.start(index)..self.start(index + 1)
    }

    pub(crate) fn line(&self, index: usize) -> &'a str {
        self.text.get(self.range(index)).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    /// Column (from 1, in characters) of a byte offset in its line.
    pub(crate) fn column(&self, offset: usize) -> usize {
        let start = self.start(self.index_of(offset));
        // a byte order mark at the start of the file has no column
        let before = self.text.get(start..offset).map_or("", |before| before.trim_start_matches('\u{feff}'));
        before.chars().count() + 1
    }
}
