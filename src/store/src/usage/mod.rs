//! `usage.db`: page views and searches, counted by the hour.
//!
//! Invariant: nothing depends on it. It can be deleted at any time, it is written some seconds
//! late, and a failed write is only logged.

mod queries;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use parking_lot::Mutex;
use rusqlite::Connection;
use svcfs_base::{Timestamp, TreePath};

use crate::StoreError;

pub use queries::{BucketCount, BucketSize, HourRange, PageViews, SearchCount, UsageTotals};

const SCHEMA: i32 = 1;
/// Age limit of rows.
const RETENTION_HOURS: i64 = 400 * 24;
/// Limit of different items counted between two writes. Further ones are not counted, so that a
/// flood of queries cannot fill the memory.
const MAX_PENDING: usize = 20_000;
/// Longer queries are truncated, in characters.
const MAX_QUERY_CHARS: usize = 200;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum UsageQuery {
    View { path: TreePath, source: &'static str },
    Search { query: String, kind: &'static str, has_results: bool },
}

/// Count, first and last time, in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
struct UsageCount {
    count: i64,
    first: i64,
    last: i64,
}

/// The counts of one space.
/// Methods fail with an error of the database unless they say otherwise.
pub struct UsageCounts {
    connection: Mutex<Connection>,
    /// Counts since the last write, by hour.
    pending: Mutex<HashMap<(i64, UsageQuery), UsageCount>>,
}

impl UsageCounts {
    /// Opens the file, or creates a new one when it is missing, damaged or of another version.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be made or replaced.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let connection = match open(file) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(usage.file = %file.display(), %error, "the usage counts cannot be read and start again from zero");
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

    /// Counts a page view through the protocol `source`.
    pub fn record_view(&self, path: &TreePath, source: &'static str, now: Timestamp) {
        self.count(UsageQuery::View { path: path.clone(), source }, now);
    }

    /// Counts a search of a `kind`. White space and case are normalized.
    pub fn record_search(&self, query: &str, kind: &'static str, has_results: bool, now: Timestamp) {
        let query = normalize(query);
        if !query.is_empty() {
            self.count(UsageQuery::Search { query, kind, has_results }, now);
        }
    }

    fn count(&self, query: UsageQuery, now: Timestamp) {
        let micros = now.as_microsecond();
        let mut pending = self.pending.lock();
        if pending.len() >= MAX_PENDING {
            return;
        }
        let entry =
            pending.entry((hour_of(now), query)).or_insert(UsageCount { count: 0, first: micros, last: micros });
        entry.count += 1;
        entry.first = entry.first.min(micros);
        entry.last = entry.last.max(micros);
    }

    /// Writes the pending counts and removes old rows.
    ///
    /// # Errors
    /// [`StoreError`] of the database; the counts stay pending.
    pub fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        let counts = std::mem::take(&mut *self.pending.lock());
        if counts.is_empty() {
            return Ok(());
        }
        let outcome = self.put(&counts, now);
        if outcome.is_err() {
            let mut pending = self.pending.lock();
            for (key, pending_count) in counts {
                let entry = pending.entry(key).or_insert(UsageCount { count: 0, ..pending_count });
                entry.count += pending_count.count;
                entry.first = entry.first.min(pending_count.first);
            }
        }
        outcome
    }

    fn put(&self, counts: &HashMap<(i64, UsageQuery), UsageCount>, now: Timestamp) -> Result<(), StoreError> {
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
            for ((hour, query), UsageCount { count, first, last }) in counts {
                match query {
                    UsageQuery::View { path, source } => {
                        view.execute((hour, path.as_str(), source, count, first, last))?
                    }
                    UsageQuery::Search { query, kind, has_results } => {
                        search.execute((hour, query, kind, has_results, count, first, last))?
                    }
                };
            }
            let oldest = hour_of(now) - RETENTION_HOURS;
            transaction.execute("DELETE FROM views WHERE hour < ?1", [oldest])?;
            transaction.execute("DELETE FROM searches WHERE hour < ?1", [oldest])?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Excludes a search of a kind from [`UsageCounts::content_gaps`].
    pub fn dismiss(&self, query: &str, kind: &str) -> Result<(), StoreError> {
        let query = normalize(query);
        self.connection.lock().execute("INSERT OR IGNORE INTO dismissed VALUES (?1, ?2)", (query, kind))?;
        Ok(())
    }
}

/// Normalizes a query.
fn normalize(query: &str) -> String {
    let words: Vec<&str> = query.split_whitespace().collect();
    words.join(" ").to_lowercase().chars().take(MAX_QUERY_CHARS).collect()
}

fn hour_of(timestamp: Timestamp) -> i64 {
    timestamp.as_second().div_euclid(3_600)
}

fn open(file: &Path) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A power failure may lose the last minutes.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        let transaction = connection.transaction()?;
        transaction.execute_batch(include_str!("schema.sql"))?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
        transaction.commit()?;
    } else if version != SCHEMA {
        return Err(StoreError::Damaged(format!("usage.db has version {version}, this program needs {SCHEMA}")));
    }
    connection.query_row("SELECT count(*) FROM views, searches, dismissed WHERE 0", [], |_| Ok(()))?;
    Ok(connection)
}
