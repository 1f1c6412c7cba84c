//! The automatic format of a page (gaps.md, "Auto-format transforms").
//!
//! One rule: what a reader sees stays the same. Each step proves it by reading the page before and after, and is not taken when
//! anything but a repaired table changed. Frontmatter, code and raw HTML keep every byte except their line endings.

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

/// Passes after which a page counts as settled. One does it for nearly every page; a second one confirms it.
const MAX_PASSES: usize = 4;

/// Format a page: line endings, open fences, tables, list markers, white space at line ends, blank lines, the last line.
///
/// A page that needs nothing is borrowed. Formatting twice gives what formatting once gives.
#[must_use]
pub fn format(text: &str) -> Cow<'_, str> {
    let text = with_unix_line_endings(text);
    let head_end = split(&text).body_offset;
    let Some(body) = format_body(&text[head_end..]) else {
        return with_last_line_ended(text, head_end);
    };
    with_last_line_ended(Cow::Owned([&text[..head_end], &body].concat()), head_end)
}

/// `\r\n` and `\r` become `\n`.
fn with_unix_line_endings(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// The formatted body; `None` when it is as it should be.
fn format_body(body: &str) -> Option<String> {
    let steps: [fn(&str) -> Option<String>; 4] = [fences::close, tables::repair, lists::normalise, spaces::trim];
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

/// Exactly one line ending at the end; blank lines before it go.
fn with_last_line_ended(text: Cow<'_, str>, head_end: usize) -> Cow<'_, str> {
    let mut kept = text.len();
    while let Some(last) = text[head_end..kept].rfind('\n').map(|at| head_end + at) {
        if !text[last..kept].trim().is_empty() {
            break;
        }
        kept = last;
    }
    if text[head_end..kept].trim().is_empty() {
        kept = head_end;
    }
    let ending = if kept > 0 && text[..kept].ends_with('\n') { "" } else { "\n" };
    if text[kept..] == *ending {
        return text;
    }
    Cow::Owned([&text[..kept], ending].concat())
}

/// One replacement in a body.
struct TextEdit {
    range: Range<usize>,
    text: String,
}

/// Apply edits that do not overlap; one that does is dropped. `None` when there is none.
fn apply(body: &str, mut edits: Vec<TextEdit>) -> Option<String> {
    edits.retain(|edit| body.get(edit.range.clone()).is_some_and(|old| old != edit.text));
    if edits.is_empty() {
        return None;
    }
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut new = String::with_capacity(body.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut from = 0;
    for edit in edits.into_iter() {
        if edit.range.start < from {
            continue;
        }
        new.push_str(&body[from..edit.range.start]);
        new.push_str(&edit.text);
        from = edit.range.end;
    }
    new.push_str(&body[from..]);
    Some(new)
}

/// Where the line that holds this byte begins.
fn line_start(body: &str, at: usize) -> usize {
    body[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// Where the line that holds this byte ends, its line ending not included.
fn line_end(body: &str, at: usize) -> usize {
    body[at..].find('\n').map_or(body.len(), |length| at + length)
}
