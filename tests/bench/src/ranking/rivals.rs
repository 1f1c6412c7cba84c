//! What one would use instead.

use std::collections::BTreeSet;

use anyhow::Result;
use rusqlite::Connection;

/// FTS5 as its documentation shows it: one column, the whole file, `bm25()`.
pub struct Plain {
    connection: Connection,
}

impl Plain {
    /// Indexes pages in memory.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn new(pages: &[(String, String)]) -> Result<Self> {
        let mut connection = Connection::open_in_memory()?;
        connection.execute_batch(
            "CREATE VIRTUAL TABLE files USING fts5(path UNINDEXED, text, tokenize = 'porter unicode61 remove_diacritics 1')",
        )?;
        let transaction = connection.transaction()?;
        for (path, text) in pages {
            transaction.prepare_cached("INSERT INTO files VALUES (?1, ?2)")?.execute((path, text))?;
        }
        transaction.commit()?;
        Ok(Self { connection })
    }

    /// The best pages for words with a sign between them.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn search(&self, q: &str, sign: &str, most: u32) -> Result<Vec<String>> {
        let words: Vec<String> = q.split_whitespace().map(|word| format!("\"{word}\"")).collect();
        let mut statement =
            self.connection.prepare_cached("SELECT path FROM files WHERE files MATCH ?1 ORDER BY rank LIMIT ?2")?;
        let found = statement.query_map((words.join(sign), most), |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }
}

impl Plain {
    /// As somebody would ask it for a page of answers: in the words of FTS5, with snippets.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn shown(&self, expression: &str, most: u32) -> Result<Vec<String>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT snippet(files, 1, '<mark>', '</mark>', '…', 24) FROM files WHERE files MATCH ?1 ORDER BY rank LIMIT ?2",
        )?;
        let found = statement.query_map((expression, most), |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }
}

/// `grep -rioF` for each word, the files with the most matches first.
pub struct Grep {
    pages: Vec<(String, String)>,
}

impl Grep {
    /// Keeps the pages as grep compares them.
    pub fn new(pages: &[(String, String)]) -> Self {
        Self { pages: pages.iter().map(|(path, text)| (path.clone(), text.to_lowercase())).collect() }
    }

    /// The pages with the most matches.
    pub fn search(&self, q: &str, most: usize) -> Vec<String> {
        let words: BTreeSet<String> = q.split_whitespace().map(str::to_lowercase).collect();
        let mut found: Vec<(usize, &str)> = self
            .pages
            .iter()
            .map(|(path, text)| (words.iter().map(|word| text.matches(word.as_str()).count()).sum(), path.as_str()))
            .filter(|(count, _)| *count > 0)
            .collect();
        found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        found.into_iter().take(most).map(|(_, path)| path.to_owned()).collect()
    }
}
