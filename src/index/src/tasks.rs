use svcfs_base::TreePath;

use crate::pages::range_below;
use crate::{Index, IndexError, MetaRow};

/// Pages with a status. LIKE filters the text before it is parsed as JSON: most pages have no
/// status.
const WITH_STATUS: &str = "
    SELECT path, title, frontmatter FROM pages
    WHERE (path = ?1 OR (path > ?2 AND path < ?3))
      AND frontmatter LIKE '%\"status\"%' AND lower(trim(json_extract(frontmatter, '$.status'))) = ?4
    ORDER BY path";

impl Index {
    /// The pages at or below a path with this `status`, given in lower case, in path order.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn pages_with_status(&self, status: &str, below: &TreePath) -> Result<Vec<MetaRow>, IndexError> {
        self.readers.read(|connection| {
            let (from, to) = range_below(below);
            let mut statement = connection.prepare_cached(WITH_STATUS)?;
            let mut rows = statement.query((below.as_str(), from, to, status))?;
            let mut matches = Vec::new();
            while let Some(row) = rows.next()? {
                matches.push(MetaRow::of(row)?);
            }
            Ok(matches)
        })
    }
}
