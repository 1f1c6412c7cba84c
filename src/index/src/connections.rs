//! Pool of read connections. A query has a connection to itself while it runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, Transaction};

use crate::{IndexError, schema, writer};

/// Number of idle connections in the pool. More are opened for concurrent queries and closed
/// afterwards.
const MAX_IDLE: usize = 4;

/// An idle connection releases its memory after this time.
const MEMORY_RELEASE_DELAY: Duration = Duration::from_secs(10);

/// All idle connections but one are closed after this time.
const IDLE_CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a query that a client wrote.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// SQLite checks the time limit after this many steps: well under a millisecond.
const TIMEOUT_CHECK_STEPS: i32 = 10_000;

pub(crate) struct ReaderPool {
    file: PathBuf,
    /// Idle connections with the time of their last query, the newest last.
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl ReaderPool {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, idle: Mutex::new(Vec::new()) }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads from one consistent snapshot, however many statements `read` runs and whatever is
    /// written concurrently.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.with_connection(|connection| read(&connection.transaction()?))
    }

    /// As [`ReaderPool::read`], for a query that the client wrote in `field`. It is interrupted
    /// after five seconds, so that a query without useful limits cannot block other queries.
    pub(crate) fn query<T>(
        &self,
        field: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.query_within(QUERY_TIMEOUT, field, read)
    }

    pub(crate) fn query_within<T>(
        &self,
        timeout: Duration,
        field: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.with_connection(|connection| {
            let started = Instant::now();
            connection.progress_handler(TIMEOUT_CHECK_STEPS, Some(move || started.elapsed() > timeout))?;
            let outcome = connection.transaction().map_err(IndexError::from).and_then(|transaction| read(&transaction));
            connection.progress_handler(0, None::<fn() -> bool>)?;
            match outcome {
                Err(IndexError::Database(error)) if is_interrupted(&error) => Err(IndexError::invalid(
                    field,
                    format!("takes longer than {} s; use more specific words or conditions", timeout.as_secs()),
                )),
                outcome => outcome,
            }
        })
    }

    /// Releases the memory of idle connections and closes surplus ones. True when no connection was
    /// used recently.
    pub(crate) fn release_idle(&self) -> bool {
        self.release_idle_at(Instant::now())
    }

    fn release_idle_at(&self, now: Instant) -> bool {
        let idle_for = |since: &Instant| now.saturating_duration_since(*since);
        let mut idle = self.idle.lock();
        let newest = idle.pop();
        idle.retain(|(_, since)| idle_for(since) < IDLE_CLOSE_TIMEOUT);
        idle.extend(newest);
        for (connection, _) in idle.iter().filter(|(_, since)| idle_for(since) >= MEMORY_RELEASE_DELAY) {
            // On failure the cache stays until the next call.
            let _ = connection.release_memory();
        }
        idle.iter().all(|(_, since)| idle_for(since) >= MEMORY_RELEASE_DELAY)
    }

    /// As [`ReaderPool::read`], for periodic reads by the server itself: they do not reset the idle
    /// time of a connection.
    pub(crate) fn peek<T>(&self, read: impl FnOnce(&Connection) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let (connection, since) = self.acquire()?;
        let answer = read(&connection);
        self.release(connection, since);
        schema::mark_if_corrupt(&self.file, answer)
    }

    /// Reads one consistent snapshot on several connections, for a caller that reads all rows on
    /// one thread per connection. `read` calls [`begin_all`] while no commit can happen.
    ///
    /// The connections are opened for this call and have small caches: each row is read once, and
    /// the caches of other queries stay.
    pub(crate) fn read_parallel<T>(
        &self,
        count: usize,
        read: impl FnOnce(&mut [Connection]) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut connections = Vec::with_capacity(count);
        while connections.len() < count {
            let connection = schema::open_reader(&self.file)?;
            connection.pragma_update(None, "cache_size", schema::SCAN_CACHE)?;
            connections.push(connection);
        }
        let answer = read(&mut connections);
        schema::mark_if_corrupt(&self.file, answer)
    }

    fn with_connection<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let (mut connection, _) = self.acquire()?;
        let answer = work(&mut connection);
        self.release(connection, Instant::now());
        schema::mark_if_corrupt(&self.file, answer)
    }

    fn acquire(&self) -> rusqlite::Result<(Connection, Instant)> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| Ok((schema::open_reader(&self.file)?, Instant::now())), Ok)
    }

    fn release(&self, connection: Connection, since: Instant) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push((connection, since));
        }
    }
}

/// Starts a transaction on each connection. All see the same snapshot if no commit happens during
/// the call.
pub(crate) fn begin_all(connections: &[Connection]) -> rusqlite::Result<()> {
    for connection in connections {
        connection.execute_batch("BEGIN")?;
        // The first statement fixes the snapshot.
        writer::cursor(connection)?;
    }
    Ok(())
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Space;

    #[test]
    fn an_endless_query_is_interrupted_and_the_next_one_answered() {
        let space = Space::of(&[("a.md", "word")]);
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let stopped = space.index.readers.query_within(Duration::ZERO, "q", |connection| {
            Ok(connection.query_row(endless, [], |row| row.get::<_, i64>(0))?)
        });
        let message = stopped.unwrap_err().to_string();
        assert_eq!(message, "`q`: takes longer than 0 s; use more specific words or conditions");
        assert_eq!(space.found("word"), ["a.md"]);
        assert_eq!(space.index.readers.idle.lock().len(), 1);
    }

    #[test]
    fn connections_are_closed_when_no_question_needs_them() {
        let space = Space::of(&[("a.md", "word")]);
        let readers = &space.index.readers;
        let times = || readers.idle.lock().iter().map(|(_, since)| *since).collect::<Vec<_>>();
        let count = || readers.read(|connection| Ok(connection.query_row("SELECT 1", [], |row| row.get::<_, i64>(0))?));
        readers.read(|_| readers.read(|_| count())).unwrap();
        let used = times();
        assert_eq!(used.len(), 3);
        space.index.cursor().unwrap();
        assert_eq!(times(), used, "the server's own look is no question");
        assert!(!readers.release_idle_at(used[2] + MEMORY_RELEASE_DELAY / 2));
        assert!(readers.release_idle_at(used[2] + MEMORY_RELEASE_DELAY));
        assert_eq!(times(), used);
        assert!(readers.release_idle_at(used[2] + IDLE_CLOSE_TIMEOUT));
        assert_eq!(times(), used[2..]);
        assert_eq!((count().unwrap(), times().len()), (1, 1));
        assert!(times()[0] > used[2]);
    }
}
