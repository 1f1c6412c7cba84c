//! The order of texts: as people sort them, independent of case and accents at first.

use std::cmp::Ordering;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// ASCII punctuation and symbols in the order of the Unicode collation algorithm.
const PUNCTUATION: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Compares letters first, then accents, then case (lower case first). Texts that differ only in
/// how accents are encoded are equal.
pub(super) fn collate(left: &str, right: &str) -> Ordering {
    if left == right {
        return Ordering::Equal;
    }
    primary(left)
        .cmp(primary(right))
        .then_with(|| accents(left).cmp(accents(right)))
        .then_with(|| case(left).cmp(case(right)))
        .then_with(|| left.nfc().cmp(right.nfc()))
}

/// Rank of a character without case and accent: blanks, punctuation, symbols, digits, letters.
fn primary(text: &str) -> impl Iterator<Item = (u8, u32)> + '_ {
    let letters = text.nfkd().filter(|c| !is_combining_mark(*c)).flat_map(char::to_lowercase);
    letters.filter(|c| !c.is_control() || c.is_whitespace()).map(|c| {
        let position = PUNCTUATION.find(c).and_then(|index| u32::try_from(index).ok());
        match position {
            Some(position) => (1, position),
            None if c.is_whitespace() => (0, u32::from(c)),
            None if c.is_numeric() => (3, u32::from(c)),
            None if c.is_alphabetic() => (4, u32::from(c)),
            None => (2, u32::from(c)),
        }
    })
}

fn accents(text: &str) -> impl Iterator<Item = Option<char>> + '_ {
    text.nfd().map(|c| is_combining_mark(c).then_some(c))
}

fn case(text: &str) -> impl Iterator<Item = bool> + '_ {
    text.nfd().filter(|c| !is_combining_mark(*c)).map(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::collate;

    #[test]
    fn texts_are_ordered_as_people_sort_them() {
        let sorted =
            ["", " b", "_x", "-x", "#tag", "$1", "1", "10", "2", "a", "A", "á", "aa", "b", "B", "Bb", "z", "ä z", "ж"];
        let mut shuffled = sorted;
        shuffled.reverse();
        shuffled.sort_by(|a, b| collate(a, b));
        let expected =
            ["", " b", "_x", "-x", "#tag", "$1", "1", "10", "2", "a", "A", "á", "ä z", "aa", "b", "B", "Bb", "z", "ж"];
        assert_eq!(shuffled, expected);
        assert_eq!(collate("é", "e\u{301}"), std::cmp::Ordering::Equal);
    }
}
