//! Forward index: the words of one page in order, as hashes. Scores and snippets are computed from
//! it without tokenizing the text again.
//!
//! A query reads hundreds of pages, so a row is short and is read without unpacking. It starts with
//! the sorted vocabulary of the page (the hash of each distinct word). Words are then indexes into
//! it: one byte in a page of up to 256 distinct words. The vocabulary alone shows that a page lacks
//! a word.

use super::{TextWords, VarintBytes};

/// Limit of the words of one section that count for the score; all of them are indexed.
const MOST_WORDS: usize = u16::MAX as usize;

/// A section of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum PageSection {
    /// The title.
    Title = 0,
    /// Other names: aliases, tags, path.
    Names = 1,
    /// The headings.
    Headings = 2,
    /// The text.
    Body = 3,
    /// The frontmatter as written.
    Frontmatter = 4,
}

/// Number of sections.
pub(crate) const SECTIONS: usize = 5;

/// The words of a page, as stored.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ForwardIndex<'r> {
    /// The hash of each distinct word, sorted.
    known: &'r [VarintBytes],
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
    fn places(self, spelling: &[u32], found: impl FnMut(usize)) {
        match self {
            Self::Narrow(words) => following(words, spelling, |word| u32::from(*word), found),
            Self::Wide(words) => following(words, spelling, |word| u32::from(u16::from_le_bytes(*word)), found),
            Self::Wider(words) => {
                following(words, spelling, |[low, middle, high]| u32::from_le_bytes([*low, *middle, *high, 0]), found);
            }
        }
    }
}

fn following<T>(words: &[T], spelling: &[u32], number: impl Fn(&T) -> u32, mut found: impl FnMut(usize)) {
    let Some((first, rest)) = spelling.split_first() else { return };
    for (at, word) in words.iter().enumerate() {
        if number(word) == *first {
            let behind = words[at + 1..].iter().map(&number);
            if rest.is_empty()
                || words.len() - at > rest.len() && behind.zip(rest).all(|(word, wanted)| word == *wanted)
            {
                found(at);
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

    /// Number of spellings.
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
    /// Number of words in a section.
    pub(crate) const fn len(&self, section: PageSection) -> usize {
        self.sections[section as usize].len()
    }

    /// Replaces the content of `resolved` by the spellings that the page may have.
    pub(crate) fn known(&self, spellings: &[Vec<VarintBytes>], known: &mut WordSpellings) {
        known.words.clear();
        known.ends.clear();
        for spelling in spellings.iter().filter(|spelling| !spelling.is_empty()) {
            let before = known.words.len();
            known.words.extend(spelling.iter().map_while(|word| {
                let place = self.known.binary_search(word).ok()?;
                u32::try_from(place).ok()
            }));
            if known.words.len() == before + spelling.len() {
                known.ends.push(known.words.len());
            } else {
                known.words.truncate(before);
            }
        }
    }

    /// Calls `on_match` with each position of this sequence of words in a section.
    pub(crate) fn places(&self, section: PageSection, spelling: &[u32], found: impl FnMut(usize)) {
        self.sections[section as usize].places(spelling, found);
    }

    /// Calls `on_match` with each position of a section that has this word as an alternative form.
    pub(crate) fn other_places(&self, section: PageSection, word: u32, mut found: impl FnMut(usize)) {
        let (words, places) = self.extras[section as usize];
        words.places(&[word], |at| found(places.get(at).map_or(0, |place| u16::from_le_bytes(*place).into())));
    }

    /// Decodes a row; `None` when it is malformed.
    pub(crate) fn decode(row: &'r [u8]) -> Option<Self> {
        let (width, row) = row.split_first()?;
        let width = usize::from(*width);
        let (count, row) = row.split_first_chunk::<4>()?;
        let (lengths, row) = row.split_first_chunk::<{ 4 * SECTIONS }>()?;
        let (known, mut rest) =
            row.split_at_checked(usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?)?;
        let mut forward = Self { known: known.as_chunks().0, ..Self::default() };
        for (section, [low, high, other_low, other_high]) in lengths.as_chunks::<4>().0.iter().enumerate() {
            let words = usize::from(u16::from_le_bytes([*low, *high]));
            let others = usize::from(u16::from_le_bytes([*other_low, *other_high]));
            let (stream, after) = rest.split_at_checked(width * words)?;
            let (extras, after) = after.split_at_checked(width * others)?;
            let (places, after) = after.split_at_checked(2 * others)?;
            forward.sections[section] = WordStream::decode(stream, width)?;
            forward.extras[section] = (WordStream::decode(extras, width)?, places.as_chunks().0);
            rest = after;
        }
        rest.is_empty().then_some(forward)
    }

    /// The hashes of a section's words.
    #[cfg(test)]
    pub(crate) fn numbers(&self, section: PageSection) -> Vec<VarintBytes> {
        let mut numbers = vec![VarintBytes::default(); self.len(section)];
        for (place, number) in self.known.iter().enumerate() {
            self.places(section, &[u32::try_from(place).unwrap()], |at| numbers[at] = *number);
        }
        numbers
    }
}

/// The row of a page: bytes per word, number of distinct words; for each section the number of
/// words and of extras; the vocabulary; then for each section its words, its extras, and their
/// positions.
pub(crate) fn encode(sections: [&TextWords; SECTIONS]) -> Vec<u8> {
    let mut known: Vec<VarintBytes> = sections
        .iter()
        .flat_map(|words| {
            let extras = extras_of(words).map(|(word, _)| word);
            words.stream.iter().take(MOST_WORDS).map(|word| word.number).chain(extras)
        })
        .collect();
    let words = known.len();
    known.sort_unstable();
    known.dedup();
    let width = match known.len() {
        0..=0x100 => 1,
        0x101..=0x1_0000 => 2,
        _ => 3,
    };
    let mut row = Vec::with_capacity(25 + 4 * known.len() + (width + 2) * words);
    row.extend(u8::try_from(width));
    row.extend(u32::try_from(known.len()).unwrap_or_default().to_le_bytes());
    let short = |length: usize| u16::try_from(length.min(MOST_WORDS)).unwrap_or(u16::MAX).to_le_bytes();
    for words in sections {
        row.extend(short(words.stream.len()));
        row.extend(short(extras_of(words).count()));
    }
    row.extend_from_slice(known.as_flattened());
    let put = |word: &VarintBytes, row: &mut Vec<u8>| {
        let place = known.binary_search(word).unwrap_or_default();
        row.extend_from_slice(&place.to_le_bytes()[..width]);
    };
    for words in sections {
        words.stream.iter().take(MOST_WORDS).for_each(|word| put(&word.number, &mut row));
        extras_of(words).for_each(|(word, _)| put(&word, &mut row));
        extras_of(words).for_each(|(_, place)| row.extend(place.to_le_bytes()));
    }
    row
}

/// The extras that are stored.
fn extras_of(words: &TextWords) -> impl Iterator<Item = (VarintBytes, u16)> {
    let extras = words.extras.iter().filter_map(|(word, place)| Some((word.number, u16::try_from(*place).ok()?)));
    extras.take(MOST_WORDS)
}
