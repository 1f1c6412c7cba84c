//! Forward index: the words of one page in order, as hashes. Scores and snippets are computed from
//! it without tokenizing the text again.
//!
//! A query reads hundreds of pages, so a row is short and is read without unpacking. It starts with
//! the sorted vocabulary of the page (the hash of each distinct word). Words are then indexes into
//! it: one byte in a page of up to 256 distinct words. The vocabulary alone shows that a page lacks
//! a word.

use super::{TermHash, TextWords};

/// Limit of the words of one section that count for the score; all of them are indexed.
const MAX_SECTION_WORDS: usize = u16::MAX as usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum PageSection {
    Title = 0,
    /// Other names: aliases, tags, path.
    Names = 1,
    Headings = 2,
    /// The text.
    Body = 3,
    /// The frontmatter as written.
    Frontmatter = 4,
}

pub(crate) const SECTIONS: usize = 5;

/// The words of a page, as stored.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ForwardIndex<'r> {
    /// The hash of each distinct word, sorted.
    vocabulary: &'r [TermHash],
    sections: [WordStream<'r>; SECTIONS],
    /// Alternative forms in each section, and their positions.
    extras: [(WordStream<'r>, &'r [[u8; 2]]); SECTIONS],
}

/// A sequence of words, as indexes into the vocabulary.
#[derive(Debug, Clone, Copy)]
enum WordStream<'r> {
    Narrow(&'r [u8]),
    Wide(&'r [[u8; 2]]),
    Wider(&'r [[u8; 3]]),
}

impl Default for WordStream<'_> {
    fn default() -> Self {
        Self::Narrow(&[])
    }
}

impl<'r> WordStream<'r> {
    fn decode(bytes: &'r [u8], width: usize) -> Option<Self> {
        match width {
            1 => Some(Self::Narrow(bytes)),
            2 => Some(Self::Wide(bytes.as_chunks().0)),
            3 => Some(Self::Wider(bytes.as_chunks().0)),
            _ => None,
        }
    }

    const fn len(self) -> usize {
        match self {
            Self::Narrow(words) => words.len(),
            Self::Wide(words) => words.len(),
            Self::Wider(words) => words.len(),
        }
    }

    /// Calls `on_match` with each position of this sequence of words.
    fn for_each_match(self, spelling: &[u32], on_match: impl FnMut(usize)) {
        match self {
            Self::Narrow(words) => find_sequences(words, spelling, |word| u32::from(*word), on_match),
            Self::Wide(words) => find_sequences(words, spelling, |word| u32::from(u16::from_le_bytes(*word)), on_match),
            Self::Wider(words) => {
                find_sequences(
                    words,
                    spelling,
                    |[low, middle, high]| u32::from_le_bytes([*low, *middle, *high, 0]),
                    on_match,
                );
            }
        }
    }
}

fn find_sequences<T>(words: &[T], spelling: &[u32], value: impl Fn(&T) -> u32, mut on_match: impl FnMut(usize)) {
    let Some((first, rest)) = spelling.split_first() else { return };
    for (at, word) in words.iter().enumerate() {
        if value(word) == *first {
            let following = words[at + 1..].iter().map(&value);
            if rest.is_empty()
                || words.len() - at > rest.len() && following.zip(rest).all(|(word, wanted)| word == *wanted)
            {
                on_match(at);
            }
        }
    }
}

/// The spellings of a word that a page may have, as indexes into its vocabulary: those whose words
/// are all in it.
#[derive(Debug, Default)]
pub(crate) struct WordSpellings {
    words: Vec<u32>,
    /// The end of each spelling in `words`.
    ends: Vec<usize>,
}

impl WordSpellings {
    /// Whether the page has none of the spellings.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The words of each spelling.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[u32]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.words[start..*end])
    }
}

impl<'r> ForwardIndex<'r> {
    pub(crate) const fn len(&self, section: PageSection) -> usize {
        self.sections[section as usize].len()
    }

    /// Replaces the content of `resolved` by the spellings that the page may have.
    pub(crate) fn resolve_spellings(&self, spellings: &[Vec<TermHash>], resolved: &mut WordSpellings) {
        resolved.words.clear();
        resolved.ends.clear();
        for spelling in spellings.iter().filter(|spelling| !spelling.is_empty()) {
            let before = resolved.words.len();
            resolved.words.extend(spelling.iter().map_while(|word| {
                let position = self.vocabulary.binary_search(word).ok()?;
                u32::try_from(position).ok()
            }));
            if resolved.words.len() == before + spelling.len() {
                resolved.ends.push(resolved.words.len());
            } else {
                resolved.words.truncate(before);
            }
        }
    }

    /// Calls `on_match` with each position of this sequence of words in a section.
    pub(crate) fn for_each_match(&self, section: PageSection, spelling: &[u32], on_match: impl FnMut(usize)) {
        self.sections[section as usize].for_each_match(spelling, on_match);
    }

