//! `views.db`: how often published pages were read.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use svcfs_base::TreePath;

use crate::StoreError;
use crate::sqlite_file::{SqliteFile, SqliteFormat};

const FORMAT: SqliteFormat = SqliteFormat {
    name: "views.db",
    version: 1,
    tables: "CREATE TABLE IF NOT EXISTS views (path TEXT PRIMARY KEY, views INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    // Written in batches: a WAL file would be one more file to manage.
    journal: "TRUNCATE",
};

/// The file; it is created with the first count.
pub struct ViewCountFile(SqliteFile);

impl ViewCountFile {
    /// Opens the file of a space and reads its counts. A damaged file is logged and set aside.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be read for another reason, and when a damaged one
    /// cannot be renamed.
    pub fn open(file: &Path) -> Result<(Self, BTreeMap<TreePath, u64>), StoreError> {
        let consequence = "the views of published pages are counted from 0";
        let (database, counts) = SqliteFile::open_or_set_aside(file, &FORMAT, read_all, consequence)?;
        Ok((Self(database), counts))
    }

    /// Stores counts, all or none; without a count, removes the page.
    ///
    /// # Errors
    /// [`StoreError`] of the database; nothing has changed then.
    pub fn write(&self, counts: &[(TreePath, Option<u64>)]) -> Result<(), StoreError> {
        self.0.in_transaction(|transaction| {
            let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO views VALUES (?1, ?2)")?;
            let mut remove = transaction.prepare_cached("DELETE FROM views WHERE path = ?1")?;
            for (path, count) in counts {
                match count {
                    Some(count) => put.execute((path.as_str(), i64::try_from(*count).unwrap_or(i64::MAX)))?,
                    None => remove.execute([path.as_str()])?,
                };
            }
            Ok(())
        })
    }
}

/// Reads all counts; rows with an invalid path are skipped.
fn read_all(connection: &Connection) -> Result<BTreeMap<TreePath, u64>, StoreError> {
    let mut statement = connection.prepare("SELECT path, views FROM views")?;
    let mut rows = statement.query([])?;
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if let Ok(path) = TreePath::parse(&row.get::<_, String>(0)?) {
            counts.insert(path, row.get::<_, i64>(1)?.max(0).cast_unsigned());
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_a_reopen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("views.db");
        let path = |text: &str| TreePath::parse(text).unwrap();
        let (counts, stored) = ViewCountFile::open(&file).unwrap();
        assert!(stored.is_empty() && !file.exists());
        counts.write(&[(path("a.md"), Some(3)), (path("b.md"), Some(1))]).unwrap();
        counts.write(&[(path("a.md"), Some(4)), (path("b.md"), None)]).unwrap();
        drop(counts);
        assert_eq!(ViewCountFile::open(&file).unwrap().1, BTreeMap::from([(path("a.md"), 4)]));
    }
}
