//! `[search]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::vector::{VectorConfig, VectorSettings};

/// Full-text search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SearchConfig {
    /// Search engine.
    pub engine: SearchEngine,
    /// When a write returns. `true`: once it is durable; a search waits for earlier writes of its
    /// own client. `false`: once search finds it for every client. `false` affects REST, MCP,
    /// WebDAV and S3; writes through a mount or NFS never wait for the index.
    pub async_index: bool,
    /// Maximum time, in milliseconds, for which the index collects changes before it processes them
    /// as one batch. A search does not wait for this time to see earlier writes of its own client.
    #[schemars(range(min = 0, max = 60_000))]
    pub index_window_ms: u64,
    /// Number of changes that starts a batch early. A batch has at most twice as many.
    #[schemars(range(min = 1, max = 10_000))]
    pub index_batch_max: usize,
    /// Search by meaning.
    pub vector: VectorConfig,
}

/// Validated settings of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// Search engine.
    pub engine: SearchEngine,
    /// Whether a write returns before it is indexed.
    pub async_index: bool,
    /// Maximum time, in milliseconds, for which the index collects changes.
    pub index_window_ms: u64,
    /// Number of changes that starts a batch early.
    pub index_batch_max: usize,
    /// Search by meaning; none if disabled.
    pub vector: Option<VectorSettings>,
}

impl SearchConfig {
    /// The settings. `has_key` says whether the file has a key, and `report` takes a key and a
    /// message.
    pub(crate) fn resolve(
        self,
        has_key: &impl Fn(&str) -> bool,
        report: &mut impl FnMut(&str, &str),
    ) -> SearchSettings {
        let Self { engine, async_index, index_window_ms, index_batch_max, vector } = self;
        let vector = vector.resolve(has_key, report);
        SearchSettings { engine, async_index, index_window_ms, index_batch_max, vector }
    }
}

impl Default for SearchConfig {
    fn default() -> Self {
        let (engine, vector) = Default::default();
        Self { engine, async_index: true, index_window_ms: 200, index_batch_max: 100, vector }
    }
}

/// Search engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchEngine {
    /// An index in `.svc/state/index.db`, ranked by BM25; it can be deleted at any time.
    #[default]
    Sqlite,
    /// A regular expression, matched against every page for each search: slow in large trees,
    /// sorted by path, without trust, did-you-mean and `/eval`. Links and frontmatter are still
    /// indexed in `.svc/state/index.db`.
    Grep,
}
