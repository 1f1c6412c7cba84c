//! The place of a comment in its page: a quote with some text around it.
//!
//! Each search is linear in the page, and limited to the text near the last known line.

use serde::{Deserialize, Serialize};

/// Characters before and after a quote that are stored with it.
const CONTEXT_CHARS: usize = 64;
/// Quotes are cut to this length.
const MAX_QUOTE_BYTES: usize = 4096;
/// Text before and after the last known place that is searched.
const MAX_SEARCH_BYTES: usize = 1 << 20;
/// The same for a search by words, which takes memory: a page may have many comments whose quotes
/// are gone.
const MAX_WORD_SEARCH_BYTES: usize = 64 << 10;
/// Occurrences of a quote that are compared.
const MAX_OCCURRENCES: usize = 1_000;
/// The part of the context that must be there when the quote is not.
const MIN_CONTEXT_CHARS: usize = 12;

/// A quote with the text around it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CommentAnchor {
    /// The text that the comment is about, as it is in the page; at most 4 KiB
    pub quote: String,
    /// Some text before the quote
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Some text after the quote
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suffix: String,
}

impl CommentAnchor {
    /// The anchor of a line, from 1; of a blank line, that of the nearest line with text before or
    /// after it. None when the page has fewer lines.
    pub fn of_line(text: &str, line: usize) -> Option<(Self, usize)> {
        let lines: Vec<&str> = text.split('\n').collect();
        let count = lines.len() - usize::from(lines.len() > 1 && text.ends_with('\n'));
        let index = line.checked_sub(1).filter(|index| *index < count)?;
        let has_text = |index: &usize| !lines[*index].trim().is_empty();
        let index = (0..=index).rev().find(has_text).or_else(|| (index..count).find(has_text)).unwrap_or(index);
        let start: usize = lines[..index].iter().map(|line| line.len() + 1).sum();
        let quoted = lines[index].trim();
        let start = start + (lines[index].len() - lines[index].trim_start().len());
        Some((Self::at(text, start, start + quoted.len()), index + 1))
    }

    /// The anchor of a range.
    fn at(text: &str, start: usize, end: usize) -> Self {
        let end = text.floor_char_boundary(end.min(start + MAX_QUOTE_BYTES));
        let (before, after) = (&text[..start], &text[end..]);
        let prefix = before.char_indices().rev().take(CONTEXT_CHARS).last().map_or("", |(at, _)| &before[at..]);
        let suffix = &after[..after.char_indices().nth(CONTEXT_CHARS).map_or(after.len(), |(at, _)| at)];
        Self { quote: text[start..end].to_owned(), prefix: prefix.to_owned(), suffix: suffix.to_owned() }
    }

    /// The same anchor with the context that a page has where it is found, and its line.
    pub fn resolve(&self, text: &str, near_line: usize) -> Option<(Self, usize)> {
        let window = SearchWindow::of(text, near_line);
        let (start, end) = window.find_quote(self)?;
        Some((Self::at(text, start, end), line_of(text, start)))
    }

    /// The line of the comment in a page, from 1; `None` when it cannot be worked out.
    pub fn line(&self, text: &str, near_line: usize) -> Option<usize> {
        // A page without text, when the comment was written.
        if self.quote.is_empty() {
            return Some(1);
        }
        let window = SearchWindow::of(text, near_line);
        let found = window.find_quote(self).map(|(start, _)| start).or_else(|| window.find_context(self));
        found.map(|start| line_of(text, start))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// The part of a page that is searched.
struct SearchWindow<'t> {
    text: &'t str,
    /// Offset in the page.
    start: usize,
    /// Offset of the last known place in the page.
    near: usize,
}

impl<'t> SearchWindow<'t> {
    fn of(page: &'t str, near_line: usize) -> Self {
        let near = match near_line.checked_sub(2) {
            Some(newlines) => page.match_indices('\n').nth(newlines).map_or(page.len(), |(at, _)| at + 1),
            None => 0,
        };
        let start = page.floor_char_boundary(near.saturating_sub(MAX_SEARCH_BYTES));
        let end = page.ceil_char_boundary((near + MAX_SEARCH_BYTES).min(page.len()));
        Self { text: &page[start..end], start, near }
    }

