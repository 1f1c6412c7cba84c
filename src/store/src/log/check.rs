//! A log looked at from outside, for whoever wants to know what is wrong with it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use svcfs_base::{CommitId, Seq, TreePath};

use super::spool::{earlier_name_of, name_of};
use super::writer::newest;
use super::{Log, LogRecord, LogResult, SCHEMA_NUMBER, journal, latest_state, rows, writer};
use crate::{StatePaths, StoreError, TreeState};

/// The first form of logs that have a journal.
const WITH_JOURNAL: i64 = 7;

/// How often a journal is read that somebody is at work on.
const TRIES: usize = 5;

/// What a look at a log found.
#[derive(Debug, Default)]
pub struct LogCheck {
    /// What SQLite finds wrong; empty when it is right.
    pub damage: Vec<String>,
    /// Position of the newest record.
    pub last_seq: Seq,
    /// Records up to here are flushed and committed.
    pub checkpoint_seq: Seq,
    /// The commit that was newest then.
    pub checkpoint_commit: Option<CommitId>,
    /// Whether any record has a commit, settled or not.
    pub has_commits: bool,
    /// Records after it: accepted changes that the next start completes.
    pub pending_records: usize,
    /// Large contents of those records whose file is gone, by file name.
    pub missing_spool: Vec<String>,
    /// Files beside the log that no record needs.
    pub leftover_spool: Vec<PathBuf>,
    /// Every commit of ours that is settled, each once.
    pub commits: Vec<CommitId>,
}

impl Log {
    /// Reads all of a log without changing it; none when there is none. A server may have it.
    ///
    /// # Errors
    /// `Damaged` when it belongs to a newer svcfs, `Database` or `State` when it cannot be read for another reason than damage.
    pub fn check(paths: &StatePaths) -> LogResult<Option<LogCheck>> {
        if !paths.log().exists() {
            return Ok(None);
        }
        match looked_at(paths) {
            Err(StoreError::Database(error)) if is_damage(&error) => {
                Ok(Some(LogCheck { damage: vec![error.to_string()], ..LogCheck::default() }))
            }
            outcome => outcome.map(Some),
        }
    }

    /// Compares every file that a log has with the tree, byte by byte, without changing anything. Files that are new are not looked for.
    ///
    /// # Errors
    /// `Database` when there is no log, or when it cannot be read.
    pub fn compare_tree(paths: &StatePaths, mut progress: impl FnMut(usize, usize)) -> LogResult<TreeState> {
        let (connection, mut recorded) = (opened(paths)?, Vec::new());
        with_journal(&connection, paths, |snapshot, ahead| {
            recorded = latest_state::below_with(snapshot, &TreePath::root(), &ahead.records)?;
            Ok(())
        })?;
        Ok(TreeState::against(paths.root(), &recorded, &mut progress).0)
    }

    /// Moves a damaged log aside with all that belongs to it, so that the next opening makes a new one from git's history; its new name.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn quarantine(paths: &StatePaths) -> LogResult<PathBuf> {
        let aside = crate::history::set_aside(&paths.log(), &paths.log())?;
        let named = |path: &PathBuf, suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
        let of_sqlite = ["-wal", "-shm"].map(|suffix| (named(&paths.log(), suffix), suffix));
        for (beside, suffix) in
            of_sqlite.into_iter().chain(paths.journal().into_iter().zip([".journal-0", ".journal-1"]))
        {
            match std::fs::rename(beside, named(&aside, suffix)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(aside)
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown),
        // A value that is none of ours.
        None => true,
    }
}

