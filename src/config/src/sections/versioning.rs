//! `[versioning]`

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Snapshots kept of each file where nothing else is said (gaps.md 8).
const SNAPSHOTS: NonZeroUsize = NonZeroUsize::new(100).expect("it is not zero");

/// How history is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VersioningConfig {
    /// What remembers earlier versions of a page.
    pub strategy: VersioningStrategy,
    /// Answer a writer once the change is durable and visible, and make its commit a moment later: the changes of one author in
    /// that time are one commit. Off: a change is answered with its own commit made.
    pub async_commit: bool,
    /// How long a change waits for its commit at most, in milliseconds; with `async_commit` only.
    #[schemars(range(min = 1, max = 60_000))]
    pub batch_window_ms: u64,
    /// How many paths one commit has at most; with `async_commit` only. A bulk write or a rename is always one commit.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch_max_size: usize,
    /// How many snapshots of each file are kept, with `strategy = "cow"` only; 0 means 100, a negative number all of them.
    pub max_versions: i64,
}

impl Default for VersioningConfig {
    fn default() -> Self {
        Self {
            strategy: VersioningStrategy::default(),
            async_commit: false,
            batch_window_ms: 200,
            batch_max_size: 50,
            max_versions: 0,
        }
    }
}

/// What remembers earlier versions of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VersioningStrategy {
    /// An ordinary git repository in the root: one commit per change, with the author of the change.
    #[default]
    Git,
    /// A copy of every version of a file, below `.versions`; no repository is made or touched.
    Cow,
    /// Nothing: a write covers what was there. What changed, when and by whom is known all the same.
    None,
}

impl VersioningConfig {
    /// How many snapshots of each file are kept; none when all of them are.
    #[must_use]
    pub fn max_snapshots(&self) -> Option<NonZeroUsize> {
        match usize::try_from(self.max_versions) {
            Ok(number) => Some(NonZeroUsize::new(number).unwrap_or(SNAPSHOTS)),
            Err(_) => None,
        }
    }

    /// Keys that have no effect beside the others, and what to say of each when it is set.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let of_strategy = match self.strategy {
            VersioningStrategy::Git => WITHOUT_SNAPSHOTS,
            VersioningStrategy::Cow => WITHOUT_COMMITS,
            VersioningStrategy::None => WITHOUT_VERSIONS,
        };
        let Self { batch_window_ms, batch_max_size, .. } = Self::default();
        // What holds anyway may be written out.
        let of_window = [
            ("versioning.batch_window_ms", self.batch_window_ms != batch_window_ms),
            ("versioning.batch_max_size", self.batch_max_size != batch_max_size),
        ];
        let has_no_window = self.strategy == VersioningStrategy::Git && !self.async_commit;
        let of_window = of_window.into_iter().filter(move |(_, is_other)| has_no_window && *is_other);
        of_strategy.iter().copied().chain(of_window.map(|(key, _)| (key, NO_WINDOW)))
    }
}

const NO_COMMITS: &str =
    "has no effect where versions are no commits; remove it, or set `versioning.strategy = \"git\"`";
const NO_WINDOW: &str = "has no effect without `versioning.async_commit = true`; remove it, or set that";
const WITHOUT_SNAPSHOTS: &[(&str, &str)] = &[(
    "versioning.max_versions",
    "has no effect with `versioning.strategy = \"git\"`, which keeps every version; remove it",
)];
const WITHOUT_COMMITS: &[(&str, &str)] = &[
    ("versioning.async_commit", NO_COMMITS),
    ("versioning.batch_window_ms", NO_COMMITS),
    ("versioning.batch_max_size", NO_COMMITS),
];
const WITHOUT_VERSIONS: &[(&str, &str)] = &[
    (
        "versioning.max_versions",
        "has no effect with `versioning.strategy = \"none\"`, which keeps no versions; remove it",
    ),
    ("versioning.async_commit", NO_COMMITS),
    ("versioning.batch_window_ms", NO_COMMITS),
    ("versioning.batch_max_size", NO_COMMITS),
];
