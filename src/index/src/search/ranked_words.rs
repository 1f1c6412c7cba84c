//! The ranking by words for callers that combine it with another one.

use std::collections::HashMap;

use serde_json::{Map, Value};
use svcfs_base::TreePath;

use super::query;
use super::{KnownWords, SearchQuery, TrustBoost, snippet, trust};
use crate::pages::{paths_json, tree_path};
use crate::words::{Dictionary, ForwardIndex, TextWords, is_function_word};
use crate::{Index, IndexError, MetaRow};

/// What a word with little meaning counts in a [`QuestionWords`].
const FUNCTION_WORD_WEIGHT: f64 = 0.1;

/// Pages ranked by words alone, best first; trust is not part of the scores.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct WordRanking {
    /// The pages.
    pub pages: Vec<RankedPage>,
    /// What all words of the query are worth: scores relative to it can be compared with those of
    /// other queries.
    pub worth: f64,
    /// Whether the query has only plain words: no quotes, operators or fields.
    pub is_plain: bool,
    /// How the query was interpreted, when not as written. That pages have only some of the words
    /// is no note: a question is answered so.
    pub note: Option<String>,
}

/// A page and its score by words.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedPage {
    /// Path of the page.
    pub path: TreePath,
    /// Higher is better.
    pub score: f64,
    /// Whether its title has exactly the words of the query: then it is what was meant.
    pub is_titled: bool,
}

/// What a ranking needs to know about a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageProperties {
    /// Its title.
    pub title: String,
    /// Its frontmatter; empty when the page has none or it cannot be parsed.
    pub frontmatter: Map<String, Value>,
}

impl PageProperties {
    /// The factor by which [`TrustBoost::Soft`] changes the score of the page.
    pub fn trust_factor(&self) -> f64 {
        trust::factors(&self.frontmatter).map_or(1.0, |[soft, _]| soft)
    }
}

impl Index {
    /// Ranks pages as [`Index::search`] does without trust, at most `max` of them. The limit and
    /// the offset of the query are not used.
    ///
    /// # Errors
    /// Those of [`Index::search`].
    pub fn rank_words(&self, query: &SearchQuery, max: usize) -> Result<WordRanking, IndexError> {
        query::check_size(&query.q)?;
        let query = SearchQuery { trust: TrustBoost::Off, ..query.clone() };
        self.readers.query("q", |connection| {
            let Some(parsed) = super::parse(connection, &query)? else {
                return Ok(WordRanking::default());
            };
            let (_, ranked) = super::rank(connection, &query, &parsed)?;
            let (is_plain, note) = (parsed.is_plain, parsed.note);
            let ranking = WordRanking { is_plain, note, ..WordRanking::default() };
            let Some(ranked) = ranked else { return Ok(ranking) };
            let titled = ranked.candidates.titled;
            let pages = ranked.scored.into_iter().take(max).map(|page| {
                let is_titled = page.is_titled || titled.contains(&page.id);
                Ok(RankedPage { path: tree_path(&page.path)?, score: page.score, is_titled })
            });
            Ok(WordRanking { pages: pages.collect::<Result<_, IndexError>>()?, worth: ranked.worth, ..ranking })
        })
    }

    /// The snippets of pages for a query, as in [`Index::search`]; unknown pages are left out.
    ///
    /// # Errors
    /// Those of [`Index::search`].
    pub fn snippets(&self, q: &str, pages: &[TreePath]) -> Result<HashMap<TreePath, String>, IndexError> {
        query::check_size(q)?;
        let list = paths_json(pages)?;
        self.readers.query("q", |connection| {
            let parsed = query::parse(q, &KnownWords(connection))?.unwrap_or_default();
            let mut statement = connection.prepare_cached(
                "SELECT pages.path, bodies.body, bodies.frontmatter, forwards.words FROM json_each(?1) AS wanted
                 CROSS JOIN pages ON pages.path = CAST(wanted.value AS TEXT)
                 CROSS JOIN bodies ON bodies.page = pages.id CROSS JOIN forwards ON forwards.page = pages.id",
            )?;
            let mut rows = statement.query([&list])?;
            let mut snippets = HashMap::new();
            while let Some(row) = rows.next()? {
                let text = |column| row.get_ref(column).and_then(|value| Ok(value.as_str()?));
                let words = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
                if let Some(forward) = ForwardIndex::decode(words) {
                    let snippet = snippet::of(text(1)?, text(2)?, forward, &parsed.words);
                    snippets.insert(tree_path(text(0)?)?, snippet);
                }
            }
            Ok(snippets)
        })
    }

