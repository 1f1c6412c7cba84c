//! Parts of long texts, in lines.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::Fault;

/// Some lines of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineRange {
    /// The first of them, from 1; one past the end when there are none
    pub first: usize,
    /// The last of them; one less than `first` when there are none
    pub last: usize,
    /// Lines of the whole text
    pub total: usize,
}

impl LineRange {
    /// The range that an offset and a limit select, and the positions in a list of all lines.
    pub fn select(total: usize, offset: Option<usize>, limit: Option<NonZeroUsize>) -> (Self, Range<usize>) {
        let start = offset.unwrap_or_default().min(total);
        let end = limit.map_or(total, |limit| start.saturating_add(limit.get()).min(total));
        (Self { first: start + 1, last: end, total }, start..end)
    }
}

/// For a reader of text, and where to go on.
impl fmt::Display for LineRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, total } = self;
        if last < first {
            return write!(formatter, "no lines: the text has {total}");
        }
        write!(formatter, "lines {first}-{last} of {total}")?;
        if last < total {
            write!(formatter, "; read on with offset {last}")?;
        }
        Ok(())
    }
}

/// The lines of a text that an offset and a limit select, with their ends; all of it, and no range, where neither is given.
///
/// # Errors
/// `Invalid` when the bytes are not text.
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
        return Err(Fault::invalid(name, "the file is not text, so it has no lines; read it without"));
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
    fn parts_of_a_text_are_whole_lines_and_say_where_to_go_on() {
        let part_and_range = |text: &str, range: &str| (text.to_owned(), range.to_owned());
        assert_eq!(part("a\nb\r\n\nd", 0, 2), part_and_range("a\nb\r\n", "lines 1-2 of 4; read on with offset 2"));
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
