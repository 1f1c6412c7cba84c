//! Word pieces of BERT (uncased), as the tokenizer that the model was trained with makes them.

use rustc_hash::FxHashMap;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Longer words are unknown, as in the reference.
const MAX_WORD_CHARS: usize = 100;

/// Shorter words say nothing about the language of a text.
const MIN_COUNTED_CHARS: usize = 4;

/// The tokens of a vocabulary by their text.
pub(crate) struct Tokenizer {
    /// Tokens that begin a word.
    first: FxHashMap<Box<str>, u32>,
    /// Tokens that continue a word, without `##`.
    next: FxHashMap<Box<str>, u32>,
    /// Bytes of the longest token.
    longest: usize,
}

impl Tokenizer {
    pub(crate) fn new<'v>(vocabulary: impl Iterator<Item = &'v str>) -> Self {
        let (mut first, mut next, mut longest) = (FxHashMap::default(), FxHashMap::default(), 0);
        for (id, token) in (0..).zip(vocabulary) {
            let (tokens, text) = match token.strip_prefix("##") {
                Some(text) if !text.is_empty() => (&mut next, text),
                _ => (&mut first, token),
            };
            longest = longest.max(text.len());
            tokens.insert(text.into(), id);
        }
        Self { first, next, longest }
    }

    /// Calls `emit` with the id of each token of a text; unknown words are left out.
    pub(crate) fn for_each_token(&self, text: &str, mut emit: impl FnMut(u32)) {
        self.for_each_word(text, |_, pieces| pieces.iter().for_each(|piece| emit(*piece)));
    }

    /// Words that are one token, and all: the parts of a split word have little meaning. Short
    /// words do not count: the vocabulary has those of most languages.
    pub(crate) fn known_words(&self, text: &str) -> (usize, usize) {
        let (mut known, mut all) = (0, 0);
        self.for_each_word(text, |word, pieces| {
            let is_counted = word.chars().nth(MIN_COUNTED_CHARS - 1).is_some();
            known += usize::from(is_counted && pieces.len() == 1);
            all += usize::from(is_counted);
        });
        (known, all)
    }

    /// Calls `emit` with each word and its tokens; an unknown word has none.
    fn for_each_word(&self, text: &str, mut emit: impl FnMut(&str, &[u32])) {
        let mut word = String::new();
        let mut pieces = Vec::new();
        let mut end_word = |word: &mut String| {
            if !word.is_empty() {
                self.split_word(word, &mut pieces);
                emit(word, &pieces);
                pieces.clear();
                word.clear();
            }
        };
        for character in normalized(text) {
            match CharacterClass::of(character) {
                CharacterClass::Space => end_word(&mut word),
                CharacterClass::Single => {
                    end_word(&mut word);
                    word.push(character);
                    end_word(&mut word);
                }
                CharacterClass::Word => word.push(character),
            }
        }
        end_word(&mut word);
    }

    /// The longest tokens from the left; none if a part of the word is unknown.
    fn split_word(&self, word: &str, pieces: &mut Vec<u32>) {
        if word.len() > MAX_WORD_CHARS && word.chars().count() > MAX_WORD_CHARS {
            return;
        }
        let mut at = 0;
        while at < word.len() {
            let tokens = if at == 0 { &self.first } else { &self.next };
            let mut end = word.floor_char_boundary(word.len().min(at + self.longest));
            let id = loop {
                if end <= at {
                    pieces.clear();
                    return;
                }
                if let Some(id) = tokens.get(&word[at..end]) {
                    break *id;
                }
                end = word.floor_char_boundary(end - 1);
            };
            pieces.push(id);
            at = end;
        }
    }
}

enum CharacterClass {
    Space,
    /// A token of its own: punctuation, or a character of a script without spaces.
    Single,
    Word,
}

impl CharacterClass {
    fn of(character: char) -> Self {
        if character.is_ascii() {
            return match character {
                ' ' => Self::Space,
                _ if character.is_ascii_punctuation() => Self::Single,
                _ => Self::Word,
            };
        }
        if character.is_whitespace() {
            Self::Space
        } else if is_ideograph(character) || is_punctuation(character) {
            Self::Single
        } else {
            Self::Word
        }
    }
}

/// Lower-case text without accents and control characters, and with plain spaces.
fn normalized(text: &str) -> impl Iterator<Item = char> {
    let cleaned = text.chars().filter_map(|character| match character {
        '\t' | '\n' | '\r' => Some(' '),
        ' '..='~' => Some(character),
        '\0' | '\u{fffd}' => None,
        _ if is_control(character) => None,
        _ => Some(character),
    });
    let stripped = cleaned
        .nfd()
        .filter(|character| character.is_ascii() || character.general_category() != GeneralCategory::NonspacingMark);
    stripped.flat_map(char::to_lowercase)
}

fn is_control(character: char) -> bool {
    use GeneralCategory::{Control, Format, PrivateUse};
    matches!(character.general_category(), Control | Format | PrivateUse)
}

fn is_punctuation(character: char) -> bool {
    use GeneralCategory::{
        ClosePunctuation, ConnectorPunctuation, DashPunctuation, FinalPunctuation, InitialPunctuation, OpenPunctuation,
        OtherPunctuation,
    };
    matches!(
        character.general_category(),
        ClosePunctuation
            | ConnectorPunctuation
            | DashPunctuation
            | FinalPunctuation
            | InitialPunctuation
            | OpenPunctuation
            | OtherPunctuation
    )
}

/// The blocks of CJK ideographs that the reference separates.
fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{4E00}'..='\u{9FFF}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}'
        | '\u{2B920}'..='\u{2CEAF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{2F800}'..='\u{2FA1F}')
}
