//! Tokenizer: splits text into words.
//!
//! Invariant: pages and queries use the same code, so text is found by typing it as it is written
//! in the page.
//!
//! A text is one stream of words; a phrase is a sequence in the stream. Besides the stream there
//! are *extras*: alternative forms at the same position (`parseHttpRequest` is also `parse`, `http`
//! and `request`; `snake_case` is also `snakecase`, `e-mail` is also `email`). Scripts without
//! spaces between words (Chinese, Japanese, Thai, …) are split into pairs of characters, and each
//! symbol (emoji, `€`, `→`) is a word.
//!
//! Why not the tokenizers of FTS5? They support neither pairs nor symbols nor compound names, and
//! snippets, scores and queries must agree with the index about what a word is. FTS5 gets prepared
//! words separated by spaces.

mod fold;
mod forward;
mod function_words;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::rc::Rc;

pub(crate) use fold::{folded, parts, term};
pub(crate) use forward::{ForwardIndex, PageSection, WordSpellings, encode};
pub(crate) use function_words::is_function_word;
pub(crate) use spans::{WordClass, WordSpan, end_of_cluster, spans};

/// Limit of the parts of a compound that is also indexed as one word.
const MAX_COMPOUND_PARTS: usize = 6;

/// A short stand-in for a term. Collisions are rare and only affect scores and snippets.
pub(crate) fn term_hash(term: &str) -> TermHash {
    crc32fast::hash(term.as_bytes()).to_le_bytes()
}

/// See [`term_hash`]; the bytes as stored.
pub(crate) type TermHash = [u8; 4];

/// Cache of tokenized words: texts repeat words, and stemming is slower than a lookup.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    words: HashMap<String, Rc<DictionaryWord>>,
    symbols: HashMap<String, Rc<DictionaryWord>>,
    /// Words that were tokenized for the first time, unstemmed.
    new: Vec<String>,
}

const MAX_CACHED_WORDS: usize = 50_000;

/// A word in index form, and its parts if it is a compound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DictionaryWord {
    pub(crate) term: String,
    pub(crate) hash: TermHash,
    parts: Vec<Rc<DictionaryWord>>,
}

impl DictionaryWord {
    fn new(term: String, parts: Vec<Rc<Self>>) -> Rc<Self> {
        let hash = term_hash(&term);
        Rc::new(Self { term, hash, parts })
    }
}

impl Dictionary {
    fn read(&mut self, written: &str, class: WordClass) -> Rc<DictionaryWord> {
        let cache = match class {
            WordClass::Word => &mut self.words,
            WordClass::Pair | WordClass::Symbol => &mut self.symbols,
        };
        if let Some(word) = cache.get(written) {
            return Rc::clone(word);
        }
        let word = match class {
            WordClass::Word => {
                self.new.push(folded(written));
                let parts = fold::parts(written).into_iter().map(|part| DictionaryWord::new(term(part), Vec::new()));
                DictionaryWord::new(term(written), parts.collect())
            }
            WordClass::Pair | WordClass::Symbol => DictionaryWord::new(folded(written), Vec::new()),
        };
        if cache.len() >= MAX_CACHED_WORDS {
            cache.clear();
        }
        cache.insert(written.to_owned(), Rc::clone(&word));
        word
    }

    /// Takes the words tokenized for the first time since the last call, in lower case and without
    /// accents; may have duplicates.
    pub(crate) fn take_new_words(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new)
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TextWords {
    pub(crate) stream: Vec<Rc<DictionaryWord>>,
    /// Alternative forms, each with its position in the stream.
    pub(crate) extras: Vec<(Rc<DictionaryWord>, usize)>,
}

impl TextWords {
    pub(crate) fn of(text: &str, dictionary: &mut Dictionary) -> Self {
        let mut words = Self::default();
        words.add(text, dictionary);
        words
    }

    pub(crate) fn add(&mut self, text: &str, dictionary: &mut Dictionary) {
        let mut compound = CompoundWord::default();
        for span in spans(text) {
            let position = self.stream.len();
            let written = &text[span.range.clone()];
            let word = dictionary.read(written, span.class);
            if span.class == WordClass::Word && compound.continues(text, &span) {
                if compound.end == span.range.start {
                    // The number of a version: `v` and `1` are also `v1`.
                    let version = dictionary.read(&text[compound.last..span.range.end], WordClass::Word);
                    self.extras.push((version, position - 1));
                    compound.end = span.range.end;
                } else {
                    compound.add(&span);
                }
            } else {
                compound.end(text, self, dictionary);
                compound = CompoundWord::default();
                if span.class == WordClass::Word {
                    compound = CompoundWord::new(position, &span);
                }
            }
            self.extras.extend(word.parts.iter().map(|part| (Rc::clone(part), position)));
            self.stream.push(word);
        }
        compound.end(text, self, dictionary);
    }

    pub(crate) fn terms(&self) -> impl Iterator<Item = &str> {
        self.stream.iter().map(|word| word.term.as_str())
    }
    pub(crate) fn extra_terms(&self) -> impl Iterator<Item = &str> {
        self.extras.iter().map(|(word, _)| word.term.as_str())
    }
}

/// Whether the text between two words joins them: `snake_case`, `e-mail`, `می‌خواهم`. Without any
/// text they are the parts of a version.
pub(crate) fn is_joint(between: &str) -> bool {
    matches!(between, "" | "_" | "-" | "\u{200C}" | "\u{2010}" | "\u{2011}")
}

/// Words joined by `_` or `-`.
#[derive(Default)]
struct CompoundWord {
    parts: usize,
    position: usize,
    start: usize,
    /// The start of its last part.
    last: usize,
    end: usize,
}

impl CompoundWord {
    const fn new(position: usize, span: &WordSpan) -> Self {
        let start = span.range.start;
        Self { parts: 1, position, start, last: start, end: span.range.end }
    }
    fn continues(&self, text: &str, span: &WordSpan) -> bool {
        self.parts > 0 && is_joint(&text[self.end..span.range.start])
    }
    fn add(&mut self, span: &WordSpan) {
        self.parts += 1;
        self.last = span.range.start;
        self.end = span.range.end;
    }
    fn end(&self, text: &str, words: &mut TextWords, dictionary: &mut Dictionary) {
        if (2..=MAX_COMPOUND_PARTS).contains(&self.parts) {
            let is_sign = |sign: char| matches!(sign, '_' | '-' | '\u{200C}' | '\u{2010}' | '\u{2011}');
            let text = text[self.start..self.end].replace(is_sign, "");
            words.extras.push((dictionary.read(&text, WordClass::Word), self.position));
        }
    }
}
