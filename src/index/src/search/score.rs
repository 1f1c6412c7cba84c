//! Scores pages: position, rarity and proximity of the words.

use rusqlite::Connection;

use super::anchors::AnchorCounts;
use super::phrase::{PhraseOrder, PhraseUse, Run};
use super::query::{QueryWord, WordQuery};
use crate::IndexError;
use crate::words::{ForwardIndex, PageSection, TermHash, WordSpellings};

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
const ANCHOR_WEIGHT: f64 = 4.0;

/// Strength of length normalization, 0 to 1.
const LENGTH_NORMALIZATION: f64 = 0.9;

/// Saturation: how quickly further uses of a word stop counting.
const SATURATION: f64 = 1.0;

/// Boost, as a fraction of the score, for a title that equals the query.
const TITLE_BOOST: f64 = 1.5;

/// Title coverage of an alternative form: `docker` matches `docker` better than `x11docker`.
const EXTRA_TITLE_SHARE: f64 = 0.5;

/// A link with all words counts as this fraction of an equal title.
const ANCHOR_AS_TITLE: f64 = 0.4;

/// Boost, as a fraction of the score, for adjacent words.
const PROXIMITY_BOOST: f64 = 0.6;

/// Gain, as a fraction of that of all words, for a page that has the query as a phrase.
const PHRASE_GAIN: f64 = 1.0;

/// Rarity of an English word with little meaning, as a fraction of what is measured.
const FUNCTION_WORD_SHARE: f64 = 0.4;

/// Weight of an alternative form: the `http` of `parseHttpRequest`, or of the name of a user.
const EXTRA_WEIGHT: f64 = 0.4;

/// Exponent of rarity: in a query of many words the common ones match by chance.
const RARITY_EXPONENT: f64 = 1.6;

/// Pages counted to measure rarity; beyond, the number is estimated.
const COUNT_LIMIT: i64 = 250;

/// A query, prepared for scoring.
pub(super) struct ScoreScale {
    words: Vec<WordWeight>,
    order: PhraseOrder,
    /// The query as a title.
    title: Vec<TermHash>,
    /// Total weight of all words.
    total: f64,
}

struct WordWeight {
    spellings: Vec<Vec<TermHash>>,
    is_prefix: bool,
    rarity: f64,
    /// What a page gains by having the word.
    gain: f64,
}

/// Estimated number of pages with a word.
pub(super) fn count_pages(connection: &Connection, word: &QueryWord) -> Result<f64, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0)
         FROM (SELECT rowid AS id FROM texts WHERE texts MATCH ?1 ORDER BY rowid DESC LIMIT ?2)",
    )?;
    let (count, first, last): (i64, i64, i64) =
        statement.query_row((word.expression(), COUNT_LIMIT), |row| row.try_into())?;
    if count < COUNT_LIMIT {
        return Ok(count as f64);
    }
    // Assumes the same frequency in all pages as in those counted.
    Ok(count as f64 * last as f64 / (last - first + 1) as f64)
}

impl ScoreScale {
    /// Measures how rare the words are.
    pub(super) fn of(connection: &Connection, query: &WordQuery) -> Result<Self, IndexError> {
        let words = &query.words;
        let pages: i64 =
            connection.prepare_cached("SELECT coalesce(max(id), 0) FROM pages")?.query_row([], |row| row.get(0))?;
        let mut weights = Vec::with_capacity(words.len());
        for word in words {
            let page_count = if words.len() > 1 { count_pages(connection, word)? } else { 0.0 };
            let share = if word.is_function_word { FUNCTION_WORD_SHARE } else { 1.0 };
            let rarity = share * (1.0 + (pages as f64 - page_count + 0.5).max(0.5) / (page_count + 0.5)).ln();
            weights.push(WordWeight {
                spellings: word.hashes(),
                is_prefix: word.is_prefix,
                rarity,
                gain: rarity.powf(RARITY_EXPONENT),
            });
        }
        let total = weights.iter().map(|word| word.rarity).sum::<f64>().max(f64::MIN_POSITIVE);
        let order = PhraseOrder::new(words, &query.sequence);
        Ok(Self { words: weights, order, title: query.title.clone(), total })
    }

    /// Whether the query has words; otherwise only fields.
    pub(super) const fn has_words(&self) -> bool {
        !self.words.is_empty()
    }

    /// What all words together are worth: what a page gains that has each of them once.
    pub(super) fn worth(&self) -> f64 {
        self.words.iter().map(|word| word.gain).sum()
    }

    /// Whether the title of the page has the words of the query and no others, in order; words are
    /// compared without their suffixes.
    pub(super) fn is_titled(&self, page: ForwardIndex<'_>) -> bool {
        page.is_exactly(PageSection::Title, &self.title)
    }

