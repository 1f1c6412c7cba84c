//! A text as the words it is found by.
//!
//! One rule: pages and questions are read by the same code, so that what stands in a page is found by writing it as it stands there.
//!
//! A text is one stream of words, and phrases are words that follow each other in it. Besides the stream there are *extras*: other
//! ways in which people write the same place (`parseHttpRequest` is also `parse`, `http` and `request`; `snake_case` is also
//! `snakecase`, `e-mail` is also `email`). Scripts that put no space between words (Chinese, Japanese, Thai, …) are read as pairs of
//! characters, and each symbol (emoji, `€`, `→`) is a word.
//!
//! Why not the tokenizers of FTS5? They know neither pairs nor symbols nor compound names, and only one place can decide what a
//! word is when snippets, scores and questions must agree with the index. FTS5 is handed ready words with spaces between them.

mod fold;
mod forward;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use fold::{folded, parts, term};
pub(crate) use forward::{ForwardIndex, PageSection, WordSpellings, encode};
pub(crate) use spans::{WordClass, WordSpan, spans};

/// Most parts of a compound that are also found as one word.
const MOST_PARTS: usize = 6;

/// The number a word is known by where its letters would take too much room: equal words have equal numbers, and unequal ones as
/// good as always unequal numbers.
pub(crate) fn number(term: &str) -> VarintBytes {
    crc32fast::hash(term.as_bytes()).to_le_bytes()
}

/// See [`number`]; the bytes as they stand in a row.
pub(crate) type VarintBytes = [u8; 4];

/// The words that were read already: a text says most of its words often, and finding the stem of one takes longer than finding it.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    words: HashMap<String, Rc<DictionaryWord>>,
    others: HashMap<String, Rc<DictionaryWord>>,
    /// Words that were read for the first time, as they are spelled.
    new: Vec<String>,
}

/// Most words that are kept.
const MOST_KNOWN: usize = 50_000;

/// A word as it is looked up, and the words that are parts of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DictionaryWord {
    pub(crate) term: String,
    pub(crate) number: VarintBytes,
    parts: Vec<Rc<DictionaryWord>>,
}

impl DictionaryWord {
    fn new(term: String, parts: Vec<Rc<Self>>) -> Rc<Self> {
        let number = number(&term);
        Rc::new(Self { term, number, parts })
    }
}

impl Dictionary {
    fn read(&mut self, written: &str, kind: WordClass) -> Rc<DictionaryWord> {
        let known_ones = match kind {
            WordClass::Word => &mut self.words,
            WordClass::Pair | WordClass::Symbol => &mut self.others,
        };
        if let Some(known) = known_ones.get(written) {
            return Rc::clone(known);
        }
        let known = match kind {
            WordClass::Word => {
                self.new.push(folded(written));
                let parts = fold::parts(written).into_iter().map(|part| DictionaryWord::new(term(part), Vec::new()));
                DictionaryWord::new(term(written), parts.collect())
            }
            WordClass::Pair | WordClass::Symbol => DictionaryWord::new(folded(written), Vec::new()),
        };
        if known_ones.len() >= MOST_KNOWN {
            known_ones.clear();
        }
        known_ones.insert(written.to_owned(), Rc::clone(&known));
        known
    }

    /// The words that were read for the first time since this was last asked, in lower case and without accents; some of them twice.
    pub(crate) fn take_new(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }
}

/// A text, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TextWords {
    /// The stream, in order.
    pub(crate) stream: Vec<Rc<DictionaryWord>>,
    /// Other ways to write a place, with that place in the stream.
    pub(crate) extras: Vec<(Rc<DictionaryWord>, usize)>,
}

impl TextWords {
    /// Reads a text.
    pub(crate) fn of(text: &str, dictionary: &mut Dictionary) -> Self {
        let mut words = Self::default();
        words.add(text, dictionary);
        words
    }

    /// Reads more text behind what is there.
    pub(crate) fn add(&mut self, text: &str, dictionary: &mut Dictionary) {
        // The compound that is being read: how many words of the stream, and where the last one ended.
        let mut joined = CompoundWord::default();
        for span in spans(text) {
            let place = self.stream.len();
            let written = &text[span.range.clone()];
            let known = dictionary.read(written, span.written);
            if span.written == WordClass::Word && joined.goes_on(text, &span) {
                joined.add(&span);
            } else {
                joined.end(text, self, dictionary);
                joined = CompoundWord::default();
                if span.written == WordClass::Word {
                    joined = CompoundWord { parts: 1, place, start: span.range.start, end: span.range.end };
                }
            }
            self.extras.extend(known.parts.iter().map(|part| (Rc::clone(part), place)));
            self.stream.push(known);
        }
        joined.end(text, self, dictionary);
    }

    /// The terms of the stream, in order.
    pub(crate) fn terms(&self) -> impl Iterator<Item = &str> {
        self.stream.iter().map(|known| known.term.as_str())
    }
    /// The terms of the extras, in order.
    pub(crate) fn other_terms(&self) -> impl Iterator<Item = &str> {
        self.extras.iter().map(|(known, _)| known.term.as_str())
    }
}

/// Words with nothing but `_` or `-` between them.
#[derive(Default)]
struct CompoundWord {
    parts: usize,
    place: usize,
    start: usize,
    end: usize,
}

impl CompoundWord {
    fn goes_on(&self, text: &str, span: &WordSpan) -> bool {
        self.parts > 0 && matches!(&text[self.end..span.range.start], "_" | "-" | "\u{2010}" | "\u{2011}")
    }
    fn add(&mut self, span: &WordSpan) {
        self.parts += 1;
        self.end = span.range.end;
    }
    fn end(&self, text: &str, words: &mut TextWords, dictionary: &mut Dictionary) {
        if (2..=MOST_PARTS).contains(&self.parts) {
            let is_sign = |sign: char| matches!(sign, '_' | '-' | '\u{2010}' | '\u{2011}');
            let joined = text[self.start..self.end].replace(is_sign, "");
            words.extras.push((dictionary.read(&joined, WordClass::Word), self.place));
        }
    }
}
