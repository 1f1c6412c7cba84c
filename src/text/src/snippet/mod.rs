//! The line of a page that answers a search, with the words that were searched for marked (gaps.md 4.5).

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::frontmatter::split;

/// Longest snippet, in bytes, marks and `…` not counted.
const MAX_BYTES: usize = 160;

/// How far before the first hit a long line is cut, in bytes.
const LEAD: usize = 40;

/// The first line of a page that holds one of the terms, with the first occurrence of each term between `<mark>` and `</mark>`.
///
/// Terms match in any case. The body comes before the frontmatter; when no line holds a term, the first line with words is shown.
/// What the page says itself is escaped (`&lt;`), so that a snippet may be put into HTML as it is.
#[must_use]
pub fn snippet(text: &str, terms: &[&str]) -> String {
    let terms: Vec<Vec<char>> = terms.iter().map(|term| folded(term.trim())).filter(|term| !term.is_empty()).collect();
    let split = split(text);
    let lines = split.body.lines().chain(split.yaml.unwrap_or_default().lines()).map(str::trim);
    let hit = lines.clone().find_map(|line| terms.iter().find_map(|term| find(line, term)).map(|_| line));
    let Some(line) = hit.or_else(|| lines.clone().find(|line| line.contains(char::is_alphanumeric))) else {
        return String::new();
    };
    let mut marks: Vec<Range<usize>> = terms.iter().filter_map(|term| find(line, term)).collect();
    marks.sort_unstable_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
    let first = marks.first().map_or(0, |mark| mark.start);
    marked(line, window(line, first), &marks)
}

/// A line with these parts of it between `<mark>` and `</mark>`, cut around the first of them when it is long.
#[must_use]
pub fn highlight_line(line: &str, marks: &[Range<usize>]) -> String {
    let first = marks.first().map_or(0, |mark| mark.start);
    marked(line, window(line, first), marks)
}

/// The part of a line that is shown: all of it, or what surrounds the first hit.
fn window(line: &str, first: usize) -> Range<usize> {
    if line.len() <= MAX_BYTES {
        return 0..line.len();
    }
    let start = if first + LEAD <= MAX_BYTES { 0 } else { line.ceil_char_boundary(first - LEAD) };
    start..line.floor_char_boundary(start + MAX_BYTES)
}

fn marked(line: &str, window: Range<usize>, marks: &[Range<usize>]) -> String {
    let mut shown = String::with_capacity(window.len() + 32);
    let mut from = window.start;
    if from > 0 {
        shown.push('…');
    }
    for mark in marks {
        if mark.start < from || mark.end > window.end {
            continue;
        }
        escape(&line[from..mark.start], &mut shown);
        shown.push_str("<mark>");
        escape(&line[mark.clone()], &mut shown);
        shown.push_str("</mark>");
        from = mark.end;
    }
    escape(&line[from..window.end], &mut shown);
    if window.end < line.len() {
        shown.push('…');
    }
    shown
}

fn escape(text: &str, into: &mut String) {
    for character in text.chars() {
        match character {
            '&' => into.push_str("&amp;"),
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            other => into.push(other),
        }
    }
}

fn folded(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Where a folded term first occurs in a line, in any case.
fn find(line: &str, term: &[char]) -> Option<Range<usize>> {
    line.char_indices().find_map(|(start, _)| {
        let mut wanted = term.iter();
        for (at, character) in line[start..].char_indices() {
            for lower in character.to_lowercase() {
                if wanted.next() != Some(&lower) {
                    return None;
                }
            }
            if wanted.len() == 0 {
                return Some(start..start + at + character.len_utf8());
            }
        }
        None
    })
}