    /// The best occurrence of the quote: most of the context, then the nearest; else the same words
    /// with other white space.
    fn find_quote(&self, anchor: &CommentAnchor) -> Option<(usize, usize)> {
        if anchor.quote.is_empty() {
            return None;
        }
        let exact = self.text.match_indices(&anchor.quote).map(|(at, quote)| (at, at + quote.len()));
        let best = self.best(exact.take(MAX_OCCURRENCES), anchor);
        let found = best.or_else(|| {
            let near = self.near - self.start;
            let from = self.text.floor_char_boundary(near.saturating_sub(MAX_WORD_SEARCH_BYTES));
            let to = self.text.ceil_char_boundary((near + MAX_WORD_SEARCH_BYTES).min(self.text.len()));
            let words = WordText::of(&self.text[from..to]);
            let quote = WordText::of(&anchor.quote).text;
            let matches = words.text.match_indices(&quote).filter(|_| !quote.is_empty());
            let ranges =
                matches.map(|(at, quote)| (from + words.offset(at), from + words.end_offset(at + quote.len())));
            self.best(ranges.take(MAX_OCCURRENCES), anchor)
        });
        found.map(|(start, end)| (self.start + start, self.start + end))
    }

    fn best(
        &self,
        occurrences: impl Iterator<Item = (usize, usize)>,
        anchor: &CommentAnchor,
    ) -> Option<(usize, usize)> {
        occurrences.min_by_key(|(start, end)| {
            let context =
                common_suffix(&self.text[..*start], &anchor.prefix) + common_prefix(&self.text[*end..], &anchor.suffix);
            (std::cmp::Reverse(context), (self.start + start).abs_diff(self.near))
        })
    }

