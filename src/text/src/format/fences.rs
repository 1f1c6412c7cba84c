//! Step 2: close a code fence that extends to the end of the page.

use super::edits::{EditGroup, FormatInput, TextEdit, line_start};
use super::rendering::{Tolerance, apply_verified};
use crate::blocks::BodyBlocks;

pub(super) fn close(input: &FormatInput<'_>) -> Option<String> {
    let body = input.body;
    let fence = input.blocks.fences.last().filter(|fence| fence.is_unclosed(body))?;
    let marker = fence.marker(body)?;
    let line = line_start(body, fence.range.start);
    let opening = body.get(line..)?.find(marker)? + line;
    // inside a quote the closing line needs `>` too; a list marker becomes indentation
    let prefix: String = body[line..opening].chars().map(|c| if matches!(c, '>' | '\t') { c } else { ' ' }).collect();
    let newline = if body.ends_with('\n') { "" } else { "\n" };
    let text = [newline, &prefix, marker, "\n"].concat();
    let edit = TextEdit { range: body.len()..body.len(), text };
    let after = apply_verified(input, [EditGroup::repair(fence.range.clone(), 1, edit)], Tolerance::Nothing)?;
    BodyBlocks::of(&after).fences.last().is_some_and(|fence| !fence.is_unclosed(&after)).then_some(after)
}
