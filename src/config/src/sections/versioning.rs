//! `[versioning]`

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const DEFAULT_MAX_SNAPSHOTS: NonZeroUsize = NonZeroUsize::new(100).expect("it is not zero");

/// Version history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VersioningConfig {
    /// Storage of earlier versions.
    pub strategy: VersioningStrategy,
    /// Return from a write once the change is durable and visible, and commit later: all changes of
    /// one author in the meantime become one commit. Off: each change is committed before its write
    /// returns.
    pub async_commit: bool,
    /// Maximum delay of a commit, in milliseconds; with `async_commit` only.
    #[schemars(range(min = 1, max = 60_000))]
    pub batch_window_ms: u64,
    /// Maximum number of paths per commit; with `async_commit` only. A bulk write or a rename is
    /// always one commit.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch_max_size: usize,
    /// Number of snapshots per file, with `strategy = "cow"` only; 0 means 100, a negative number
    /// means all.
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

/// Storage of earlier versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VersioningStrategy {
    /// A standard git repository in the root: one commit per change, with the author of the change.
    #[default]
    Git,
    /// A copy of every version of a file, in `.versions`; no git repository is created or used.
    Cow,
    /// No earlier contents. Path, time and author of each change are still recorded.
    None,
}

impl VersioningConfig {
    /// Maximum number of snapshots per file; none for no limit.
    #[must_use]
    pub fn max_snapshots(&self) -> Option<NonZeroUsize> {
        match usize::try_from(self.max_versions) {
            Ok(number) => Some(NonZeroUsize::new(number).unwrap_or(DEFAULT_MAX_SNAPSHOTS)),
            Err(_) => None,
        }
    }

    /// Keys that have no effect in combination with the others, and the error for each if it is
    /// set.
    pub(crate) fn unused_keys(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let by_strategy = match self.strategy {
            VersioningStrategy::Git => UNUSED_WITH_GIT,
            VersioningStrategy::Cow => UNUSED_WITH_COW,
            VersioningStrategy::None => UNUSED_WITH_NONE,
        };
        let Self { batch_window_ms, batch_max_size, .. } = Self::default();
        // Writing the default explicitly is allowed.
        let by_window = [
            ("versioning.batch_window_ms", self.batch_window_ms != batch_window_ms),
            ("versioning.batch_max_size", self.batch_max_size != batch_max_size),
        ];
        let has_no_batches = self.strategy == VersioningStrategy::Git && !self.async_commit;
        let by_window = by_window.into_iter().filter(move |(_, is_changed)| has_no_batches && *is_changed);
        by_strategy.iter().copied().chain(by_window.map(|(key, _)| (key, NEEDS_ASYNC_COMMIT)))
    }
}

const NEEDS_GIT: &str = "has no effect without `versioning.strategy = \"git\"`; remove it, or set that";
const NEEDS_ASYNC_COMMIT: &str = "has no effect without `versioning.async_commit = true`; remove it, or set that";
const UNUSED_WITH_GIT: &[(&str, &str)] = &[(
    "versioning.max_versions",
    "has no effect with `versioning.strategy = \"git\"`, which keeps every version; remove it",
)];
const UNUSED_WITH_COW: &[(&str, &str)] = &[
    ("versioning.async_commit", NEEDS_GIT),
    ("versioning.batch_window_ms", NEEDS_GIT),
    ("versioning.batch_max_size", NEEDS_GIT),
];
const UNUSED_WITH_NONE: &[(&str, &str)] = &[
    (
        "versioning.max_versions",
        "has no effect with `versioning.strategy = \"none\"`, which keeps no versions; remove it",
    ),
    ("versioning.async_commit", NEEDS_GIT),
    ("versioning.batch_window_ms", NEEDS_GIT),
    ("versioning.batch_max_size", NEEDS_GIT),
];
