//! Where the words of a text stand, without a look at what they are: cheap enough to be done again for each snippet.

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::fold;

/// One word of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where it stands, in bytes.
    pub(crate) range: Range<usize>,
    /// What it is.
    pub(crate) written: Written,
}

/// What a word of the stream is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// Letters and digits.
    Word,
    /// Two characters, or the last one by itself, of a script that puts no space between words.
    Pair,
    /// One symbol.
    Symbol,
}

impl Span {
    /// The word as it is looked up.
    pub(crate) fn term(&self, text: &str) -> String {
        let written = &text[self.range.clone()];
        match self.written {
            Written::Word => fold::term(written),
            Written::Pair | Written::Symbol => fold::folded(written),
        }
    }
}

/// The words of a text, in order.
pub(crate) fn spans(text: &str) -> Spans<'_> {
    Spans { text, at: 0 }
}

/// See [`spans`]. Bytes are looked at as long as they are ASCII: most texts are nothing else.
pub(crate) struct Spans<'t> {
    text: &'t str,
    at: usize,
}

impl Iterator for Spans<'_> {
    type Item = Span;
    fn next(&mut self) -> Option<Span> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let first = *bytes.get(start)?;
            if first.is_ascii() {
                self.at = start + 1;
                if first.is_ascii_alphanumeric() {
                    return Some(self.word(start));
                }
                continue;
            }
            let character = self.character(start)?;
            self.at = start + character.len_utf8();
            match class(character) {
                Class::Letter => return Some(self.word(start)),
                Class::Dense => return Some(Span { range: start..self.end_of_pair(), written: Written::Pair }),
                Class::Symbol => return Some(Span { range: start..self.at, written: Written::Symbol }),
                Class::Nothing => {}
            }
        }
    }
}

impl Spans<'_> {
    /// What is no ASCII at a place; none at the end and at ASCII.
    fn character(&self, at: usize) -> Option<char> {
        let is_ascii = self.text.as_bytes().get(at)?.is_ascii();
        self.text.get(at..).filter(|_| !is_ascii)?.chars().next()
    }

    /// The word whose first character was read, to its end.
    fn word(&mut self, start: usize) -> Span {
        let bytes = self.text.as_bytes();
        loop {
            while bytes.get(self.at).is_some_and(u8::is_ascii_alphanumeric) {
                self.at += 1;
            }
            match self.character(self.at) {
                Some(next) if class(next) == Class::Letter || is_combining_mark(next) => self.at += next.len_utf8(),
                Some(_) | None => return Span { range: start..self.at, written: Written::Word },
            }
        }
    }

    /// Where the pair ends whose first character was read; the second one begins a pair of its own.
    fn end_of_pair(&self) -> usize {
        let mut end = self.at;
        while let Some(mark) = self.character(end).filter(|next| is_combining_mark(*next)) {
            end += mark.len_utf8();
        }
        end + self.character(end).filter(|next| class(*next) == Class::Dense).map_or(0, char::len_utf8)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Dense,
    Symbol,
    Nothing,
}

/// What a character beyond ASCII is.
fn class(character: char) -> Class {
    if is_dense(character) {
        return Class::Dense;
    }
    if character.is_alphanumeric() {
        return Class::Letter;
    }
    match character.general_category() {
        GeneralCategory::OtherSymbol | GeneralCategory::CurrencySymbol | GeneralCategory::MathSymbol => Class::Symbol,
        _ => Class::Nothing,
    }
}

/// Is the character of a script that puts no space between words?
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
