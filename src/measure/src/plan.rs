//! How much of everything is done.

use std::path::PathBuf;
use std::time::Duration;

use crate::pages::PageTree;
use crate::series::RoundBound;

/// The extent of a run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// The generated tree.
    pub pages: PageTree,
    /// How often every row of writing is measured.
    pub rounds: usize,
    /// One round of most rows.
    pub short_round: RoundBound,
    /// One round of creating pages, also on the mount, where a close is answered faster than it is committed: few enough for the
    /// queue behind it to stay short.
    pub creation_round: RoundBound,
    /// One round of the crowd: long enough for what the server puts off to happen in it.
    pub long_round: RoundBound,
    /// Commits there must be before history is weighed; more are written when the rounds made fewer.
    pub min_commits: usize,
    /// Pages of one bulk write.
    pub bulk_pages: usize,
    /// Bulk writes in one round.
    pub bulk_round: RoundBound,
    /// Pages that `cp -r` copies in one round.
    pub copy_pages: usize,
    /// How long the server does nothing before the next row begins; what it puts off comes a second after the last write.
    pub idle_time: Duration,
    /// Searches for each question.
    pub search_round: RoundBound,
    /// `grep` runs for each question.
    pub grep_round: RoundBound,
    /// The archive of the corpus that is searched; the generated tree when there is none.
    pub corpus: Option<PathBuf>,
}
