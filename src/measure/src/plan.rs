//! Extent of a run.

use std::path::PathBuf;
use std::time::Duration;

use crate::pages::PageTree;
use crate::series::RoundBound;

/// Extent of a run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// The generated tree.
    pub pages: PageTree,
    /// Number of rounds of every writing row.
    pub rounds: usize,
    /// One round of most rows.
    pub short_round: RoundBound,
    /// One round of page creation. Few enough that the commit queue stays short: on the mount,
    /// `close` returns before the commit.
    pub creation_round: RoundBound,
    /// One round of concurrent writers; long enough to include deferred work of the server.
    pub long_round: RoundBound,
    /// Minimum number of commits before the history is measured; more are written if needed.
    pub min_commits: usize,
    /// Pages per bulk write.
    pub bulk_pages: usize,
    /// Bulk writes per round.
    pub bulk_round: RoundBound,
    /// Pages that `cp -r` copies per round.
    pub copy_pages: usize,
    /// Idle time of the server before the next row; its deferred work starts one second after the
    /// last write.
    pub idle_time: Duration,
    /// Searches per question.
    pub search_round: RoundBound,
    /// `grep` runs per question.
    pub grep_round: RoundBound,
    /// Archive of the corpus to search; the generated tree if none.
    pub corpus: Option<PathBuf>,
}
