//! Backends for earlier states of the tree: git, snapshots, or only the log.
//!
//! Invariant: the backend is selected here. Callers do not depend on it, except for features of git
//! alone (external commits, blame) or of snapshots alone. The log is in front of each of them.

mod log_only;
mod snapshots;

use std::collections::HashSet;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{CommitId, ETag, FileKind, Seq, Timestamp, TreePath};

pub use log_only::LogOnlyState;
pub use snapshots::{SNAPSHOT_DIRECTORY, SnapshotStore};

use crate::{CommitAuthor, FileEdit, History, Log, PathRules, StoreError, WorkTree, path_refusal};

/// Content and kind of the file at a path; none without a file.
pub type PathState = Option<(ETag, FileKind)>;

type VersionResult<T> = Result<T, StoreError>;

/// The backend for earlier states, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionStrategy {
    /// git: every set is a commit.
    Git,
    /// A snapshot of every content.
    Snapshots {
        /// Maximum number of snapshots per file; unlimited without it.
        max_snapshots: Option<NonZeroUsize>,
    },
    /// None: a write overwrites the earlier content.
    LogOnly,
}

impl VersionStrategy {
    /// Its name in the configuration and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Snapshots { .. } => "cow",
            Self::LogOnly => "none",
        }
    }

    /// The strategy with this name, without a limit of snapshots.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Git, Self::Snapshots { max_snapshots: None }, Self::LogOnly]
            .into_iter()
            .find(|known| known.name() == name)
    }
}

/// The position at which the next set is written: after which commit (if the backend has commits)
/// and which record.
#[derive(Debug, Clone, Copy)]
pub struct WriteTip {
    /// The newest commit.
    pub commit: Option<CommitId>,
    /// The newest record.
    pub seq: Seq,
}

/// The version store of one space.
/// Methods fail with `Git` or `Database` unless they say otherwise.
#[expect(clippy::large_enum_variant, reason = "there is one of it for each space, and it never moves")]
pub enum VersionStore {
    /// Versions are git commits.
    Git {
        /// The repository.
        history: History,
        /// Snapshots from a time when the space used that strategy; they remain readable.
        legacy_snapshots: SnapshotStore,
    },
    /// Versions are snapshots.
    Snapshots {
        /// The current states.
        state: LogOnlyState,
        /// The earlier contents.
        snapshots: SnapshotStore,
    },
    /// No versions: the log knows the current states only.
    LogOnly {
        /// The current states.
        state: LogOnlyState,
    },
}

impl VersionStore {
    /// Opens the backend of a strategy; the flag is true when files were created that must be
    /// flushed. Without git, no repository is created or changed. `unversioned` are globs of names
    /// that git should ignore.
    ///
    /// # Errors
    /// Those of [`History::open_locked`]; `Database` when the log cannot be read.
    pub fn open(
        strategy: VersionStrategy,
        root: &Path,
        (tree, log): (&Arc<WorkTree>, &Arc<Log>),
        unversioned: &[String],
    ) -> VersionResult<(Self, bool)> {
        let state = || LogOnlyState::open(root, Arc::clone(log));
        let snapshots = |max_snapshots| SnapshotStore::new(Arc::clone(tree), max_snapshots);
        Ok(match strategy {
            VersionStrategy::Git => {
                let (history, is_new) = History::open_locked(root, unversioned)?;
                (Self::Git { history, legacy_snapshots: snapshots(None) }, is_new)
            }
            VersionStrategy::Snapshots { max_snapshots } => {
                (Self::Snapshots { state: state()?, snapshots: snapshots(max_snapshots) }, false)
            }
            VersionStrategy::LogOnly => (Self::LogOnly { state: state()? }, false),
        })
    }

    /// The git history, if the backend is git.
    pub const fn git(&self) -> Option<&History> {
        match self {
            Self::Git { history, .. } => Some(history),
            Self::Snapshots { .. } | Self::LogOnly { .. } => None,
        }
    }

    /// The commit of the current branch; none before the first commit and without git.
    pub fn head(&self) -> VersionResult<Option<CommitId>> {
        match self {
            Self::Git { history, .. } => history.head(),
            Self::Snapshots { .. } | Self::LogOnly { .. } => Ok(None),
        }
    }

