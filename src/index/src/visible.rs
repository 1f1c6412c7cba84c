//! The pages that exist for a query whose readers may see only some.

use std::collections::HashSet;
use std::sync::Arc;

use svcfs_base::TreePath;

/// A set of pages. A query that is limited to it sees neither rows nor links of other pages.
#[derive(Debug, Default)]
pub struct VisiblePages {
    paths: HashSet<String>,
    /// The same as a JSON list, for SQL.
    list: String,
}

impl VisiblePages {
    /// The set of these pages.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p TreePath>) -> Self {
        let paths: HashSet<String> = paths.into_iter().map(ToString::to_string).collect();
        let list = serde_json::to_string(&paths).unwrap_or_else(|_| "[]".to_owned());
        Self { paths, list }
    }

    /// Whether a page is in the set.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    pub(crate) fn list(&self) -> &str {
        &self.list
    }
}

/// The pages of a query: those below a folder, and in a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageScope<'a> {
    pub(crate) folder: Option<&'a TreePath>,
    pub(crate) visible: Option<&'a Arc<VisiblePages>>,
}

impl PageScope<'_> {
    pub(crate) fn includes(&self, path: &TreePath) -> bool {
        self.folder.is_none_or(|folder| path.is_under(folder))
            && self.visible.is_none_or(|visible| visible.contains(path.as_str()))
    }
}
