//! How much of a query a page has as a phrase: words in the order of the query.

use super::query::QueryWord;

/// Words that follow each other by chance are fewer.
const MIN_RUN: usize = 4;

/// From so many words on, a query that a page has as a phrase is a sentence of it.
const FULL_WEIGHT_WORDS: usize = 8;

/// Places of one word in a query that are considered; more would make a query of one repeated word
/// slow.
const MAX_PLACES: usize = 4;

/// A use of a query word in the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PhraseUse {
    /// Position of its first word.
    pub(super) at: usize,
    /// Index of the query word.
    pub(super) word: usize,
    /// Number of words of the page; 0 for an alternative form, which is part of no phrase.
    pub(super) length: usize,
}

/// The words of a query in order.
#[derive(Debug, Default)]
pub(super) struct PhraseOrder {
    /// The places of each query word.
    places: Vec<Vec<usize>>,
    /// The query word at each place.
    words: Vec<usize>,
}

impl PhraseOrder {
    /// Of a query whose words are at these places. A shorter query has no phrase.
    pub(super) fn new(words: &[QueryWord], sequence: &[usize]) -> Self {
        let length: usize = sequence.iter().map(|word| words[*word].spellings[0].len()).sum();
        if length < MIN_RUN || sequence.len() > 128 {
            return Self::default();
        }
        let mut places = vec![Vec::new(); words.len()];
        for (place, word) in sequence.iter().enumerate() {
            if places[*word].len() < MAX_PLACES {
                places[*word].push(place);
            }
        }
        Self { places, words: sequence.to_vec() }
    }

    /// How much a phrase says, 0 to 1: four words are often also a name that other pages mention.
    pub(super) fn weight(&self) -> f64 {
        let beyond = self.words.len().saturating_sub(MIN_RUN - 1) as f64;
        (beyond / (FULL_WEIGHT_WORDS - MIN_RUN + 1) as f64).min(1.0)
    }

    /// Whether the query is too short for a phrase.
    pub(super) const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The share of the query, by the weight of its words, that the page has as runs of four words
    /// or more. The uses are in order.
    pub(super) fn share(&self, uses: &[PhraseUse], scratch: &mut Vec<Run>, weight: impl Fn(usize) -> f64) -> f64 {
        if self.is_empty() || uses.len() < 2 {
            return 0.0;
        }
        scratch.clear();
        scratch.resize(self.words.len(), Run::default());
        // One bit per place.
        let mut covered = 0_u128;
        for used in uses.iter().filter(|used| used.length > 0) {
            // Backwards, so that a repeated word does not continue its own run.
            for place in self.places[used.word].iter().rev().copied() {
                let before = place.checked_sub(1).map(|before| scratch[before]);
                let before = before.filter(|run| run.end == used.at).unwrap_or_default();
                let run =
                    Run { end: used.at + used.length, words: before.words + used.length, places: before.places + 1 };
                scratch[place] = run;
                if run.words >= MIN_RUN {
                    covered |= (u128::MAX >> (128 - run.places)) << (place + 1 - run.places);
                }
            }
        }
        if covered == 0 {
            return 0.0;
        }
        let (mut all, mut in_runs) = (0.0, 0.0);
        for (place, word) in self.words.iter().enumerate() {
            all += weight(*word);
            in_runs += if covered >> place & 1 == 1 { weight(*word) } else { 0.0 };
        }
        in_runs / f64::max(all, f64::MIN_POSITIVE)
    }
}

/// Query words that follow each other in the page up to a position.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    /// The position after the last one. No run ends at 0.
    end: usize,
    words: usize,
    places: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(sequence: &[usize], body: &[usize]) -> f64 {
        let words = sequence.iter().max().map_or(0, |last| last + 1);
        let word = |name: usize| QueryWord::of_terms(vec![vec![format!("w{name}")]]);
        let words: Vec<QueryWord> = (0..words).map(word).collect();
        let used = |(at, word): (usize, &usize)| PhraseUse { at, word: *word, length: 1 };
        let uses: Vec<PhraseUse> = body.iter().enumerate().map(used).filter(|used| used.word < words.len()).collect();
        PhraseOrder::new(&words, sequence).share(&uses, &mut Vec::new(), |_| 1.0)
    }

    #[test]
    fn runs_of_four_words_in_order_count_and_shorter_ones_do_not() {
        const X: usize = 99;
        for (sequence, body, expected) in [
            (&[0, 1, 2, 3][..], &[0, 1, 2, 3][..], 1.0),
            (&[0, 1, 2, 3], &[X, 0, 1, 2, 3, X], 1.0),
            (&[0, 1, 2, 3], &[0, 1, 2, X, 3], 0.0),
            (&[0, 1, 2, 3], &[3, 2, 1, 0], 0.0),
            (&[0, 1, 2], &[0, 1, 2], 0.0),
            (&[0, 1, 2, 3, 0, 1], &[0, 1, 2, 3, 0, 1], 1.0),
            (&[0, 1, 2, 3, 4, 5, 6, 7], &[X, 4, 5, 6, 7, X, 0, 1, 2, X], 0.5),
            (&[0, 0, 0, 0], &[0, 0, 0, 0], 1.0),
            (&[0, 0, 0, 0], &[0, X, 0, X, 0, 0], 0.0),
        ] {
            assert!((share(sequence, body) - expected).abs() < 1e-9, "{sequence:?} {body:?}");
        }
    }
}
