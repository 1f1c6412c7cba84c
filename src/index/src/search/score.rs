//! Scores pages: position, rarity and proximity of the words.

use rusqlite::Connection;

use super::anchors::AnchorCounts;
use super::query::QueryWord;
use crate::IndexError;
use crate::words::{ForwardIndex, PageSection, VarintBytes, WordSpellings};

/// Per section: the weight of one use of a word, and the section length at which length
/// normalization is neutral. These and the numbers below were tuned on a benchmark with several
/// kinds of queries (`tests/bench/src/ranking`).
const SECTIONS: [(PageSection, f64, f64); 5] = [
    (PageSection::Title, 2.0, 3.0),
    (PageSection::Names, 2.0, 10.0),
    (PageSection::Headings, 1.0, 10.0),
    (PageSection::Body, 1.0, 60.0),
    (PageSection::Frontmatter, 0.7, 40.0),
];

/// Weight of a use in anchor text.
const ANCHOR: f64 = 4.0;

/// Strength of length normalization, 0 to 1.
const BY_LENGTH: f64 = 0.9;

/// Saturation: how quickly further uses of a word stop counting.
const SATURATED: f64 = 1.0;

/// Boost, as a fraction of the score, for a title that equals the query.
const WHOLE_TITLE: f64 = 1.5;

/// Title coverage of an alternative form: `docker` matches `docker` better than `x11docker`.
const EXTRA: f64 = 0.5;

/// A link with all words counts as this fraction of an equal title.
const WHOLE_ANCHOR: f64 = 0.4;

/// Boost, as a fraction of the score, for adjacent words.
const SIDE_BY_SIDE: f64 = 0.6;

/// Exponent of rarity: in a query of many words the common ones match by chance.
const BY_RARITY: f64 = 1.6;

/// Pages counted to measure rarity; beyond, the number is estimated.
const COUNTED: i64 = 250;

/// A query, prepared for scoring.
pub(super) struct ScoreScale {
    words: Vec<WordWeight>,
    /// Total weight of all words.
    total: f64,
}

struct WordWeight {
    spellings: Vec<Vec<VarintBytes>>,
    is_prefix: bool,
    rarity: f64,
    /// What a page gains by having the word.
    worth: f64,
}

/// Estimated number of pages with a word.
pub(super) fn pages_with(connection: &Connection, word: &QueryWord) -> Result<f64, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0)
         FROM (SELECT rowid AS id FROM texts WHERE texts MATCH ?1 ORDER BY rowid DESC LIMIT ?2)",
    )?;
    let (count, first, last): (i64, i64, i64) =
        statement.query_row((word.expression(), COUNTED), |row| row.try_into())?;
    if count < COUNTED {
        return Ok(count as f64);
    }
    // Assumes the same frequency in all pages as in those counted.
    Ok(count as f64 * last as f64 / (last - first + 1) as f64)
}

impl ScoreScale {
    /// Measures how rare the words are.
    pub(super) fn of(connection: &Connection, words: &[QueryWord]) -> Result<Self, IndexError> {
        let pages: i64 =
            connection.prepare_cached("SELECT coalesce(max(id), 0) FROM pages")?.query_row([], |row| row.get(0))?;
        let mut weights = Vec::with_capacity(words.len());
        for word in words {
            let with = if words.len() > 1 { pages_with(connection, word)? } else { 0.0 };
            let rarity = (1.0 + (pages as f64 - with + 0.5).max(0.5) / (with + 0.5)).ln();
            weights.push(WordWeight {
                spellings: word.numbers(),
                is_prefix: word.is_prefix,
                rarity,
                worth: rarity.powf(BY_RARITY),
            });
        }
        let total = weights.iter().map(|word| word.rarity).sum::<f64>().max(f64::MIN_POSITIVE);
        Ok(Self { words: weights, total })
    }

