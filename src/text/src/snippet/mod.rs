//! Snippets of search results: a matching line with marked terms.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::frontmatter::split;

/// Maximum length of a snippet, without marks and `…`.
const MAX_SNIPPET_BYTES: usize = 160;

/// Maximum length of the text before the first match.
const MAX_LEAD_BYTES: usize = 40;

/// The first line of a page that contains a term, with the first match of each term between
/// `<mark>` and `</mark>`.
///
/// Case is ignored. The body takes precedence over the frontmatter; without a match, the first line
/// with words is returned. The text is HTML-escaped (`&lt;`), so that a snippet can be inserted
/// into HTML.
#[must_use]
pub fn snippet(text: &str, terms: &[&str]) -> String {
    let terms: Vec<Vec<char>> =
        terms.iter().map(|term| lower_chars(term.trim())).filter(|term| !term.is_empty()).collect();
    let split = split(text);
    let lines = split.body.lines().chain(split.content().unwrap_or_default().lines()).map(str::trim);
    let matching_line = lines.clone().find_map(|line| terms.iter().find_map(|term| find(line, term)).map(|_| line));
    let Some(line) = matching_line.or_else(|| lines.clone().find(|line| line.contains(char::is_alphanumeric))) else {
        return String::new();
    };
    let mut marks: Vec<Range<usize>> = terms.iter().filter_map(|term| find(line, term)).collect();
    marks.sort_unstable_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
    let first = marks.first().map_or(0, |mark| mark.start);
    with_marks(line, visible_range(line, first), &marks)
}

/// A line with these ranges between `<mark>` and `</mark>`; a long line is cut around the first
/// one.
#[must_use]
pub fn highlight_line(line: &str, marks: &[Range<usize>]) -> String {
    let first = marks.first().map_or(0, |mark| mark.start);
    with_marks(line, visible_range(line, first), marks)
}

/// The visible part of a line: all of it, or the text around the first match.
fn visible_range(line: &str, first: usize) -> Range<usize> {
    if line.len() <= MAX_SNIPPET_BYTES {
        return 0..line.len();
    }
    let start =
        if first + MAX_LEAD_BYTES <= MAX_SNIPPET_BYTES { 0 } else { line.ceil_char_boundary(first - MAX_LEAD_BYTES) };
    start..line.floor_char_boundary(start + MAX_SNIPPET_BYTES)
}

fn with_marks(line: &str, visible_range: Range<usize>, marks: &[Range<usize>]) -> String {
    let mut html = String::with_capacity(visible_range.len() + 32);
    let mut position = visible_range.start;
    if position > 0 {
        html.push('…');
    }
    for mark in marks {
        if mark.start < position || mark.end > visible_range.end {
            continue;
        }
        escape(&line[position..mark.start], &mut html);
        html.push_str("<mark>");
        escape(&line[mark.clone()], &mut html);
        html.push_str("</mark>");
        position = mark.end;
    }
    escape(&line[position..visible_range.end], &mut html);
    if visible_range.end < line.len() {
        html.push('…');
    }
    html
}

fn escape(text: &str, output: &mut String) {
    for character in text.chars() {
        match character {
            '&' => output.push_str("&amp;"),
            '<' => output.push_str("&lt;"),
            '>' => output.push_str("&gt;"),
            character => output.push(character),
        }
    }
}

fn lower_chars(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Range of the first match of a lower-case term in a line, ignoring case.
fn find(line: &str, term: &[char]) -> Option<Range<usize>> {
    line.char_indices().find_map(|(start, _)| {
        let mut expected = term.iter();
        for (at, character) in line[start..].char_indices() {
            for lower in character.to_lowercase() {
                if expected.next() != Some(&lower) {
                    return None;
                }
            }
            if expected.len() == 0 {
                return Some(start..start + at + character.len_utf8());
            }
        }
        None
    })
}
