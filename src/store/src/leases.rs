//! `leases.db`: what clients of one door have for themselves, and until when.
//!
//! One rule: this file only remembers. Whom a lease binds, and what it means to a client, is said above.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rusqlite::Connection;
use svcfs_base::{Protocol, TreePath};

use crate::StoreError;

const SCHEMA: i32 = 1;

/// A file or folder that a client of one door has for itself for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What tells it from others; whoever names it is its holder.
    pub token: String,
    /// The file or folder. Of a folder: which names are in it.
    pub path: TreePath,
    /// Everything below, too.
    pub is_deep: bool,
    /// Others may have one of this kind beside it.
    pub is_shared: bool,
    /// The door whose clients it is for, and who asks for it there.
    pub protocol: Protocol,
    /// Who has it, as they are known at that door.
    pub holder: String,
    /// What the door keeps with it.
    pub note: String,
    /// When it ends by itself.
    pub expires_at: SystemTime,
}

/// The file, which is made when there is something to remember.
pub struct LeaseFile {
    file: PathBuf,
    connection: Mutex<Option<Connection>>,
}

impl LeaseFile {
    /// The file of a space, and what it remembers. One that cannot be read is told to the log and begun anew: leases end by themselves, and a
    /// space must not stay closed for them.
    ///
    /// # Errors
    /// [`StoreError`] when a damaged file cannot be removed.
    pub fn open(file: &Path) -> Result<(Self, Vec<Lease>), StoreError> {
        let new = |connection| Self { file: file.to_owned(), connection: Mutex::new(connection) };
        if !file.exists() {
            return Ok((new(None), Vec::new()));
        }
        let opened = connect(file).and_then(|connection| Ok((all(&connection)?, connection)));
        match opened {
            Ok((leases, connection)) => Ok((new(Some(connection)), leases)),
            Err(error) => {
                tracing::error!(leases.file = %file.display(), %error, "locks of before cannot be read, and have ended");
                std::fs::remove_file(file)?;
                Ok((new(None), Vec::new()))
            }
        }
    }

    /// Remembers a lease, or what became of it.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn put(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut connection = self.connection.lock();
        let connection = match &mut *connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.file)?),
        };
        let until = lease.expires_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        connection.prepare_cached("INSERT OR REPLACE INTO leases VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?.execute(
            (
                &lease.token,
                lease.path.as_str(),
                lease.is_deep,
                lease.is_shared,
                lease.protocol.name(),
                &lease.holder,
                &lease.note,
                i64::try_from(until.as_millis()).unwrap_or(i64::MAX),
            ),
        )?;
        Ok(())
    }

    /// Forgets a lease.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn remove(&self, token: &str) -> Result<(), StoreError> {
        if let Some(connection) = &*self.connection.lock() {
            connection.execute("DELETE FROM leases WHERE token = ?1", [token])?;
        }
        Ok(())
    }
}

fn connect(file: &Path) -> Result<Connection, StoreError> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    // Of few rows, each written seldom: a journal beside the file would only be one more to look after.
    connection.pragma_update_and_check(None, "journal_mode", "TRUNCATE", |_| Ok(()))?;
    let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match version {
        SCHEMA => {}
        0 => {
            let transaction = connection.transaction()?;
            transaction.execute_batch(
                "CREATE TABLE leases (token TEXT PRIMARY KEY, path TEXT NOT NULL, is_deep INTEGER NOT NULL,
                 is_shared INTEGER NOT NULL, door TEXT NOT NULL, holder TEXT NOT NULL, note TEXT NOT NULL,
                 until INTEGER NOT NULL) STRICT, WITHOUT ROWID",
            )?;
            transaction.pragma_update(None, "user_version", SCHEMA)?;
            transaction.commit()?;
        }
        other => {
            return Err(StoreError::Damaged(format!("leases.db has version {other}, this program knows {SCHEMA}")));
        }
    }
    Ok(connection)
}

/// What is remembered and makes sense.
fn all(connection: &Connection) -> Result<Vec<Lease>, StoreError> {
    let mut statement =
        connection.prepare("SELECT token, path, is_deep, is_shared, door, holder, note, until FROM leases")?;
    let mut rows = statement.query([])?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        let (path, protocol, until): (String, String, i64) = (row.get(1)?, row.get(4)?, row.get(7)?);
        let (Ok(path), Some(protocol)) = (TreePath::parse(&path), Protocol::parse(&protocol)) else { continue };
        leases.push(Lease {
            token: row.get(0)?,
            path,
            is_deep: row.get(2)?,
            is_shared: row.get(3)?,
            protocol,
            holder: row.get(5)?,
            note: row.get(6)?,
            expires_at: SystemTime::UNIX_EPOCH + Duration::from_millis(until.max(0).cast_unsigned()),
        });
    }
    Ok(leases)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(token: &str, path: &str) -> Lease {
        Lease {
            token: token.to_owned(),
            path: TreePath::parse(path).unwrap(),
            is_deep: true,
            is_shared: false,
            protocol: Protocol::WebDav,
            holder: "ann".to_owned(),
            note: "<owner/>".to_owned(),
            expires_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000),
        }
    }

    #[test]
    fn what_is_remembered_is_there_when_the_file_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("leases.db");
        let (leases, known) = LeaseFile::open(&file).unwrap();
        assert!(known.is_empty() && !file.exists());
        leases.put(&lease("one", "a.md")).unwrap();
        leases.put(&lease("two", "")).unwrap();
        leases.put(&Lease { expires_at: SystemTime::UNIX_EPOCH, ..lease("one", "a.md") }).unwrap();
        leases.put(&lease("three", "b.md")).unwrap();
        leases.remove("three").unwrap();
        drop(leases);
        let (_, known) = LeaseFile::open(&file).unwrap();
        assert_eq!(known, [Lease { expires_at: SystemTime::UNIX_EPOCH, ..lease("one", "a.md") }, lease("two", "")]);
    }

    #[test]
    fn a_file_that_is_no_database_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("leases.db");
        std::fs::write(&file, "what is this, and how did it come here, one wonders").unwrap();
        let (leases, known) = LeaseFile::open(&file).unwrap();
        assert!(known.is_empty());
        leases.put(&lease("one", "a.md")).unwrap();
    }
}
