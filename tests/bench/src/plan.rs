//! How much of everything is done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use svcfs_measure::pages::PageTree;
use svcfs_measure::plan::RunPlan;
use svcfs_measure::series::{RoundBound, bound};

use crate::doors::Amount;

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
    pub doors: Amount,
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
                pages: PageTree::of(10_000),
                rounds: 3,
                short: bound(100_000, 3),
                creating: bound(1_000, 3),
                long: bound(1_000_000, 20),
                commits: 100_000,
                bulk: 1_000,
                bulks: bound(5, 5),
                copied: 1_000,
                rest: Duration::from_secs(2),
                searches: bound(2_000, 10),
                greps: bound(10, 10),
                corpus: corpus.exists().then_some(corpus),
            },
            crowd: bound(1_000_000, 5),
            sizes: vec![PageTree::of(1_000), PageTree::of(10_000), PageTree::of(100_000)],
            folders: [1_000, 10_000].map(|folder| PageTree { folder, ..PageTree::of(100_000) }).to_vec(),
            large: is_large.then_some(PageTree::of(1_000_000)),
            in_each: (bound(1_000, 2), bound(100_000, 3)),
            unsettled: 10_000,
            copied: 10_000,
            renames: bound(3, 30),
            heavy: (heavy(1_000), bound(100_000, 20)),
            doors: Amount { files: 1_000, reading: bound(1_000_000, 3), large: 256 },
            commits: 100_000,
            corpora: corpora.to_owned(),
            questions: 150,
        }
    }

    /// A look that takes less than a minute.
    pub fn quick(corpora: &Path) -> Self {
        Self {
            plan: RunPlan {
                pages: PageTree::of(1_000),
                rounds: 1,
                short: bound(200, 1),
                creating: bound(200, 1),
                long: bound(2_000, 2),
                commits: 0,
                bulk: 100,
                bulks: bound(2, 1),
                copied: 100,
                rest: Duration::from_millis(100),
                searches: bound(100, 1),
                greps: bound(3, 1),
                corpus: None,
            },
            crowd: bound(1_000, 1),
            sizes: vec![PageTree::of(100), PageTree::of(1_000), PageTree::of(2_000)],
            folders: vec![PageTree { folder: 1_000, ..PageTree::of(2_000) }],
            large: None,
            in_each: (bound(20, 1), bound(300, 1)),
            unsettled: 500,
            copied: 500,
            renames: bound(2, 5),
            heavy: (heavy(100), bound(100, 1)),
            doors: Amount { files: 100, reading: bound(100_000, 1), large: 72 },
            commits: 2_000,
            corpora: corpora.to_owned(),
            questions: 20,
        }
    }
}

/// Pages of some 55 KiB: a few hundred of them fill the log as far as it may be filled.
const fn heavy(count: usize) -> PageTree {
    let pages = PageTree::of(count);
    PageTree { repeats: 50, ..pages }
}
