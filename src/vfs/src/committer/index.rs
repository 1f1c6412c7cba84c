//! When `.git/index` is refreshed.
//!
//! Invariant: it follows the branch closely and at almost no cost. `git commit` records its
//! entries, and `git pull` and `git rebase` refuse to start when it is behind; nothing else depends
//! on it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use svcfs_base::TreePath;
use svcfs_store::{History, StoreError};
use tracing::{info, warn};

use super::Committer;

/// Delay after a write: the index is then newer than the file, so git needs not read the file.
const WRITE_DELAY: Duration = Duration::from_millis(10);
/// Minimum interval, and the share (1/50) of the time that refreshes may take.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_LOAD_DIVISOR: u32 = 50;
/// Maximum retry interval while the file is locked; a warning is logged when it is reached.
const MAX_RETRY: Duration = Duration::from_secs(2);
/// An external git command may write its older copy of the index within this time after a refresh.
const RECENT_WINDOW: Duration = Duration::from_secs(2);

pub(crate) struct GitIndex {
    /// Paths whose entry is outdated.
    touched: BTreeSet<TreePath>,
    /// Paths refreshed in the current and in the previous window.
    recent: [BTreeSet<TreePath>; 2],
    recent_since: Instant,
    /// Earliest time of the next refresh.
    earliest: Instant,
    /// Current retry interval after a failure.
    retry_interval: Option<Duration>,
}

pub(super) struct IndexRefresh {
    pub(super) paths: BTreeSet<TreePath>,
    /// Paths that were missing on disk.
    pub(super) outcome: Result<Vec<TreePath>, StoreError>,
    pub(super) took: Duration,
}

impl Default for GitIndex {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            touched: BTreeSet::new(),
            recent: Default::default(),
            recent_since: now,
            earliest: now,
            retry_interval: None,
        }
    }
}

impl GitIndex {
    /// Marks paths that new commits changed.
    pub(crate) fn touch(&mut self, paths: impl IntoIterator<Item = TreePath>) {
        if self.touched.is_empty() {
            self.earliest = self.earliest.max(Instant::now() + WRITE_DELAY);
        }
        self.touched.extend(paths);
    }

    /// When a refresh is due; none when the index is up to date.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.touched.is_empty()).then_some(self.earliest)
    }

    pub(super) fn expedite(&mut self) {
        self.earliest = Instant::now();
    }

    /// The paths to refresh now; none when it is not due. A checkpoint ignores the interval.
    /// Missing pages stay marked: they can have no entry, and their return is not reported.
    pub(super) fn take_due(
        &mut self,
        is_flush: bool,
        is_missing: impl Fn(&TreePath) -> bool,
    ) -> Option<BTreeSet<TreePath>> {
        let is_time = self.earliest <= Instant::now() || is_flush && self.retry_interval.is_none();
        if !is_time || self.touched.is_empty() {
            return None;
        }
        let (missing, ready): (BTreeSet<_>, _) = std::mem::take(&mut self.touched).into_iter().partition(is_missing);
        self.touched = missing;
        if ready.is_empty() {
            self.earliest = Instant::now() + MIN_INTERVAL;
            return None;
        }
        Some(ready)
    }

    fn rotate_recent(&mut self) {
        if self.recent_since.elapsed() >= RECENT_WINDOW {
            self.recent.swap(0, 1);
            self.recent[0].clear();
            self.recent_since = Instant::now();
        }
    }

    /// Records the result. A lock of an external git command is short; a lasting one is logged
    /// once. Pages that were missing, and may reappear, stay marked.
    pub(super) fn record_refresh(&mut self, refreshed: IndexRefresh, may_come_back: impl Fn(&TreePath) -> bool) {
        let IndexRefresh { paths, outcome, took } = refreshed;
        let error = match outcome {
            Err(error) => error,
            Ok(missing) => {
                self.touched.extend(missing.into_iter().filter(may_come_back));
                self.earliest = Instant::now() + MIN_INTERVAL.max(took * MAX_LOAD_DIVISOR);
                self.rotate_recent();
                self.recent[0].extend(paths);
                if self.retry_interval.take().is_some_and(|retry| retry >= MAX_RETRY) {
                    info!("`.git/index` is up to date again");
                }
                return;
            }
        };
        self.touched.extend(paths);
        let before = self.retry_interval.unwrap_or(if error.is_locked() { MIN_INTERVAL / 2 } else { MAX_RETRY });
        let retry = (before * 2).min(MAX_RETRY);
        if retry >= MAX_RETRY && self.retry_interval.is_none_or(|before| before < MAX_RETRY) {
            warn!(%error, "cannot refresh `.git/index`; `git status` is outdated until then. If no git command is running, \
                           `svcfs doctor` names the stale lock file");
        }
        self.retry_interval = Some(retry);
        self.earliest = Instant::now() + retry;
    }
}

impl Committer {
    /// After an external write of the index, marks recent paths: it may be an older copy.
    pub(super) fn check_index(&mut self) {
        self.git_index.rotate_recent();
        let recent = &mut self.git_index.recent;
        if recent.iter().any(|paths| !paths.is_empty())
            && self.core.versions.git().is_some_and(History::is_index_modified)
        {
            let behind: BTreeSet<_> = recent.iter_mut().flat_map(std::mem::take).collect();
            self.git_index.touch(behind);
        }
    }
}
