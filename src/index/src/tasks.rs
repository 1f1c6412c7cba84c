//! Pages by their status (contract 4.6, GET /eligible).

use svcfs_base::TreePath;

use crate::pages::{json, range_below, tree_path};
use crate::{Index, IndexError, MetaRow};

/// Pages of a status. The text is looked through before it is read as JSON: most pages have no status at all.
const WITH_STATUS: &str = "
    SELECT path, title, frontmatter FROM pages
    WHERE (path = ?1 OR (path > ?2 AND path < ?3))
      AND frontmatter LIKE '%\"status\"%' AND lower(trim(json_extract(frontmatter, '$.status'))) = ?4
    ORDER BY path";

impl Index {
    /// The pages at or below a place whose `status` is this one, in any case, in path order. `status` is given in lower case.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn with_status(&self, status: &str, below: &TreePath) -> Result<Vec<MetaRow>, IndexError> {
        self.readers.read(|connection| {
            let (from, to) = range_below(below);
            let mut statement = connection.prepare_cached(WITH_STATUS)?;
            let mut rows = statement.query((below.as_str(), from, to, status))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let path: String = row.get(0)?;
                let metadata = json(&row.get::<_, String>(2)?, &path)?;
                found.push(MetaRow { metadata, path: tree_path(&path)?, title: row.get(1)? });
            }
            Ok(found)
        })
    }
}
