//! How much of everything is done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use svcfs_measure::pages::PageTree;
use svcfs_measure::plan::RunPlan;
use svcfs_measure::series::{RoundBound, round_bound};

use crate::protocols::Amount;

/// The extent of the long benchmark.
#[derive(Debug)]
pub struct Extent {
    /// What `svcfs bench` does, too.
    pub plan: RunPlan,
    /// One round of a crowd at the committer.
    pub crowd: RoundBound,
    /// Trees that differ in size only; the last is also started again and killed.
    pub sizes: Vec<PageTree>,
    /// Trees as large as the last of those, in larger folders.
    pub folders: Vec<PageTree>,
    /// A tree that takes minutes to begin with.
    pub large: Option<PageTree>,
    /// One round of one client, and of the crowd, in each of them.
    pub in_each: (RoundBound, RoundBound),
    /// Records that are not settled when the server is killed.
    pub unsettled: usize,
    /// Pages that are copied into the mount, and whose folder gets another name.
    pub copied: usize,
    /// Names that folder gets.
    pub renames: RoundBound,
    /// A tree of large pages, and how long one client writes them.
    pub heavy: (PageTree, RoundBound),
    /// Files over WebDAV and S3.
    pub protocols: Amount,
    /// Commits of the history that is asked about.
    pub commits: usize,
    /// Where the corpora are.
    pub corpora: PathBuf,
    /// Questions of each kind that are asked of each of them, at most.
    pub questions: usize,
}

impl Extent {
    /// What the tables in docs/benchmarks.md are made with.
    pub fn full(corpora: &Path, is_large: bool) -> Self {
        let corpus = corpora.join("tldr.tar.xz");
        Self {
            plan: RunPlan {
                pages: PageTree::new(10_000),
                rounds: 3,
                short_round: round_bound(100_000, 3),
                creation_round: round_bound(1_000, 3),
                long_round: round_bound(1_000_000, 20),
                min_commits: 100_000,
                bulk_pages: 1_000,
                bulk_round: round_bound(5, 5),
                copy_pages: 1_000,
                idle_time: Duration::from_secs(2),
                search_round: round_bound(2_000, 10),
                grep_round: round_bound(10, 10),
                corpus: corpus.exists().then_some(corpus),
            },
            crowd: round_bound(1_000_000, 5),
            sizes: vec![PageTree::new(1_000), PageTree::new(10_000), PageTree::new(100_000)],
            folders: [1_000, 10_000].map(|folder| PageTree { folder_size: folder, ..PageTree::new(100_000) }).to_vec(),
            large: is_large.then_some(PageTree::new(1_000_000)),
            in_each: (round_bound(1_000, 2), round_bound(100_000, 3)),
            unsettled: 10_000,
            copied: 10_000,
            renames: round_bound(3, 30),
            heavy: (heavy(1_000), round_bound(100_000, 20)),
            protocols: Amount { files: 1_000, reading: round_bound(1_000_000, 3), large: 256 },
            commits: 100_000,
            corpora: corpora.to_owned(),
            questions: 150,
        }
    }

    /// A look that takes less than a minute.
    pub fn quick(corpora: &Path) -> Self {
        Self {
            plan: RunPlan {
                pages: PageTree::new(1_000),
                rounds: 1,
                short_round: round_bound(200, 1),
                creation_round: round_bound(200, 1),
                long_round: round_bound(2_000, 2),
                min_commits: 0,
                bulk_pages: 100,
                bulk_round: round_bound(2, 1),
                copy_pages: 100,
                idle_time: Duration::from_millis(100),
                search_round: round_bound(100, 1),
                grep_round: round_bound(3, 1),
                corpus: None,
            },
            crowd: round_bound(1_000, 1),
            sizes: vec![PageTree::new(100), PageTree::new(1_000), PageTree::new(2_000)],
            folders: vec![PageTree { folder_size: 1_000, ..PageTree::new(2_000) }],
            large: None,
            in_each: (round_bound(20, 1), round_bound(300, 1)),
            unsettled: 500,
            copied: 500,
            renames: round_bound(2, 5),
            heavy: (heavy(100), round_bound(100, 1)),
            protocols: Amount { files: 100, reading: round_bound(100_000, 1), large: 72 },
            commits: 2_000,
            corpora: corpora.to_owned(),
            questions: 20,
        }
    }
}

/// Pages of some 55 KiB: a few hundred of them fill the log as far as it may be filled.
const fn heavy(count: usize) -> PageTree {
    let pages = PageTree::new(count);
    PageTree { repeats: 50, ..pages }
}