    /// Whether a section consists of this sequence of words.
    pub(crate) fn is_exactly(&self, section: PageSection, words: &[TermHash]) -> bool {
        if words.is_empty() || self.len(section) != words.len() {
            return false;
        }
        let position = |word| u32::try_from(self.vocabulary.binary_search(word).ok()?).ok();
        let Some(spelling) = words.iter().map(position).collect::<Option<Vec<u32>>>() else { return false };
        let mut is_match = false;
        self.for_each_match(section, &spelling, |_| is_match = true);
        is_match
    }

    /// Calls `on_match` with each position of a section that has this word as an alternative form.
    pub(crate) fn for_each_extra(&self, section: PageSection, word: u32, mut on_match: impl FnMut(usize)) {
        let (words, positions) = self.extras[section as usize];
        words.for_each_match(&[word], |at| {
            on_match(positions.get(at).map_or(0, |position| u16::from_le_bytes(*position).into()))
        });
    }

    /// Decodes a row; `None` when it is malformed.
    pub(crate) fn decode(row: &'r [u8]) -> Option<Self> {
        let (width, row) = row.split_first()?;
        let width = usize::from(*width);
        let (count, row) = row.split_first_chunk::<4>()?;
        let (lengths, row) = row.split_first_chunk::<{ 4 * SECTIONS }>()?;
        let (vocabulary, mut rest) =
            row.split_at_checked(usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?)?;
        let mut forward = Self { vocabulary: vocabulary.as_chunks().0, ..Self::default() };
        for (section, [low, high, other_low, other_high]) in lengths.as_chunks::<4>().0.iter().enumerate() {
            let words = usize::from(u16::from_le_bytes([*low, *high]));
            let others = usize::from(u16::from_le_bytes([*other_low, *other_high]));
            let (stream, after) = rest.split_at_checked(width * words)?;
            let (extras, after) = after.split_at_checked(width * others)?;
            let (positions, after) = after.split_at_checked(2 * others)?;
            forward.sections[section] = WordStream::decode(stream, width)?;
            forward.extras[section] = (WordStream::decode(extras, width)?, positions.as_chunks().0);
            rest = after;
        }
        rest.is_empty().then_some(forward)
    }

    #[cfg(test)]
    pub(crate) fn hashes(&self, section: PageSection) -> Vec<TermHash> {
        let mut hashes = vec![TermHash::default(); self.len(section)];
        for (position, value) in self.vocabulary.iter().enumerate() {
            self.for_each_match(section, &[u32::try_from(position).unwrap()], |at| hashes[at] = *value);
        }
        hashes
    }
}

/// The row of a page: bytes per word, number of distinct words; for each section the number of
/// words and of extras; the vocabulary; then for each section its words, its extras, and their
/// positions.
pub(crate) fn encode(sections: [&TextWords; SECTIONS]) -> Vec<u8> {
    let mut vocabulary: Vec<TermHash> = sections
        .iter()
        .flat_map(|words| {
            let extras = extras_of(words).map(|(word, _)| word);
            words.stream.iter().take(MAX_SECTION_WORDS).map(|word| word.hash).chain(extras)
        })
        .collect();
    let words = vocabulary.len();
    vocabulary.sort_unstable();
    vocabulary.dedup();
    let width = match vocabulary.len() {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 3,
    };
    let mut row = Vec::with_capacity(25 + 4 * vocabulary.len() + (width + 2) * words);
    row.extend(u8::try_from(width));
    row.extend(u32::try_from(vocabulary.len()).unwrap_or_default().to_le_bytes());
    let capped_length = |length: usize| u16::try_from(length.min(MAX_SECTION_WORDS)).unwrap_or(u16::MAX).to_le_bytes();
    for words in sections {
        row.extend(capped_length(words.stream.len()));
        row.extend(capped_length(extras_of(words).count()));
    }
    row.extend_from_slice(vocabulary.as_flattened());
    let put = |word: &TermHash, row: &mut Vec<u8>| {
        let position = vocabulary.binary_search(word).unwrap_or_default();
        row.extend_from_slice(&position.to_le_bytes()[..width]);
    };
    for words in sections {
        words.stream.iter().take(MAX_SECTION_WORDS).for_each(|word| put(&word.hash, &mut row));
        extras_of(words).for_each(|(word, _)| put(&word, &mut row));
        extras_of(words).for_each(|(_, position)| row.extend(position.to_le_bytes()));
    }
    row
}

/// The extras that are stored.
fn extras_of(words: &TextWords) -> impl Iterator<Item = (TermHash, u16)> {
    let extras = words.extras.iter().filter_map(|(word, position)| Some((word.hash, u16::try_from(*position).ok()?)));
    extras.take(MAX_SECTION_WORDS)
}
