//! `claims.db`: which actor has claimed a page, until when, and the last fence number.
//!
//! Invariant: fence numbers never go back, not even when the file is lost: without a last one, the
//! first is the current Unix time in milliseconds, more than there can have been claims.

use std::path::Path;

use rusqlite::{Connection, Transaction};
use svcfs_base::{Actor, Claim, Timestamp, TreePath};

use crate::StoreError;
use crate::sqlite_file::{SqliteFile, SqliteFormat};

const FORMAT: SqliteFormat = SqliteFormat {
    name: "claims.db",
    version: 1,
    tables:
        "CREATE TABLE IF NOT EXISTS claims (path TEXT PRIMARY KEY, holder TEXT NOT NULL, claimed_at INTEGER NOT NULL,
             expires_at INTEGER NOT NULL, fence INTEGER NOT NULL, attempt INTEGER NOT NULL) STRICT, WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS fences (last INTEGER NOT NULL) STRICT;
             INSERT INTO fences SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM fences);",
    // One flush per transaction; any other journal needs three.
    journal: "WAL",
};

/// What the file contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StoredClaims {
    /// All claims, lapsed ones included.
    pub claims: Vec<Claim>,
    /// The last fence number; 0 if none is known.
    pub last_fence: u64,
}

/// A change of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimWrite {
    /// Stores a new or changed claim.
    Put(Claim),
    /// Removes the claim of a page.
    Remove(TreePath),
}

/// The file; it is created with the first claim.
pub struct ClaimFile(SqliteFile);

impl ClaimFile {
    /// Opens the file of a space and reads it. A damaged file is logged and set aside: claims
    /// expire anyway, and a space must open without them.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, such as a lock or an I/O
    /// error, and when a damaged one cannot be renamed.
    pub fn open(file: &Path) -> Result<(Self, StoredClaims), StoreError> {
        let consequence = "actors must claim their pages again";
        let (database, stored) = SqliteFile::open_or_set_aside(file, &FORMAT, read_all, consequence)?;
        Ok((Self(database), stored))
    }

    /// Makes changes in one transaction, with one flush.
    ///
    /// # Errors
    /// [`StoreError`] of the database; nothing has changed then.
    pub fn write(&self, writes: &[ClaimWrite]) -> Result<(), StoreError> {
        self.0.in_transaction(|transaction| writes.iter().try_for_each(|write| apply(transaction, write)))
    }

    /// Reads the file again, after a failed write.
    ///
    /// # Errors
    /// [`StoreError`] of the database.
    pub fn read(&self) -> Result<StoredClaims, StoreError> {
        Ok(self.0.with_open(read_all)?.unwrap_or_default())
    }
}

fn apply(transaction: &Transaction<'_>, write: &ClaimWrite) -> Result<(), StoreError> {
    match write {
        ClaimWrite::Put(claim) => {
            let fence = i64::try_from(claim.fence).unwrap_or(i64::MAX);
            transaction.prepare_cached("INSERT OR REPLACE INTO claims VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?.execute((
                claim.path.as_str(),
                claim.claimed_by.as_str(),
                claim.claimed_at.as_microsecond(),
                claim.expires_at.as_microsecond(),
                fence,
                claim.attempt,
            ))?;
            transaction.prepare_cached("UPDATE fences SET last = MAX(last, ?1)")?.execute([fence])?;
        }
        ClaimWrite::Remove(path) => {
            transaction.prepare_cached("DELETE FROM claims WHERE path = ?1")?.execute([path.as_str()])?;
        }
    }
    Ok(())
}

/// Reads everything; invalid rows are skipped.
fn read_all(connection: &Connection) -> Result<StoredClaims, StoreError> {
    let last: i64 = connection.query_row("SELECT last FROM fences", [], |row| row.get(0))?;
    let mut statement =
        connection.prepare("SELECT path, holder, claimed_at, expires_at, fence, attempt FROM claims")?;
    let mut rows = statement.query([])?;
    let mut claims = Vec::new();
    while let Some(row) = rows.next()? {
        let (path, holder): (String, String) = (row.get(0)?, row.get(1)?);
        let (claimed_at, expires_at) = (time(row.get(2)?), time(row.get(3)?));
        let (Ok(path), Some(claimed_at), Some(expires_at)) = (TreePath::parse(&path), claimed_at, expires_at) else {
            continue;
        };
        claims.push(Claim {
            path,
            claimed_by: Actor::new(&holder),
            claimed_at,
            expires_at,
            fence: row.get::<_, i64>(4)?.max(0).cast_unsigned(),
            attempt: row.get(5)?,
        });
    }
    Ok(StoredClaims { claims, last_fence: last.max(0).cast_unsigned() })
}

fn time(microseconds: i64) -> Option<Timestamp> {
    Timestamp::from_microsecond(microseconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn claim(path: &str, fence: u64) -> Claim {
        Claim {
            path: TreePath::parse(path).unwrap(),
            claimed_by: Actor::new("ann"),
            claimed_at: now(),
            expires_at: Timestamp::from_microsecond(1_800_000_060_000_001).unwrap(),
            fence,
            attempt: 2,
        }
    }

    #[test]
    fn claims_and_the_last_fence_survive_a_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("claims.db");
        let (claims, stored) = ClaimFile::open(&file).unwrap();
        assert!(stored == StoredClaims::default() && !file.exists());
        let put = |path, fence| ClaimWrite::Put(claim(path, fence));
        let b = TreePath::parse("b.md").unwrap();
        claims.write(&[put("a.md", 1_800_000_001), put("b.md", 1_800_000_009), ClaimWrite::Remove(b)]).unwrap();
        claims.write(&[put("a.md", 1_800_000_002)]).unwrap();
        assert_eq!(claims.read().unwrap().claims, [claim("a.md", 1_800_000_002)]);
        drop(claims);
        let (_, stored) = ClaimFile::open(&file).unwrap();
        let expected = StoredClaims { claims: vec![claim("a.md", 1_800_000_002)], last_fence: 1_800_000_009 };
        assert_eq!(stored, expected);
    }

    #[test]
    fn a_file_that_cannot_be_opened_now_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("claims.db");
        let (claims, _) = ClaimFile::open(&file).unwrap();
        claims.write(&[ClaimWrite::Put(claim("a.md", 7))]).unwrap();
        drop(claims);
        // A directory where the journal must be created stands for an I/O error.
        std::fs::create_dir_all(folder.path().join("claims.db-wal/x")).unwrap();
        assert!(ClaimFile::open(&file).is_err());
        std::fs::remove_dir_all(folder.path().join("claims.db-wal")).unwrap();
        assert_eq!(ClaimFile::open(&file).unwrap().1.last_fence, 7);
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("claims.db");
        std::fs::write(&file, "not a database, but long enough to be one".repeat(100)).unwrap();
        let (claims, stored) = ClaimFile::open(&file).unwrap();
        assert_eq!(stored, StoredClaims::default());
        claims.write(&[ClaimWrite::Put(claim("a.md", 1_800_000_001))]).unwrap();
        assert_eq!(claims.read().unwrap().last_fence, 1_800_000_001);
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.filter(|name| name.to_string_lossy().contains("damaged")).count(), 1);
    }
}
