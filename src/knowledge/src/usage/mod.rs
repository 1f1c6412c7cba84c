//! Usage statistics: which pages are read, and what is searched for.
//!
//! Invariant: counting never blocks a reader or makes a request fail. A task writes the counts
//! later.

mod operations;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use svcfs_base::{Clock, TreePath};
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::{OperationContext, Space};

pub use operations::AREA;

const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Counts a view of a page.
pub fn record_view(cx: &OperationContext<'_>, path: &TreePath) {
    if path.is_page() && cx.space.vfs.hidden_files().lists(path) {
        cx.space.usage.record_view(path, cx.caller.protocol.name(), cx.now());
    }
}

/// A kind of search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchType {
    /// `search`
    #[default]
    Search,
    /// `search_verified`
    Verified,
    /// `search_semantic` and `recall`
    Semantic,
}

impl SearchType {
    /// Its name in the statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Verified => "verified",
            Self::Semantic => "semantic",
        }
    }
}

/// Counts a search of a kind.
pub fn record_search(cx: &OperationContext<'_>, query: &str, kind: SearchType, has_results: bool) {
    cx.space.usage.record_search(query, kind.name(), has_results, cx.now());
}

/// The task that writes the counts of one space.
pub struct UsageWriter {
    space: Arc<Space>,
    clock: Arc<dyn Clock>,
}

impl UsageWriter {
    /// The writer of a space.
    pub fn new(space: Arc<Space>, clock: Arc<dyn Clock>) -> Self {
        Self { space, clock }
    }
}

impl Task for UsageWriter {
    const NAME: &'static str = "usage";
    fn step(&mut self, _stop: &StopToken) -> Result<NextStep, TaskFailure> {
        self.space.usage.flush(self.clock.now())?;
        Ok(NextStep::After(WRITE_INTERVAL))
    }
}
