//! Snippets of search results: a matching line with marked terms.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

use crate::fold::fold_word;
use crate::frontmatter::split;

/// Maximum length of a snippet, without marks and `…`.
const MAX_SNIPPET_BYTES: usize = 160;

/// Maximum length of the text before the first match.
const MAX_LEAD_BYTES: usize = 40;

/// The first line of a page that contains a term, with the first match of each term between
/// `<mark>` and `</mark>`.
///
/// Words are compared as search compares them (`fold_word`). The body takes precedence over the
/// frontmatter; without a match, the first line with words is returned. The text is HTML-escaped
/// (`&lt;`), so that a snippet can be inserted into HTML.
#[must_use]
pub fn snippet(text: &str, terms: &[&str]) -> String {
    let terms: Vec<Cow<'_, str>> =
        terms.iter().map(|term| fold_word(term.trim())).filter(|term| !term.is_empty()).collect();
    let split = split(text);
    let lines = split.body.lines().chain(split.yaml.unwrap_or_default().lines()).map(str::trim);
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

/// Range of the first match of a folded term in a line.
fn find(line: &str, term: &str) -> Option<Range<usize>> {
    let (folded, sources) = fold_line(line);
    let at = folded.find(term)?;
    let source_at = |at: usize| sources.partition_point(|(start, _)| *start <= at) - 1;
    let (first, last) = (source_at(at), source_at(at + term.len() - 1));
    let end = sources.get(last + 1).map_or(line.len(), |(_, source)| *source);
    Some(sources[first].1..end)
}

/// The folded line, and where each character of it with its marks starts: in the folded line and in
/// the line.
fn fold_line(line: &str) -> (String, Vec<(usize, usize)>) {
    let mut folded = String::with_capacity(line.len());
    let mut sources = Vec::with_capacity(line.len());
    let mut starts = line.char_indices().filter(|(_, character)| !is_combining_mark(*character)).peekable();
    while let Some((start, _)) = starts.next() {
        let end = starts.peek().map_or(line.len(), |(end, _)| *end);
        sources.push((folded.len(), start));
        folded.push_str(&fold_word(&line[start..end]));
    }
    (folded, sources)
}
