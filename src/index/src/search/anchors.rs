//! Anchor text: the labels of the links that lead to a page.

use std::collections::HashMap;

use rusqlite::Connection;

use super::query::QueryWord;
use crate::IndexError;
use crate::writer::ANCHORS_PER_PAGE;

/// Limit of the links read per word.
const MAX_LINKS: i64 = 200;

/// How often other pages use the words of the query for a page.
#[derive(Debug, Default)]
pub(super) struct AnchorCounts {
    /// By index of the word in the query.
    uses: HashMap<usize, u32>,
    /// Whether a single link has all words.
    has_all_words: bool,
}

impl AnchorCounts {
    /// Number of pages that use this word.
    pub(super) fn uses(&self, word: usize) -> u32 {
        self.uses.get(&word).copied().unwrap_or_default()
    }
    pub(super) fn has_all_words(&self) -> bool {
        self.has_all_words
    }
}

/// The pages whose incoming links have some of the words.
pub(super) fn of(connection: &Connection, words: &[QueryWord]) -> Result<HashMap<i64, AnchorCounts>, IndexError> {
    let mut counts: HashMap<i64, AnchorCounts> = HashMap::new();
    for (index, word) in words.iter().enumerate() {
        for (page, uses) in link_targets(connection, &word.expression())? {
            *counts.entry(page).or_default().uses.entry(index).or_default() += uses;
        }
    }
    if !counts.is_empty() {
        let all: Vec<String> = words.iter().map(QueryWord::expression).collect();
        for (page, _) in link_targets(connection, &all.join(" AND "))? {
            counts.entry(page).or_default().has_all_words = true;
        }
    }
    Ok(counts)
}

/// The targets of links with these words, each with its number of linking pages.
fn link_targets(connection: &Connection, expression: &str) -> Result<Vec<(i64, u32)>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT page_keys.page, count(DISTINCT link_keys.page)
         FROM (SELECT rowid AS anchor FROM anchors WHERE anchors MATCH ?1 LIMIT ?2)
         CROSS JOIN link_keys ON link_keys.page = anchor / ?3 AND link_keys.position = anchor % ?3
         CROSS JOIN page_keys ON page_keys.folded = link_keys.folded AND page_keys.page > 0
         GROUP BY page_keys.page LIMIT ?2",
    )?;
    let rows = statement.query_map((expression, MAX_LINKS, ANCHORS_PER_PAGE), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
