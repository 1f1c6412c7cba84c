//! Collects the items of lists during the pass over the structure of a page.

use std::ops::Range;

/// Maximum length of the text of a task, in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// An item of a list. All ranges refer to the page.
pub(crate) struct ItemStructure {
    /// The item with the items below it.
    pub(crate) range: Range<usize>,
    /// Its own text after marker and box, up to the first list below it.
    pub(crate) content: Range<usize>,
    /// Index of the item that it is below.
    pub(crate) parent: Option<usize>,
    /// The character in its box.
    pub(crate) status: Option<char>,
    /// The text of a task without markup; empty for other items.
    pub(crate) plain_text: String,
}

#[derive(Default)]
pub(crate) struct ItemCollector {
    pub(crate) items: Vec<ItemStructure>,
    open: Vec<usize>,
}

impl ItemCollector {
    /// `range` is the item in the page as pulldown-cmark reports it, indentation included.
    pub(crate) fn open_item(&mut self, (body, body_offset): (&str, usize), range: Range<usize>) {
        let source = body.get(range.start - body_offset..range.end - body_offset).unwrap_or_default();
        let marker = marker_len(source);
        let (status, box_len) = match checkbox(&source[marker..]) {
            Some((status, length)) => (Some(status), length),
            None => (None, 0),
        };
        self.items.push(ItemStructure {
            content: range.start + marker + box_len..range.end,
            range,
            parent: self.open.last().copied(),
            status,
            plain_text: String::new(),
        });
        self.open.push(self.items.len() - 1);
    }

    pub(crate) fn close_item(&mut self) {
        self.open.pop();
    }

    /// A list starts: the text of the item around it ends.
    pub(crate) fn open_list(&mut self, start: usize) {
        if let Some(item) = self.innermost()
            && item.content.end == item.range.end
            && start > item.content.start
        {
            item.content.end = start;
        }
    }

    pub(crate) fn text(&mut self, text: &str) {
        if let Some(item) = self.innermost()
            && item.status.is_some()
        {
            let capacity = MAX_TEXT_BYTES.saturating_sub(item.plain_text.len());
            item.plain_text.push_str(&text[..text.floor_char_boundary(capacity)]);
        }
    }

    fn innermost(&mut self) -> Option<&mut ItemStructure> {
        self.open.last().and_then(|index| self.items.get_mut(*index))
    }
}

/// Length of the indentation, the list marker and the spaces after it.
fn marker_len(item: &str) -> usize {
    let indent = item.len() - item.trim_start().len();
    let rest = &item[indent..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let after = &rest[digits..];
    let marker = if after.starts_with(['-', '*', '+', '.', ')']) { digits + 1 } else { digits };
    let spaces = rest[marker..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    indent + marker + spaces
}

/// The character of the box `[x]` at the start of an item, and the length of the box with the
/// spaces after it.
fn checkbox(content: &str) -> Option<(char, usize)> {
    let mut characters = content.strip_prefix('[')?.chars();
    let status = characters.next().filter(|status| !matches!(status, '[' | ']' | '\n' | '\r'))?;
    let rest = characters.as_str();
    let rest = rest.strip_prefix('\u{FE0F}').unwrap_or(rest).strip_prefix(']')?;
    if !rest.is_empty() && !rest.starts_with([' ', '\t', '\n', '\r']) {
        return None;
    }
    Some((status, content.len() - rest.trim_start_matches([' ', '\t']).len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_holds_any_one_character() {
        for (content, expected) in [
            ("[ ] a", Some((' ', 4))),
            ("[x]\ta", Some(('x', 4))),
            ("[X]", Some(('X', 3))),
            ("[/]  a", Some(('/', 5))),
            ("[>]\nb", Some(('>', 3))),
            ("[é] a", Some(('é', 5))),
            ("[⭐\u{FE0F}] a", Some(('⭐', 9))),
            ("[] a", None),
            ("[ab] c", None),
            ("[a](b)", None),
            ("[[a]]", None),
            ("[a]: b", None),
            ("a [x] b", None),
        ] {
            assert_eq!(checkbox(content), expected, "{content}");
        }
        for (item, length) in [("- a", 2), ("  12. a", 6), ("1) a", 3), ("*\ta", 2), ("-", 1), ("", 0)] {
            assert_eq!(marker_len(item), length, "{item}");
        }
    }
}
