//! How much of everything is done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::measure::{Bound, bound};

/// The extent of a run.
#[derive(Debug)]
pub struct Plan {
    /// Pages of the generated tree.
    pub pages: usize,
    /// How often every row of writing is measured.
    pub rounds: usize,
    /// One round of most rows.
    pub short: Bound,
    /// One round of creating pages, also on the mount, where a close is answered faster than it is committed: few enough for the
    /// queue behind it to stay short.
    pub creating: Bound,
    /// One round of the crowd: long enough for what the server puts off to happen in it.
    pub long: Bound,
    /// How long the server does nothing before the next row begins; what it puts off comes a second after the last write.
    pub rest: Duration,
    /// Searches for each question.
    pub searches: Bound,
    /// `grep` runs for each question.
    pub greps: Bound,
    /// Commits of the history that is asked about.
    pub commits: usize,
    /// The archive of the corpus that is searched; the generated tree when there is none.
    pub corpus: Option<PathBuf>,
}

impl Plan {
    /// What the table in docs/benchmarks.md is made with.
    pub fn full(corpora: &Path) -> Self {
        let corpus = corpora.join("tldr.tar.xz");
        Self {
            pages: 10_000,
            rounds: 3,
            short: bound(100_000, 3),
            creating: bound(1_000, 3),
            long: bound(1_000_000, 20),
            rest: Duration::from_secs(2),
            searches: bound(2_000, 10),
            greps: bound(10, 10),
            commits: 100_000,
            corpus: corpus.exists().then_some(corpus),
        }
    }

    /// A look that takes a third of a minute.
    pub fn quick() -> Self {
        Self {
            pages: 1_000,
            rounds: 1,
            short: bound(200, 1),
            creating: bound(200, 1),
            long: bound(2_000, 2),
            rest: Duration::from_millis(300),
            searches: bound(100, 1),
            greps: bound(3, 1),
            commits: 3_000,
            corpus: None,
        }
    }
}
