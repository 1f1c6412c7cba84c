//! What remembers earlier states of the tree: git, snapshots, or nothing but the log.
//!
//! One rule: which of them it is, is decided here. Whoever records or asks need not know, unless it is about git alone (commits of
//! others, blame) or about snapshots alone. The log stands in front of each of them.

mod ledger;
mod snapshots;

use std::collections::HashSet;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{CommitId, ETag, FileKind, Seq, Timestamp, TreePath};

pub use ledger::LogOnlyState;
pub use snapshots::{SNAPSHOT_DIRECTORY, SnapshotStore};

use crate::{CommitAuthor, FileEdit, History, Log, StoreError, WorkTree};

/// The file at a path, by content and kind; none where there is none.
pub type PathState = Option<(ETag, FileKind)>;

type VersionResult<T> = Result<T, StoreError>;

/// What is to remember earlier states (contract 9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionStrategy {
    /// git: every set is a commit.
    Git,
    /// A snapshot of every content.
    Snapshots {
        /// How many of each file are kept; all of them without it.
        max_snapshots: Option<NonZeroUsize>,
    },
    /// Nothing: a write covers what was there.
    LogOnly,
}

impl VersionStrategy {
    /// Its name in settings and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Snapshots { .. } => "cow",
            Self::LogOnly => "none",
        }
    }

    /// The strategy of a name; every snapshot is kept.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Git, Self::Snapshots { max_snapshots: None }, Self::LogOnly]
            .into_iter()
            .find(|known| known.name() == name)
    }
}

/// Where the next set goes: on which commit, where there are commits, and after which record.
#[derive(Debug, Clone, Copy)]
pub struct WriteTip {
    /// The newest commit.
    pub commit: Option<CommitId>,
    /// The newest record.
    pub seq: Seq,
}

/// What remembers earlier states of one space.
#[expect(clippy::large_enum_variant, reason = "there is one of it for each space, and it never moves")]
pub enum VersionStore {
    /// git does.
    Git {
        /// Its repository.
        history: History,
        /// Those of a time when there were snapshots: they can still be read.
        legacy_snapshots: SnapshotStore,
    },
    /// Snapshots do.
    Snapshots {
        /// What stands where.
        state: LogOnlyState,
        /// What stood there.
        snapshots: SnapshotStore,
    },
    /// Nothing does: the log knows what stands where, and nobody what stood there.
    LogOnly {
        /// What stands where.
        state: LogOnlyState,
    },
}

impl VersionStore {
    /// Opens what a strategy needs; true beside it when something was made that a crash must not take away. Without git, no repository
    /// is made or touched. `unversioned` are globs of names that git is told to leave alone.
    ///
    /// # Errors
    /// Those of [`History::open_alone`]; `Database` when the log cannot be read.
    pub fn open(
        strategy: VersionStrategy,
        root: &Path,
        (tree, log): (&Arc<WorkTree>, &Arc<Log>),
        unversioned: &[String],
    ) -> VersionResult<(Self, bool)> {
        let ledger = || LogOnlyState::open(root, Arc::clone(log));
        let snapshots = |at_most| SnapshotStore::new(Arc::clone(tree), at_most);
        Ok(match strategy {
            VersionStrategy::Git => {
                let (history, is_new) = History::open_locked(root, unversioned)?;
                (Self::Git { history, legacy_snapshots: snapshots(None) }, is_new)
            }
            VersionStrategy::Snapshots { max_snapshots: at_most } => {
                (Self::Snapshots { state: ledger()?, snapshots: snapshots(at_most) }, false)
            }
            VersionStrategy::LogOnly => (Self::LogOnly { state: ledger()? }, false),
        })
    }

    /// git's history, where git remembers.
    pub const fn git(&self) -> Option<&History> {
        match self {
            Self::Git { history, .. } => Some(history),
            Self::Snapshots { .. } | Self::LogOnly { .. } => None,
        }
    }

    /// The commit the current branch stands at; none before the first, and where there are no commits.
    ///
    /// # Errors
    /// `Git`.
    pub fn head(&self) -> VersionResult<Option<CommitId>> {
        match self {
            Self::Git { history, .. } => history.head(),
            Self::Snapshots { .. } | Self::LogOnly { .. } => Ok(None),
        }
    }

