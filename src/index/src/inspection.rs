//! An index looked at from outside, as it is: opening it would make a damaged or outdated one anew.

use std::path::Path;

use rusqlite::Connection;
use svcfs_base::Seq;

use crate::{Index, IndexError, IndexFingerprint, fingerprint, schema, writer};

/// What a file of an index is found to be.
#[derive(Debug)]
pub enum IndexInspection {
    /// There is none.
    Absent,
    /// It is damaged, in SQLite's words.
    Damaged(String),
    /// It is of another version of svcfs, or was not filled to its end.
    Outdated,
    /// It is whole: up to which position of the log it reflects the tree, and what is in it.
    Intact(Seq, Box<IndexFingerprint>),
}

impl Index {
    /// Reads all of an index without changing it.
    ///
    /// # Errors
    /// [`IndexError::Database`] when it cannot be read for another reason than damage.
    pub fn inspect(file: &Path) -> Result<IndexInspection, IndexError> {
        if !file.exists() {
            return Ok(IndexInspection::Absent);
        }
        match schema::open_reader(file).map_err(IndexError::from).and_then(|mut connection| look(&mut connection)) {
            Err(IndexError::Database(error)) if schema::is_corrupt(&error) => {
                Ok(IndexInspection::Damaged(error.to_string()))
            }
            Err(IndexError::Damaged(what)) => Ok(IndexInspection::Damaged(what)),
            outcome => outcome,
        }
    }
}

fn look(connection: &mut Connection) -> Result<IndexInspection, IndexError> {
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
