//! When `.git/index` is brought up to date.
//!
//! One rule: it follows the branch closely, and costs next to nothing. A person's `git commit` records what it has, and `git pull` or
//! `git rebase` refuse to begin when it is behind; nothing else depends on it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use svcfs_base::TreePath;
use svcfs_store::{History, StoreError};
use tracing::{info, warn};

use super::Committer;

/// How long after a write: git then sees at a glance that the file is as it was when the index was written.
const WRITE_DELAY: Duration = Duration::from_millis(10);
/// No oftener than this, and for one part in so many of the time.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_LOAD_DIVISOR: u32 = 50;
/// How long it is left alone at most when somebody's lock kept it from being written; after the first such time it is told.
const MAX_RETRY: Duration = Duration::from_secs(2);
/// A git command that read the index before we wrote it writes what it read within this time.
const RECENT_WINDOW: Duration = Duration::from_secs(2);

/// What the committer knows of `.git/index`.
pub(crate) struct GitIndex {
    /// Paths whose entry is behind.
    touched: BTreeSet<TreePath>,
    /// Paths whose entry was brought up to date lately, and a little longer ago.
    recent: [BTreeSet<TreePath>; 2],
    recent_since: Instant,
    /// When it is written at the earliest.
    earliest: Instant,
    /// How long ago it was tried when it could not be written.
    retry_interval: Option<Duration>,
}

/// What became of an attempt to bring it up to date.
pub(super) struct IndexRefresh {
    /// For which paths.
    pub(super) paths: BTreeSet<TreePath>,
    /// Those of them that were away.
    pub(super) outcome: Result<Vec<TreePath>, StoreError>,
    pub(super) took: Duration,
}

impl Default for GitIndex {
    fn default() -> Self {
        let now = Instant::now();
        Self { touched: BTreeSet::new(), recent: Default::default(), recent_since: now, earliest: now, retry_interval: None }
    }
}

impl GitIndex {
    /// Takes notice of paths that the newest commits changed.
    pub(crate) fn touch(&mut self, paths: impl IntoIterator<Item = TreePath>) {
        if self.touched.is_empty() {
            self.earliest = self.earliest.max(Instant::now() + WRITE_DELAY);
        }
        self.touched.extend(paths);
    }

    /// When it should be written; none when nothing is behind.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.touched.is_empty()).then_some(self.earliest)
    }

    /// Whatever was tried before: now is the time.
    pub(super) fn expedite(&mut self) {
        self.earliest = Instant::now();
    }

    /// The paths to be brought up to date now; none when it is not their time. Whoever flushes does not wait for that of the
    /// ordinary pace. Pages that `is_away` wait: no entry can be made of what is not there, and nobody tells when they are back.
    pub(super) fn take_due(&mut self, is_flush: bool, is_away: impl Fn(&TreePath) -> bool) -> Option<BTreeSet<TreePath>> {
        let is_time = self.earliest <= Instant::now() || is_flush && self.retry_interval.is_none();
        if !is_time || self.touched.is_empty() {
            return None;
        }
        let (away, taken): (BTreeSet<_>, _) = std::mem::take(&mut self.touched).into_iter().partition(is_away);
        self.touched = away;
        if taken.is_empty() {
            self.earliest = Instant::now() + MIN_INTERVAL;
            return None;
        }
        Some(taken)
    }

    fn rotate_recent(&mut self) {
        if self.recent_since.elapsed() >= RECENT_WINDOW {
            self.recent.swap(0, 1);
            self.recent[0].clear();
            self.recent_since = Instant::now();
        }
    }

    /// Takes notice of what became of them. A lock of a person's git is gone in a moment; one that stays is told, once.
    /// Pages that were away at that moment, and `may_come_back`, are not done with.
    pub(super) fn record_refresh(&mut self, refreshed: IndexRefresh, may_come_back: impl Fn(&TreePath) -> bool) {
        let IndexRefresh { paths, outcome, took } = refreshed;
        let error = match outcome {
            Err(error) => error,
            Ok(away) => {
                self.touched.extend(away.into_iter().filter(may_come_back));
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
            warn!(%error, "`.git/index` cannot be refreshed; `git status` is behind until it can. If no git is at work, \
                           `svcfs doctor` says which lock is left over");
        }
        self.retry_interval = Some(retry);
        self.earliest = Instant::now() + retry;
    }
}

impl Committer {
    /// When somebody wrote the index, they may have written what they read before we did.
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
