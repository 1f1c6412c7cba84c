//! The words of one page in the order in which they stand there, as numbers: what scores and snippets are made from without
//! reading the text again.

use super::Words;

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

/// Another way to write a place of the body or of the frontmatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extra {
    /// The word.
    pub(crate) number: u32,
    /// The place in the stream of its section that is written so.
    pub(crate) place: usize,
}

/// The words of a page, read back from its row.
#[derive(Debug, Default)]
pub(crate) struct Forward {
    sections: [Vec<u32>; SECTIONS],
    extras: [Vec<Extra>; SECTIONS],
}

impl Forward {
    /// The words of a section, in order.
    pub(crate) fn words(&self, section: Section) -> &[u32] {
        &self.sections[section as usize]
    }
    /// The extras of a section.
    pub(crate) fn extras(&self, section: Section) -> &[Extra] {
        &self.extras[section as usize]
    }

    /// The row of a page: for each section the number of words and of extras, then the words, then the extras.
    pub(crate) fn encode(sections: [&Words; SECTIONS]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut push = |number: u32| bytes.extend_from_slice(&number.to_le_bytes());
        let short = |length: usize| u32::try_from(length.min(MOST_WORDS)).unwrap_or(0);
        for words in sections {
            push(short(words.stream.len()));
            push(short(words.extras.len()));
        }
        for words in sections {
            words.stream.iter().take(MOST_WORDS).for_each(|word| push(word.number));
            for (word, place) in words.extras.iter().take(MOST_WORDS) {
                push(word.number);
                push(u32::try_from(*place).unwrap_or(u32::MAX));
            }
        }
        bytes
    }

    /// Reads a row; none when it is none of ours.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        let mut lengths = [(0, 0); SECTIONS];
        for length in &mut lengths {
            *length = (numbers.next()? as usize, numbers.next()? as usize);
        }
        let mut forward = Self::default();
        for (section, (words, extras)) in lengths.into_iter().enumerate() {
            forward.sections[section] = numbers.by_ref().take(words).collect();
            let mut read = Vec::with_capacity(extras);
            for _ in 0..extras {
                read.push(Extra { number: numbers.next()?, place: numbers.next()? as usize });
            }
            forward.extras[section] = read;
        }
        (numbers.next().is_none() && forward.sections[4].len() == lengths[4].0).then_some(forward)
    }
}
