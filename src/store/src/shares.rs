//! `shares.db`: links that show one page to others without credentials.
//!
//! Invariant: neither tokens nor passwords are stored, only their hashes; so the file is no version
//! in the tree.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction};
use svcfs_base::{Actor, Seq, Timestamp, TreePath};

use crate::StoreError;
use crate::sqlite_file::{SqliteFile, SqliteFormat};

const FORMAT: SqliteFormat = SqliteFormat {
    name: "shares.db",
    version: 1,
    tables:
        "CREATE TABLE IF NOT EXISTS shares (id TEXT PRIMARY KEY, path TEXT NOT NULL, token_hash BLOB NOT NULL UNIQUE,
             password_hash TEXT, created_by TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER,
             views INTEGER NOT NULL) STRICT, WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS followed (id INTEGER PRIMARY KEY CHECK (id = 0), seq INTEGER NOT NULL) STRICT",
    // Few rows, rarely written: a WAL file would be one more file to manage.
    journal: "TRUNCATE",
};

/// A link to one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Identifies it to those who may change the page.
    pub id: String,
    /// The page.
    pub path: TreePath,
    /// SHA-256 of the token in the link.
    pub token_hash: [u8; 32],
    /// The password as a PHC string; none if there is no password.
    pub password_hash: Option<String>,
    /// Who created it.
    pub created_by: Actor,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ends; none if never.
    pub expires_at: Option<Timestamp>,
    /// How often the page was shown through it.
    pub views: u64,
}

/// A change of the stored shares.
#[derive(Debug, Clone)]
pub enum ShareWrite {
    /// A new or changed share.
    Put(Share),
    /// The end of the share with this id.
    Remove(String),
    /// The changes up to this position of the feed are applied to the shares.
    Followed(Seq),
}

/// The stored shares.
#[derive(Debug, Default)]
pub struct StoredShares {
    /// In the order of their ids.
    pub shares: Vec<Share>,
    /// The position of the feed up to which they follow their pages.
    pub followed: Seq,
}

/// The file; it is created with the first share.
pub struct ShareFile(SqliteFile);

impl ShareFile {
    /// Opens the file of a space and reads its shares. A damaged file is logged and set aside: a
    /// space must open without it, and its links answer 404.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, such as a lock or an I/O
    /// error, and when a damaged one cannot be renamed.
    pub fn open(file: &Path) -> Result<(Self, StoredShares), StoreError> {
        let consequence = "its links answer 404; share the pages again";
        let (database, stored) = SqliteFile::open_or_set_aside(file, &FORMAT, read_all, consequence)?;
        Ok((Self(database), stored))
    }

    /// Makes changes, all or none.
    ///
    /// # Errors
    /// [`StoreError`] of the database; nothing has changed then.
    pub fn write(&self, writes: &[ShareWrite]) -> Result<(), StoreError> {
        self.0.in_transaction(|transaction| writes.iter().try_for_each(|write| apply(transaction, write)))
    }
}

fn apply(transaction: &Transaction<'_>, write: &ShareWrite) -> Result<(), StoreError> {
    match write {
        ShareWrite::Put(share) => {
            let sql = "INSERT OR REPLACE INTO shares VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            transaction.prepare_cached(sql)?.execute((
                &share.id,
                share.path.as_str(),
                share.token_hash,
                &share.password_hash,
                share.created_by.as_str(),
                share.created_at.as_microsecond(),
                share.expires_at.map(Timestamp::as_microsecond),
                i64::try_from(share.views).unwrap_or(i64::MAX),
            ))?;
        }
        ShareWrite::Remove(id) => {
            transaction.prepare_cached("DELETE FROM shares WHERE id = ?1")?.execute([id])?;
        }
        ShareWrite::Followed(seq) => {
            let seq = i64::try_from(seq.0).unwrap_or(i64::MAX);
            transaction.prepare_cached("INSERT OR REPLACE INTO followed VALUES (0, ?1)")?.execute([seq])?;
        }
    }
    Ok(())
}

