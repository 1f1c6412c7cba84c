use svcfs_base::{Timestamp, TreePath};

use crate::pages::tree_path;
use crate::{Index, IndexError};

impl Index {
    /// The most recently changed pages, newest first.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn recent_pages(&self, max: usize) -> Result<Vec<(TreePath, Timestamp)>, IndexError> {
        self.readers.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT path, modified FROM facts ORDER BY modified DESC, path LIMIT ?1")?;
            let mut rows = statement.query([i64::try_from(max).unwrap_or(i64::MAX)])?;
            let mut newest = Vec::new();
            while let Some(row) = rows.next()? {
                let path: String = row.get(0)?;
                let modified = Timestamp::from_microsecond(row.get(1)?)
                    .map_err(|error| IndexError::Damaged(format!("page `{path}`: {error}")))?;
                newest.push((tree_path(&path)?, modified));
            }
            Ok(newest)
        })
    }
}
