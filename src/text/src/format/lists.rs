//! Step 4: bullets become `-`, items are numbered consecutively.

use super::{TextEdit, apply_edits, line_start, meaning};
use crate::blocks::{BodyBlocks, ListBlock};

pub(super) fn normalize(body: &str) -> Option<String> {
    let blocks = BodyBlocks::of(body);
    if blocks.lists.is_empty() {
        return None;
    }
    let mut edits = bullets(body, &blocks.lists);
    edits.extend(numbers(body, &blocks));
    apply_edits(body, edits).filter(|after| meaning::is_same(body, after))
}

/// `*` and `+` become `-`, except where only different bullets separate two adjacent lists.
fn bullets(body: &str, lists: &[ListBlock]) -> Vec<TextEdit> {
    let mut keep = vec![false; lists.len()];
    for (index, list) in lists.iter().enumerate() {
        if let Some(previous) = list.follows
            && list.start.is_none()
            && lists[previous].start.is_none()
        {
            keep[previous] = true;
            keep[index] = true;
        }
    }
    let bullets = lists.iter().zip(keep).filter(|(list, keep)| list.start.is_none() && !keep);
    let items = bullets.flat_map(|(list, _)| &list.items);
    items
        .filter(|item| matches!(body.as_bytes().get(item.start), Some(b'*' | b'+')))
        .map(|item| TextEdit { range: item.start..item.start + 1, text: "-".to_owned() })
        .collect()
}

/// Numbers run 1, 2, 3, …; a list that continues the count of the previous list in the same
/// container keeps it.
fn numbers(body: &str, blocks: &BodyBlocks) -> Vec<TextEdit> {
    let mut edits = Vec::new();
    // for each list the next number: as written, and as renumbered
    let mut next = vec![(0, 0); blocks.lists.len()];
    for (index, list) in blocks.lists.iter().enumerate() {
        let Some(written) = list.start else { continue };
        let previous = list.after_numbers.map(|previous| next[previous]);
        let first = match previous {
            Some((next_as_written, next_as_numbered)) if written == next_as_written || written == next_as_numbered => {
                next_as_numbered
            }
            Some(_) | None => 1,
        };
        // an adjacent list, separated only by `.` and `)`, has its own count
        let first = if list.follows.is_some() { 1 } else { first };
        let length = list.items.len() as u64;
        let last = list.items.last().and_then(|item| marker(body, item.start));
        next[index] = (last.map_or(first + length, |(_, number)| number + 1), first + length);
        for (item, number) in list.items.iter().zip(first..) {
            renumber(body, blocks, item, number, &mut edits);
        }
    }
    edits
}

/// The number of a list marker: end offset and value.
fn marker(body: &str, start: usize) -> Option<(usize, u64)> {
    let digits = body.get(start..)?.bytes().take_while(u8::is_ascii_digit).count();
    Some((start + digits, body.get(start..start + digits)?.parse().ok()?))
}

/// Sets the number of an item; when the width of the marker changes, adjusts the indentation of the
/// following lines.
fn renumber(body: &str, blocks: &BodyBlocks, item: &std::ops::Range<usize>, number: u64, edits: &mut Vec<TextEdit>) {
    let Some((digits_end, written)) = marker(body, item.start) else {
        return;
    };
    let text = number.to_string();
    let digits = digits_end - item.start;
    if written == number && text.len() == digits {
        return;
    }
    let (wider, narrower) = (text.len().saturating_sub(digits), digits.saturating_sub(text.len()));
    edits.push(TextEdit { range: item.start..digits_end, text });
    if wider == narrower {
        return;
    }
    let column = item.start - line_start(body, item.start);
    let mut line = item.start;
    while let Some(next) = body[line..item.end].find('\n').map(|length| line + length + 1) {
        line = next;
        let at = line + column;
        // a line that is indented less is a lazy continuation and does not change
        let Some(prefix) = body.get(line..at) else { break };
        if line >= item.end || !prefix.bytes().all(|byte| matches!(byte, b' ' | b'>')) {
            continue;
        }
        let indentation = body[at..].bytes().take_while(|byte| *byte == b' ').count();
        let is_blank = matches!(body.as_bytes().get(at + indentation), Some(b'\n') | None);
        if indentation == 0 || (is_blank && !blocks.is_verbatim(&(at..at + 1))) {
            continue;
        }
        edits.push(TextEdit { range: at..at + narrower.min(indentation), text: " ".repeat(wider) });
    }
}
