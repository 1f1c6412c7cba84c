//! Where the answer of a computed page stands (gaps.md 2.1, computed view pages).

use std::ops::Range;

/// The line above it.
pub const START_MARKER: &str = "<!-- svc:auto -->";
/// The line below it.
pub const END_MARKER: &str = "<!-- /svc-view -->";

/// Where an answer stands in the text of a page, with the lines around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComputedAnswer {
    /// Nowhere yet.
    Absent,
    /// From a byte on, and nothing says where it ends.
    Unterminated(usize),
    /// In these bytes.
    Present(Range<usize>),
}

/// Looks for an answer in the body of a page.
#[must_use]
pub fn find_answer(body: &str) -> ComputedAnswer {
    let mut begin = None;
    let mut offset = 0;
    for line in body.split_inclusive('\n') {
        match (begin, line.trim()) {
            (None, START_MARKER) => begin = Some(offset),
            (Some(begin), END_MARKER) => return ComputedAnswer::Present(begin..offset + line.len()),
            _ => {}
        }
        offset += line.len();
    }
    begin.map_or(ComputedAnswer::Absent, ComputedAnswer::Unterminated)
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