fn opened(paths: &StatePaths) -> LogResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(paths.log(), flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn looked_at(paths: &StatePaths) -> LogResult<LogCheck> {
    let connection = opened(paths)?;
    let number: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if number == 0 {
        return Ok(LogCheck { damage: vec!["it is empty".to_owned()], ..LogCheck::default() });
    }
    if number > SCHEMA_NUMBER {
        return Err(StoreError::Damaged(format!(
            "`log.db` has schema number {number}, this svcfs knows {SCHEMA_NUMBER}: use the svcfs that wrote it"
        )));
    }
    let mut verdict = connection.prepare("PRAGMA integrity_check")?;
    let said: Vec<String> = verdict.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut found = LogCheck { damage: said.into_iter().filter(|line| line != "ok").collect(), ..LogCheck::default() };
    let gap = with_journal(&connection, paths, |snapshot, ahead| {
        let (settled, head): (i64, Option<Vec<u8>>) =
            snapshot.query_row("SELECT seq, head FROM settled", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let unsettled: i64 =
            snapshot.query_row("SELECT count(*) FROM sets WHERE seq > ?1", [settled], |row| row.get(0))?;
        (found.missing_spool, found.leftover_spool) = spool(snapshot, paths, &ahead.spooled)?;
        found.last_seq = ahead.records.last().map_or(newest(snapshot)?, |record| record.seq);
        found.checkpoint_seq = rows::seq(settled);
        found.checkpoint_commit = head.and_then(|bytes| CommitId::try_from(&*bytes).ok());
        found.pending_records = usize::try_from(unsettled).unwrap_or_default() + ahead.records.len();
        found.has_commits = super::has_commits(snapshot)? || ahead.records.iter().any(|record| record.commit.is_some());
        found.commits = commits(snapshot, settled)?;
        Ok(())
    });
    match gap {
        Err(StoreError::Damaged(gap)) => found.damage.push(gap),
        outcome => outcome?,
    }
    Ok(found)
}

/// Asks something of the rows, and of what the journal has beside them. Whoever has the log open goes on meanwhile.
///
/// # Errors
/// `Damaged` when the journal and the rows do not fit together, also when they are read again.
fn with_journal(
    connection: &Connection,
    paths: &StatePaths,
    mut question: impl FnMut(&Connection, &UnappliedTail) -> LogResult<()>,
) -> LogResult<()> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let ahead = ahead(connection, paths)?;
        let snapshot = connection.unchecked_transaction()?;
        let made = newest(&snapshot)?;
        // One file may have been begun anew while the other was read.
        let records = match writer::missing(ahead.batches, made) {
            Err(_) if tries > 0 => continue,
            outcome => outcome?,
        };
        let spooled = ahead.spooled.into_iter().filter(|(seq, _)| *seq > made).map(|(_, name)| name).collect();
        return question(&snapshot, &UnappliedTail { records, spooled });
    }
}

fn commits(connection: &Connection, settled: i64) -> LogResult<Vec<CommitId>> {
    let mut statement =
        connection.prepare("SELECT DISTINCT commit_id FROM sets WHERE seq <= ?1 AND commit_id IS NOT NULL")?;
    let mut rows = statement.query([settled])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(0)?;
        found.extend(CommitId::try_from(&*bytes).ok());
    }
    Ok(found)
}

/// What the journal has and the rows do not.
struct UnappliedTail {
    /// Without their large contents.
    records: Vec<LogRecord>,
    /// Files that have those.
    spooled: Vec<String>,
}

/// What the journal has.
struct JournalRead {
    batches: Vec<(Seq, Vec<LogRecord>)>,
    /// Whose large contents are in which files.
    spooled: Vec<(Seq, String)>,
}

/// Read before any row: what is not in the journal any more is rows then.
fn ahead(connection: &Connection, paths: &StatePaths) -> LogResult<JournalRead> {
    let number: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if number < WITH_JOURNAL {
        return Ok(JournalRead { batches: Vec::new(), spooled: Vec::new() });
    }
    let spooled = RefCell::default();
    let note = |seq, ordinal, content| {
        let noted: &RefCell<Vec<_>> = &spooled;
        noted.borrow_mut().push((seq, name_of(seq, ordinal, content)));
        Ok(Bytes::new())
    };
    let batches = journal::read(&paths.journal(), &writer::keys(connection)?, &note)?;
    Ok(JournalRead { batches, spooled: spooled.into_inner() })
}

/// Names of files that records need and that are gone, and files that no record needs.
fn spool(connection: &Connection, paths: &StatePaths, ahead: &[String]) -> LogResult<(Vec<String>, Vec<PathBuf>)> {
    let mut statement = connection
        .prepare("SELECT seq, ordinal, new FROM contents JOIN changes USING (seq, ordinal) WHERE bytes IS NULL")?;
    let mut needed = BTreeSet::new();
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let (seq, ordinal) = (rows::seq(row.get(0)?), row.get(1)?);
        let names = [name_of(seq, ordinal, rows::etag(row, 2)?), earlier_name_of(seq, ordinal)];
        let [now, earlier] = names;
        needed.insert(if paths.spool().join(&earlier).exists() { earlier } else { now });
    }
    needed.extend(ahead.iter().cloned());
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
