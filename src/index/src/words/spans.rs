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
    /// Two characters, or the last one alone, of a script without spaces between words.
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
        loop {
            while bytes.get(self.offset).is_some_and(u8::is_ascii_alphanumeric) {
                self.offset += 1;
            }
            match self.character(self.offset) {
                Some(next) if char_class(next) == CharClass::Letter || is_combining_mark(next) => {
                    self.offset += next.len_utf8()
                }
                Some(_) | None => return WordSpan { range: start..self.offset, class: WordClass::Word },
            }
        }
    }

    /// The end of the pair whose first character was just read; its second character starts a pair
    /// of its own.
    fn end_of_pair(&self) -> usize {
        let mut end = self.offset;
        while let Some(mark) = self.character(end).filter(|next| is_combining_mark(*next)) {
            end += mark.len_utf8();
        }
        end + self.character(end).filter(|next| char_class(*next) == CharClass::Dense).map_or(0, char::len_utf8)
    }
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

fn is_dense(character: char) -> bool {
    matches!(character,
        '\u{0E00}'..='\u{0EFF}' // Thai, Lao
        | '\u{1000}'..='\u{109F}' // Myanmar
        | '\u{1780}'..='\u{17FF}' // Khmer
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30FA}' | '\u{30FC}'..='\u{30FF}' // Japanese
        | '\u{3105}'..='\u{312F}' | '\u{31A0}'..='\u{31FF}'
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' // Chinese
        | '\u{AC00}'..='\u{D7A3}' | '\u{1100}'..='\u{11FF}' // Korean
        | '\u{FF66}'..='\u{FF9F}'
        | '\u{20000}'..='\u{3FFFF}')
}
