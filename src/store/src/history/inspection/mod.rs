//! Inspection of a repository that is not open, for `svcfs doctor`.
//!
//! Invariant: inspection changes nothing. Repairs are in `repair.rs`, lose nothing, and run only on
//! request.

mod locks;
mod objects;
mod repair;
mod tree;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use git2::{BranchType, ErrorCode, Repository};
use svcfs_base::CommitId;

pub(super) use locks::lock_holder;
pub use locks::{GitLock, LockHolder};
pub use objects::{BadObject, ReachableObjects};
pub use repair::repair_head;
pub(crate) use repair::set_aside;
pub(super) use repair::set_aside_in_git;
pub use tree::TreeState;

use super::{HistoryResult, commit_id, configure_libgit2, head_of, oid};
use crate::StoreError;

/// Commits in git that the log does not contain.
pub struct UnknownCommits {
    /// Commits after the last checkpoint.
    pub newer: Vec<CommitId>,
    /// Ancestors of the commit of the last checkpoint.
    pub older: Vec<CommitId>,
}

/// The repository of a root. While a server runs, only objects may be checked.
pub struct RepoInspection {
    root: PathBuf,
    repository: Repository,
}

impl RepoInspection {
    /// Opens the repository of a root; none when there is none.
    ///
    /// # Errors
    /// `Git` when there is one that git does not accept.
    pub fn open(root: &Path) -> HistoryResult<Option<Self>> {
        configure_libgit2();
        match Repository::open(root) {
            Ok(repository) => Ok(Some(Self { root: root.to_owned(), repository })),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The newest commit; none before the first.
    ///
    /// # Errors
    /// `Git` when `HEAD` or the branch it names cannot be read.
    pub fn head(&self) -> HistoryResult<Option<CommitId>> {
        head_of(&self.repository)
    }

    /// Those of these commits that git does not have.
    ///
    /// # Errors
    /// `Git` when the objects cannot be read at all.
    pub fn missing_commits(&self, commits: &[CommitId]) -> HistoryResult<Vec<CommitId>> {
        let odb = self.repository.odb()?;
        let mut missing = Vec::new();
        for commit in commits {
            if !odb.exists(oid(*commit)?) {
                missing.push(*commit);
            }
        }
        Ok(missing)
    }

    /// Whether `older` is `newer` or one of its ancestors.
    ///
    /// # Errors
    /// `Git` when one of them cannot be read.
    pub fn contains(&self, newer: CommitId, older: CommitId) -> HistoryResult<bool> {
        let (newer, older) = (oid(newer)?, oid(older)?);
        Ok(newer == older || self.repository.graph_descendant_of(newer, older)?)
    }

    /// The commits of a head that are not in `known`: those after the commit of the `checkpoint`,
    /// and its ancestors. Without that commit in git, all are newer.
    ///
    /// # Errors
    /// `Git` when the history cannot be walked because a commit is missing.
    pub fn unknown_commits(
        &self,
        head: CommitId,
        checkpoint: Option<CommitId>,
        known: &HashSet<CommitId>,
    ) -> HistoryResult<UnknownCommits> {
        let odb = self.repository.odb()?;
        let checkpoint = match checkpoint {
            Some(checkpoint) if odb.exists(oid(checkpoint)?) => Some(checkpoint),
            Some(_) | None => None,
        };
        let unknown = |from: CommitId, without: Option<CommitId>| {
            let mut walk = self.repository.revwalk()?;
            walk.push(oid(from)?)?;
            if let Some(without) = without {
                walk.hide(oid(without)?)?;
            }
            let commits = walk.map(|id| Ok(commit_id(id?))).collect::<HistoryResult<Vec<_>>>()?;
            Ok::<_, StoreError>(commits.into_iter().filter(|commit| !known.contains(commit)).collect())
        };
        let older = checkpoint.map_or(Ok(Vec::new()), |checkpoint| unknown(checkpoint, None))?;
        Ok(UnknownCommits { newer: unknown(head, checkpoint)?, older })
    }

    /// The commits of the local branches; unreadable branches are omitted.
    fn branches(&self) -> HistoryResult<Vec<(String, CommitId)>> {
        let branches = self.repository.branches(Some(BranchType::Local))?.flatten();
        let target = |branch: git2::Branch<'_>| {
            let reference = branch.get();
            Some((reference.name().ok()?.to_owned(), commit_id(reference.target()?)))
        };
        Ok(branches.filter_map(|(branch, _)| target(branch)).collect())
    }
}

#[cfg(test)]
mod tests;
