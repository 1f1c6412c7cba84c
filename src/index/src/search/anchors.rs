//! How other pages call a page: the labels of the links that lead to it.

use std::collections::HashMap;

use rusqlite::Connection;

use super::query::QueryWord;
use crate::IndexError;
use crate::writer::ANCHORS_A_PAGE;

/// Most links that are looked at for one word.
const LOOKED_AT: i64 = 200;

/// How often other pages use each of the words for this one.
#[derive(Debug, Default)]
pub(super) struct AnchorCounts {
    /// By the number of the word in the question.
    uses: HashMap<usize, u32>,
    /// Whether one link has all of the words.
    is_whole: bool,
}

impl AnchorCounts {
    /// How many pages call it by a word.
    pub(super) fn uses(&self, word: usize) -> u32 {
        self.uses.get(&word).copied().unwrap_or_default()
    }
    /// Whether one link has all the words of the question.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// The pages that others call by some of the words.
pub(super) fn of(connection: &Connection, words: &[QueryWord]) -> Result<HashMap<i64, AnchorCounts>, IndexError> {
    let mut found: HashMap<i64, AnchorCounts> = HashMap::new();
    for (at, word) in words.iter().enumerate() {
        for (page, uses) in called(connection, &word.expression())? {
            *found.entry(page).or_default().uses.entry(at).or_default() += uses;
        }
    }
    if !found.is_empty() {
        let all: Vec<String> = words.iter().map(QueryWord::expression).collect();
        for (page, _) in called(connection, &all.join(" AND "))? {
            found.entry(page).or_default().is_whole = true;
        }
    }
    Ok(found)
}

/// The pages that links with these words lead to, and from how many pages.
fn called(connection: &Connection, expression: &str) -> Result<Vec<(i64, u32)>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT page_keys.page, count(DISTINCT link_keys.page)
         FROM (SELECT rowid AS anchor FROM anchors WHERE anchors MATCH ?1 LIMIT ?2)
         CROSS JOIN link_keys ON link_keys.page = anchor / ?3 AND link_keys.position = anchor % ?3
         CROSS JOIN page_keys ON page_keys.folded = link_keys.folded
         GROUP BY page_keys.page LIMIT ?2",
    )?;
    let rows = statement.query_map((expression, LOOKED_AT, ANCHORS_A_PAGE), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
