//! The connections that read: a few, kept open, each one lent to one question at a time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, Transaction};

use crate::{IndexError, schema, writer};

/// How many idle connections are kept; more are opened when more questions come at once, and closed after.
const KEPT: usize = 4;

/// What a connection has in memory is given back when it was idle for so long.
const IDLE: Duration = Duration::from_secs(10);

/// All idle connections but one are closed after so long.
const UNUSED: Duration = Duration::from_secs(60);

/// How long a question in somebody's own words may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many steps SQLite takes before it looks at the time: well under a millisecond.
const STEPS: i32 = 10_000;

/// Connections that cannot write (`query_only`).
pub(crate) struct ReaderPool {
    file: PathBuf,
    /// With the time of their last question, the newest last.
    idle: Mutex<Vec<(Connection, Instant)>>,
}

impl ReaderPool {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, idle: Mutex::new(Vec::new()) }
    }

    /// The file they read.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads from one consistent state of the index, however many statements it takes and whatever is written or swapped
    /// meanwhile.
    pub(crate) fn read<T>(&self, ask: impl FnOnce(&Transaction<'_>) -> Result<T, IndexError>) -> Result<T, IndexError> {
        self.lend(|connection| ask(&connection.transaction()?))
    }

    /// As [`Readers::read`], for a question that `field` puts in the caller's own words: stopped after five seconds, so that a
    /// query that fits everything in every way cannot keep the others waiting.
    pub(crate) fn answer<T>(
        &self,
        field: &'static str,
        ask: impl FnOnce(&Transaction<'_>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.answer_within(PATIENCE, field, ask)
    }

    pub(crate) fn answer_within<T>(
        &self,
        patience: Duration,
        field: &'static str,
        ask: impl FnOnce(&Transaction<'_>) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.lend(|connection| {
            let begun = Instant::now();
            connection.progress_handler(STEPS, Some(move || begun.elapsed() > patience))?;
            let outcome = connection.transaction().map_err(IndexError::from).and_then(|transaction| ask(&transaction));
            connection.progress_handler(0, None::<fn() -> bool>)?;
            match outcome {
                Err(IndexError::Database(error)) if was_stopped(&error) => Err(IndexError::invalid(
                    field,
                    format!("takes longer than {} s to answer; ask for less at once", patience.as_secs()),
                )),
                outcome => outcome,
            }
        })
    }

    /// Gives back the memory of idle connections, and closes those that are not needed. True where no connection was used lately.
    pub(crate) fn rest(&self) -> bool {
        self.rest_at(Instant::now())
    }

    fn rest_at(&self, now: Instant) -> bool {
        let idle_for = |since: &Instant| now.saturating_duration_since(*since);
        let mut idle = self.idle.lock();
        let newest = idle.pop();
        idle.retain(|(_, since)| idle_for(since) < UNUSED);
        idle.extend(newest);
        for (connection, _) in idle.iter().filter(|(_, since)| idle_for(since) >= IDLE) {
            // Its cache stays as it is then, until the next time.
            let _ = connection.release_memory();
        }
        idle.iter().all(|(_, since)| idle_for(since) >= IDLE)
    }

    /// As [`Readers::read`], for what the server itself looks at again and again: to it, a connection is as idle as it was before.
    pub(crate) fn peek<T>(&self, ask: impl FnOnce(&Connection) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let (connection, since) = self.take()?;
        let answer = ask(&connection);
        self.put_back(connection, since);
        schema::noticed(&self.file, answer)
    }

    /// Reads from one consistent state of the index on several connections, for a caller that reads all of it and has a thread for each.
    /// `ask` has them [`begin`] while nothing is committed.
    ///
    /// The connections are opened for it and have small caches: no row is read twice, and caches that other questions filled stay.
    pub(crate) fn read_together<T>(
        &self,
        count: usize,
        ask: impl FnOnce(&mut [Connection]) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let mut connections = Vec::with_capacity(count);
        while connections.len() < count {
            let connection = schema::open_reader(&self.file)?;
            connection.pragma_update(None, "cache_size", schema::SCAN_CACHE)?;
            connections.push(connection);
        }
        let answer = ask(&mut connections);
        schema::noticed(&self.file, answer)
    }

    fn lend<T>(&self, use_it: impl FnOnce(&mut Connection) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let (mut connection, _) = self.take()?;
        let answer = use_it(&mut connection);
        self.put_back(connection, Instant::now());
        schema::noticed(&self.file, answer)
    }

    /// An idle connection, or a new one; with the time of its last question.
    fn take(&self) -> rusqlite::Result<(Connection, Instant)> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| Ok((schema::open_reader(&self.file)?, Instant::now())), Ok)
    }

    fn put_back(&self, connection: Connection, since: Instant) {
        let mut idle = self.idle.lock();
        if idle.len() < KEPT {
            idle.push((connection, since));
        }
    }
}

/// Begins a transaction on each connection. All read the same state if nothing is committed meanwhile.
pub(crate) fn begin(connections: &[Connection]) -> rusqlite::Result<()> {
    for connection in connections {
        connection.execute_batch("BEGIN")?;
        // The first statement fixes which rows are read.
        writer::cursor(connection)?;
    }
    Ok(())
}

fn was_stopped(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Space;

    #[test]
    fn a_question_without_end_is_stopped_and_the_next_one_is_answered() {
        let space = Space::of(&[("a.md", "word")]);
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let stopped = space.index.readers.answer_within(Duration::ZERO, "q", |connection| {
            Ok(connection.query_row(endless, [], |row| row.get::<_, i64>(0))?)
        });
        let message = stopped.unwrap_err().to_string();
        assert_eq!(message, "`q`: takes longer than 0 s to answer; ask for less at once");
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
        assert!(!readers.rest_at(used[2] + IDLE / 2));
        assert!(readers.rest_at(used[2] + IDLE));
        assert_eq!(times(), used);
        assert!(readers.rest_at(used[2] + UNUSED));
        assert_eq!(times(), used[2..]);
        assert_eq!((count().unwrap(), times().len()), (1, 1));
        assert!(times()[0] > used[2]);
    }
}
