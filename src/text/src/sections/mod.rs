//! One section of a page: a heading and what stands under it (decision D22).

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;

use crate::headings::{Heading, headings};
use crate::lines::LineStarts;

/// Which section is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionSelector<'a> {
    /// By the words of its heading: the same words first, then containing them, in any case. `Parent > Child` names a heading
    /// below another one.
    Heading(&'a str),
    /// By its place among the headings of the page, from 0.
    Index(usize),
}

/// One section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Section {
    /// The words of its heading.
    pub heading: String,
    /// 1 for `#` to 6 for `######`.
    pub level: u8,
    /// What stands under the heading, sections below it included, without blank lines at both ends.
    pub content: String,
    /// The line of the heading, from 1.
    pub line_start: usize,
    /// The last line of the section, from 1: the one before the next heading of the same or a higher level.
    pub line_end: usize,
}

/// Find a section; `None` when the page has no such heading.
#[must_use]
pub fn section(text: &str, select: SectionSelector<'_>) -> Option<Section> {
    let headings = headings(text);
    let index = match select {
        SectionSelector::Index(index) => index,
        SectionSelector::Heading(wanted) => find(&headings, wanted)?,
    };
    let heading = headings.get(index)?;
    let lines = LineStarts::of(text);
    let end = headings[end_of(&headings, index)..].first();
    let end_offset = end.map_or(text.len(), |next| match lines.start(next.line - 1) {
        // a heading inside a quote begins after the `>` of its line
        line if line >= heading.range.end => line,
        // both stand in one line: a `\r` alone parts headings and is no line ending
        _ => next.range.start,
    });
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

/// Index of the heading that ends the section begun by the heading at `index`; the number of headings when none does.
///
/// A heading inside a quote or a list item does not end a section that began outside.
fn end_of(headings: &[Heading], index: usize) -> usize {
    let Some(heading) = headings.get(index) else {
        return headings.len();
    };
    let ends = |next: &Heading| next.level <= heading.level && (heading.is_nested || !next.is_nested);
    headings.iter().skip(index + 1).position(ends).map_or(headings.len(), |after| index + 1 + after)
}

fn find(headings: &[Heading], wanted: &str) -> Option<usize> {
    let wanted = wanted.trim();
    // a heading may itself contain ` > `: its own words come first
    let all = 0..headings.len();
    if let Some(index) = position(headings, all.clone(), wanted, SectionMatch::Same) {
        return Some(index);
    }
    if let Some((parents, child)) = wanted.rsplit_once('>') {
        return position_below(headings, parents, child);
    }
    position(headings, all, wanted, SectionMatch::Containing)
}

/// Find `child` among the headings below the one that `parents` names.
fn position_below(headings: &[Heading], parents: &str, child: &str) -> Option<usize> {
    let mut within = 0..headings.len();
    let mut found = None;
    for name in parents.split('>').chain([child]) {
        let at = position(headings, within.clone(), name, SectionMatch::Same)
            .or_else(|| position(headings, within, name, SectionMatch::Containing))?;
        within = at + 1..end_of(headings, at);
        found = Some(at);
    }
    found
}

#[derive(Clone, Copy)]
enum SectionMatch {
    Same,
    Containing,
}

fn position(headings: &[Heading], within: std::ops::Range<usize>, wanted: &str, how: SectionMatch) -> Option<usize> {
    let wanted = wanted.trim_start_matches('#').trim().to_lowercase();
    if wanted.is_empty() {
        return None;
    }
    let found = headings.get(within.clone())?.iter().position(|heading| {
        let text = heading.text.to_lowercase();
        match how {
            SectionMatch::Same => text == wanted,
            SectionMatch::Containing => text.contains(&wanted),
        }
    })?;
    Some(within.start + found)
}

/// Cut blank lines at both ends; the indentation of the first line stays.
fn without_blank_ends(content: &str) -> &str {
    let content = content.trim_end();
    let blank = content.len() - content.trim_start().len();
    let start = content[..blank].rfind(['\n', '\r']).map_or(0, |at| at + 1);
    &content[start..]
}
