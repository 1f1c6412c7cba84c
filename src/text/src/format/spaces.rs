//! Steps 5 and 6: remove trailing white space (hard breaks keep two spaces), and limit consecutive
//! blank lines to two.

use super::meaning;
use crate::blocks::BodyBlocks;

const MAX_BLANK_LINES: usize = 2;

pub(super) fn trim(body: &str) -> Option<String> {
    let is_trimmed = |line: &str| !line.ends_with([' ', '\t']);
    if body.split('\n').all(is_trimmed) && !body.contains("\n\n\n\n") && !body.starts_with("\n\n\n") {
        return None;
    }
    let blocks = BodyBlocks::of(body);
    let mut after = String::with_capacity(body.len());
    let mut blank_lines = 0;
    let mut offset = 0;
    for line in body.split_inclusive('\n') {
        let range = offset..offset + line.len();
        offset = range.end;
        if blocks.is_verbatim(&range) {
            blank_lines = 0;
            after.push_str(line);
            continue;
        }
        let text = line.strip_suffix('\n').unwrap_or(line);
        let trimmed = text.trim_end_matches([' ', '\t']);
        blank_lines = if trimmed.is_empty() { blank_lines + 1 } else { 0 };
        if blank_lines > MAX_BLANK_LINES {
            continue;
        }
        after.push_str(trimmed);
        if !trimmed.is_empty() && text.ends_with("  ") {
            after.push_str("  ");
        }
        if line.ends_with('\n') {
            after.push('\n');
        }
    }
    (after != body && meaning::is_same(body, &after)).then_some(after)
}