    /// The timestamp of a set that is recorded now. Where it identifies the set, it is later than
    /// all earlier ones.
    pub fn record_timestamp(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Git { .. } => now,
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.next_timestamp(now),
        }
    }

    /// The currently recorded states of these paths, in order.
    pub fn current_states(&self, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        match self {
            Self::Git { history, .. } => Ok(history.tree_states(paths, history.leaves_at(history.head()?, paths)?)),
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.current_states(paths),
        }
    }

    /// The recorded files at or below a path, in path order.
    ///
    /// # Errors
    /// As [`VersionStore::current_states`].
    pub fn list_states(&self, path: &TreePath) -> VersionResult<Vec<(TreePath, ETag, FileKind)>> {
        match self {
            Self::Git { history, .. } => match history.head()? {
                Some(head) => {
                    let tree_form = |(path, blob, kind)| {
                        let etag = history.tree_form(&path, blob, Some(kind));
                        (path, etag, kind)
                    };
                    Ok(history.leaves(head, path)?.into_iter().map(tree_form).collect())
                }
                None => Ok(Vec::new()),
            },
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.list_states(path),
        }
    }

    /// The recorded states of these paths at the last checkpoint, which was at `tip`.
    ///
    /// # Errors
    /// As [`VersionStore::current_states`].
    pub fn checkpoint_states(&self, tip: WriteTip, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        match self {
            Self::Git { history, .. } => Ok(history.tree_states(paths, history.leaves_at(tip.commit, paths)?)),
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.states_at(tip.seq, paths),
        }
    }

    /// Prepares the version of a set after `tip`: with git, its commit. It is not visible before
    /// the set is logged.
    ///
    /// # Errors
    /// `Unrecordable` for a path that cannot be recorded; nothing is staged then.
    pub fn stage(&self, tip: WriteTip, edits: &[FileEdit<'_>], author: &CommitAuthor<'_>) -> VersionResult<WriteTip> {
        let seq = tip.seq.next();
        match self {
            Self::Git { history, .. } => {
                Ok(WriteTip { commit: Some(history.stage(tip.commit, edits, author)?.commit), seq })
            }
            Self::Snapshots { state, .. } => {
                edits.iter().try_for_each(|edit| snapshots::check_path(edit.path()))?;
                state.stage(tip.seq, edits)?;
                Ok(WriteTip { commit: None, seq })
            }
            Self::LogOnly { state } => {
                state.stage(tip.seq, edits)?;
                Ok(WriteTip { commit: None, seq })
            }
        }
    }

    /// The states of these paths including staged sets up to `tip`, in order.
    ///
    /// # Errors
    /// As [`VersionStore::current_states`].
    pub fn staged_states(&self, tip: WriteTip, paths: &[&TreePath]) -> VersionResult<Vec<PathState>> {
        match self {
            Self::Git { history, .. } => Ok(history.tree_states(paths, history.staged_leaves(tip.commit, paths)?)),
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.staged_states(tip.seq, paths),
        }
    }

    /// Whether a path can be recorded; git refuses `git~1`, for example.
    pub fn can_record(&self, path: &TreePath) -> bool {
        match self {
            Self::Git { .. } => path_refusal(path, None).is_none(),
            Self::Snapshots { .. } => snapshots::check_path(path).is_ok(),
            Self::LogOnly { .. } => true,
        }
    }

    /// Discards what was staged: its sets were refused.
    pub fn discard(&self) {
        match self {
            Self::Git { history, .. } => history.discard(),
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.clear_staged(),
        }
    }

    /// Records that all staged sets are logged.
    pub fn mark_logged(&self) {
        match self {
            Self::Git { .. } => {}
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.clear_staged(),
        }
    }

    /// The rules of git's own files (`.gitignore`, `.gitattributes`), with any backend.
    pub const fn rules(&self) -> &PathRules {
        match self {
            Self::Git { history, .. } => history.rules(),
            Self::Snapshots { state, .. } | Self::LogOnly { state } => state.rules(),
        }
    }

    /// Whether the recorded state has a path, as a file or a directory of files.
    pub fn is_tracked(&self, path: &TreePath) -> VersionResult<bool> {
        match self {
            Self::Git { history, .. } => history.is_tracked(path),
            Self::Snapshots { state, .. } | Self::LogOnly { state } => Ok(!state.list_states(path)?.is_empty()),
        }
    }

    /// The hash that identifies a content in history; different contents may have the same (line
    /// ends, filters).
    ///
    /// # Errors
    /// `FilterFailed` when a filter of git cannot convert it.
    pub fn recorded_form(&self, path: &TreePath, (kind, content): (FileKind, &[u8])) -> VersionResult<ETag> {
        match self {
            Self::Git { history, .. } => history.recorded_form(path, (kind, content)),
            Self::Snapshots { .. } | Self::LogOnly { .. } => Ok(ETag::from_content(content)),
        }
    }

    /// Whether git converts the file at a path between tree and history.
    pub fn is_converted(&self, path: &TreePath) -> bool {
        self.git().is_some_and(|history| history.is_converted(path))
    }

    /// Paths, or directories above them, whose file on disk differs from the recorded state, or may
    /// differ.
    pub fn differences(&self) -> VersionResult<Vec<TreePath>> {
        match self {
            Self::Git { history, .. } => history.differences(),
            // Only reading the files shows which ones changed.
            Self::Snapshots { .. } | Self::LogOnly { .. } => Ok(vec![TreePath::root()]),
        }
    }

    /// The paths whose file was not touched since its stat data was recorded; none without git.
    ///
    /// # Errors
    /// As [`History::unmodified_paths`].
    pub fn unmodified_paths<'p>(&self, paths: &[&'p TreePath]) -> VersionResult<HashSet<&'p TreePath>> {
        self.git().map_or_else(|| Ok(HashSet::new()), |history| history.unmodified_paths(paths))
    }

    /// The content with this hash, if the backend can find it by hash.
    ///
    /// # Errors
    /// `Git` when it exists but cannot be read.
    pub fn read_content(&self, hash: ETag) -> VersionResult<Option<Bytes>> {
        match self {
            Self::Git { history, .. } => history.read_blob(hash),
            Self::Snapshots { .. } | Self::LogOnly { .. } => Ok(None),
        }
    }

    /// Updates `.git/index`, if there is one, for paths whose file on disk matches the recorded
    /// state.
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

    /// Stops background work.
    pub fn close(&self) {
        if let Some(history) = self.git() {
            history.close();
        }
    }

    /// A flush of the disk starts.
    pub fn start_flush(&self) {
        if let Some(history) = self.git() {
            history.start_flush();
        }
    }

    /// Directories on other disks than the root; they must be flushed with it.
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
