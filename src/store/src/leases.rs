//! `leases.db`: which client of a protocol has exclusive use of a path, and until when.
//!
//! Invariant: this file only stores leases. The protocols decide what a lease means and enforce it.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use svcfs_base::{Protocol, TreePath};

use crate::StoreError;
use crate::sqlite_file::{SqliteFile, SqliteFormat};

const FORMAT: SqliteFormat = SqliteFormat {
    name: "leases.db",
    version: 1,
    tables: "CREATE TABLE IF NOT EXISTS leases (token TEXT PRIMARY KEY, path TEXT NOT NULL, is_deep INTEGER NOT NULL,
             is_shared INTEGER NOT NULL, door TEXT NOT NULL, holder TEXT NOT NULL, note TEXT NOT NULL,
             until INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    // Few rows, rarely written: a WAL file would be one more file to manage.
    journal: "TRUNCATE",
};

/// The exclusive or shared use of a file or folder by a client of a protocol, for a limited time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Identifies the lease; a client that presents it is the holder.
    pub token: String,
    /// The file or folder. A lease on a folder protects the names in it.
    pub path: TreePath,
    /// Whether everything below is included.
    pub is_deep: bool,
    /// Whether other shared leases may exist beside it.
    pub is_shared: bool,
    /// The protocol of the client.
    pub protocol: Protocol,
    /// The holder, as the protocol identifies clients.
    pub holder: String,
    /// Data of the protocol.
    pub note: String,
    /// When it expires.
    pub expires_at: SystemTime,
}

/// The file; it is created with the first lease.
/// Methods fail with an error of the database unless they say otherwise.
pub struct LeaseFile(SqliteFile);

impl LeaseFile {
    /// Opens the file of a space and reads its leases. A damaged file is logged and set aside:
    /// leases expire anyway, and a space must open without them.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, such as a lock or an I/O
    /// error, and when a damaged one cannot be renamed.
    pub fn open(file: &Path) -> Result<(Self, Vec<Lease>), StoreError> {
        let consequence = "WebDAV clients must lock again";
        let (database, leases) = SqliteFile::open_or_set_aside(file, &FORMAT, read_all, consequence)?;
        Ok((Self(database), leases))
    }

    /// Stores a new or changed lease.
    pub fn put(&self, lease: &Lease) -> Result<(), StoreError> {
        let expires_at = lease.expires_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.0.in_transaction(|transaction| {
            let sql = "INSERT OR REPLACE INTO leases VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            transaction.prepare_cached(sql)?.execute((
                &lease.token,
                lease.path.as_str(),
                lease.is_deep,
                lease.is_shared,
                lease.protocol.name(),
                &lease.holder,
                &lease.note,
                i64::try_from(expires_at.as_millis()).unwrap_or(i64::MAX),
            ))?;
            Ok(())
        })
    }

    /// Removes a lease.
    pub fn remove(&self, token: &str) -> Result<(), StoreError> {
        self.0.with_open(|connection| Ok(connection.execute("DELETE FROM leases WHERE token = ?1", [token])?)).map(drop)
    }
}

/// Reads all leases; invalid rows are skipped.
fn read_all(connection: &Connection) -> Result<Vec<Lease>, StoreError> {
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
    fn a_lease_file_that_is_no_database_is_recreated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("leases.db");
        std::fs::write(&file, "what is this, and how did it come here, one wonders").unwrap();
        let (leases, known) = LeaseFile::open(&file).unwrap();
        assert!(known.is_empty());
        leases.put(&lease("one", "a.md")).unwrap();
    }
}
