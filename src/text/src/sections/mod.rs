//! One section of a page: a heading and the text below it.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;

use crate::fold::fold_name;
use crate::headings::{Heading, headings};
use crate::lines::LineStarts;

/// Selects a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionSelector<'a> {
    /// By heading: its text takes precedence over its anchor, and that over a part of its text;
    /// case is ignored. `Parent > Child` selects a heading below another one.
    Heading(&'a str),
    /// By its index among the headings of the page, from 0.
    Index(usize),
}

/// One section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Section {
    /// The text of its heading.
    pub heading: String,
    /// 1 for `#` to 6 for `######`.
    pub level: u8,
    /// The text below the heading, with subsections, without blank lines at both ends.
    pub content: String,
    /// The line of the heading, from 1.
    pub line_start: usize,
    /// The last line of the section, from 1: before the next heading of the same or a higher level.
    pub line_end: usize,
}

/// Finds a section; none when the page has no such heading.
#[must_use]
pub fn section(text: &str, select: SectionSelector<'_>) -> Option<Section> {
    let headings = headings(text);
    let index = match select {
        SectionSelector::Index(index) => index,
        SectionSelector::Heading(query) => find_heading(&headings, query)?,
    };
    let heading = headings.get(index)?;
    let lines = LineStarts::new(text);
    let end = headings[end_of(&headings, index)..].first();
    let end_offset = end.map_or(text.len(), |next| end_offset(heading, next, &lines));
    let line_end = end.map_or(lines.count(), |next| next.line - 1);
    let content = text.get(heading.range.end..end_offset).unwrap_or_default();
    Some(Section {
        heading: heading.text.clone(),
        level: heading.level,
        content: without_blank_ends(content).to_owned(),
        line_start: heading.line,
        line_end: line_end.max(heading.line),
    })
}

/// The source of the section with this anchor, its heading included; none without such a heading.
#[must_use]
pub fn section_source<'t>(text: &'t str, anchor: &str) -> Option<&'t str> {
    let headings = headings(text);
    let index = headings.iter().position(|heading| heading.slug == anchor)?;
    let heading = &headings[index];
    let end = headings[end_of(&headings, index)..].first();
    let end_offset = end.map_or(text.len(), |next| end_offset(heading, next, &LineStarts::new(text)));
    text.get(heading.range.start..end_offset)
}

/// Where a section ends that `next` follows.
fn end_offset(heading: &Heading, next: &Heading, lines: &LineStarts<'_>) -> usize {
    match lines.start(next.line - 1) {
        // a heading inside a quote begins after the `>` of its line
        line if line >= heading.range.end => line,
        // same line: a lone `\r` separates headings but is not a line ending
        _ => next.range.start,
    }
}

/// Index of the heading that ends the section at `index`; the number of headings if none does.
///
/// A heading inside a quote or a list item does not end a section that began outside.
fn end_of(headings: &[Heading], index: usize) -> usize {
    let Some(heading) = headings.get(index) else {
        return headings.len();
    };
    let ends = |next: &Heading| next.level <= heading.level && (heading.is_nested || !next.is_nested);
    headings.iter().skip(index + 1).position(ends).map_or(headings.len(), |after| index + 1 + after)
}

fn find_heading(headings: &[Heading], query: &str) -> Option<usize> {
    let query = query.trim();
    // a heading may contain ` > ` itself: its full text takes precedence
    let all = 0..headings.len();
    if let Some(index) = position(headings, all.clone(), query, SectionMatch::Same) {
        return Some(index);
    }
    let anchor = fold_name(query.trim_start_matches('#'));
    let has_anchor = |heading: &Heading| !heading.slug.is_empty() && fold_name(&heading.slug) == anchor;
    if let Some(index) = headings.iter().position(has_anchor) {
        return Some(index);
    }
    if let Some((parents, child)) = query.rsplit_once('>') {
        return position_below(headings, parents, child);
    }
    position(headings, all, query, SectionMatch::Containing)
}

/// Finds `child` among the headings below `parents`.
fn position_below(headings: &[Heading], parents: &str, child: &str) -> Option<usize> {
    let mut range = 0..headings.len();
    let mut result = None;
    for name in parents.split('>').chain([child]) {
        let at = position(headings, range.clone(), name, SectionMatch::Same)
            .or_else(|| position(headings, range, name, SectionMatch::Containing))?;
        range = at + 1..end_of(headings, at);
        result = Some(at);
    }
    result
}

#[derive(Clone, Copy)]
enum SectionMatch {
    Same,
    Containing,
}

fn position(
    headings: &[Heading],
    range: std::ops::Range<usize>,
    query: &str,
    match_kind: SectionMatch,
) -> Option<usize> {
    let query = fold_name(query.trim_start_matches('#').trim());
    if query.is_empty() {
        return None;
    }
    let result = headings.get(range.clone())?.iter().position(|heading| {
        let text = fold_name(&heading.text);
        match match_kind {
            SectionMatch::Same => text == query,
            SectionMatch::Containing => text.contains(&*query),
        }
    })?;
    Some(range.start + result)
}

/// Removes blank lines at both ends; the indentation of the first line remains.
fn without_blank_ends(content: &str) -> &str {
    let content = content.trim_end();
    let blank = content.len() - content.trim_start().len();
    let start = content[..blank].rfind(['\n', '\r']).map_or(0, |at| at + 1);
    &content[start..]
}
