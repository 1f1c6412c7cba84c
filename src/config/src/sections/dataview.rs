//! `[dataview]`

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest time that a query may be allowed.
const LONGEST: Duration = Duration::from_secs(600);

/// What queries may do, and what they know beside frontmatter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DataviewConfig {
    /// How many pages, items or tasks one query may look at one by one; what the index answers by itself is not looked at. A query that reaches the
    /// bound answers with what it found, and says so (`truncated`).
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_scan_rows: usize,
    /// How long one query may take, such as `5s` or `500ms`; 10 minutes at most. What takes longer is refused.
    pub query_timeout: String,
    /// How many fields may have an index of their own; one appears when queries keep asking for a field. 0 for none.
    #[schemars(range(min = 0, max = 1_000))]
    pub max_auto_indexes: usize,
    /// Whether pages have `_word_count`, `_link_count`, `_heading_count`, `_backlink_count`, `_has_frontmatter` and `_size`.
    pub computed_fields: bool,
    /// Fields that every page has beside its frontmatter: each name with the expression it is made by. What a page itself says under
    /// that name goes first.
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

/// What queries may do, and what they know beside frontmatter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataviewSettings {
    /// How many pages one query may look at one by one.
    pub max_scan_rows: usize,
    /// How long one query may take.
    pub query_timeout: Duration,
    /// How many fields may have an index of their own.
    pub max_auto_indexes: usize,
    /// Whether pages have `_word_count` and its like.
    pub computed_fields: bool,
    /// The expression of each field that pages have beside their frontmatter; whoever opens a space finds out whether it is one.
    pub custom_fields: BTreeMap<String, String>,
}

impl DataviewConfig {
    /// Decides how long a query may take.
    pub(crate) fn resolve(self) -> Result<DataviewSettings, &'static str> {
        let Self { max_scan_rows, query_timeout, max_auto_indexes, computed_fields, custom_fields } = self;
        let duration =
            query_timeout.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
        let query_timeout = duration
            .filter(|duration| !duration.is_zero() && *duration <= LONGEST)
            .ok_or("must be a time such as \"5s\" or \"500ms\", above 0 and at most 10 minutes")?;
        Ok(DataviewSettings { max_scan_rows, query_timeout, max_auto_indexes, computed_fields, custom_fields })
    }
}
