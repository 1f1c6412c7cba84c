//! Inline fields: `key:: value` on a line of its own, `[key:: value]` and `(key:: value)` anywhere.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

use super::tags::is_emoji;
use super::value::FieldValue;
use crate::lines::LineStarts;
use crate::literal_spans::RangeCursor;
use crate::replace::replace_ranges;

/// Maximum length of a key, in bytes; a longer one is prose.
const MAX_KEY_BYTES: usize = 128;

/// An inline field of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineField {
    /// The key as written, without formatting marks.
    pub key: String,
    /// The key in the form in which queries name it, see [`normalize_key`].
    pub name: String,
    /// The text of the value; [`InlineField::value`] gives its type.
    pub text: String,
    /// Its line in the page, from 1.
    pub line: usize,
    /// Its bytes in the page: from bracket to bracket, or from the key to the end of the line.
    pub range: Range<usize>,
    /// Index of the list item that contains it.
    pub item: Option<usize>,
}

impl InlineField {
    /// The typed value.
    #[must_use]
    pub fn value(&self) -> FieldValue {
        FieldValue::parse(&self.text)
    }
}

/// Dataview's form of a key: lower case, `-` for white space; only letters, digits, `_`, `-` and
/// emoji remain.
#[must_use]
pub fn normalize_key(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    let mut is_space = false;
    for character in key.trim().chars() {
        if character.is_whitespace() {
            if !is_space {
                name.push('-');
            }
            is_space = true;
            continue;
        }
        is_space = false;
        if is_word(character) || matches!(character, '-' | '\u{200C}' | '\u{200D}' | '\u{FE0F}') {
            name.extend(character.to_lowercase());
        }
    }
    name
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || is_combining_mark(character) || is_emoji(character)
}

/// The fields of a text after `from`, in order; a `::` in an opaque range does not count.
pub(super) fn scan(text: &str, from: usize, lines: &LineStarts<'_>, opaque: &[Range<usize>]) -> Vec<InlineField> {
    let mut cursor = RangeCursor::new(opaque);
    let mut fields = Vec::new();
    let mut line_end = from;
    for (offset, _) in text.get(from..).unwrap_or_default().match_indices("::") {
        let at = from + offset;
        if at < line_end {
            continue;
        }
        let index = lines.index_of(at);
        let range = lines.start(index).max(from)..lines.start(index) + lines.line(index).len();
        line_end = range.end;
        let separators = separators(text, at..range.end, &mut cursor);
        if let Some(first) = separators.first() {
            let line = FieldLine { text, range, number: index + 1 };
            fields.extend(line.line_field(*first));
            line.bracketed(&separators, &mut fields);
        }
    }
    fields
}

/// The `::` of a line outside the opaque ranges.
fn separators(text: &str, range: Range<usize>, cursor: &mut RangeCursor<'_>) -> Vec<usize> {
    let found = text[range.clone()].match_indices("::").map(|(offset, _)| range.start + offset);
    found.filter(|at| cursor.covered_until(*at).is_none()).collect()
}

/// A line that contains `::`.
struct FieldLine<'t> {
    text: &'t str,
    range: Range<usize>,
    number: usize,
}

impl FieldLine<'_> {
    /// `key:: value` on its own line or as text of a list item that is not a task.
    fn line_field(&self, separator: usize) -> Option<InlineField> {
        let start = self.range.start + content_offset(&self.text[self.range.clone()])?;
        let key = self.text.get(start..separator)?;
        let marks = |character: char| matches!(character, '*' | '_' | '~' | '`');
        let unmarked = key.trim().trim_matches(marks);
        if !is_line_key(unmarked) {
            return None;
        }
        let value = self.text[separator + 2..self.range.end].trim();
        let value = value.rsplit_once(" ^").filter(|(_, id)| is_block_id(id)).map_or(value, |(value, _)| value);
        // the closing marks of `**key:: value**` and `**key::** value`
        let opening = key.trim_start().len() - key.trim_start().trim_start_matches(marks).len();
        let value = if opening > 0 && !key.trim_end().ends_with(marks) {
            let marks = &key.trim_start()[..opening];
            value.strip_prefix(marks).or_else(|| value.strip_suffix(marks)).unwrap_or(value)
        } else {
            value
        };
        Some(self.field(unmarked, value.trim(), start..self.range.end))
    }

    /// The fields in brackets. Brackets in a value must be balanced, or escaped with `\`.
    fn bracketed(&self, separators: &[usize], fields: &mut Vec<InlineField>) {
        let line = &self.text[self.range.clone()];
        if !line.contains(['[', '(']) {
            return;
        }
        let closing = closing_brackets(line);
        let mut end = self.range.start;
        for separator in separators.iter().copied().filter(|at| *at >= self.range.start) {
            if separator < end {
                continue;
            }
            let first = self.text.floor_char_boundary(separator.saturating_sub(MAX_KEY_BYTES + 8)).max(end);
            let Some(open) = self.text[first..separator].rfind(['[', '(', ']', ')']).map(|offset| first + offset)
            else {
                continue;
            };
            let Ok(pair) = closing.binary_search_by_key(&(open - self.range.start), |(open, _)| *open) else {
                continue;
            };
            let close = self.range.start + closing[pair].1;
            let key = self.text[open + 1..separator].trim();
            let key = key.trim_matches(|character: char| matches!(character, '*' | '_' | '~'));
            if close < separator + 2 || key.contains('`') || !key.chars().any(is_word) {
                continue;
            }
            end = close + 1;
            fields.push(self.field(key, self.text[separator + 2..close].trim(), open..end));
        }
    }

    fn field(&self, key: &str, text: &str, range: Range<usize>) -> InlineField {
        let (key, text) = (key.trim().to_owned(), text.to_owned());
        InlineField { name: normalize_key(&key), key, text, line: self.number, range, item: None }
    }
}

