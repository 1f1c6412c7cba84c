//! What setting up a root would commit, before anything is changed.

use std::path::Path;

use svcfs_base::{Actor, Fault, HiddenFiles, MAX_FILE_BYTES, Protocol, Timestamp};
use svcfs_store::{CommitAuthor, History, StatePaths, UncommittedChanges, UncommittedFile, UntrackedFiles};

use crate::adopt::with_source;
use crate::path_class::PathClassifier;

const STAGED_MESSAGE: &str = "adopt what was staged at setup";

/// The files that opening a root for the first time would commit.
#[derive(Debug)]
pub struct AdoptionPlan {
    changes: UncommittedChanges,
    /// Files that are too large for versions, and stay as they are.
    pub oversized: Vec<UncommittedFile>,
    /// The author of the commits.
    pub author: String,
}

impl AdoptionPlan {
    /// Reads the plan for a directory; changes nothing.
    ///
    /// # Errors
    /// `Internal` when its repository cannot be read.
    pub fn read(root: &Path, scratch_patterns: &[String]) -> Result<Self, Fault> {
        let classes = PathClassifier::new(scratch_patterns, HiddenFiles::default())?;
        let mut changes = UncommittedChanges::read(root)?;
        changes.files.retain(|file| {
            // Settings that were written before the first start are not work of a person.
            let is_own = file.is_untracked && file.path.as_str().starts_with(".svc/");
            !is_own && classes.classify(&file.path).is_versioned()
        });
        let (files, oversized) = changes.files.into_iter().partition(|file| file.size <= MAX_FILE_BYTES as u64);
        changes.files = files;
        let author = match &changes.identity {
            Some(identity) => format!("{} <{}>", identity.name, identity.email),
            None => Protocol::Direct.default_actor().to_owned(),
        };
        Ok(Self { changes, oversized, author })
    }

    /// Whether the directory is a work tree of git.
    pub const fn has_repository(&self) -> bool {
        self.changes.has_repository
    }

    /// Without a repository: the work tree of git around the directory, unless git ignores it
    /// there.
    pub fn enclosing_work_tree(&self) -> Option<&Path> {
        self.changes.enclosing.as_deref()
    }

    /// The checked-out branch.
    pub fn branch(&self) -> Option<&str> {
        self.changes.branch.as_deref()
    }

    /// The git command that is not finished: `merge`, `rebase`.
    pub const fn unfinished_command(&self) -> Option<&'static str> {
        self.changes.operation
    }

    /// The files to be committed, in path order.
    pub fn files(&self) -> &[UncommittedFile] {
        &self.changes.files
    }

    /// Commits what is staged, where the work tree has something else: else that would be lost.
    ///
    /// # Errors
    /// `Internal` when git cannot commit, `Conflict` when another server has the repository.
    pub fn commit_staged(&self, root: &Path, scratch_patterns: &[String], now: Timestamp) -> Result<(), Fault> {
        if !self.changes.has_staged_only() {
            return Ok(());
        }
        let (history, _) = History::open_locked(root, scratch_patterns)?;
        let identity = self.changes.identity.as_ref();
        let fallback = Actor::new(Protocol::Direct.default_actor());
        let author = CommitAuthor {
            actor: identity.map_or(&fallback, |identity| &identity.name),
            email: identity.map(|identity| identity.email.as_str()),
            time: now,
            message: &with_source(STAGED_MESSAGE),
        };
        let outcome = history.commit_staged(&author);
        history.close();
        Ok(outcome.map(drop)?)
    }

    /// Records that files which git does not track stay so until they are written.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn leave_untracked(&self, root: &Path) -> Result<(), Fault> {
        let untracked = self.files().iter().filter(|file| file.is_untracked);
        let untracked = untracked.filter_map(|file| Some((&file.path, file.size, file.modified?)));
        Ok(UntrackedFiles::record(&StatePaths::new(root), untracked)?)
    }
}
