//! The words of one page in the order in which they stand there, as numbers: what scores and snippets are made from without
//! reading the text again.

use super::{Number, Words};

/// Most words of one part of a page that count for its score; all of them are found.
const MOST_WORDS: usize = 65_536;

/// A part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Section {
    /// Its title.
    Title = 0,
    /// Its other names: aliases, tags, path.
    Names = 1,
    /// Its headings.
    Headings = 2,
    /// Its text.
    Body = 3,
    /// Its frontmatter as written.
    Frontmatter = 4,
}

/// How many sections there are.
pub(crate) const SECTIONS: usize = 5;

/// Another way to write a place of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extra {
    /// The word.
    pub(crate) number: Number,
    /// The place in the stream of its section that is written so.
    pub(crate) place: usize,
}

/// The words of a page as its row has them. A question looks at hundreds of rows: none of them is copied.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Forward<'r> {
    sections: [&'r [Number]; SECTIONS],
    extras: [&'r [[Number; 2]]; SECTIONS],
}

impl<'r> Forward<'r> {
    /// The words of a section, in order.
    pub(crate) fn words(&self, section: Section) -> &'r [Number] {
        self.sections[section as usize]
    }
    /// The extras of a section.
    pub(crate) fn extras(&self, section: Section) -> impl Iterator<Item = Extra> + 'r {
        let extras = self.extras[section as usize];
        extras.iter().map(|[number, place]| Extra { number: *number, place: u32::from_le_bytes(*place) as usize })
    }

    /// Reads a row; none when it is none of ours.
    pub(crate) fn decode(row: &'r [u8]) -> Option<Self> {
        let (numbers, []) = row.as_chunks::<4>() else { return None };
        let (lengths, mut rest) = numbers.split_at_checked(2 * SECTIONS)?;
        let mut forward = Self::default();
        for (section, [words, extras]) in lengths.as_chunks::<2>().0.iter().enumerate() {
            let (stream, others) = rest.split_at_checked(u32::from_le_bytes(*words) as usize)?;
            let (others, after) = others.split_at_checked(2 * u32::from_le_bytes(*extras) as usize)?;
            forward.sections[section] = stream;
            forward.extras[section] = others.as_chunks::<2>().0;
            rest = after;
        }
        rest.is_empty().then_some(forward)
    }
}

/// The row of a page: for each section the number of words and of extras, then the words, then the extras.
pub(crate) fn encode(sections: [&Words; SECTIONS]) -> Vec<u8> {
    let short = |length: usize| u32::try_from(length.min(MOST_WORDS)).unwrap_or(0);
    let length: usize = sections.iter().map(|words| 2 + words.stream.len() + 2 * words.extras.len()).sum();
    let mut row = Vec::with_capacity(4 * length);
    for words in sections {
        row.extend(short(words.stream.len()).to_le_bytes());
        row.extend(short(words.extras.len()).to_le_bytes());
    }
    for words in sections {
        words.stream.iter().take(MOST_WORDS).for_each(|word| row.extend(word.number));
        for (word, place) in words.extras.iter().take(MOST_WORDS) {
            row.extend(word.number);
            row.extend(u32::try_from(*place).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    row
}
