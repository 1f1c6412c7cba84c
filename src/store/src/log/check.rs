//! Inspection of a log that is not open, for `svcfs doctor`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use svcfs_base::{CommitId, Seq, TreePath};

use super::spool::{file_name, old_file_name};
use super::writer::newest_row;
use super::{Log, LogRecord, LogResult, SCHEMA_NUMBER, journal, latest_state, rows, writer};
use crate::{StatePaths, StoreError, TreeState};

/// The first schema number with a journal.
const MIN_JOURNAL_SCHEMA: i64 = 7;

/// Retries of reading a journal that a server is writing.
const MAX_ATTEMPTS: usize = 5;

/// The result of an inspection.
#[derive(Debug, Default)]
pub struct LogCheck {
    /// Errors reported by SQLite; empty when there are none.
    pub damage: Vec<String>,
    /// Position of the newest record.
    pub last_seq: Seq,
    /// The position of the last checkpoint: records up to here are flushed and committed.
    pub checkpoint_seq: Seq,
    /// The newest commit at the checkpoint.
    pub checkpoint_commit: Option<CommitId>,
    /// Whether any record has a commit.
    pub has_commits: bool,
    /// Number of records after the checkpoint; the next start replays them.
    pub pending_records: usize,
    /// Names of missing spool files of those records.
    pub missing_spool: Vec<String>,
    /// Spool files that no record needs.
    pub leftover_spool: Vec<PathBuf>,
    /// The commits of records before the checkpoint, each once.
    pub commits: Vec<CommitId>,
}

impl Log {
    /// Reads a log without changing it; none when it does not exist. A server may be using it.
    ///
    /// # Errors
    /// `Damaged` when it belongs to a newer svcfs, `Database` or `State` when it cannot be read
    /// although it is not damaged.
    pub fn check(paths: &StatePaths) -> LogResult<Option<LogCheck>> {
        if !paths.log().exists() {
            return Ok(None);
        }
        match inspect(paths) {
            Err(StoreError::Database(error)) if is_damage(&error) => {
                Ok(Some(LogCheck { damage: vec![error.to_string()], ..LogCheck::default() }))
            }
            outcome => outcome.map(Some),
        }
    }

    /// Compares every file of the log with the tree by content, without changing anything. New
    /// files are not detected.
    ///
    /// # Errors
    /// `Database` when there is no log, or it cannot be read.
    pub fn compare_tree(paths: &StatePaths, mut progress: impl FnMut(usize, usize)) -> LogResult<TreeState> {
        let (connection, mut recorded) = (open_read_only(paths)?, Vec::new());
        with_journal(&connection, paths, |snapshot, tail| {
            recorded = latest_state::states_below(snapshot, &TreePath::root(), &tail.records)?;
            Ok(())
        })?;
        Ok(TreeState::compare(paths.root(), &recorded, &mut progress).0)
    }

