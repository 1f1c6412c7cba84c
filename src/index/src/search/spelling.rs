//! "Did you mean": indexed words that are similar to those of a query.

use std::collections::BTreeSet;

use rusqlite::Connection;
use strsim::normalized_damerau_levenshtein;

use super::query;
use crate::words::{folded, term};
use crate::{Index, IndexError};

/// Default minimum similarity: one edit in four letters is 0.75, two in six 0.67.
const DEFAULT_THRESHOLD: f64 = 0.7;

/// Number of suggestions per word.
const OFFERED: usize = 3;

/// Number of similar words whose pages are counted, and the limit of the count.
const COUNTED: usize = 30;
const MOST_PAGES: usize = 1_000;

/// Words of a query that are checked.
const MAX_WORDS: usize = 16;

/// A suggestion for a word that no page has.
#[derive(Debug, Clone, PartialEq)]
pub struct SpellingSuggestion {
    /// The word in the query.
    pub word: String,
    /// A word that pages have: lower case, without diacritics.
    pub suggestion: String,
    /// Similarity, 0 to 1: 1 minus the edits (a letter added, removed, changed, or two swapped) per
    /// letter.
    pub similarity: f64,
    /// Number of pages with it, in any form; counted up to 1,000.
    pub page_count: usize,
}

impl Index {
    /// Suggests indexed words for the words of `q` that no page has: at most three for each, the
    /// most similar first, then the most frequent.
    ///
    /// `threshold` is the minimum similarity, 0 to 1; default 0.7. Words under three letters get no
    /// suggestions.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] for a threshold outside 0 to 1 or a `q` that is too long or takes
    /// longer than 5 s; [`IndexError::Database`].
    pub fn suggest_spellings(&self, q: &str, threshold: Option<f64>) -> Result<Vec<SpellingSuggestion>, IndexError> {
        let threshold = threshold.unwrap_or(DEFAULT_THRESHOLD);
        if !(0.0..=1.0).contains(&threshold) {
            let why = format!("{threshold} is out of range; 0 to 1 is allowed");
            return Err(IndexError::invalid("suggest_threshold", why));
        }
        query::measured(q)?;
        let words: BTreeSet<String> =
            query::words(q).filter(|word| word.chars().count() >= 3).map(str::to_lowercase).take(MAX_WORDS).collect();
        self.readers.answer("q", |connection| {
            let mut unknown = Vec::new();
            for word in words {
                if !is_known(connection, &word)? {
                    unknown.push(word);
                }
            }
            nearest(connection, &unknown, threshold)
        })
    }
}

/// Whether a page has this word in this spelling.
fn is_known(connection: &Connection, word: &str) -> rusqlite::Result<bool> {
    let mut spelled = connection.prepare_cached("SELECT 1 FROM spellings WHERE word = ?1")?;
    Ok(spelled.exists([folded(word)])? && pages_with(connection, word, 1)? > 0)
}

/// Number of pages with a word, in any form, counted up to `limit`.
fn pages_with(connection: &Connection, word: &str, most: usize) -> rusqlite::Result<usize> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ?1 LIMIT ?2)";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let expression = format!("\"{}\"", term(word));
    let pages: i64 = connection.prepare_cached(sql)?.query_row((expression, most), |row| row.get(0))?;
    Ok(usize::try_from(pages).unwrap_or_default())
}

/// Compares every indexed word with all unknown words in one scan.
fn nearest(connection: &Connection, unknown: &[String], threshold: f64) -> Result<Vec<SpellingSuggestion>, IndexError> {
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: Vec<Vec<(f64, String)>> = vec![Vec::new(); unknown.len()];
    let mut statement = connection.prepare_cached("SELECT word FROM spellings")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let known = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        for (word, offers) in unknown.iter().zip(&mut found) {
            if let Some(similarity) = similarity(word, known, threshold) {
                offers.push((similarity, known.to_owned()));
            }
        }
    }
    let mut all = Vec::new();
    for (word, mut alike) in unknown.iter().zip(found) {
        alike.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut offers = Vec::new();
        for (similarity, instead) in alike.into_iter().take(COUNTED) {
            // No page may have the word any more.
            match pages_with(connection, &instead, MOST_PAGES)? {
                0 => {}
                pages => offers.push(SpellingSuggestion {
                    word: word.clone(),
                    suggestion: instead,
                    similarity,
                    page_count: pages,
                }),
            }
        }
        offers.sort_by(|a, b| {
            b.similarity
                .total_cmp(&a.similarity)
                .then(b.page_count.cmp(&a.page_count))
                .then_with(|| a.suggestion.cmp(&b.suggestion))
        });
        all.extend(offers.into_iter().take(OFFERED));
    }
    Ok(all)
}

/// The similarity, if it reaches the threshold; lengths that differ too much are not compared.
fn similarity(word: &str, term: &str, threshold: f64) -> Option<f64> {
    let (long, short) = (word.len().max(term.len()), word.len().min(term.len()));
    // Byte lengths are letter counts only for ASCII.
    if word.is_ascii() && term.is_ascii() && (short as f64) < threshold * long as f64 {
        return None;
    }
    let similarity = normalized_damerau_levenshtein(word, term);
    (similarity >= threshold).then_some(similarity)
}
