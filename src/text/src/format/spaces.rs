//! Steps 5 and 6: remove trailing white space (hard breaks keep two spaces), and limit consecutive
//! blank lines to two.

use std::ops::Range;

use super::edits::{EditGroup, FormatInput, TextEdit};
use super::rendering::{Tolerance, apply_verified};

const MAX_BLANK_LINES: usize = 2;

pub(super) fn trim(input: &FormatInput<'_>) -> Option<String> {
    let body = input.body;
    let is_trimmed = |line: &str| !line.ends_with([' ', '\t']);
    if body.split('\n').all(is_trimmed) && !body.contains("\n\n\n\n") && !body.starts_with("\n\n\n") {
        return None;
    }
    let mut groups = Vec::new();
    let mut blank_lines: Vec<Range<usize>> = Vec::new();
    let mut offset = 0;
    for line in body.split_inclusive('\n') {
        let range = offset..offset + line.len();
        offset = range.end;
        let text = line.strip_suffix('\n').unwrap_or(line);
        let trimmed = text.trim_end_matches([' ', '\t']);
        let is_verbatim = input.is_verbatim(&range);
        if is_verbatim || !trimmed.is_empty() {
            groups.extend(excess(&blank_lines));
            blank_lines.clear();
        } else {
            blank_lines.push(range.clone());
        }
        if !is_verbatim && blank_lines.len() <= MAX_BLANK_LINES {
            let ending = if !trimmed.is_empty() && text.ends_with("  ") { "  " } else { "" };
            let range = range.start + trimmed.len()..range.start + text.len();
            groups.push(EditGroup::of_lines(vec![TextEdit { range, text: ending.to_owned() }]));
        }
    }
    groups.extend(excess(&blank_lines));
    apply_verified(input, groups, Tolerance::Nothing)
}

/// The removal of the blank lines of a run that are too many, if the write added as many.
fn excess(blank_lines: &[Range<usize>]) -> Option<EditGroup> {
    let (first, last) = (blank_lines.get(MAX_BLANK_LINES)?, blank_lines.last()?);
    let edit = TextEdit { range: first.start..last.end, text: String::new() };
    Some(EditGroup::repair(blank_lines[0].start..last.end, blank_lines.len() - MAX_BLANK_LINES, edit))
}
