//! Pages in a workflow.

use rusqlite::Row;
use svcfs_base::{Timestamp, TreePath};

use crate::pages::tree_path;
use crate::words::{Dictionary, TextWords};
use crate::{Index, IndexError, field_words, fields};

/// Frontmatter key: the workflow of a page.
const WORKFLOW_KEY: &str = "workflow";
/// Frontmatter key: the state of a page in its workflow.
const STATE_KEY: &str = "state";

const SELECT: &str = "SELECT path, title, excerpt, modified, frontmatter FROM pages";

/// A page that may be in a workflow.
#[derive(Debug, Clone)]
pub struct WorkflowPage {
    /// Its path.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// Its first paragraph without markup.
    pub excerpt: String,
    /// Time of the last change.
    pub modified: Timestamp,
    /// Its frontmatter, as JSON: a caller parses only the keys it needs.
    pub frontmatter: String,
}

impl Index {
    /// The pages with this `workflow` and, if given, this `state`, in path order. The values are
    /// compared by their words, so other pages may be among them.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn workflow_pages(&self, workflow: &str, state: Option<&str>) -> Result<Vec<WorkflowPage>, IndexError> {
        let values = [Some((WORKFLOW_KEY, workflow)), state.map(|state| (STATE_KEY, state))];
        let query = values.into_iter().flatten().flat_map(|(key, value)| value_tokens(key, value)).collect::<Vec<_>>();
        self.readers.read(|connection| {
            let mut statement = connection
                .prepare_cached(&format!("{SELECT} WHERE id IN (SELECT rowid FROM texts WHERE texts MATCH ?1)"))?;
            let mut rows = statement.query([format!("{{fields}} : ({})", query.join(" AND "))])?;
            let mut pages = Vec::new();
            while let Some(row) = rows.next()? {
                pages.push(WorkflowPage::of(row)?);
            }
            pages.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            Ok(pages)
        })
    }

    /// One page, as [`workflow_pages`](Self::workflow_pages) lists it; none if it does not exist.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn workflow_page(&self, path: &TreePath) -> Result<Option<WorkflowPage>, IndexError> {
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(&format!("{SELECT} WHERE path = ?1"))?;
            let mut rows = statement.query([path.as_str()])?;
            rows.next()?.map(WorkflowPage::of).transpose()
        })
    }

    /// The present generation of the index, and the paths that were written since an earlier one;
    /// none if these are not known.
    pub fn changes_since(&self, generation: Option<u64>) -> (u64, Option<Vec<TreePath>>) {
        self.changes.since(generation)
    }
}

impl WorkflowPage {
    fn of(row: &Row<'_>) -> Result<Self, IndexError> {
        let path: String = row.get(0)?;
        let modified = Timestamp::from_microsecond(row.get(3)?)
            .map_err(|error| IndexError::Damaged(format!("page `{path}`: {error}")))?;
        let (title, excerpt, frontmatter) = (row.get(1)?, row.get(2)?, row.get(4)?);
        Ok(Self { path: tree_path(&path)?, title, excerpt, modified, frontmatter })
    }
}

/// Quoted full-text tokens that every page with this value has.
fn value_tokens(key: &str, value: &str) -> Vec<String> {
    let words = TextWords::of(value, &mut Dictionary::default());
    let tokens = words.terms().map(|word| format!("\"{}\"", field_words::token(key, word).replace('"', "\"\"")));
    fields::presence_token(key).into_iter().chain(tokens).collect()
}
