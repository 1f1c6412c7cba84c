//! Estimate of the tokens of a text.

/// Bytes and words of a text. Counts of texts that end with white space can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenCount {
    bytes: usize,
    words: usize,
}

impl TokenCount {
    /// Counts a text.
    pub fn of(text: &str) -> Self {
        Self { bytes: text.len(), words: text.split_whitespace().count() }
    }

    /// Tokens for any model, estimated from above: 3.6 bytes or 1 / 1.3 words each, whichever are
    /// more.
    pub const fn tokens(self) -> usize {
        let by_bytes = (self.bytes * 10).div_ceil(36);
        let by_words = (self.words * 13).div_ceil(10);
        if by_bytes > by_words { by_bytes } else { by_words }
    }
}

impl std::ops::Add for TokenCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, words: self.words + other.words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_of_both_estimates_counts_rounded_up() {
        for (text, tokens) in [("", 0), ("a", 2), ("abcdefgh\n", 3), ("a b c d e f g h i j ", 13), ("日本語", 3)] {
            assert_eq!(TokenCount::of(text).tokens(), tokens, "{text}");
        }
        let (a, b) = ("one two\n", "three\n");
        assert_eq!(TokenCount::of(a) + TokenCount::of(b), TokenCount::of(&format!("{a}{b}")));
    }
}
