//! A repository looked at from outside, for whoever wants to know what is wrong with it.
//!
//! One rule: looking changes nothing. What mends is in `mend.rs`, loses nothing, and is done only when asked for.

mod locks;
mod objects;
mod repair;
mod tree;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use git2::{BranchType, ErrorCode, Repository};
use svcfs_base::CommitId;

pub(super) use locks::holder;
pub use locks::{GitLock, LockHolder};
pub use objects::{BadObject, ReachableObjects};
pub use repair::repair_head;
pub(crate) use repair::set_aside;
pub(super) use repair::set_aside_in_git;
pub use tree::TreeState;

use super::{HistoryResult, commit_id, head_of, oid, trust_the_root};
use crate::StoreError;

/// Commits of git's that a log does not name.
pub struct UnknownCommits {
    /// They came after what the log knows to be settled.
    pub newer: Vec<CommitId>,
    /// They lie below it.
    pub older: Vec<CommitId>,
}

/// The repository of a root that nobody serves, or of one that somebody serves and only objects are asked for.
pub struct RepoInspection {
    root: PathBuf,
    repository: Repository,
}

impl RepoInspection {
    /// Opens the repository of a root; none when git finds none there.
    ///
    /// # Errors
    /// `Git` when there is one that git does not accept.
    pub fn open(root: &Path) -> HistoryResult<Option<Self>> {
        trust_the_root();
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
    /// `Git` when the objects cannot be looked through at all.
    pub fn missing_commits(&self, commits: &[CommitId]) -> HistoryResult<Vec<CommitId>> {
        let stored = self.repository.odb()?;
        let mut missing = Vec::new();
        for commit in commits {
            if !stored.exists(oid(*commit)?) {
                missing.push(*commit);
            }
        }
        Ok(missing)
    }

    /// Whether a commit is another or lies below it.
    ///
    /// # Errors
    /// `Git` when one of them cannot be read.
    pub fn contains(&self, newer: CommitId, older: CommitId) -> HistoryResult<bool> {
        let (newer, older) = (oid(newer)?, oid(older)?);
        Ok(newer == older || self.repository.graph_descendant_of(newer, older)?)
    }

    /// The commits from a head down that are not among these: those that are not below `settled`, and those that are. Where git has no `settled` any
    /// more, none is.
    ///
    /// # Errors
    /// `Git` when history cannot be walked: a commit is missing.
    pub fn unknown_commits(
        &self,
        head: CommitId,
        settled: Option<CommitId>,
        known: &HashSet<CommitId>,
    ) -> HistoryResult<UnknownCommits> {
        let stored = self.repository.odb()?;
        let settled = match settled {
            Some(settled) if stored.exists(oid(settled)?) => Some(settled),
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
        let left_out = settled.map_or(Ok(Vec::new()), |settled| unknown(settled, None))?;
        Ok(UnknownCommits { newer: unknown(head, settled)?, older: left_out })
    }

    /// Where the local branches stand; one that cannot be read is left out.
    fn branches(&self) -> HistoryResult<Vec<(String, CommitId)>> {
        let branches = self.repository.branches(Some(BranchType::Local))?.flatten();
        let place = |branch: git2::Branch<'_>| {
            let reference = branch.get();
            Some((reference.name().ok()?.to_owned(), commit_id(reference.target()?)))
        };
        Ok(branches.filter_map(|(branch, _)| place(branch)).collect())
    }
}

#[cfg(test)]
mod tests;