    /// The score of a page; higher is better.
    pub(super) fn score(
        &self,
        page: ForwardIndex<'_>,
        anchors: Option<&AnchorCounts>,
        scratch: &mut ScoreScratch,
    ) -> f64 {
        let ScoreScratch { spellings, matches, positions, name_uses, runs } = scratch;
        positions.clear();
        name_uses.clear();
        let mut sum = 0.0;
        let mut title_rarity = 0.0;
        let mut title_words = 0.0;
        for (at, word) in self.words.iter().enumerate() {
            let mut uses = anchors.map_or(0.0, |anchors| ANCHOR_WEIGHT * f64::from(anchors.uses(at)).ln_1p());
            page.resolve_spellings(&word.spellings, spellings);
            for (section, weight, length) in SECTIONS.into_iter().filter(|_| !spellings.is_empty()) {
                find(page, section, spellings, matches);
                if matches.is_empty() {
                    continue;
                }
                if section == PageSection::Title {
                    title_rarity += word.rarity;
                    title_words += matches.iter().map(WordUse::share).fold(0.0, f64::max);
                }
                let relative_length = page.len(section) as f64 / length;
                uses += weight * matches.iter().map(WordUse::weight).sum::<f64>()
                    / (1.0 - LENGTH_NORMALIZATION + LENGTH_NORMALIZATION * relative_length);
                if section == PageSection::Body && self.words.len() > 1 {
                    positions.extend(matches.iter().map(|used| used.of_word(at, 0)));
                } else if section != PageSection::Frontmatter && !self.order.is_empty() {
                    // Far apart, so that no phrase goes on in the next section.
                    let start = section as usize * (2 << 16);
                    name_uses.extend(matches.iter().map(|used| used.of_word(at, start)));
                }
            }
            if word.is_prefix && uses == 0.0 {
                // The full word is unknown here; the full-text index says that it matches.
                uses = 1.0;
            }
            sum += word.gain * uses * (SATURATION + 1.0) / (uses + SATURATION);
        }
        positions.sort_unstable();
        let title = page.len(PageSection::Title).max(1) as f64;
        let title_match = (title_rarity / self.total * (title_words / title).min(1.0)).powi(2);
        let is_anchor_match = anchors.is_some_and(AnchorCounts::has_all_words);
        let proximity = match self.words.len() {
            _ if is_anchor_match => 1.0,
            0 | 1 => 0.0,
            _ => self.proximity(positions),
        };
        sum += self.phrase([positions, name_uses], is_anchor_match, runs);
        let title_match = if is_anchor_match { title_match.max(ANCHOR_AS_TITLE) } else { title_match };
        sum * (1.0 + TITLE_BOOST * title_match) * (1.0 + PROXIMITY_BOOST * proximity)
    }

    /// What a page gains by having the query as a phrase in its body, in its names, or as the label
    /// of a link to it.
    fn phrase(&self, uses: [&mut Vec<PhraseUse>; 2], is_anchor_match: bool, runs: &mut Vec<Run>) -> f64 {
        if self.order.is_empty() {
            return 0.0;
        }
        let [body, names] = uses;
        names.sort_unstable();
        let mut share = |uses: &[PhraseUse]| self.order.share(uses, runs, |word| self.words[word].gain);
        let share = if is_anchor_match { 1.0 } else { share(body).max(share(names)) };
        PHRASE_GAIN * self.order.weight() * share.powi(3) * self.words.iter().map(|word| word.gain).sum::<f64>()
    }

    /// Proximity of the words in the body: 1 when all are adjacent, near 0 when they are far apart
    /// or most are missing.
    fn proximity(&self, positions: &[PhraseUse]) -> f64 {
        let all = self.words.len();
        let mut best = 0.0_f64;
        for (start, PhraseUse { at: first, .. }) in positions.iter().enumerate() {
            // One bit per word: a query has at most 128.
            let mut seen = 0_u128;
            let mut weight = 0.0;
            let mut count = 0;
            // Words further apart than this do not count as close.
            let near = positions[start..].iter().take_while(|used| used.at - first < all * 4);
            for PhraseUse { at: position, word, .. } in near {
                if seen & (1 << (word % 128)) == 0 {
                    seen |= 1 << (word % 128);
                    weight += self.words[*word].rarity;
                    count += 1;
                    let width = (position - first + 1) as f64;
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
    spellings: WordSpellings,
    matches: Vec<WordUse>,
    /// Uses in the body.
    positions: Vec<PhraseUse>,
    /// Uses in title, names and headings.
    name_uses: Vec<PhraseUse>,
    runs: Vec<Run>,
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
    const fn weight(&self) -> f64 {
        if self.is_extra { EXTRA_WEIGHT } else { 1.0 }
    }

    /// As a use of the word with this index, in a section that starts there.
    const fn of_word(&self, word: usize, start: usize) -> PhraseUse {
        PhraseUse { at: start + self.at, word, length: if self.is_extra { 0 } else { self.words } }
    }

    /// Number of title words that it covers.
    const fn share(&self) -> f64 {
        if self.is_extra { EXTRA_TITLE_SHARE } else { self.words as f64 }
    }
}

/// Replaces `uses` by the uses of a word, in any spelling, in a section.
pub(super) fn find(
    page: ForwardIndex<'_>,
    section: PageSection,
    spellings: &WordSpellings,
    matches: &mut Vec<WordUse>,
) {
    matches.clear();
    for spelling in spellings.each() {
        page.for_each_match(section, spelling, |at| {
            matches.push(WordUse { at, words: spelling.len(), is_extra: false })
        });
        if let [word] = spelling {
            page.for_each_extra(section, *word, |at| matches.push(WordUse { at, words: 1, is_extra: true }));
        }
    }
    if spellings.len() > 1 {
        // `parse_token` matches as two words and as one: the longer counts.
        matches.sort_unstable_by_key(|position| (position.at, std::cmp::Reverse(position.words), position.is_extra));
        matches.dedup_by_key(|position| position.at);
    }
}
