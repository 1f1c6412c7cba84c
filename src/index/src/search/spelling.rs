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
const MAX_SUGGESTIONS: usize = 3;

/// Number of similar words whose pages are counted, and the limit of the count.
const MAX_COUNTED_WORDS: usize = 30;
const MAX_COUNTED_PAGES: usize = 1_000;

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
        query::check_size(q)?;
        let words: BTreeSet<String> = query::spelling_words(q)
            .filter(|word| word.chars().count() >= 3)
            .map(str::to_lowercase)
            .take(MAX_WORDS)
            .collect();
        self.readers.query("q", |connection| {
            let mut unknown = Vec::new();
            for word in words {
                if !is_known(connection, &word)? {
                    unknown.push(word);
                }
            }
            most_similar(connection, &unknown, threshold)
        })
    }
}

/// Whether a page has this word in this spelling.
fn is_known(connection: &Connection, word: &str) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM spellings WHERE word = ?1")?;
    Ok(statement.exists([folded(word)])? && count_pages(connection, word, 1)? > 0)
}

/// Number of pages with a word, in any form, counted up to `limit`.
fn count_pages(connection: &Connection, word: &str, limit: usize) -> rusqlite::Result<usize> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ?1 LIMIT ?2)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let expression = format!("\"{}\"", term(word));
    let pages: i64 = connection.prepare_cached(sql)?.query_row((expression, limit), |row| row.get(0))?;
    Ok(usize::try_from(pages).unwrap_or_default())
}

/// Compares every indexed word with all unknown words in one scan.
fn most_similar(
    connection: &Connection,
    unknown: &[String],
    threshold: f64,
) -> Result<Vec<SpellingSuggestion>, IndexError> {
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    let mut similar_words: Vec<Vec<(f64, String)>> = vec![Vec::new(); unknown.len()];
    let mut statement = connection.prepare_cached("SELECT word FROM spellings")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let indexed = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        for (word, suggestions) in unknown.iter().zip(&mut similar_words) {
            if let Some(similarity) = similarity(word, indexed, threshold) {
                suggestions.push((similarity, indexed.to_owned()));
            }
        }
    }
    let mut all = Vec::new();
    for (word, mut similar) in unknown.iter().zip(similar_words) {
        similar.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut suggestions = Vec::new();
        for (similarity, suggestion) in similar.into_iter().take(MAX_COUNTED_WORDS) {
            // No page may have the word any more.
            match count_pages(connection, &suggestion, MAX_COUNTED_PAGES)? {
                0 => {}
                pages => suggestions.push(SpellingSuggestion {
                    word: word.clone(),
                    suggestion,
                    similarity,
                    page_count: pages,
                }),
            }
        }
        suggestions.sort_by(|a, b| {
            b.similarity
                .total_cmp(&a.similarity)
                .then(b.page_count.cmp(&a.page_count))
                .then_with(|| a.suggestion.cmp(&b.suggestion))
        });
        all.extend(suggestions.into_iter().take(MAX_SUGGESTIONS));
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
