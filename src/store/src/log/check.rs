//! A log looked at from outside, for whoever wants to know what is wrong with it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use svcfs_base::{CommitId, Seq, TreePath};

use super::{Log, Outcome, SCHEMA_NUMBER, rows, spool_name, standing};
use crate::{StatePaths, StoreError, TreeState};

/// What a look at a log found.
#[derive(Debug, Default)]
pub struct LogCheck {
    /// What SQLite finds wrong; empty when it is right.
    pub damage: Vec<String>,
    /// Position of the newest record.
    pub last: Seq,
    /// Records up to here are flushed and committed.
    pub settled: Seq,
    /// The commit that was newest then.
    pub settled_commit: Option<CommitId>,
    /// Records after it: accepted changes that the next start completes.
    pub unsettled: usize,
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
    pub fn check(paths: &StatePaths) -> Outcome<Option<LogCheck>> {
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
    pub fn tree(paths: &StatePaths, mut progress: impl FnMut(usize, usize)) -> Outcome<TreeState> {
        let recorded = standing::below(&opened(paths)?, &TreePath::root())?;
        Ok(TreeState::against(paths.root(), &recorded, &mut progress).0)
    }

    /// Moves a damaged log aside, so that the next opening makes a new one from git's history; its new name.
    ///
    /// # Errors
    /// `State` with what the system said.
    pub fn set_aside(paths: &StatePaths) -> Outcome<PathBuf> {
        let aside = crate::history::set_aside(&paths.log(), &paths.log())?;
        for suffix in ["-wal", "-shm"] {
            let beside = |path: &PathBuf| PathBuf::from(format!("{}{suffix}", path.display()));
            match std::fs::rename(beside(&paths.log()), beside(&aside)) {
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

fn opened(paths: &StatePaths) -> Outcome<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(paths.log(), flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn looked_at(paths: &StatePaths) -> Outcome<LogCheck> {
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
    let damage = said.into_iter().filter(|line| line != "ok").collect();
    let (settled, head): (i64, Option<Vec<u8>>) =
        connection.query_row("SELECT seq, head FROM settled", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let count = |sql: &str| connection.query_row(sql, [settled], |row| row.get::<_, i64>(0));
    let last = count("SELECT coalesce(max(seq), 0) FROM sets WHERE ?1 = ?1")?;
    let unsettled = count("SELECT count(*) FROM sets WHERE seq > ?1")?;
    let (missing_spool, leftover_spool) = spool(&connection, paths)?;
    Ok(LogCheck {
        damage,
        last: rows::seq(last),
        settled: rows::seq(settled),
        settled_commit: head.and_then(|bytes| CommitId::try_from(&*bytes).ok()),
        unsettled: usize::try_from(unsettled).unwrap_or_default(),
        missing_spool,
        leftover_spool,
        commits: commits(&connection, settled)?,
    })
}

fn commits(connection: &Connection, settled: i64) -> Outcome<Vec<CommitId>> {
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

/// Names of files that records need and that are gone, and files that no record needs.
fn spool(connection: &Connection, paths: &StatePaths) -> Outcome<(Vec<String>, Vec<PathBuf>)> {
    let mut statement = connection.prepare("SELECT seq, ordinal FROM contents WHERE bytes IS NULL")?;
    let mut needed: BTreeSet<String> = statement
        .query_map([], |row| Ok(spool_name(rows::seq(row.get(0)?), row.get(1)?)))?
        .collect::<Result<_, _>>()?;
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
