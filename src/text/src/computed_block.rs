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

#[cfg(test)]
mod tests {
    use super::{ComputedAnswer, find_answer};

    #[test]
    fn an_answer_is_placed_between_its_marker_lines() {
        let page = "a\n<!-- svc:auto -->\n- [ ] b\n<!-- /svc-view -->\nc\n";
        let ComputedAnswer::Present(range) = find_answer(page) else { panic!("it is there") };
        assert_eq!((&page[..range.start], &page[range.end..]), ("a\n", "c\n"));
        assert_eq!(find_answer("a\n<!-- svc:auto -->\nb\n"), ComputedAnswer::Unterminated(2));
        assert_eq!(find_answer("a\n<!-- /svc-view -->\n"), ComputedAnswer::Absent);
    }
}
