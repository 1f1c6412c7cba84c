//! How well a page fits: where the words stand in it, how rare they are, how close together.

use rusqlite::Connection;

use super::anchors::AnchorCounts;
use super::query::QueryWord;
use crate::IndexError;
use crate::words::{ForwardIndex, PageSection, VarintBytes, WordSpellings};

/// What one use of a word counts for, and how many words a part has when its length is neither praised nor blamed.
/// These and the numbers below were measured: with them questions of each kind are answered best (`tests/bench/src/ranking`).
const SECTIONS: [(PageSection, f64, f64); 5] = [
    (PageSection::Title, 2.0, 3.0),
    (PageSection::Names, 2.0, 10.0),
    (PageSection::Headings, 1.0, 10.0),
    (PageSection::Body, 1.0, 60.0),
    (PageSection::Frontmatter, 0.7, 40.0),
];

/// What a use in the links that lead to a page counts for.
const ANCHOR: f64 = 4.0;

/// How much the length of a part counts, 0 to 1.
const BY_LENGTH: f64 = 0.9;

/// When further uses of a word stop to count.
const SATURATED: f64 = 1.0;

/// What a title that is the question, and nothing else, adds to a page's score, in parts of it.
const WHOLE_TITLE: f64 = 1.5;

/// As how much of a word such a title counts when it is only also written so: `docker` fits `docker` better than `x11docker`.
const EXTRA: f64 = 0.5;

/// A link that has all of the question is as good as this part of such a title.
const WHOLE_ANCHOR: f64 = 0.4;

/// What words that stand side by side add, in parts of the score.
const SIDE_BY_SIDE: f64 = 0.6;

/// How much more a rare word says than a common one: in a question of many words the common ones are chance.
const BY_RARITY: f64 = 1.6;

/// Pages that are counted to tell how rare a word is; beyond, the number is estimated.
const COUNTED: i64 = 250;

/// A question, ready to weigh pages.
pub(super) struct ScoreScale {
    words: Vec<WordWeight>,
    /// The weight of all words together.
    total: f64,
}

struct WordWeight {
    spellings: Vec<Vec<VarintBytes>>,
    is_prefix: bool,
    rarity: f64,
    /// What a page gains by having it.
    worth: f64,
}

/// About how many pages have a word.
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
    // As frequent among all pages as among those that were looked at.
    Ok(count as f64 * last as f64 / (last - first + 1) as f64)
}

impl ScoreScale {
    /// Learns how rare the words are.
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

    /// How well a page fits; more is better.
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
                // How the word goes on is not known here; the index says that it is there.
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

    /// How close together the words stand in the body: 1 when all of them stand side by side, near 0 when they are far apart or
    /// most of them are missing.
    fn closeness(&self, places: &mut [(usize, usize)]) -> f64 {
        places.sort_unstable();
        let all = self.words.len();
        let mut best = 0.0_f64;
        for (start, (first, _)) in places.iter().enumerate() {
            // A bit for each word: a question has 128 at most.
            let mut seen = 0_u128;
            let mut weight = 0.0;
            let mut count = 0;
            // Twice as many words in between are as good as no company.
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

/// What one page after the other is weighed with.
#[derive(Debug, Default)]
pub(super) struct ScoreScratch {
    known: WordSpellings,
    found: Vec<WordUse>,
    /// Places of the body, and which word of the question stands there.
    places: Vec<(usize, usize)>,
}

/// One use of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordUse {
    /// Its first word in the stream of the section.
    pub(super) at: usize,
    /// How many words it is.
    pub(super) words: usize,
    /// Whether it is only another way to write the place, as `docker` is in `x11docker`.
    pub(super) is_extra: bool,
}

impl WordUse {
    /// How many words of a title it makes up.
    const fn share(&self) -> f64 {
        if self.is_extra { EXTRA } else { self.words as f64 }
    }
}

/// Where a part of a page has a word, in any of its spellings; `found` holds nothing else afterwards.
pub(super) fn find(page: ForwardIndex<'_>, section: PageSection, spellings: &WordSpellings, found: &mut Vec<WordUse>) {
    found.clear();
    for spelling in spellings.each() {
        page.places(section, spelling, |at| found.push(WordUse { at, words: spelling.len(), is_extra: false }));
        if let [word] = spelling {
            page.other_places(section, *word, |at| found.push(WordUse { at, words: 1, is_extra: true }));
        }
    }
    if spellings.len() > 1 {
        // `parse_token` is there as two words, and as one: both are meant.
        found.sort_unstable_by_key(|place| (place.at, std::cmp::Reverse(place.words), place.is_extra));
        found.dedup_by_key(|place| place.at);
    }
}
