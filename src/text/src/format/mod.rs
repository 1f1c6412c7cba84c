//! Automatic formatting of a page.
//!
//! Invariant: the rendered page does not change, except repaired tables. Each step compares the
//! page before and after, and is discarded on a difference. Frontmatter, code and raw HTML are
//! unchanged except their line endings.

mod fences;
mod lists;
mod meaning;
mod spaces;
mod tables;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use crate::frontmatter::split;

/// Maximum number of passes. One is nearly always enough; a second one confirms it.
const MAX_PASSES: usize = 4;

/// Formats a page: line endings, open fences, tables, list markers, trailing white space, blank
/// lines, final newline.
///
/// Returns a borrowed text when nothing changes. Idempotent.
#[must_use]
pub fn format(text: &str) -> Cow<'_, str> {
    let text = normalize_line_endings(text);
    let head_end = split(&text).body_offset;
    let Some(body) = format_body(&text[head_end..]) else {
        return with_final_newline(text, head_end);
    };
    with_final_newline(Cow::Owned([&text[..head_end], &body].concat()), head_end)
}

fn normalize_line_endings(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// The formatted body; none when nothing changes.
fn format_body(body: &str) -> Option<String> {
    let steps: [fn(&str) -> Option<String>; 4] = [fences::close, tables::repair, lists::normalize, spaces::trim];
    let mut current: Option<String> = None;
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        for step in steps {
            if let Some(next) = step(current.as_deref().unwrap_or(body)) {
                current = Some(next);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    current
}

/// Removes final blank lines and adds one line ending.
fn with_final_newline(text: Cow<'_, str>, head_end: usize) -> Cow<'_, str> {
    let mut end = text.len();
    while let Some(last) = text[head_end..end].rfind('\n').map(|at| head_end + at) {
        if !text[last..end].trim().is_empty() {
            break;
        }
        end = last;
    }
    if text[head_end..end].trim().is_empty() {
        end = head_end;
    }
    let ending = if end > 0 && text[..end].ends_with('\n') { "" } else { "\n" };
    if text[end..] == *ending {
        return text;
    }
    Cow::Owned([&text[..end], ending].concat())
}

struct TextEdit {
    range: Range<usize>,
    text: String,
}

/// Applies edits; skips overlapping ones. None when nothing changes.
fn apply_edits(body: &str, mut edits: Vec<TextEdit>) -> Option<String> {
    edits.retain(|edit| body.get(edit.range.clone()).is_some_and(|old| old != edit.text));
    if edits.is_empty() {
        return None;
    }
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut edited = String::with_capacity(body.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut from = 0;
    for edit in edits.into_iter() {
        if edit.range.start < from {
            continue;
        }
        edited.push_str(&body[from..edit.range.start]);
        edited.push_str(&edit.text);
        from = edit.range.end;
    }
    edited.push_str(&body[from..]);
    Some(edited)
}

/// Start of the line that contains this byte.
fn line_start(body: &str, at: usize) -> usize {
    body[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// End of the line that contains this byte, without its line ending.
fn line_end(body: &str, at: usize) -> usize {
    body[at..].find('\n').map_or(body.len(), |length| at + length)
}