    /// Titles and frontmatter of pages, read in one statement; unknown pages are left out.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn page_properties(&self, pages: &[TreePath]) -> Result<HashMap<TreePath, PageProperties>, IndexError> {
        let list = paths_json(pages)?;
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT pages.path, title, frontmatter FROM json_each(?1) AS wanted
                 CROSS JOIN pages ON pages.path = CAST(wanted.value AS TEXT)",
            )?;
            let mut rows = statement.query([&list])?;
            let mut properties = HashMap::with_capacity(pages.len());
            while let Some(row) = rows.next()? {
                let MetaRow { path, title, metadata } = MetaRow::of(row)?;
                let frontmatter = match metadata {
                    Value::Object(frontmatter) => frontmatter,
                    _ => Map::new(),
                };
                properties.insert(path, PageProperties { title, frontmatter });
            }
            Ok(properties)
        })
    }
}

/// The words of a question, to compare parts of one page: which of them answers it best.
#[derive(Debug, Clone)]
pub struct QuestionWords(Vec<(String, f64)>);

impl QuestionWords {
    /// Reads a question as plain words.
    pub fn of(question: &str) -> Self {
        let mut words: Vec<(String, f64)> = Vec::new();
        for written in question.split_whitespace() {
            let weight = if is_function_word(&written.to_lowercase()) { FUNCTION_WORD_WEIGHT } else { 1.0 };
            for term in TextWords::of(written, &mut Dictionary::default()).terms() {
                if !words.iter().any(|(known, _)| known == term) {
                    words.push((term.to_owned(), weight));
                }
            }
        }
        Self(words)
    }

    /// Share of the words, by weight, that each text has, 0 to 1.
    pub fn coverage<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Vec<f64> {
        let mut dictionary = Dictionary::default();
        let all: f64 = self.0.iter().map(|(_, weight)| weight).sum::<f64>().max(f64::MIN_POSITIVE);
        let covered = |text: &str| {
            let words = TextWords::of(text, &mut dictionary);
            let has = |wanted: &str| words.terms().chain(words.extra_terms()).any(|term| term == wanted);
            self.0.iter().filter(|(word, _)| has(word)).map(|(_, weight)| weight).sum::<f64>() / all
        };
        texts.map(covered).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Space;

    #[test]
    fn pages_are_ranked_without_trust_and_relative_to_the_words() {
        let space = Space::of(&[
            ("a.md", "---\nstatus: outdated\n---\n\n# Tides\n\nA tide window closes."),
            ("b.md", "---\nstatus: verified\n---\n\nThe window of the office, and of the other office. Tide."),
            ("c.md", "Nothing of it."),
        ]);
        let query = SearchQuery { allow_partial: true, ..SearchQuery::new("when does the tide window close") };
        let ranking = space.index.rank_words(&query, 10).unwrap();
        let paths: Vec<&str> = ranking.pages.iter().map(|page| page.path.as_str()).collect();
        assert_eq!(paths, ["a.md", "b.md"]);
        assert!(ranking.is_plain && ranking.worth > 0.0 && ranking.pages[0].score > ranking.worth);
        assert_eq!(space.index.rank_words(&query, 1).unwrap().pages.len(), 1);
        let titled = |q: &str| space.index.rank_words(&SearchQuery::new(q), 9).unwrap().pages[0].is_titled;
        assert!(titled("TIDES") && !titled("tide") && !ranking.pages[0].is_titled);
        for (q, is_plain) in
            [("\"tide window\"", false), ("tide OR window", false), ("title:tides", false), ("tide", true)]
        {
            assert_eq!(space.index.rank_words(&SearchQuery::new(q), 9).unwrap().is_plain, is_plain, "{q}");
        }
        let pages: Vec<_> = ranking.pages.into_iter().map(|page| page.path).collect();
        let properties = space.index.page_properties(&pages).unwrap();
        assert_eq!(properties[&pages[0]].trust_factor(), 0.7);
        assert_eq!((properties.len(), properties[&pages[0]].title.as_str()), (2, "Tides"));
        let snippets = space.index.snippets("tide", &pages).unwrap();
        assert!(snippets[&pages[1]].contains("<mark>Tide</mark>"), "{snippets:?}");
    }

    #[test]
    fn parts_of_a_page_are_compared_by_the_words_they_cover() {
        let words = QuestionWords::of("How do I re-open the windows?");
        let coverage = words.coverage(["# Window\n", "how do I", "reopen, opening a window", ""].into_iter());
        assert!(coverage[2] > coverage[0] && coverage[0] > coverage[1], "{coverage:?}");
        assert_eq!(coverage[3], 0.0);
        assert_eq!(QuestionWords::of("").coverage(["a"].into_iter()), [0.0]);
    }
}
