//! Inline tags: `#tag`, `#area/part`.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

use crate::literal_spans::RangeCursor;

/// A tag in the text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineTag {
    /// The tag without `#`, as written.
    pub name: String,
    /// Its line in the page, from 1.
    pub line: usize,
    /// Its bytes in the page, with the `#`.
    pub range: Range<usize>,
}

/// Emoji with which the Tasks plugin writes fields; they end a tag.
pub(super) const SIGNIFIERS: [char; 20] = [
    '📅', '📆', '🗓', '✅', '⏳', '⌛', '🛫', '➕', '❌', '🔁', '🔺', '⏫', '🔼', '🔽', '⏬', '🆔', '⛔', '🏁', '✔',
    '🚫',
];

/// The ranges of the tags in a text after `from`, outside the blocked ranges.
pub(super) fn scan(text: &str, from: usize, blocked: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut cursor = RangeCursor::new(blocked);
    let mut tags = Vec::new();
    let mut end = from;
    for (offset, _) in text.get(from..).unwrap_or_default().match_indices('#') {
        let at = from + offset;
        let previous = text[from..at].chars().next_back();
        // `[[#heading]]` is a link within the page
        if at < end || !previous.is_none_or(may_precede) || text[from..at].ends_with("[[") {
            continue;
        }
        let name = &text[at + 1..];
        let length = tag_len(name);
        if is_tag(&name[..length]) && cursor.covered_until(at).is_none() {
            end = at + 1 + length;
            tags.push(at..end);
        }
    }
    tags
}

/// Length of the tag name at the start of a text; 0 without one.
pub(super) fn tag_len(text: &str) -> usize {
    let end = text.find(|character| !is_tag_char(character)).unwrap_or(text.len());
    let name = &text[..end];
    // `#a//b` is `#a`, and `#a/` too
    let name = name.find("//").map_or(name, |empty| &name[..empty]);
    if name.starts_with('/') { 0 } else { name.trim_end_matches('/').len() }
}

/// Whether a name that [`tag_len`] measured is a tag: digits alone are a number.
pub(super) fn is_tag(name: &str) -> bool {
    name.chars().any(|character| !character.is_numeric() && !matches!(character, '/' | '\u{FE0F}' | '\u{20E3}'))
}

/// A `#` after these characters may start a tag. After a letter it is part of a URL or a word,
/// after `/`, `?` and `=` of a URL, after `&` of an entity.
fn may_precede(character: char) -> bool {
    character.is_whitespace()
        || matches!(character, '(' | '[' | '{' | '"' | '\'' | '>' | '*' | '_' | '~' | '|' | ',' | ';' | ':' | '!' | '.')
        || matches!(character, '“' | '‘' | '«' | '„' | '—' | '–' | '…' | '¿' | '¡' | '·')
        || matches!(character, '\u{3000}'..='\u{3003}' | '\u{3008}'..='\u{301F}' | '\u{FF01}'..='\u{FF0F}')
        || matches!(character, '\u{FF1A}'..='\u{FF20}' | '\u{200B}' | '\u{FEFF}' | '،' | '؛')
}

fn is_tag_char(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '/');
    }
    character.is_alphanumeric()
        || is_combining_mark(character)
        // joiners of Persian and Indic words and of emoji
        || matches!(character, '\u{200C}' | '\u{200D}' | '\u{20E3}' | '\u{FE0F}')
        || (is_emoji(character) && !SIGNIFIERS.contains(&character))
}

pub(super) fn is_emoji(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2BFF}' | '\u{1F000}'..='\u{1FAFF}' | '\u{E0020}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> Vec<&str> {
        scan(text, 0, &[]).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn tags_are_words_of_every_script_behind_a_number_sign() {
        for (text, expected) in [
            ("#a and #b/c-d_e.", vec!["#a", "#b/c-d_e"]),
            ("(#a) \"#b\" *#c*, #d!", vec!["#a", "#b", "#c", "#d"]),
            ("# heading ## two #", vec![]),
            ("#1984 #2024/05 #y1984 #1984a", vec!["#y1984", "#1984a"]),
            ("C# a#b https://x.org/#c ?#d &#39; \\#e", vec![]),
            ("#a/ #a//b #/a", vec!["#a", "#a"]),
            ("##a #a#b", vec!["#a"]),
            ("#école #été #Ümlaut", vec!["#école", "#été", "#Ümlaut"]),
            ("#日本語、#中文。#한국어", vec!["#日本語", "#中文", "#한국어"]),
            ("#हिन्दी #العربية #فارسی\u{200C}ها", vec!["#हिन्दी", "#العربية", "#فارسی\u{200C}ها"]),
            ("#🦀 #a🦀/b #👩\u{200D}🚀 #❤\u{FE0F}", vec!["#🦀", "#a🦀/b", "#👩\u{200D}🚀", "#❤\u{FE0F}"]),
            ("#task📅 2026-01-01", vec!["#task"]),
            ("#1\u{FE0F}\u{20E3}", vec![]),
        ] {
            assert_eq!(tags(text), expected, "{text}");
        }
    }
}
