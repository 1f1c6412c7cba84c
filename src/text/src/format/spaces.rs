//! Steps 5 and 6: remove trailing white space (hard breaks keep two spaces), and limit consecutive
//! blank lines to two.

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
    // Start of the present run of blank lines, and their number.
    let mut blank = (0, 0);
    let mut offset = 0;
    for line in body.split_inclusive('\n') {
        let range = offset..offset + line.len();
        offset = range.end;
        if input.is_verbatim(&range) {
            blank = (offset, 0);
            continue;
        }
        let text = line.strip_suffix('\n').unwrap_or(line);
        let trimmed = text.trim_end_matches([' ', '\t']);
        if !trimmed.is_empty() {
            blank = (offset, 0);
            let ending = if text.ends_with("  ") { "  " } else { "" };
            groups.push(trailing(range.start + trimmed.len()..range.start + text.len(), ending));
            continue;
        }
        blank.1 += 1;
        if blank.1 > MAX_BLANK_LINES {
            let edit = TextEdit { range: range.clone(), text: String::new() };
            groups.push(EditGroup::repair(blank.0..range.end, edit));
        } else {
            groups.push(trailing(range.start..range.start + text.len(), ""));
        }
    }
    apply_verified(input, groups, Tolerance::Nothing)
}

fn trailing(range: std::ops::Range<usize>, ending: &str) -> EditGroup {
    EditGroup::of_lines(vec![TextEdit { range, text: ending.to_owned() }])
}
