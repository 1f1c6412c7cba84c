//! `[dataview]`

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MAX_QUERY_TIMEOUT: Duration = Duration::from_secs(600);

/// Limits of queries, and fields in addition to frontmatter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DataviewConfig {
    /// Maximum number of pages, items or tasks that one query reads one by one; results from an
    /// index do not count. A query that reaches the limit returns a partial result with
    /// `truncated`.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_scan_rows: usize,
    /// Maximum duration of a query, such as `5s` or `500ms`; at most 10 minutes. A longer query
    /// fails.
    pub query_timeout: String,
    /// Maximum number of fields with their own index. An index is created when queries often use a
    /// field; 0 disables this.
    #[schemars(range(min = 0, max = 1_000))]
    pub max_auto_indexes: usize,
    /// Add `_word_count`, `_link_count`, `_heading_count`, `_backlink_count`, `_has_frontmatter`
    /// and `_size` to every page.
    pub computed_fields: bool,
    /// Fields of every page in addition to its frontmatter: name and expression. A value of that
    /// name in the page itself takes precedence.
    pub custom_fields: BTreeMap<String, String>,
}

impl Default for DataviewConfig {
    fn default() -> Self {
        Self {
            max_scan_rows: 10_000,
            query_timeout: "5s".to_owned(),
            max_auto_indexes: 20,
            computed_fields: true,
            custom_fields: BTreeMap::new(),
        }
    }
}

/// Validated settings of queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataviewSettings {
    /// Maximum number of pages that one query reads one by one.
    pub max_scan_rows: usize,
    /// Maximum duration of a query.
    pub query_timeout: Duration,
    /// Maximum number of fields with their own index.
    pub max_auto_indexes: usize,
    /// Whether pages have `_word_count` and similar fields.
    pub computed_fields: bool,
    /// Expressions of additional fields; parsed when a space is opened.
    pub custom_fields: BTreeMap<String, String>,
}

impl DataviewConfig {
    pub(crate) fn resolve(self) -> Result<DataviewSettings, &'static str> {
        let Self { max_scan_rows, query_timeout, max_auto_indexes, computed_fields, custom_fields } = self;
        let duration =
            query_timeout.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
        let query_timeout = duration
            .filter(|duration| !duration.is_zero() && *duration <= MAX_QUERY_TIMEOUT)
            .ok_or("must be a time such as \"5s\" or \"500ms\", above 0 and at most 10 minutes")?;
        Ok(DataviewSettings { max_scan_rows, query_timeout, max_auto_indexes, computed_fields, custom_fields })
    }
}
