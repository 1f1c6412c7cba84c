//! Line ranges of long texts.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::Fault;

/// A range of lines of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineRange {
    /// First line, from 1; one past the end if the range is empty
    pub first: usize,
    /// Last line; one less than `first` if the range is empty
    pub last: usize,
    /// Number of lines of the full text
    pub total: usize,
}

impl LineRange {
    /// The range for an offset and a limit, and the corresponding indexes of lines.
    pub fn select(total: usize, offset: Option<usize>, limit: Option<NonZeroUsize>) -> (Self, Range<usize>) {
        let start = offset.unwrap_or_default().min(total);
        let end = limit.map_or(total, |limit| start.saturating_add(limit.get()).min(total));
        (Self { first: start + 1, last: end, total }, start..end)
    }
}

/// For readers: the range and the offset of the next one.
impl fmt::Display for LineRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, total } = self;
        if last < first {
            return write!(formatter, "no lines: the text has {total}");
        }
        write!(formatter, "lines {first}-{last} of {total}")?;
        if last < total {
            write!(formatter, "; continue with offset {last}")?;
        }
        Ok(())
    }
}

/// The lines that an offset and a limit select, with line ends; the full text and no range if
/// neither is given.
///
/// # Errors
/// `Invalid` if the bytes are not text.
pub fn select_lines(
    content: Bytes,
    offset: Option<usize>,
    limit: Option<NonZeroUsize>,
) -> Result<(Bytes, Option<LineRange>), Fault> {
    if offset.is_none() && limit.is_none() {
        return Ok((content, None));
    }
    let Ok(text) = std::str::from_utf8(&content) else {
        let name = if offset.is_some() { "offset" } else { "limit" };
        return Err(Fault::invalid(name, "the file is not text and has no lines; omit `offset` and `limit`"));
    };
    let ends: Vec<usize> = text
        .split_inclusive('\n')
        .scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        })
        .collect();
    let (lines, range) = LineRange::select(ends.len(), offset, limit);
    let position = |line: usize| line.checked_sub(1).and_then(|line| ends.get(line)).copied().unwrap_or_default();
    let bytes = position(range.start)..position(range.end).max(position(range.start));
    Ok((content.slice(bytes), Some(lines)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &'static str, offset: usize, limit: usize) -> (String, String) {
        let (bytes, lines) =
            select_lines(Bytes::from_static(text.as_bytes()), Some(offset), NonZeroUsize::new(limit)).unwrap();
        (String::from_utf8(bytes.to_vec()).unwrap(), lines.unwrap().to_string())
    }

    #[test]
    fn parts_of_a_text_are_complete_lines_with_a_resume_position() {
        let part_and_range = |text: &str, range: &str| (text.to_owned(), range.to_owned());
        assert_eq!(part("a\nb\r\n\nd", 0, 2), part_and_range("a\nb\r\n", "lines 1-2 of 4; continue with offset 2"));
        assert_eq!(part("a\nb\r\n\nd", 2, 9), part_and_range("\nd", "lines 3-4 of 4"));
        assert_eq!(part("a\nb\n", 1, 0), part_and_range("b\n", "lines 2-2 of 2"));
        assert_eq!(part("a\nb\n", usize::MAX, usize::MAX), part_and_range("", "no lines: the text has 2"));
        assert_eq!(part("", 0, 1), part_and_range("", "no lines: the text has 0"));
        assert_eq!(part("a", 0, usize::MAX), part_and_range("a", "lines 1-1 of 1"));
        assert_eq!(select_lines(Bytes::from_static(b"\xff"), None, None).unwrap().1, None);
        assert!(select_lines(Bytes::from_static(b"\xff"), None, NonZeroUsize::new(1)).is_err());
    }

    #[test]
    fn parts_of_a_text_joined_are_the_text() {
        let text = "one\ntwo\n\nfour\nfive";
        let joined: String = (0..5).map(|offset| part(text, offset, 1).0).collect();
        assert_eq!(joined, text);
    }
}
