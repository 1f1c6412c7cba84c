//! Replacement of parts of a text.

use std::ops::Range;

/// The text with ranges replaced, which are sorted by their start. A range that begins within the
/// previous one is skipped.
#[must_use]
pub fn replace_ranges<R: AsRef<str>>(text: &str, replacements: impl IntoIterator<Item = (Range<usize>, R)>) -> String {
    let mut new = String::with_capacity(text.len());
    let mut copied = 0;
    for (range, replacement) in replacements {
        if range.start >= copied {
            new.push_str(&text[copied..range.start]);
            new.push_str(replacement.as_ref());
            copied = range.end;
        }
    }
    new.push_str(&text[copied..]);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_replaced_and_overlapping_ones_skipped() {
        for (replacements, expected) in [
            (vec![], "abcdef"),
            (vec![(0..0, "x"), (0..2, ""), (6..6, "y")], "xcdefy"),
            (vec![(1..4, "-"), (2..6, "no"), (4..5, "+")], "a-+f"),
        ] {
            assert_eq!(replace_ranges("abcdef", replacements), expected);
        }
    }
}