    /// The score of a page; higher is better.
    pub(super) fn score(
        &self,
        page: ForwardIndex<'_>,
        anchors: Option<&AnchorCounts>,
        scratch: &mut ScoreScratch,
    ) -> f64 {
        let ScoreScratch { known, found, places } = scratch;
        places.clear();
        let mut sum = 0.0;
        let mut in_title = 0.0;
        let mut of_title = 0.0;
        for (at, word) in self.words.iter().enumerate() {
            let mut uses = anchors.map_or(0.0, |anchors| ANCHOR * f64::from(anchors.uses(at)).ln_1p());
            page.known(&word.spellings, known);
            for (section, weight, length) in SECTIONS.into_iter().filter(|_| !known.is_empty()) {
                find(page, section, known, found);
                if found.is_empty() {
                    continue;
                }
                if section == PageSection::Title {
                    in_title += word.rarity;
                    of_title += found.iter().map(WordUse::share).fold(0.0, f64::max);
                }
                let long = page.len(section) as f64 / length;
                uses += weight * found.len() as f64 / (1.0 - BY_LENGTH + BY_LENGTH * long);
                if section == PageSection::Body && self.words.len() > 1 {
                    places.extend(found.iter().map(|place| (place.at, at)));
                }
            }
            if word.is_prefix && uses == 0.0 {
                // The full word is unknown here; the full-text index says that it matches.
                uses = 1.0;
            }
            sum += word.worth * uses * (SATURATED + 1.0) / (uses + SATURATED);
        }
        let title = page.len(PageSection::Title).max(1) as f64;
        let whole = (in_title / self.total * (of_title / title).min(1.0)).powi(2);
        let is_called_so = anchors.is_some_and(AnchorCounts::is_whole);
        let close = match self.words.len() {
            _ if is_called_so => 1.0,
            0 | 1 => 0.0,
            _ => self.closeness(places),
        };
        let whole = if is_called_so { whole.max(WHOLE_ANCHOR) } else { whole };
        sum * (1.0 + WHOLE_TITLE * whole) * (1.0 + SIDE_BY_SIDE * close)
    }

    /// Proximity of the words in the body: 1 when all are adjacent, near 0 when they are far apart
    /// or most are missing.
    fn closeness(&self, places: &mut [(usize, usize)]) -> f64 {
        places.sort_unstable();
        let all = self.words.len();
        let mut best = 0.0_f64;
        for (start, (first, _)) in places.iter().enumerate() {
            // One bit per word: a query has at most 128.
            let mut seen = 0_u128;
            let mut weight = 0.0;
            let mut count = 0;
            // Words further apart than this do not count as close.
            for (place, word) in places[start..].iter().take_while(|(place, _)| place - first < all * 4) {
                if seen & (1 << (word % 128)) == 0 {
                    seen |= 1 << (word % 128);
                    weight += self.words[*word].rarity;
                    count += 1;
                    let width = (place - first + 1) as f64;
                    if count > 1 {
                        best = best.max(weight / self.total * f64::from(count) / width.max(f64::from(count)));
                    }
                }
            }
        }
        best
    }
}

/// Buffers that are reused for each page.
#[derive(Debug, Default)]
pub(super) struct ScoreScratch {
    known: WordSpellings,
    found: Vec<WordUse>,
    /// Positions in the body, each with the index of the query word.
    places: Vec<(usize, usize)>,
}

/// One use of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordUse {
    /// Position of its first word in the section.
    pub(super) at: usize,
    /// Number of words.
    pub(super) words: usize,
    /// Whether it is only an alternative form, as `docker` is in `x11docker`.
    pub(super) is_extra: bool,
}

impl WordUse {
    /// Number of title words that it covers.
    const fn share(&self) -> f64 {
        if self.is_extra { EXTRA } else { self.words as f64 }
    }
}

/// Replaces `uses` by the uses of a word, in any spelling, in a section.
pub(super) fn find(page: ForwardIndex<'_>, section: PageSection, spellings: &WordSpellings, found: &mut Vec<WordUse>) {
    found.clear();
    for spelling in spellings.each() {
        page.places(section, spelling, |at| found.push(WordUse { at, words: spelling.len(), is_extra: false }));
        if let [word] = spelling {
            page.other_places(section, *word, |at| found.push(WordUse { at, words: 1, is_extra: true }));
        }
    }
    if spellings.len() > 1 {
        // `parse_token` matches as two words and as one: the longer counts.
        found.sort_unstable_by_key(|place| (place.at, std::cmp::Reverse(place.words), place.is_extra));
        found.dedup_by_key(|place| place.at);
    }
}
