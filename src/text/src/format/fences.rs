//! Step 2: close a code fence that extends to the end of the page.

use super::{line_start, meaning};
use crate::blocks::BodyBlocks;

pub(super) fn close(body: &str) -> Option<String> {
    if !body.contains("```") && !body.contains("~~~") {
        return None;
    }
    let blocks = BodyBlocks::of(body);
    let fence = blocks.fences.last().filter(|fence| fence.is_unclosed(body))?;
    let marker = fence.marker(body)?;
    let line = line_start(body, fence.range.start);
    let opening = body.get(line..)?.find(marker)? + line;
    // inside a quote the closing line needs `>` too; a list marker becomes indentation
    let prefix: String = body[line..opening].chars().map(|c| if matches!(c, '>' | '\t') { c } else { ' ' }).collect();
    let newline = if body.ends_with('\n') { "" } else { "\n" };
    let before = [body, newline].concat();
    let after = [&before, &prefix, marker, "\n"].concat();
    let is_closed = BodyBlocks::of(&after).fences.last().is_some_and(|fence| !fence.is_unclosed(&after));
    (is_closed && meaning::is_same(&before, &after)).then_some(after)
}