    /// The place between prefix and suffix, where the quote was edited.
    fn find_context(&self, anchor: &CommentAnchor) -> Option<usize> {
        let near = self.near - self.start;
        let prefix = &anchor.prefix;
        let suffix = &anchor.suffix;
        let is_usable = |context: &str| context.trim().chars().count() >= MIN_CONTEXT_CHARS;
        let after = is_usable(prefix).then(|| nearest(self.text, prefix, near)).flatten().map(|at| at + prefix.len());
        let before = is_usable(suffix).then(|| nearest(self.text, suffix, near)).flatten();
        let max_gap = 2 * anchor.quote.len() + 2 * CONTEXT_CHARS;
        let start = match (after, before) {
            // With nothing in between, the quote was removed.
            (Some(after), Some(before)) => {
                let is_edited = self.text.get(after..before).is_some_and(|gap| !gap.trim().is_empty());
                (is_edited && before - after <= max_gap).then_some(after)
            }
            (Some(_) | None, Some(_) | None) => None,
        };
        start.map(|start| self.start + start)
    }
}

/// The occurrence that is nearest to a place.
fn nearest(text: &str, part: &str, near: usize) -> Option<usize> {
    let occurrences = text.match_indices(part).map(|(at, _)| at).take(MAX_OCCURRENCES);
    occurrences.min_by_key(|at| at.abs_diff(near))
}

fn common_suffix(text: &str, context: &str) -> usize {
    text.chars().rev().zip(context.chars().rev()).take_while(|(a, b)| a == b).count()
}

fn common_prefix(text: &str, context: &str) -> usize {
    text.chars().zip(context.chars()).take_while(|(a, b)| a == b).count()
}

/// A text whose white space is single spaces, with the offsets of its bytes in the original.
struct WordText {
    text: String,
    offsets: Vec<usize>,
}

impl WordText {
    fn of(original: &str) -> Self {
        let (mut text, mut offsets) = (String::with_capacity(original.len()), Vec::with_capacity(original.len()));
        for (at, character) in original.char_indices() {
            let character = if character.is_whitespace() { ' ' } else { character };
            if character == ' ' && (text.is_empty() || text.ends_with(' ')) {
                continue;
            }
            text.push(character);
            offsets.extend((0..character.len_utf8()).map(|byte| at + byte));
        }
        text.truncate(text.trim_end().len());
        Self { text, offsets }
    }
    fn offset(&self, at: usize) -> usize {
        self.offsets[at]
    }
    fn end_offset(&self, end: usize) -> usize {
        self.offsets[end - 1] + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# T\n\nfirst line\nTODO\nmiddle of the page\nTODO\nlast line\n";

    /// The line of a comment on a line of `PAGE` after an edit.
    fn after(line: usize, edited: &str) -> Option<usize> {
        let (anchor, at) = CommentAnchor::of_line(PAGE, line).unwrap();
        assert_eq!(anchor.line(PAGE, at), Some(at), "unchanged");
        anchor.line(edited, at)
    }

    #[test]
    fn a_comment_follows_its_quote_through_edits() {
        let inserted = format!("a\nb\nc\n{PAGE}");
        let edited = PAGE.replace("middle of the page", "centre of the long page");
        let cases = [
            (3, inserted.as_str(), Some(6), "lines inserted above"),
            (4, &inserted, Some(7), "the first of two equal lines"),
            (6, &inserted, Some(9), "the second of two equal lines"),
            (5, &PAGE.replace("middle of the page", "middle of  the\npage"), Some(5), "other white space"),
            (5, &edited, Some(5), "an edited line between its context"),
            (5, "all other\n", None, "a page written anew"),
            (5, &PAGE.replace("middle of the page\n", ""), None, "a removed line"),
            (5, "", None, "an empty page"),
            (6, &PAGE.replacen("TODO\n", "", 1), Some(5), "an equal line above was removed"),
        ];
        for (line, text, expected, what) in cases {
            assert_eq!(after(line, text), expected, "{what}");
        }
    }

    #[test]
    fn a_blank_line_is_anchored_to_the_nearest_text() {
        for (text, line, expected) in [
            ("a\n\n\nb\n", 3, Some((1, "a"))),
            ("\n\nb", 1, Some((3, "b"))),
            ("", 1, Some((1, ""))),
            ("\n", 1, Some((1, ""))),
            ("a\n", 2, None),
            ("a", 0, None),
            ("a\r\nb\r\n", 2, Some((2, "b"))),
        ] {
            let found = CommentAnchor::of_line(text, line);
            let found = found.as_ref().map(|(anchor, line)| (*line, anchor.quote.as_str()));
            assert_eq!(found, expected, "{text:?} {line}");
        }
    }

    #[test]
    fn a_quote_of_a_browser_is_found_by_its_words() {
        let anchor = CommentAnchor { quote: "line TODO middle".to_owned(), ..CommentAnchor::default() };
        let (stored, line) = anchor.resolve(PAGE, 1).unwrap();
        assert_eq!((stored.quote.as_str(), line), ("line\nTODO\nmiddle", 3));
        let missing = CommentAnchor { quote: "nowhere".to_owned(), ..CommentAnchor::default() };
        assert_eq!(missing.resolve(PAGE, 1), None);
    }

    #[test]
    fn hostile_pages_and_quotes_take_linear_time() {
        let long = "ab".repeat(2 << 20);
        let scripts = "é\u{301}日本\u{200b}".repeat(10_000);
        for text in [&long, &scripts, &"\n".repeat(100_000)] {
            let (anchor, line) = CommentAnchor::of_line(text, 1).unwrap();
            assert!(anchor.quote.len() <= MAX_QUOTE_BYTES);
            assert!(anchor.line(text, line).is_some());
            assert!(anchor.line(text, usize::MAX).is_some() || text.len() > MAX_SEARCH_BYTES);
        }
    }
}
