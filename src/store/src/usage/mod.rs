//! `usage.db`: which pages were read and what was searched for, counted by the hour.
//!
//! One rule: nothing hangs on it. It can be deleted at any time, it is written some seconds late, and a write that fails is
//! told in the log and forgotten.

mod questions;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use parking_lot::Mutex;
use rusqlite::Connection;
use svcfs_base::{Timestamp, TreePath};

use crate::StoreError;

pub use questions::{BucketCount, BucketSize, HourRange, PageViews, SearchCount, UsageTotals};

const SCHEMA: i32 = 1;
/// Rows older than this are let go of.
const KEPT_HOURS: i64 = 400 * 24;
/// So many different things are counted between two writes; what comes beyond is not counted, so that no flood of odd questions
/// fills the memory.
const MOST_PENDING: usize = 20_000;
/// A longer search is cut, in characters.
const MOST_CHARS: usize = 200;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum UsageQuery {
    View { path: TreePath, source: &'static str },
    Search { query: String, kind: &'static str, has_results: bool },
}

/// How often, first and last, in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct UsageCount {
    count: i64,
    first: i64,
    last: i64,
}

/// The counts of one space.
pub struct UsageCounts {
    connection: Mutex<Connection>,
    /// What was counted since the last write, with its hour.
    pending: Mutex<HashMap<(i64, UsageQuery), UsageCount>>,
}

impl UsageCounts {
    /// Opens the file, or makes a new one when it is absent, damaged or of another version.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be made or replaced.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let connection = match open(file) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(usage.file = %file.display(), %error, "the counts cannot be used; beginning anew");
                for suffix in ["", "-wal", "-shm"] {
                    let mut name = file.as_os_str().to_owned();
                    name.push(suffix);
                    match std::fs::remove_file(&name) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                        Ok(()) | Err(_) => {}
                    }
                }
                open(file)?
            }
        };
        Ok(Self { connection: Mutex::new(connection), pending: Mutex::default() })
    }

    /// Counts a page that was read, through the door `source`.
    pub fn record_view(&self, path: &TreePath, source: &'static str, now: Timestamp) {
        self.count(UsageQuery::View { path: path.clone(), source }, now);
    }

    /// Counts a search of a `kind`; spaces around and in the question do not tell questions apart, nor do capitals.
    pub fn record_search(&self, query: &str, kind: &'static str, has_results: bool, now: Timestamp) {
        let query = plain(query);
        if !query.is_empty() {
            self.count(UsageQuery::Search { query, kind, has_results }, now);
        }
    }

    fn count(&self, asked: UsageQuery, now: Timestamp) {
        let moment = now.as_microsecond();
        let mut pending = self.pending.lock();
        if pending.len() >= MOST_PENDING {
            return;
        }
        let seen = pending.entry((hour_of(now), asked)).or_insert(UsageCount { count: 0, first: moment, last: moment });
        seen.count += 1;
        seen.first = seen.first.min(moment);
        seen.last = seen.last.max(moment);
    }

    /// Writes what was counted since the last time, and lets go of what is too old.
    ///
    /// # Errors
    /// [`StoreError`] of the database; what could not be written is counted again with what comes next.
    pub fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        let taken = std::mem::take(&mut *self.pending.lock());
        if taken.is_empty() {
            return Ok(());
        }
        let outcome = self.put(&taken, now);
        if outcome.is_err() {
            let mut pending = self.pending.lock();
            for (asked, before) in taken {
                let seen = pending.entry(asked).or_insert(UsageCount { count: 0, ..before });
                seen.count += before.count;
                seen.first = seen.first.min(before.first);
            }
        }
        outcome
    }

    fn put(&self, taken: &HashMap<(i64, UsageQuery), UsageCount>, now: Timestamp) -> Result<(), StoreError> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction()?;
        {
            let mut view = transaction.prepare_cached(
                "INSERT INTO views VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET
                 count = count + excluded.count, last_seen = max(last_seen, excluded.last_seen)",
            )?;
            let mut search = transaction.prepare_cached(
                "INSERT INTO searches VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET
                 count = count + excluded.count, last_seen = max(last_seen, excluded.last_seen)",
            )?;
            for ((hour, asked), UsageCount { count, first, last }) in taken {
                match asked {
                    UsageQuery::View { path, source } => {
                        view.execute((hour, path.as_str(), source, count, first, last))?
                    }
                    UsageQuery::Search { query, kind, has_results } => {
                        search.execute((hour, query, kind, has_results, count, first, last))?
                    }
                };
            }
            let oldest = hour_of(now) - KEPT_HOURS;
            transaction.execute("DELETE FROM views WHERE hour < ?1", [oldest])?;
            transaction.execute("DELETE FROM searches WHERE hour < ?1", [oldest])?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Leaves a search of a kind out of [`Usage::gaps`] from now on.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn dismiss(&self, query: &str, kind: &str) -> Result<(), StoreError> {
        let query = plain(query);
        self.connection.lock().execute("INSERT OR IGNORE INTO dismissed VALUES (?1, ?2)", (query, kind))?;
        Ok(())
    }
}

/// A question as it is told from others.
fn plain(query: &str) -> String {
    let words: Vec<&str> = query.split_whitespace().collect();
    words.join(" ").to_lowercase().chars().take(MOST_CHARS).collect()
}

fn hour_of(moment: Timestamp) -> i64 {
    moment.as_second().div_euclid(3_600)
}

fn open(file: &Path) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A power cut may cost the last minutes of counting.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        let transaction = connection.transaction()?;
        transaction.execute_batch(include_str!("schema.sql"))?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
        transaction.commit()?;
    } else if version != SCHEMA {
        return Err(StoreError::Damaged(format!("its form is {version}, wanted is {SCHEMA}")));
    }
    connection.query_row("SELECT count(*) FROM views, searches, dismissed WHERE 0", [], |_| Ok(()))?;
    Ok(connection)
}
