//! The sections of a page as ranges of lines.

use std::ops::Range;

use svcfs_text::{frontmatter, headings};

use super::budget::TokenCount;

/// A page as lines, each with its line end.
pub struct PageLines<'t> {
    lines: Vec<&'t str>,
}

/// The text below one heading up to the next one, or the text before the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSection {
    /// The anchor of its heading; none for the text before the first.
    pub heading: Option<String>,
    /// Its lines, from 0, without blank lines at its ends.
    pub lines: Range<usize>,
}

impl<'t> PageLines<'t> {
    /// Splits a page.
    pub fn of(text: &'t str) -> Self {
        Self { lines: text.split_inclusive('\n').collect() }
    }

    /// The text of a range of lines.
    pub fn text(&self, range: Range<usize>) -> String {
        self.lines.get(range).unwrap_or_default().concat()
    }

    fn is_blank(&self, line: usize) -> bool {
        self.lines.get(line).is_none_or(|line| line.trim().is_empty())
    }

    fn trimmed(&self, mut range: Range<usize>) -> Range<usize> {
        while !range.is_empty() && self.is_blank(range.start) {
            range.start += 1;
        }
        while !range.is_empty() && self.is_blank(range.end - 1) {
            range.end -= 1;
        }
        range
    }

    /// The sections with text.
    pub fn sections(&self, text: &str) -> Vec<PageSection> {
        let body_start = text.len() - frontmatter::split(text).body.len();
        let body_line = text.get(..body_start).map_or(0, |head| head.matches('\n').count());
        let mut starts: Vec<(usize, Option<String>)> = vec![(body_line, None)];
        let headings = headings::headings(text).into_iter().filter(|heading| !heading.is_nested);
        starts.extend(headings.map(|heading| (heading.line.saturating_sub(1), Some(heading.slug))));
        let ends = starts.iter().skip(1).map(|(line, _)| *line).chain([self.lines.len()]);
        let ranges: Vec<usize> = ends.collect();
        let sections = starts.into_iter().zip(ranges).filter_map(|((start, heading), end)| {
            let lines = self.trimmed(start..end.max(start));
            // A heading alone says nothing that its page does not.
            let min_lines = 1 + usize::from(heading.is_some());
            (lines.len() >= min_lines).then_some(PageSection { heading, lines })
        });
        sections.collect()
    }

    /// The part of a section that costs at most `max_tokens` and has the line `anchor`: complete
    /// paragraphs, from the start of the section if the anchor is near it. Single lines when a
    /// paragraph is too long; none when a line is.
    pub fn cut(&self, section: &Range<usize>, anchor: usize, max_tokens: usize) -> Option<Range<usize>> {
        let fits = |range: &Range<usize>| TokenCount::of(&self.text(range.clone())).tokens() <= max_tokens;
        if fits(section) {
            return Some(section.clone());
        }
        let anchor = anchor.clamp(section.start, section.end - 1);
        let mut paragraph_start = anchor;
        while paragraph_start > section.start && !self.is_blank(paragraph_start - 1) {
            paragraph_start -= 1;
        }
        let paragraph_end = self.paragraph_end(section, anchor);
        let from_start = section.start..paragraph_end;
        let paragraph = paragraph_start..paragraph_end;
        let mut range = match [from_start, paragraph].into_iter().find(&fits) {
            Some(range) => range,
            // The paragraph alone is too long: lines from the anchor on.
            None => {
                let last = (anchor + 1..=paragraph_end).take_while(|end| fits(&(anchor..*end))).last()?;
                return Some(self.trimmed(anchor..last)).filter(|range| !range.is_empty());
            }
        };
        while range.end < section.end {
            let next = range.start..self.paragraph_end(section, self.next_text(section, range.end));
            if next.end <= range.end || !fits(&next) {
                break;
            }
            range = next;
        }
        Some(self.trimmed(range))
    }

    /// The first line from `line` on that is not blank.
    fn next_text(&self, section: &Range<usize>, line: usize) -> usize {
        (line..section.end).find(|line| !self.is_blank(*line)).unwrap_or(section.end)
    }

    fn paragraph_end(&self, section: &Range<usize>, line: usize) -> usize {
        (line..section.end).find(|line| self.is_blank(*line)).unwrap_or(section.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "---\ntitle: T\n---\n\nIntro.\n\n# Title\n\n## A\n\nOne\ntwo.\n\nThree.\n\n```\n# no heading\n```\n\n## B\r\n\r\nEnd.";

    #[test]
    fn a_page_is_split_at_its_headings() {
        let lines = PageLines::of(PAGE);
        let found: Vec<(Option<String>, String)> =
            lines.sections(PAGE).into_iter().map(|section| (section.heading, lines.text(section.lines))).collect();
        let expected = [
            (None, "Intro.\n"),
            (Some("a"), "## A\n\nOne\ntwo.\n\nThree.\n\n```\n# no heading\n```\n"),
            (Some("b"), "## B\r\n\r\nEnd."),
        ];
        assert_eq!(found, expected.map(|(heading, text)| (heading.map(str::to_owned), text.to_owned())));
        for text in ["", "---\na: b\n---\n", "\n\n", "# Only\n"] {
            assert_eq!(PageLines::of(text).sections(text), [], "{text:?}");
        }
    }

    #[test]
    fn a_long_section_is_cut_at_a_paragraph_near_the_anchor() {
        let text = "# A\n\none one\n\ntwo two\ntwo\n\nthree\n";
        let lines = PageLines::of(text);
        let section = 0..8;
        let cut = |anchor, max| lines.cut(&section, anchor, max).map(|range| lines.text(range));
        assert_eq!(cut(2, 100).as_deref(), Some(text));
        assert_eq!(cut(2, 6).as_deref(), Some("# A\n\none one\n"));
        assert_eq!(cut(7, 4).as_deref(), Some("three\n"));
        assert_eq!(cut(4, 5).as_deref(), Some("two two\ntwo\n"));
        assert_eq!(cut(4, 3).as_deref(), Some("two two\n"));
        assert_eq!(cut(4, 1), None);
    }
}