/// Offset of the text of a line, after indentation, `>` and list marker; `None` for lines that
/// have no line field: headings, table rows and tasks.
fn content_offset(line: &str) -> Option<usize> {
    let mut rest = line.trim_start_matches([' ', '\t', '>']);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match rest.as_bytes().get(digits) {
        Some(b'-' | b'*' | b'+') if digits == 0 => 1,
        Some(b'.' | b')') if digits > 0 => digits + 1,
        Some(_) | None => 0,
    };
    if marker > 0 && rest[marker..].starts_with([' ', '\t']) {
        rest = rest[marker..].trim_start();
    }
    (!rest.starts_with(['#', '|', '['])).then(|| line.len() - rest.len())
}

/// Whether this is the key of a line field: letters, digits, emoji, spaces, `_`, `-` and `/`.
fn is_line_key(key: &str) -> bool {
    key.len() <= MAX_KEY_BYTES
        && key.chars().any(is_word)
        && key.chars().all(|character| {
            is_word(character) || matches!(character, ' ' | '\t' | '-' | '/' | '\u{200C}' | '\u{200D}' | '\u{FE0F}')
        })
}

pub(super) fn is_block_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Opening and closing brackets that belong together, each kind by itself, ordered by the opening
/// one.
fn closing_brackets(line: &str) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut square, mut round) = (Vec::new(), Vec::new());
    let mut is_escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match byte {
            b'\\' => is_escaped = true,
            b'[' => square.push(at),
            b'(' => round.push(at),
            b']' => pairs.extend(square.pop().map(|open| (open, at))),
            b')' => pairs.extend(round.pop().map(|open| (open, at))),
            _ => {}
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Removes `[key:: value]` and `(key:: value)` from a text.
pub(super) fn remove_bracketed(text: &str) -> String {
    let lines = LineStarts::new(text);
    let is_bracketed = |range: &Range<usize>| text[range.clone()].starts_with(['[', '(']);
    let ranges = scan(text, 0, &lines, &[]).into_iter().map(|field| field.range).filter(is_bracketed);
    replace_ranges(text, ranges.map(|range| (range, " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(String, String)> {
        let code: Vec<usize> = text.match_indices('`').map(|(at, _)| at).collect();
        let code: Vec<Range<usize>> = code.chunks_exact(2).map(|pair| pair[0]..pair[1] + 1).collect();
        let fields = scan(text, 0, &LineStarts::new(text), &code).into_iter();
        fields.map(|field| (field.name, field.text)).collect()
    }

    #[test]
    fn fields_are_read_from_lines_and_brackets() {
        for (text, expected) in [
            ("key:: value", vec![("key", "value")]),
            ("a\nkey::value\nb", vec![("key", "value")]),
            ("key::", vec![("key", "")]),
            ("> - Due Date:: [[a|b]] ^id-1", vec![("due-date", "[[a|b]]")]),
            ("12. été_2/x:: é", vec![("été_2x", "é")]),
            ("**Bold Key**:: v", vec![("bold-key", "v")]),
            ("**Key:: v**", vec![("key", "v")]),
            ("**Key::** v", vec![("key", "v")]),
            ("*_Key_*:: v", vec![("key", "v")]),
            ("🎬 Film:: x", vec![("🎬-film", "x")]),
            ("हिन्दी:: x", vec![("हिन्दी", "x")]),
            ("see [who:: Ann] and (when:: now).", vec![("who", "Ann"), ("when", "now")]),
            ("[who:: [[Ann]]] x [b::[c](d)]", vec![("who", "[[Ann]]"), ("b", "[c](d)")]),
            ("(a:: (b) c) [d:: e (f]", vec![("a", "(b) c"), ("d", "e (f")]),
            (r"[a:: b \] c]", vec![("a", r"b \] c")]),
            ("[**a**:: b]", vec![("a", "b")]),
            ("key:: a (b:: c)", vec![("key", "a (b:: c)"), ("b", "c")]),
            ("`a:: b` x", vec![]),
            ("a `x` b:: c", vec![]),
            ("key:: `code` x", vec![("key", "`code` x")]),
            ("## a:: b", vec![]),
            ("| a:: b | [c:: d] |", vec![("c", "d")]),
            ("- [ ] a:: b", vec![]),
            ("- [ ] a [b:: c]", vec![("b", "c")]),
            ("::: note", vec![]),
            (":: x [:: y]", vec![]),
            ("Really, this is prose:: no key", vec![]),
            ("[a:: b", vec![]),
            ("[a](b) [c:: d]", vec![("c", "d")]),
        ] {
            let read = fields(text);
            let read: Vec<(&str, &str)> = read.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn a_key_has_one_form_for_queries() {
        for (key, name) in [
            ("Due Date", "due-date"),
            ("  A  b\tC ", "a-b-c"),
            ("Préface: 1!", "préface-1"),
            ("a_b-c", "a_b-c"),
            ("ÉCOLE", "école"),
        ] {
            assert_eq!(normalize_key(key), name, "{key}");
        }
    }

    #[test]
    fn removing_fields_leaves_the_other_words() {
        assert_eq!(remove_bracketed("a [b:: c] d (e:: [f]) g [h](i)"), "a   d   g [h](i)");
    }
}