/// Reads all shares; rows with an invalid path or time are skipped.
fn read_all(connection: &Connection) -> Result<StoredShares, StoreError> {
    let followed = connection.query_row("SELECT seq FROM followed", [], |row| row.get::<_, i64>(0)).optional()?;
    let mut statement = connection
        .prepare("SELECT id, path, token_hash, password_hash, created_by, created_at, expires_at, views FROM shares")?;
    let mut rows = statement.query([])?;
    let mut shares = Vec::new();
    while let Some(row) = rows.next()? {
        let expires_at = row.get::<_, Option<i64>>(6)?.map(Timestamp::from_microsecond).transpose();
        let created_at = Timestamp::from_microsecond(row.get(5)?);
        let path = TreePath::parse(&row.get::<_, String>(1)?);
        let (Ok(path), Ok(created_at), Ok(expires_at)) = (path, created_at, expires_at) else { continue };
        shares.push(Share {
            id: row.get(0)?,
            path,
            token_hash: row.get(2)?,
            password_hash: row.get(3)?,
            created_by: Actor::new(&row.get::<_, String>(4)?),
            created_at,
            expires_at,
            views: row.get::<_, i64>(7)?.max(0).cast_unsigned(),
        });
    }
    Ok(StoredShares { shares, followed: Seq(followed.unwrap_or(0).max(0).cast_unsigned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(id: &str, expires_at: Option<i64>) -> Share {
        Share {
            id: id.to_owned(),
            path: TreePath::parse("a/b.md").unwrap(),
            token_hash: [id.as_bytes()[0]; 32],
            password_hash: expires_at.map(|_| "$argon2id$x".to_owned()),
            created_by: Actor::new("ann"),
            created_at: Timestamp::from_second(1_800_000_000).unwrap(),
            expires_at: expires_at.map(|second| Timestamp::from_second(second).unwrap()),
            views: 7,
        }
    }

    #[test]
    fn shares_survive_a_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shares.db");
        let (shares, stored) = ShareFile::open(&file).unwrap();
        assert!(stored.shares.is_empty() && !file.exists());
        let puts = [share("a", None), share("b", Some(1_900_000_000)), share("c", None)].map(ShareWrite::Put);
        shares.write(&puts).unwrap();
        shares.write(&[ShareWrite::Remove("c".to_owned()), ShareWrite::Remove("none".to_owned())]).unwrap();
        shares.write(&[ShareWrite::Followed(Seq(3)), ShareWrite::Followed(Seq(4))]).unwrap();
        drop(shares);
        let stored = ShareFile::open(&file).unwrap().1;
        assert_eq!(stored.shares, [share("a", None), share("b", Some(1_900_000_000))]);
        assert_eq!(stored.followed, Seq(4));
    }

    #[test]
    fn a_file_of_an_earlier_program_gets_the_missing_table() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shares.db");
        let (shares, _) = ShareFile::open(&file).unwrap();
        shares.write(&[ShareWrite::Put(share("a", None))]).unwrap();
        drop(shares);
        Connection::open(&file).unwrap().execute("DROP TABLE followed", []).unwrap();
        let (shares, stored) = ShareFile::open(&file).unwrap();
        assert_eq!((stored.shares, stored.followed), (vec![share("a", None)], Seq(0)));
        shares.write(&[ShareWrite::Followed(Seq(3))]).unwrap();
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shares.db");
        std::fs::write(&file, "not a database, but long enough to be one".repeat(100)).unwrap();
        let (shares, stored) = ShareFile::open(&file).unwrap();
        assert!(stored.shares.is_empty());
        shares.write(&[ShareWrite::Put(share("a", None))]).unwrap();
        assert_eq!(ShareFile::open(&file).unwrap().1.shares.len(), 1);
    }
}
