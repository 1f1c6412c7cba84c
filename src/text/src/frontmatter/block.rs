//! Where the frontmatter of a page is, and what is no frontmatter although it begins with `---`.
//!
//! The rule: a page begins with frontmatter if its first line is `---`, a later line is `---`, and
//! the first line between them that is neither blank nor a comment begins a key (`word:`), or there
//! is no text between them. Everything else between two `---` is text of the page: a heading, a
//! sentence, a list. TOML frontmatter is the same with `+++` and `key =` or `[table]`.

use super::{FrontmatterBlock, MAX_FRONTMATTER_BYTES, SplitPage};

/// Splits a page into frontmatter and body. A byte order mark belongs to neither.
#[must_use]
pub fn split(text: &str) -> SplitPage<'_> {
    let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let without_block = |block| SplitPage {
        block,
        yaml: None,
        toml: None,
        content_offset: start,
        body: &text[start..],
        body_offset: start,
        first_body_line: 1,
    };
    let mut lines = text[start..].split_inclusive('\n');
    let (fence, content_offset) = match lines.next() {
        Some(line) => match Fence::of(line) {
            Some(fence) => (fence, start + line.len()),
            None => return without_block(FrontmatterBlock::Absent),
        },
        None => return without_block(FrontmatterBlock::Absent),
    };
    let mut offset = content_offset;
    for (index, line) in lines.enumerate() {
        if Fence::of(line) != Some(fence) {
            offset += line.len();
            continue;
        }
        let content = &text[content_offset..offset];
        if !fence.encloses(content) {
            return without_block(FrontmatterBlock::Absent);
        }
        let is_oversized = content.len() > MAX_FRONTMATTER_BYTES;
        let body_offset = offset + line.len();
        return SplitPage {
            block: if is_oversized { FrontmatterBlock::Oversized } else { FrontmatterBlock::Present },
            yaml: (fence == Fence::Yaml).then_some(content),
            toml: (fence == Fence::Toml).then_some(content),
            content_offset,
            body: &text[body_offset..],
            body_offset,
            first_body_line: index + 3,
        };
    }
    let first_line = text[content_offset..].lines().next().unwrap_or_default();
    // a blank line after `---` makes it a rule, and nothing was to be closed
    let is_unterminated = !first_line.trim().is_empty() && fence.encloses(first_line);
    without_block(if is_unterminated { FrontmatterBlock::Unterminated } else { FrontmatterBlock::Absent })
}

pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// The line before and after a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fence {
    Yaml,
    Toml,
}

impl Fence {
    fn of(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n').unwrap_or(line);
        match line.strip_suffix('\r').unwrap_or(line) {
            "---" => Some(Self::Yaml),
            "+++" => Some(Self::Toml),
            _ => None,
        }
    }

    /// Whether this text between two such lines is frontmatter.
    fn encloses(self, content: &str) -> bool {
        let mut lines = content.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        if lines.peek().is_none() {
            return true;
        }
        let begins_key = match self {
            Self::Yaml => begins_yaml_key,
            Self::Toml => begins_toml_key,
        };
        lines.find(|line| !line.starts_with('#')).is_some_and(begins_key)
    }
}

fn begins_yaml_key(line: &str) -> bool {
    let is_separator = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t']);
    let has_separator = |text: &str| text.match_indices(':').any(|(at, _)| is_separator(&text[at + 1..]));
    let Some(first) = line.chars().next() else { return false };
    match first {
        '"' | '\'' => match end_of_quoted(line, first) {
            Some(end) => line[end..].trim_start().starts_with(':'),
            // a quotation mark that is never closed
            None => has_separator(line),
        },
        '?' => is_separator(&line[1..]),
        // `{{ }}` and `{% %}` are templates, `{:` is an attribute of a paragraph
        '{' => !line[1..].starts_with(['{', '%', ':']),
        // quotes, lists, links, tables, emphasis, HTML and code
        '>' | '-' | '*' | '[' | '|' | '<' | '`' | '%' | ':' => {
            first == '-' && !is_separator(&line[1..]) && has_separator(line)
        }
        '+' | '!' if line[1..].starts_with([' ', '[']) => false,
        _ if is_ordered_item(line) => false,
        _ => has_separator(line) || is_word_with_colon(line),
    }
}

/// The end of the quoted text at the start of a line.
fn end_of_quoted(line: &str, mark: char) -> Option<usize> {
    let mut characters = line.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        let is_doubled = || character == mark && characters.clone().next().is_some_and(|(_, next)| next == mark);
        let is_escape = if mark == '"' { character == '\\' } else { is_doubled() };
        if is_escape {
            characters.next();
        } else if character == mark {
            return Some(at + 1);
        }
    }
    None
}

/// `1. text` and `1) text`.
fn is_ordered_item(line: &str) -> bool {
    let rest = line.trim_start_matches(|character: char| character.is_ascii_digit());
    rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "))
}

/// A key whose value follows without a space, which is an error that the author should see. An
/// address such as `https://` is none.
fn is_word_with_colon(line: &str) -> bool {
    line.split_once(':').is_some_and(|(word, rest)| {
        let is_word = |character: char| character.is_alphabetic() || matches!(character, '-' | '_');
        !word.is_empty() && word.chars().all(is_word) && !rest.starts_with("//")
    })
}

fn begins_toml_key(line: &str) -> bool {
    let is_key = |key: &str| {
        let is_bare = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | ' ');
        let key = key.trim();
        key.starts_with(['"', '\'']) || (!key.is_empty() && key.chars().all(is_bare))
    };
    let is_table = line.starts_with('[') && line.trim_end().ends_with(']') && !line.contains("](");
    is_table || line.split_once('=').is_some_and(|(key, _)| is_key(key))
}
