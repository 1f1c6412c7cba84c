//! Read-only inspection of an index file. Opening it would replace a damaged or outdated file.

use std::path::Path;

use rusqlite::Connection;
use svcfs_base::Seq;

use crate::{Index, IndexError, IndexFingerprint, fingerprint, schema, writer};

/// State of an index file.
#[derive(Debug)]
pub enum IndexInspection {
    /// The file does not exist.
    Absent,
    /// The file is damaged; SQLite's message.
    Damaged(String),
    /// The file is of another version of svcfs, or its bulk load did not finish.
    Outdated,
    /// The file is intact: its cursor and its fingerprint.
    Intact(Seq, Box<IndexFingerprint>),
}

impl Index {
    /// Reads the full index without changing it.
    ///
    /// # Errors
    /// [`IndexError::Database`] when it cannot be read for a reason other than damage.
    pub fn inspect(file: &Path) -> Result<IndexInspection, IndexError> {
        if !file.exists() {
            return Ok(IndexInspection::Absent);
        }
        match schema::open_reader(file)
            .map_err(IndexError::from)
            .and_then(|mut connection| inspect_connection(&mut connection))
        {
            Err(IndexError::Database(error)) if svcfs_sqlite::is_corrupt(&error) => {
                Ok(IndexInspection::Damaged(error.to_string()))
            }
            Err(IndexError::Damaged(reason)) => Ok(IndexInspection::Damaged(reason)),
            outcome => outcome,
        }
    }
}

fn inspect_connection(connection: &mut Connection) -> Result<IndexInspection, IndexError> {
    let connection = connection.transaction()?;
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != schema::SCHEMA {
        return Ok(IndexInspection::Outdated);
    }
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Ok(IndexInspection::Damaged(verdict));
    }
    Ok(IndexInspection::Intact(writer::cursor(&connection)?, Box::new(fingerprint::fingerprint(&connection)?)))
}

#[cfg(test)]
mod tests;
