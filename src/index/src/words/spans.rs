//! Finds the words of a text without folding them: cheap enough to repeat for each snippet.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::fold;

/// One word of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordSpan {
    pub(crate) range: Range<usize>,
    pub(crate) class: WordClass,
}

/// What a word of the stream consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordClass {
    /// Letters and digits.
    Word,
    /// Two characters with their marks, or the last one alone, of a script without spaces between
    /// words.
    Pair,
    Symbol,
}

impl WordSpan {
    pub(crate) fn term(&self, text: &str) -> String {
        let written = &text[self.range.clone()];
        match self.class {
            WordClass::Word => fold::term(written),
            WordClass::Pair | WordClass::Symbol => fold::folded(written),
        }
    }
}

pub(crate) fn spans(text: &str) -> WordSpans<'_> {
    WordSpans { text, offset: 0 }
}

/// See [`spans`]. Works on bytes while they are ASCII, which most texts are entirely.
pub(crate) struct WordSpans<'t> {
    text: &'t str,
    offset: usize,
}

impl Iterator for WordSpans<'_> {
    type Item = WordSpan;
    fn next(&mut self) -> Option<WordSpan> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.offset;
            let first = *bytes.get(start)?;
            if first.is_ascii() {
                self.offset = start + 1;
                if first.is_ascii_alphanumeric() {
                    return Some(self.word(start));
                }
                continue;
            }
            let character = self.character(start)?;
            self.offset = start + character.len_utf8();
            match char_class(character) {
                CharClass::Letter => return Some(self.word(start)),
                CharClass::Dense => {
                    self.offset = end_of_cluster(self.text, start);
                    return Some(WordSpan { range: start..self.end_of_pair(), class: WordClass::Pair });
                }
                CharClass::Symbol => return Some(WordSpan { range: start..self.offset, class: WordClass::Symbol }),
                CharClass::Nothing => {}
            }
        }
    }
}

impl WordSpans<'_> {
    /// The non-ASCII character at an offset; `None` at the end and for ASCII.
    fn character(&self, offset: usize) -> Option<char> {
        let is_ascii = self.text.as_bytes().get(offset)?.is_ascii();
        self.text.get(offset..).filter(|_| !is_ascii)?.chars().next()
    }

    /// The word that starts with the character just read.
    fn word(&mut self, start: usize) -> WordSpan {
        let bytes = self.text.as_bytes();
        let next = loop {
            while bytes.get(self.offset).is_some_and(u8::is_ascii_alphanumeric) {
                self.offset += 1;
            }
            match self.character(self.offset) {
                Some(next) if char_class(next) == CharClass::Letter || is_combining_mark(next) || is_joiner(next) => {
                    self.offset += next.len_utf8()
                }
                next => break next,
            }
        };
        if let Some(digits) = self.digits_of_version(start, next) {
            self.offset = digits;
        }
        WordSpan { range: start..self.offset, class: WordClass::Word }
    }

    /// Where the number starts in a word of letters and digits that a number or a script without
    /// spaces follows: `v1.2.3` is found by `1.2.3`, and `v2版` by `2版`.
    fn digits_of_version(&self, start: usize, next: Option<char>) -> Option<usize> {
        let is_digit = |character: char| matches!(character, '0'..='9' | '\u{FF10}'..='\u{FF19}');
        let is_followed = match next {
            Some('\u{FF0E}') => self.text[self.offset..].chars().nth(1).is_some_and(is_digit),
            Some(next) => char_class(next) == CharClass::Dense,
            None => {
                let rest = &self.text.as_bytes()[self.offset..];
                rest.first() == Some(&b'.') && rest.get(1).is_some_and(u8::is_ascii_digit)
            }
        };
        if !is_followed {
            return None;
        }
        let word = &self.text[start..self.offset];
        let letters = word.trim_end_matches(is_digit);
        let is_version = !letters.is_empty() && letters.len() < word.len() && letters.chars().all(char::is_alphabetic);
        is_version.then_some(start + letters.len())
    }

    /// The end of the pair whose first character was just read; its second character starts a pair
    /// of its own.
    fn end_of_pair(&self) -> usize {
        let next = self.character(self.offset).filter(|next| char_class(*next) == CharClass::Dense);
        next.map_or(self.offset, |_| end_of_cluster(self.text, self.offset))
    }
}

/// The end of the character that starts at an offset, with its marks. Korean letters form one
/// syllable, and half-width voicing marks belong to the letter before them.
pub(crate) fn end_of_cluster(text: &str, start: usize) -> usize {
    let mut characters = text[start..].chars();
    let Some(mut last) = characters.next() else { return start };
    let mut end = start + last.len_utf8();
    for next in characters {
        let is_vowel_of_mark = matches!((last, next), ('\u{0E4D}', '\u{0E32}') | ('\u{0ECD}', '\u{0EB2}'));
        let extends = is_combining_mark(next)
            || is_joiner(next)
            || is_vowel_of_mark
            || matches!(next,
                '\u{0E33}' | '\u{0EB3}' // Thai and Lao vowels that are a mark and a letter
                | '\u{1160}'..='\u{11FF}' | '\u{D7B0}'..='\u{D7FB}' // Korean vowels and finals
                | '\u{200B}' | '\u{200C}' | '\u{309B}' | '\u{309C}' | '\u{FF9E}' | '\u{FF9F}');
        if next.is_ascii() || !extends {
            break;
        }
        end += next.len_utf8();
        last = next;
    }
    end
}

/// Invisible characters inside of words.
const fn is_joiner(character: char) -> bool {
    matches!(character, '\u{00AD}' | '\u{200D}' | '\u{2060}' | '\u{FEFF}')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Letter,
    Dense,
    Symbol,
    Nothing,
}

/// Classifies a non-ASCII character.
fn char_class(character: char) -> CharClass {
    if is_dense(character) {
        return CharClass::Dense;
    }
    if character.is_alphanumeric() {
        return CharClass::Letter;
    }
    match character.general_category() {
        GeneralCategory::OtherSymbol | GeneralCategory::CurrencySymbol | GeneralCategory::MathSymbol => {
            CharClass::Symbol
        }
        _ => CharClass::Nothing,
    }
}

/// Whether a character belongs to a script that is written without spaces between words.
fn is_dense(character: char) -> bool {
    match character {
        '\u{2E80}'..='\u{2FDF}' // Chinese radicals
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30FA}' | '\u{30FC}'..='\u{30FF}' // Japanese
        | '\u{3105}'..='\u{312F}' | '\u{31A0}'..='\u{31FF}'
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{A4CF}' | '\u{F900}'..='\u{FAFF}' // Chinese, Yi
        | '\u{AC00}'..='\u{D7FB}' | '\u{1100}'..='\u{11FF}' | '\u{A960}'..='\u{A97F}' // Korean
        | '\u{FF66}'..='\u{FF9F}'
        | '\u{20000}'..='\u{3FFFF}' => true,
        // Their blocks have punctuation, too.
        '\u{0E00}'..='\u{0EFF}' // Thai, Lao
        | '\u{1000}'..='\u{109F}' | '\u{A9E0}'..='\u{A9FF}' | '\u{AA60}'..='\u{AA7F}' // Myanmar
        | '\u{1780}'..='\u{17FF}' // Khmer
        | '\u{1950}'..='\u{19DF}' | '\u{1A20}'..='\u{1AAF}' | '\u{AA80}'..='\u{AADF}' // Tai
        | '\u{1B00}'..='\u{1B7F}' | '\u{A980}'..='\u{A9DF}' // Balinese, Javanese
            => character.is_alphanumeric() || is_combining_mark(character),
        _ => false,
    }
}