    /// Renames a damaged log with its journal and WAL, so that the next start rebuilds it from git;
    /// returns the new name.
    pub fn quarantine(paths: &StatePaths) -> LogResult<PathBuf> {
        let renamed = crate::history::set_aside(&paths.log(), &paths.log())?;
        let with_suffix = |path: &PathBuf, suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
        let wal_files = ["-wal", "-shm"].map(|suffix| (with_suffix(&paths.log(), suffix), suffix));
        for (file, suffix) in wal_files.into_iter().chain(paths.journal().into_iter().zip([".journal-0", ".journal-1"]))
        {
            match std::fs::rename(file, with_suffix(&renamed, suffix)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(renamed)
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown),
        // An invalid value.
        None => true,
    }
}

fn open_read_only(paths: &StatePaths) -> LogResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(paths.log(), flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn inspect(paths: &StatePaths) -> LogResult<LogCheck> {
    let connection = open_read_only(paths)?;
    let number: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if number == 0 {
        return Ok(LogCheck { damage: vec!["the file is empty".to_owned()], ..LogCheck::default() });
    }
    if number > SCHEMA_NUMBER {
        return Err(StoreError::Damaged(format!(
            "`log.db` has schema number {number}, but this svcfs supports {SCHEMA_NUMBER}: use the version that wrote it"
        )));
    }
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let messages: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut report =
        LogCheck { damage: messages.into_iter().filter(|line| line != "ok").collect(), ..LogCheck::default() };
    let gap = with_journal(&connection, paths, |snapshot, tail| {
        let (checkpoint, head): (i64, Option<Vec<u8>>) =
            snapshot.query_row("SELECT seq, head FROM settled", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let pending: i64 =
            snapshot.query_row("SELECT count(*) FROM sets WHERE seq > ?1", [checkpoint], |row| row.get(0))?;
        (report.missing_spool, report.leftover_spool) = spool(snapshot, paths, &tail.spooled)?;
        report.last_seq = tail.records.last().map_or(newest_row(snapshot)?, |record| record.seq);
        report.checkpoint_seq = rows::seq(checkpoint);
        report.checkpoint_commit = head.and_then(|bytes| CommitId::try_from(&*bytes).ok());
        report.pending_records = usize::try_from(pending).unwrap_or_default() + tail.records.len();
        report.has_commits = super::has_commits(snapshot)? || tail.records.iter().any(|record| record.commit.is_some());
        report.commits = commits(snapshot, checkpoint)?;
        Ok(())
    });
    match gap {
        Err(StoreError::Damaged(gap)) => report.damage.push(gap),
        outcome => outcome?,
    }
    Ok(report)
}

/// Runs a query on the rows and the unapplied tail of the journal. A server may be writing
/// meanwhile.
///
/// # Errors
/// `Damaged` when journal and rows are inconsistent, also after retries.
fn with_journal(
    connection: &Connection,
    paths: &StatePaths,
    mut query: impl FnMut(&Connection, &UnappliedTail) -> LogResult<()>,
) -> LogResult<()> {
    let mut attempts_left = MAX_ATTEMPTS;
    loop {
        attempts_left -= 1;
        let tail = read_journal(connection, paths)?;
        let snapshot = connection.unchecked_transaction()?;
        let last_row = newest_row(&snapshot)?;
        // A journal file may have been reused while the other was read.
        let records = match writer::unapplied(tail.batches, last_row) {
            Err(_) if attempts_left > 0 => continue,
            outcome => outcome?,
        };
        let spooled = tail.spooled.into_iter().filter(|(seq, _)| *seq > last_row).map(|(_, name)| name).collect();
        return query(&snapshot, &UnappliedTail { records, spooled });
    }
}

fn commits(connection: &Connection, checkpoint: i64) -> LogResult<Vec<CommitId>> {
    let mut statement =
        connection.prepare("SELECT DISTINCT commit_id FROM sets WHERE seq <= ?1 AND commit_id IS NOT NULL")?;
    let mut rows = statement.query([checkpoint])?;
    let mut commits = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(0)?;
        commits.extend(CommitId::try_from(&*bytes).ok());
    }
    Ok(commits)
}

/// The records of the journal that are not rows yet.
struct UnappliedTail {
    /// Without large contents.
    records: Vec<LogRecord>,
    /// The spool files of large contents.
    spooled: Vec<String>,
}

/// The content of the journal.
struct JournalRead {
    batches: Vec<(Seq, Vec<LogRecord>)>,
    /// Spool files by position.
    spooled: Vec<(Seq, String)>,
}

/// Read before the rows: records that leave the journal meanwhile are rows then.
fn read_journal(connection: &Connection, paths: &StatePaths) -> LogResult<JournalRead> {
    let number: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if number < MIN_JOURNAL_SCHEMA {
        return Ok(JournalRead { batches: Vec::new(), spooled: Vec::new() });
    }
    let spooled = RefCell::default();
    let collect = |seq, ordinal, content| {
        let names: &RefCell<Vec<_>> = &spooled;
        names.borrow_mut().push((seq, file_name(seq, ordinal, content)));
        Ok(Bytes::new())
    };
    let batches = journal::read(&paths.journal(), &writer::keys(connection)?, &collect)?;
    Ok(JournalRead { batches, spooled: spooled.into_inner() })
}

/// Names of missing spool files, and files that no record needs.
fn spool(connection: &Connection, paths: &StatePaths, tail: &[String]) -> LogResult<(Vec<String>, Vec<PathBuf>)> {
    let mut statement = connection
        .prepare("SELECT seq, ordinal, new FROM contents JOIN changes USING (seq, ordinal) WHERE bytes IS NULL")?;
    let mut needed = BTreeSet::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (seq, ordinal) = (rows::seq(row.get(0)?), row.get(1)?);
        let names = [file_name(seq, ordinal, rows::etag(row, 2)?), old_file_name(seq, ordinal)];
        let [name, old_name] = names;
        needed.insert(if paths.spool().join(&old_name).exists() { old_name } else { name });
    }
    needed.extend(tail.iter().cloned());
    let mut leftover = Vec::new();
    match std::fs::read_dir(paths.spool()) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                if !entry.file_name().to_str().is_some_and(|name| needed.remove(name)) {
                    leftover.push(entry.path());
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    leftover.sort();
    Ok((needed.into_iter().collect(), leftover))
}

#[cfg(test)]
mod tests;
