//! All pages looked through, some at a time.

use svcfs_base::{Timestamp, TreePath};

use crate::links::{Names, links_of};
use crate::pages::{json, tree_path};
use crate::{Index, IndexError, OutLink};

/// What tells how a page is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct Surveyed {
    /// Where it is.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// Its whole frontmatter; an empty object when there is none or when it cannot be read.
    pub metadata: serde_json::Value,
    /// How many words the body has.
    pub word_count: usize,
    /// When it was last changed.
    pub modified: Timestamp,
    /// Its links, in order.
    pub links: Vec<OutLink>,
}

impl Index {
    /// The next pages in path order behind a place, at most `max` of them; the root begins.
    ///
    /// Each call reads one state of the index: a walk over a large tree lets writers between its steps, and may see some pages as they
    /// were and others as they are.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn survey(&self, behind: &TreePath, max: usize) -> Result<Vec<Surveyed>, IndexError> {
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT path, title, frontmatter, word_count, modified FROM pages WHERE path > ?1 ORDER BY path LIMIT ?2",
            )?;
            let mut rows = statement.query((behind.as_str(), i64::try_from(max).unwrap_or(i64::MAX)))?;
            let (mut pages, mut names) = (Vec::new(), Names::new(connection));
            while let Some(row) = rows.next()? {
                let path: String = row.get(0)?;
                let damaged = |why: &dyn std::fmt::Display| IndexError::Damaged(format!("page `{path}`: {why}"));
                pages.push(Surveyed {
                    metadata: json(&row.get::<_, String>(2)?, &path)?,
                    title: row.get(1)?,
                    word_count: usize::try_from(row.get::<_, i64>(3)?).map_err(|error| damaged(&error))?,
                    modified: Timestamp::from_microsecond(row.get(4)?).map_err(|error| damaged(&error))?,
                    links: Vec::new(),
                    path: tree_path(&path)?,
                });
            }
            for page in &mut pages {
                page.links = links_of(&mut names, &page.path)?;
            }
            Ok(pages)
        })
    }

    /// The pages that were changed last, newest first.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn newest(&self, max: usize) -> Result<Vec<(TreePath, Timestamp)>, IndexError> {
        self.readers.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT path, modified FROM pages ORDER BY modified DESC, path LIMIT ?1")?;
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
