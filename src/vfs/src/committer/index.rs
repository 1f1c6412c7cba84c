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
const DELAY: Duration = Duration::from_millis(10);
/// No oftener than this, and for one part in so many of the time.
const PAUSE: Duration = Duration::from_millis(50);
const SHARE: u32 = 50;
/// How long it is left alone at most when somebody's lock kept it from being written; after the first such time it is told.
const MAX_RETRY: Duration = Duration::from_secs(2);
/// A git command that read the index before we wrote it writes what it read within this time.
const RECENT: Duration = Duration::from_secs(2);

/// What the committer knows of `.git/index`.
pub(crate) struct GitIndex {
    /// Paths whose entry is behind.
    touched: BTreeSet<TreePath>,
    /// Paths whose entry was brought up to date lately, and a little longer ago.
    recent: [BTreeSet<TreePath>; 2],
    since: Instant,
    /// When it is written at the earliest.
    earliest: Instant,
    /// How long ago it was tried when it could not be written.
    retry: Option<Duration>,
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
        Self { touched: BTreeSet::new(), recent: Default::default(), since: now, earliest: now, retry: None }
    }
}

impl GitIndex {
    /// Takes notice of paths that the newest commits changed.
    pub(crate) fn touch(&mut self, paths: impl IntoIterator<Item = TreePath>) {
        if self.touched.is_empty() {
            self.earliest = self.earliest.max(Instant::now() + DELAY);
        }
        self.touched.extend(paths);
    }

    /// When it should be written; none when nothing is behind.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.touched.is_empty()).then_some(self.earliest)
    }

    /// Whatever was tried before: now is the time.
    pub(super) fn hurry(&mut self) {
        self.earliest = Instant::now();
    }

    /// The paths to be brought up to date now; none when it is not their time. Whoever flushes does not wait for that of the
    /// ordinary pace. Pages that `is_away` wait: no entry can be made of what is not there, and nobody tells when they are back.
    pub(super) fn take(&mut self, is_flush: bool, is_away: impl Fn(&TreePath) -> bool) -> Option<BTreeSet<TreePath>> {
        let is_time = self.earliest <= Instant::now() || is_flush && self.retry.is_none();
        if !is_time || self.touched.is_empty() {
            return None;
        }
        let (away, taken): (BTreeSet<_>, _) = std::mem::take(&mut self.touched).into_iter().partition(is_away);
        self.touched = away;
        if taken.is_empty() {
            self.earliest = Instant::now() + PAUSE;
            return None;
        }
        Some(taken)
    }

    fn age(&mut self) {
        if self.since.elapsed() >= RECENT {
            self.recent.swap(0, 1);
            self.recent[0].clear();
            self.since = Instant::now();
        }
    }

    /// Takes notice of what became of them. A lock of a person's git is gone in a moment; one that stays is told, once.
    /// Pages that were away at that moment, and `may_come_back`, are not done with.
    pub(super) fn refreshed(&mut self, refreshed: IndexRefresh, may_come_back: impl Fn(&TreePath) -> bool) {
        let IndexRefresh { paths, outcome, took } = refreshed;
        let error = match outcome {
            Err(error) => error,
            Ok(away) => {
                self.touched.extend(away.into_iter().filter(may_come_back));
                self.earliest = Instant::now() + PAUSE.max(took * SHARE);
                self.age();
                self.recent[0].extend(paths);
                if self.retry.take().is_some_and(|retry| retry >= MAX_RETRY) {
                    info!("`.git/index` is up to date again");
                }
                return;
            }
        };
        self.touched.extend(paths);
        let before = self.retry.unwrap_or(if error.is_locked() { PAUSE / 2 } else { MAX_RETRY });
        let retry = (before * 2).min(MAX_RETRY);
        if retry >= MAX_RETRY && self.retry.is_none_or(|before| before < MAX_RETRY) {
            warn!(%error, "`.git/index` cannot be refreshed; `git status` is behind until it can. If no git is at work, \
                           `svcfs doctor` says which lock is left over");
        }
        self.retry = Some(retry);
        self.earliest = Instant::now() + retry;
    }
}

impl Committer {
    /// When somebody wrote the index, they may have written what they read before we did.
    pub(super) fn look_at_index(&mut self) {
        self.index.age();
        let recent = &mut self.index.recent;
        if recent.iter().any(|paths| !paths.is_empty())
            && self.core.memory.git().is_some_and(History::is_index_modified)
        {
            let behind: BTreeSet<_> = recent.iter_mut().flat_map(std::mem::take).collect();
            self.index.touch(behind);
        }
    }
}
