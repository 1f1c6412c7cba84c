//! Automatic formatting of a page.
//!
//! Invariant: the rendered page does not change, except repaired tables. Every edit is verified by
//! rendering the page before and after; the edits of a block that would differ are discarded.
//! Frontmatter, code, raw HTML, formulas, comments and the numbers of lists are unchanged; what
//! other renderers may read differently stays as it is.

mod edits;
mod fences;
mod lists;
mod opaque;
mod rendering;
mod spaces;
mod tables;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::frontmatter::split;
use edits::FormatInput;

/// Maximum number of passes. One is nearly always enough; a second one confirms it.
const MAX_PASSES: usize = 4;

type FormatStep = fn(&FormatInput<'_>) -> Option<String>;

const STEPS: [FormatStep; 6] = [
    fences::close,
    tables::insert_separators,
    tables::escape_pipes,
    tables::align,
    lists::normalize_bullets,
    spaces::trim,
];

/// Formats a new page: line endings, open fences, tables, bullets, trailing white space, blank
/// lines, final newline.
///
/// Returns a borrowed text when nothing changes. Idempotent.
#[must_use]
pub fn format(text: &str) -> Cow<'_, str> {
    format_text(None, normalize_line_endings(text))
}

/// Formats the lines of `text` that `stored`, the text that it replaces, does not have.
///
/// A block is formatted when all the lines that would change are new. The line endings of a page
/// that is stored with CRLF stay.
#[must_use]
pub fn format_changes<'t>(stored: &str, text: &'t str) -> Cow<'t, str> {
    if stored == text {
        return Cow::Borrowed(text);
    }
    if !stored.contains('\r') {
        return format_text(Some(stored), normalize_line_endings(text));
    }
    let is_crlf = |text: &str| text.matches('\r').count() == text.matches("\r\n").count();
    let has_only_crlf = text.matches('\n').count() == text.matches("\r\n").count() && is_crlf(text);
    if !has_only_crlf {
        // Mixed line endings belong to the writers of the page; LF may be one half of a pair.
        return Cow::Borrowed(text);
    }
    let unix = text.replace("\r\n", "\n");
    match format_text(Some(&normalize_line_endings(stored)), Cow::Borrowed(&unix)) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(formatted) => Cow::Owned(formatted.replace('\n', "\r\n")),
    }
}

fn format_text<'t>(stored: Option<&str>, text: Cow<'t, str>) -> Cow<'t, str> {
    let head_end = split(&text).body_offset;
    let stored_body = stored.map(|stored| &stored[split(stored).body_offset..]);
    let text = match format_body(stored_body, &text[head_end..]) {
        Some(body) => Cow::Owned([&text[..head_end], &body].concat()),
        None => text,
    };
    with_final_newline(stored, text, head_end)
}

fn normalize_line_endings(text: &str) -> Cow<'_, str> {
    if !text.contains('\r') {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// The formatted body; none when nothing changes.
fn format_body(stored: Option<&str>, body: &str) -> Option<String> {
    let mut current = Cow::Borrowed(body);
    for _ in 0..MAX_PASSES {
        let mut next_step = 0;
        while next_step < STEPS.len() {
            let input = FormatInput::new(stored, &current);
            let steps = STEPS.iter().enumerate().skip(next_step);
            let Some((step, text)) = steps.into_iter().find_map(|(step, run)| Some((step, run(&input)?))) else {
                if next_step == 0 {
                    return if let Cow::Owned(body) = current { Some(body) } else { None };
                }
                break;
            };
            current = Cow::Owned(text);
            next_step = step + 1;
        }
    }
    if let Cow::Owned(body) = current { Some(body) } else { None }
}

/// Removes final blank lines and adds one line ending, unless the stored page ends in the same way.
fn with_final_newline<'t>(stored: Option<&str>, text: Cow<'t, str>, head_end: usize) -> Cow<'t, str> {
    let end = end_of_last_line(&text, head_end);
    let ending = if end > 0 && text[..end].ends_with('\n') { "" } else { "\n" };
    let is_stored = |stored: &str| {
        let stored_end = end_of_last_line(stored, split(stored).body_offset);
        let last_line = |text: &str, end: usize| text[..end].rfind('\n').map_or(0, |at| at + 1);
        stored[last_line(stored, stored_end)..] == text[last_line(&text, end)..]
    };
    if text[end..] == *ending || stored.is_some_and(is_stored) {
        return text;
    }
    Cow::Owned([&text[..end], ending].concat())
}

/// End of the last line that is not blank, without its line ending; at least `head_end`.
fn end_of_last_line(text: &str, head_end: usize) -> usize {
    let mut end = text.len();
    while let Some(last) = text[head_end..end].rfind('\n').map(|at| head_end + at) {
        if !text[last..end].trim().is_empty() {
            break;
        }
        end = last;
    }
    if text[head_end..end].trim().is_empty() { head_end } else { end }
}
