//! Snippets: the part of a page that shows the matches best.

use std::ops::Range;

use super::query::QueryWord;
use super::score::find;
use crate::words::{ForwardIndex, PageSection, WordClass, WordSpan, WordSpellings, spans};

/// Approximate length of a snippet in words.
const WORDS: usize = 24;

/// Words before the first match.
const LEAD: usize = 6;

/// Length limit in bytes before escaping and marking: very long words, and tables without words,
/// are cut.
const LONGEST: usize = 600;

/// Words of a page that are tokenized to find the matches of `pre*`.
const READ: usize = 20_000;

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
            return shown(frontmatter, &in_frontmatter);
        }
    }
    shown(body, &in_body)
}

fn matches(text: &str, page: ForwardIndex<'_>, section: PageSection, words: &[QueryWord]) -> Vec<SnippetMatch> {
    let mut found = Vec::new();
    let (mut known, mut places) = (WordSpellings::default(), Vec::new());
    for (number_of_word, word) in words.iter().enumerate() {
        page.known(&word.numbers(), &mut known);
        find(page, section, &known, &mut places);
        let whole = |at, words| SnippetMatch { at, words, word: number_of_word, is_half: false };
        found.extend(places.iter().map(|place| whole(place.at, place.words)));
        if word.is_prefix {
            found.extend(going_on(text, word).map(|(at, words, is_half)| SnippetMatch { is_half, ..whole(at, words) }));
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|found| (found.at, found.words));
    found
}

/// The matches of a prefix: position, number of words, and whether it is half a pair.
fn going_on(text: &str, word: &QueryWord) -> impl Iterator<Item = (usize, usize, bool)> {
    let spans: Vec<WordSpan> = spans(text).take(READ).collect();
    let terms: Vec<String> = spans.iter().map(|span| span.term(text)).collect();
    let mut found = Vec::new();
    for spelling in &word.spellings {
        let Some((last, before)) = spelling.split_last() else { continue };
        for at in before.len()..terms.len() {
            if terms[at].starts_with(last.as_str()) && terms[at - before.len()..at] == *before {
                let is_half = spans[at].written == WordClass::Pair && last.chars().count() == 1;
                found.push((at - before.len(), spelling.len(), is_half));
            }
        }
    }
    found.into_iter()
}

/// The word range of the snippet: where most distinct query words are together, the earliest such
/// range.
fn window(matches: &[SnippetMatch]) -> Range<usize> {
    let mut best = (0, 0, 0..0);
    for (start, first) in matches.iter().enumerate() {
        let inside: Vec<&SnippetMatch> =
            matches[start..].iter().take_while(|found| found.at + found.words <= first.at + WORDS).collect();
        let mut different: Vec<usize> = inside.iter().map(|found| found.word).collect();
        different.sort_unstable();
        different.dedup();
        if (different.len(), inside.len()) > (best.0, best.1) {
            let end = inside.iter().map(|found| found.at + found.words).max().unwrap_or(first.at);
            best = (different.len(), inside.len(), first.at..end);
        }
    }
    let found = best.2;
    let room = WORDS.saturating_sub(found.len());
    let mut start = found.start.saturating_sub(room.min(LEAD));
    if start <= LEAD / 2 && found.end <= WORDS {
        // Near the start of the text, so start with it.
        start = 0;
    }
    start..(start + WORDS).max(found.end)
}

fn shown(text: &str, matches: &[SnippetMatch]) -> String {
    let window = window(matches);
    let spans: Vec<WordSpan> = spans(text).skip(window.start).take(window.len() + 1).collect();
    let (Some(first), Some(last)) = (spans.first(), spans.get(..window.len().min(spans.len())).and_then(<[_]>::last))
    else {
        return escaped(text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default(), &[]);
    };
    // Text before the first word and after the last one belongs to them: `# Title`, `done.`
    let mut start = if window.start == 0 { 0 } else { first.range.start };
    let is_end = spans.len() <= window.len();
    let mut end = if is_end { text.len() } else { last.range.end };
    let of_matches: Vec<Range<usize>> = matches
        .iter()
        .filter(|found| found.at >= window.start && found.at < window.end)
        .filter_map(|found| {
            let inside = spans.get(found.at - window.start..)?;
            let last = inside.get(found.words - 1).or(inside.last())?.range.clone();
            let first = text[last.clone()].chars().next().filter(|_| found.is_half);
            Some(inside.first()?.range.start..first.map_or(last.end, |first| last.start + first.len_utf8()))
        })
        .collect();
    if end - start > LONGEST {
        let near = of_matches.first().map_or(start, |found| found.start);
        start = text.ceil_char_boundary(near.saturating_sub(LONGEST / 4).max(start));
        end = text.floor_char_boundary((start + LONGEST).min(end));
    }
    let mut shown = String::new();
    if start > 0 {
        shown.push('…');
    }
    let marks: Vec<Range<usize>> = of_matches
        .into_iter()
        .filter(|mark| mark.start >= start && mark.end <= end)
        .map(|mark| mark.start - start..mark.end - start)
        .collect();
    shown.push_str(&escaped(&text[start..end], &marks));
    if end < text.len() {
        shown.push('…');
    }
    shown
}

/// One line of HTML with the marked ranges in `<mark>`; adjacent marks are merged.
fn escaped(text: &str, marks: &[Range<usize>]) -> String {
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
    let mut shown = String::with_capacity(text.len() + 32);
    let mut from = 0;
    for mark in merged {
        put(&text[from..mark.start], &mut shown);
        shown.push_str("<mark>");
        put(&text[mark.clone()], &mut shown);
        shown.push_str("</mark>");
        from = mark.end;
    }
    put(&text[from..], &mut shown);
    shown.trim().to_owned()
}

fn put(text: &str, shown: &mut String) {
    for character in text.chars() {
        match character {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            _ if character.is_whitespace() => {
                if !shown.ends_with(' ') {
                    shown.push(' ');
                }
            }
            _ => shown.push(character),
        }
    }
}
