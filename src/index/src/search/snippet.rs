//! Snippets: the part of a page that shows the matches best.

use std::ops::Range;

use super::query::QueryWord;
use super::score::find;
use crate::words::{ForwardIndex, PageSection, WordClass, WordSpan, WordSpellings, end_of_cluster, spans};

/// Approximate length of a snippet in words.
const WORDS: usize = 24;

/// Words before the first match.
const WORDS_BEFORE: usize = 6;

/// Length limit in bytes before escaping and marking: very long words, and tables without words,
/// are cut.
const MAX_BYTES: usize = 600;

/// Words of a page that are tokenized to find the matches of `pre*`.
const MAX_TOKENIZED_WORDS: usize = 20_000;

/// A match: position and number of words, and the index of the query word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SnippetMatch {
    at: usize,
    words: usize,
    word: usize,
    /// Whether only the first character of its last word, a pair, was searched.
    is_half: bool,
}

/// The densest part of the body, or of the frontmatter when only that matches. On one line, as
/// HTML, with every match in `<mark>`.
pub(super) fn of(body: &str, frontmatter: &str, page: ForwardIndex<'_>, words: &[QueryWord]) -> String {
    let in_body = matches(body, page, PageSection::Body, words);
    if in_body.is_empty() {
        let in_frontmatter = matches(frontmatter, page, PageSection::Frontmatter, words);
        if !in_frontmatter.is_empty() {
            return render(frontmatter, &in_frontmatter);
        }
    }
    render(body, &in_body)
}

fn matches(text: &str, page: ForwardIndex<'_>, section: PageSection, words: &[QueryWord]) -> Vec<SnippetMatch> {
    let mut matches = Vec::new();
    let (mut spellings, mut uses) = (WordSpellings::default(), Vec::new());
    for (index, word) in words.iter().enumerate() {
        page.resolve_spellings(&word.hashes(), &mut spellings);
        find(page, section, &spellings, &mut uses);
        let full_match = |at, words| SnippetMatch { at, words, word: index, is_half: false };
        matches.extend(uses.iter().map(|used| full_match(used.at, used.words)));
        if word.is_prefix {
            matches.extend(
                prefix_matches(text, word)
                    .map(|(at, words, is_half)| SnippetMatch { is_half, ..full_match(at, words) }),
            );
        }
    }
    matches.sort_unstable();
    matches.dedup_by_key(|hit| (hit.at, hit.words));
    matches
}

/// The matches of a prefix: position, number of words, and whether it is half a pair.
fn prefix_matches(text: &str, word: &QueryWord) -> impl Iterator<Item = (usize, usize, bool)> {
    let spans: Vec<WordSpan> = spans(text).take(MAX_TOKENIZED_WORDS).collect();
    let terms: Vec<String> = spans.iter().map(|span| span.term(text)).collect();
    let mut matches = Vec::new();
    for spelling in &word.spellings {
        let Some((last, before)) = spelling.split_last() else { continue };
        for at in before.len()..terms.len() {
            if terms[at].starts_with(last.as_str()) && terms[at - before.len()..at] == *before {
                let is_half = spans[at].class == WordClass::Pair && terms[at].len() > last.len();
                matches.push((at - before.len(), spelling.len(), is_half));
            }
        }
    }
    matches.into_iter()
}

/// The word range of the snippet: where most distinct query words are together, the earliest such
/// range.
fn window(matches: &[SnippetMatch]) -> Range<usize> {
    let mut best = (0, 0, 0..0);
    for (start, first) in matches.iter().enumerate() {
        let inside: Vec<&SnippetMatch> =
            matches[start..].iter().take_while(|hit| hit.at + hit.words <= first.at + WORDS).collect();
        let mut distinct: Vec<usize> = inside.iter().map(|hit| hit.word).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if (distinct.len(), inside.len()) > (best.0, best.1) {
            let end = inside.iter().map(|hit| hit.at + hit.words).max().unwrap_or(first.at);
            best = (distinct.len(), inside.len(), first.at..end);
        }
    }
    let matched = best.2;
    let capacity = WORDS.saturating_sub(matched.len());
    let mut start = matched.start.saturating_sub(capacity.min(WORDS_BEFORE));
    if start <= WORDS_BEFORE / 2 && matched.end <= WORDS {
        // Near the start of the text, so start with it.
        start = 0;
    }
    start..(start + WORDS).max(matched.end)
}

fn render(text: &str, matches: &[SnippetMatch]) -> String {
    let window = window(matches);
    let spans: Vec<WordSpan> = spans(text).skip(window.start).take(window.len() + 1).collect();
    let (Some(first), Some(last)) = (spans.first(), spans.get(..window.len().min(spans.len())).and_then(<[_]>::last))
    else {
        return escape(text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or_default(), &[]);
    };
    // Text before the first word and after the last one belongs to them: `# Title`, `done.`
    let mut start = if window.start == 0 { 0 } else { first.range.start };
    let is_end = spans.len() <= window.len();
    let mut end = if is_end { text.len() } else { last.range.end };
    let ranges: Vec<Range<usize>> = matches
        .iter()
        .filter(|hit| hit.at >= window.start && hit.at < window.end)
        .filter_map(|hit| {
            let inside = spans.get(hit.at - window.start..)?;
            let last = inside.get(hit.words - 1).or(inside.last())?.range.clone();
            let end = if hit.is_half { end_of_cluster(text, last.start) } else { last.end };
            Some(inside.first()?.range.start..end)
        })
        .collect();
    if end - start > MAX_BYTES {
        let near = ranges.first().map_or(start, |hit| hit.start);
        start = text.ceil_char_boundary(near.saturating_sub(MAX_BYTES / 4).max(start));
        end = text.floor_char_boundary((start + MAX_BYTES).min(end));
    }
    let mut html = String::new();
    if start > 0 {
        html.push('…');
    }
    let marks: Vec<Range<usize>> = ranges
        .into_iter()
        .filter(|mark| mark.start >= start && mark.end <= end)
        .map(|mark| mark.start - start..mark.end - start)
        .collect();
    html.push_str(&escape(&text[start..end], &marks));
    if end < text.len() {
        html.push('…');
    }
    html
}

/// One line of HTML with the marked ranges in `<mark>`; adjacent marks are merged.
fn escape(text: &str, marks: &[Range<usize>]) -> String {
    let mut sorted: Vec<Range<usize>> = marks.to_vec();
    sorted.sort_unstable_by_key(|mark| (mark.start, mark.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for mark in sorted {
        match merged.last_mut() {
            Some(last) if mark.start < last.end || mark.start == last.end && mark.start > last.start => {
                last.end = last.end.max(mark.end);
            }
            _ => merged.push(mark),
        }
    }
    let mut html = String::with_capacity(text.len() + 32);
    let mut from = 0;
    for mark in merged {
        put(&text[from..mark.start], &mut html);
        html.push_str("<mark>");
        put(&text[mark.clone()], &mut html);
        html.push_str("</mark>");
        from = mark.end;
    }
    put(&text[from..], &mut html);
    html.trim().to_owned()
}

fn put(text: &str, html: &mut String) {
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            _ if character.is_whitespace() => {
                if !html.ends_with(' ') {
                    html.push(' ');
                }
            }
            _ => html.push(character),
        }
    }
}