    /// The moment that a set recorded now gets. Where it names the set, it is later than those of all before it.
    pub fn record_timestamp(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Git { .. } => now,
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.moment(now),
        }
    }

    /// What is recorded of each of these paths at this moment, in their order.
    ///
    /// # Errors
    /// `Git`, `Database`.
    pub fn current_states(&self, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        match self {
            Self::Git { history, .. } => history.leaves_at(history.head()?, paths),
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.recorded(paths),
        }
    }

    /// The files that are recorded at or below a path, in path order.
    ///
    /// # Errors
    /// As [`Memory::recorded`].
    pub fn list_states(&self, path: &TreePath) -> VersionResult<Vec<(TreePath, ETag, FileKind)>> {
        match self {
            Self::Git { history, .. } => match history.head()? {
                Some(head) => history.leaves(head, path),
                None => Ok(Vec::new()),
            },
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.recorded_below(path),
        }
    }

    /// What was recorded of each of these paths when the log was last settled, at `tip`.
    ///
    /// # Errors
    /// As [`Memory::recorded`].
    pub fn checkpoint_states(&self, tip: WriteTip, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        match self {
            Self::Git { history, .. } => history.leaves_at(tip.commit, paths),
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.settled(tip.seq, paths),
        }
    }

    /// Makes ready what a set after `tip` records: its commit, where there are commits. Nobody sees it before it is logged.
    ///
    /// # Errors
    /// `Unrecordable` for a path that cannot be recorded; nothing is ready then.
    pub fn stage(&self, tip: WriteTip, edits: &[FileEdit<'_>], author: &CommitAuthor<'_>) -> VersionResult<WriteTip> {
        let seq = tip.seq.next();
        match self {
            Self::Git { history, .. } => {
                Ok(WriteTip { commit: Some(history.stage(tip.commit, edits, author)?.commit), seq })
            }
            Self::Snapshots { state: ledger, .. } => {
                edits.iter().try_for_each(|edit| snapshots::can_keep(edit.path()))?;
                ledger.stage(tip.seq, edits)?;
                Ok(WriteTip { commit: None, seq })
            }
            Self::LogOnly { state: ledger } => {
                ledger.stage(tip.seq, edits)?;
                Ok(WriteTip { commit: None, seq })
            }
        }
    }

    /// What each of these paths holds after what was made ready up to `tip`, in their order.
    ///
    /// # Errors
    /// As [`Memory::recorded`].
    pub fn staged_states(&self, tip: WriteTip, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        match self {
            Self::Git { history, .. } => history.staged_leaves(tip.commit, paths),
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.staged(tip.seq, paths),
        }
    }

    /// Whether a path can be recorded at all; `git~1` is one that git cannot.
    ///
    /// # Errors
    /// `Git`.
    pub fn can_record(&self, path: &TreePath) -> VersionResult<bool> {
        match self {
            Self::Git { history, .. } => history.can_record(path),
            Self::Snapshots { .. } => Ok(snapshots::can_keep(path).is_ok()),
            Self::LogOnly { .. } => Ok(true),
        }
    }

    /// Lets go of what was made ready: its sets were refused.
    pub fn discard(&self) {
        match self {
            Self::Git { history, .. } => history.discard(),
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.forget_staged(),
        }
    }

    /// Takes notice that everything made ready is logged.
    pub fn mark_logged(&self) {
        match self {
            Self::Git { .. } => {}
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.forget_staged(),
        }
    }

    /// Whether a path that is not recorded is one a person told git to leave alone (`.gitignore`), with or without git.
    ///
    /// # Errors
    /// `Git`.
    pub fn is_ignored(&self, path: &TreePath) -> VersionResult<bool> {
        match self {
            Self::Git { history, .. } => history.is_ignored(path),
            Self::Snapshots { state: ledger, .. } | Self::LogOnly { state: ledger } => ledger.is_ignored(path),
        }
    }

    /// Paths, or directories above them, whose file on disk differs from what is recorded, or may differ.
    ///
    /// # Errors
    /// `Git`.
    pub fn differences(&self) -> VersionResult<Vec<TreePath>> {
        match self {
            Self::Git { history, .. } => history.differences(),
            // Nothing says which files are as they were but the files.
            Self::Snapshots { .. } | Self::LogOnly { .. } => Ok(vec![TreePath::root()]),
        }
    }

    /// The files that nobody has touched since they were noted, whatever their bytes are now; none where nothing notes that.
    ///
    /// # Errors
    /// As [`History::untouched`].
    pub fn unmodified_paths<'p>(&self, paths: &[&'p TreePath]) -> VersionResult<HashSet<&'p TreePath>> {
        self.git().map_or_else(|| Ok(HashSet::new()), |history| history.unmodified_paths(paths))
    }

    /// The content of a hash, where it can be found by that.
    ///
    /// # Errors
    /// `Git` when it is there but cannot be read.
    pub fn read_content(&self, hash: ETag) -> VersionResult<Option<Bytes>> {
        match self {
            Self::Git { history, .. } => history.read_blob(hash),
            Self::Snapshots { .. } | Self::LogOnly { .. } => Ok(None),
        }
    }

    /// Brings `.git/index`, where there is one, up to date for paths whose file on disk is what is recorded.
    ///
    /// # Errors
    /// As [`History::refresh_index`].
    pub fn refresh_index<'a>(
        &self,
        paths: impl Iterator<Item = &'a TreePath>,
        is_version: impl Fn(&TreePath, ETag) -> VersionResult<bool>,
    ) -> VersionResult<Vec<TreePath>> {
        self.git().map_or(Ok(Vec::new()), |history| history.refresh_index(paths, is_version))
    }

    /// Ends what goes on in the background.
    pub fn close(&self) {
        if let Some(history) = self.git() {
            history.close();
        }
    }

    /// A flush of the disk begins.
    pub fn start_flush(&self) {
        if let Some(history) = self.git() {
            history.start_flush();
        }
    }

    /// Folders that lie on other disks than the root, and must be flushed with it.
    pub fn other_disks(&self) -> &[File] {
        self.git().map_or(&[], History::other_disks)
    }

    /// The flush has reached the disk.
    pub fn finish_flush(&self) {
        if let Some(history) = self.git() {
            history.finish_flush();
        }
    }
}

#[cfg(test)]
mod tests;
