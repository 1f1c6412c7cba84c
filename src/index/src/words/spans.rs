//! Where the words of a text stand, without a look at what they are: cheap enough to be done again for each snippet.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

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
    Spans { characters: text.char_indices().peekable(), end: text.len() }
}

/// See [`spans`].
pub(crate) struct Spans<'t> {
    characters: Peekable<CharIndices<'t>>,
    end: usize,
}

impl Iterator for Spans<'_> {
    type Item = Span;
    fn next(&mut self) -> Option<Span> {
        loop {
            let (start, character) = self.characters.next()?;
            match class(character) {
                Class::Letter => {
                    while self.characters.next_if(|(_, next)| goes_on(*next)).is_some() {}
                    return Some(self.span(start, Written::Word));
                }
                Class::Dense => {
                    let mut ahead = self.characters.clone();
                    while ahead.next_if(|(_, next)| is_combining_mark(*next)).is_some() {}
                    let end = match ahead.next_if(|(_, next)| class(*next) == Class::Dense) {
                        Some((at, next)) => at + next.len_utf8(),
                        None => ahead.peek().map_or(self.end, |(at, _)| *at),
                    };
                    return Some(Span { range: start..end, written: Written::Pair });
                }
                Class::Symbol => return Some(self.span(start, Written::Symbol)),
                Class::Nothing => {}
            }
        }
    }
}

impl Spans<'_> {
    fn span(&mut self, start: usize, written: Written) -> Span {
        let end = self.characters.peek().map_or(self.end, |(at, _)| *at);
        Span { range: start..end, written }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Dense,
    Symbol,
    Nothing,
}

fn class(character: char) -> Class {
    if character.is_ascii() {
        return if character.is_ascii_alphanumeric() { Class::Letter } else { Class::Nothing };
    }
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

fn goes_on(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || !character.is_ascii() && (class(character) == Class::Letter || is_combining_mark(character))
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
