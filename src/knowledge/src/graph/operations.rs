//! The wire shapes of the graph.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, TreePath};

use crate::kernel::{Area, Cx, Entry, Operation, Route};

/// The operations of this area.
pub const AREA: Area = Area { title: "Graph", operations: &[Entry::of::<Backlinks>()] };

/// List the pages that link to a page
///
/// Each with the line the link stands in. A path that no page links to has an empty list, whether it exists or not.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Backlinks {
    /// The page linked to
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

/// A page that links to another one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Backlink {
    /// The page that holds the link
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// The line its first link stands in; a long line is cut around the link
    pub context: String,
}

impl Operation for Backlinks {
    const NAME: &'static str = "backlinks";
    const HTTP: &'static [Route] = &[Route::get("/backlinks")];
    const TOOL: bool = true;
    type Output = Vec<Backlink>;
    fn run(self, cx: &Cx<'_>) -> Result<Vec<Backlink>, Fault> {
        let found = cx.index().backlinks(&self.path)?;
        let shown = |svcfs_index::Backlink { path, title, context }| Backlink { path, title, context };
        Ok(found.into_iter().map(shown).collect())
    }
}
