//! `[search]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How pages are found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// What answers full-text queries.
    pub engine: Engine,
}

/// What answers full-text queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// An index in `.svc/state/index.db`, ranked by BM25; it can be deleted at any time.
    #[default]
    Sqlite,
    /// A regular expression held against every page at each question: slower the larger the tree, in path order, and without trust,
    /// did-you-mean and `/eval`. Links and frontmatter are kept in `.svc/state/index.db` all the same.
    Grep,
}
