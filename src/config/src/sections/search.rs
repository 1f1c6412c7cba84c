//! `[search]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How pages are found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchConfig {
    /// What answers full-text queries.
    pub engine: SearchEngine,
    /// When a write is answered. `true`: once it is durable; searches wait for the writes of their own client. `false`: once it can also be
    /// found, by everybody; this holds for REST, MCP, WebDAV and S3, not for the mount and NFS, where programs wait for no index.
    pub async_index: bool,
    /// While changes keep coming, the index takes them in together, at most so many milliseconds after the last time. A search of the client
    /// that made a change does not wait for that.
    #[schemars(range(min = 0, max = 60_000))]
    pub index_window_ms: u64,
    /// When so many changes wait, the window ends. At most twice as many are taken in together.
    #[schemars(range(min = 1, max = 10_000))]
    pub index_batch_max: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { engine: SearchEngine::default(), async_index: true, index_window_ms: 200, index_batch_max: 100 }
    }
}

/// What answers full-text queries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchEngine {
    /// An index in `.svc/state/index.db`, ranked by BM25; it can be deleted at any time.
    #[default]
    Sqlite,
    /// A regular expression held against every page at each question: slower the larger the tree, in path order, and without trust,
    /// did-you-mean and `/eval`. Links and frontmatter are kept in `.svc/state/index.db` all the same.
    Grep,
}
