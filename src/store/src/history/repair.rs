//! Repair of git after a crash or power failure: files without content, and locks of dead
//! processes.
//!
//! Invariant: only files that are certainly damaged are removed. The log replays their contents.

mod index;
mod objects;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use git2::{ErrorClass, Reflog, ReflogEntry};
use svcfs_base::CommitId;
use tracing::warn;

use super::inspection::{LockHolder, lock_holder};
use super::{History, HistoryResult, branch, current_reference, head_of, oid, owner};

pub(super) use index::is_damaged;
pub(super) use objects::is_torn;

/// Branches are locked for milliseconds: an older lock is stale.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

impl History {
    /// Removes a stale lock on the branch, and resets an empty branch file to the commit of the
    /// last checkpoint; true when the branch was reset.
    ///
    /// # Errors
    /// `Git` when the branch cannot be read for another reason, `State` when a lock cannot be
    /// removed.
    pub fn repair_branch(&self, checkpoint: Option<CommitId>) -> HistoryResult<bool> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let name = current_reference(repository)?;
        let file = repository.commondir().join(&name);
        remove_stale_lock(&repository.commondir().join(format!("{name}.lock")), &self.root)?;
        remove_stale_lock(&repository.path().join("HEAD.lock"), &self.root)?;
        match head_of(repository) {
            Err(crate::StoreError::Git(error))
                if error.class() == ErrorClass::Reference && is_empty_or_zeros(&file) =>
            {
                fs::remove_file(&file)?;
            }
            outcome => return outcome.map(|_| false),
        }
        if let Some(checkpoint) = checkpoint {
            repository.reference(&name, oid(checkpoint)?, true, "svcfs: the branch was lost in a crash")?;
        }
        Ok(true)
    }

    /// Moves the current branch from a lost commit back to another one, and removes later reflog
    /// entries, which git would report as damage.
    ///
    /// # Errors
    /// `Git` as [`History::advance`], or when the reflog cannot be written.
    pub fn rollback_branch(&self, lost: CommitId, to: CommitId) -> HistoryResult<()> {
        let (lost_id, to_id) = (oid(lost)?, oid(to)?);
        let is_lost = |step: &ReflogEntry<'_>| step.id_new() == lost_id;
        let since = |log: &Reflog| log.iter().position(|step| step.id_new() == to_id);
        self.drop_newest_entries(|log| since(log).unwrap_or_else(|| log.iter().take_while(is_lost).count()))?;
        self.advance(Some(lost), to)?;
        // Removes the entry of the lost commit, too.
        self.drop_newest_entries(|log| usize::from(log.get(0).is_some_and(|step| step.id_old() == lost_id)))
    }

    /// Removes entries of lost or incomplete commits from the reflogs of HEAD and the current
    /// branch, which git would report as damage. The commit of the last checkpoint and older ones
    /// were flushed.
    ///
    /// # Errors
    /// `Git` or `State` when a reflog cannot be read or written.
    pub fn repair_reflogs(&self, checkpoint: Option<CommitId>) -> HistoryResult<()> {
        let Some(head) = self.head()? else { return Ok(()) };
        let recent = self.recent_commits(checkpoint)?;
        let reachable = self.ancestors_among((None, head), &recent)?;
        let mut lost = HashSet::new();
        for commit in recent.difference(&reachable) {
            if !self.has_commit(*commit)? || !self.has_all_objects(Some(head), *commit)? {
                lost.insert(oid(*commit)?);
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        self.rewrite_reflogs(|log| {
            let is_lost = |(at, step): (usize, ReflogEntry<'_>)| lost.contains(&step.id_new()).then_some(at);
            let lost: Vec<_> = log.iter().enumerate().filter_map(is_lost).collect();
            // Oldest first, so that the positions of the others stay valid. The next entry then
            // starts from the predecessor.
            lost.iter().rev().try_for_each(|at| log.remove(*at, true))
        })
    }

    /// The commits of HEAD and the current branch since the checkpoint.
    fn recent_commits(&self, checkpoint: Option<CommitId>) -> HistoryResult<HashSet<CommitId>> {
        let writer = self.writer.lock();
        let branch = current_reference(&writer.repository)?;
        let mut commits = HashSet::new();
        for name in ["HEAD", &branch] {
            commits.extend(branch::commits_since((&writer.repository, name), checkpoint)?);
        }
        Ok(commits)
    }

    /// Removes the newest entries of the reflogs of HEAD and the current branch; `count` returns
    /// how many.
    fn drop_newest_entries(&self, count: impl Fn(&Reflog) -> usize) -> HistoryResult<()> {
        self.rewrite_reflogs(|log| (0..count(log)).try_for_each(|_| log.remove(0, false)))
    }

    /// Rewrites the reflogs of HEAD and the current branch, if they exist.
    fn rewrite_reflogs(&self, change: impl Fn(&mut Reflog) -> Result<(), git2::Error>) -> HistoryResult<()> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let branch = current_reference(repository)?;
        for name in ["HEAD", &branch] {
            if branch::reflog_path(repository, name).exists() {
                let mut log = repository.reflog(name)?;
                change(&mut log)?;
                log.write()?;
            }
        }
        Ok(owner::give_branch(repository, &branch)?)
    }

    /// Whether `.git/index` was last written before `time`: objects it refers to may be lost in a
    /// power failure.
    pub fn is_index_older_than(&self, time: SystemTime) -> bool {
        let index = self.git_dir.join("index");
        fs::metadata(index).and_then(|stat| stat.modified()).is_ok_and(|modified| modified < time)
    }
}

fn is_empty_or_zeros(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

fn remove_stale_lock(lock: &Path, root: &Path) -> HistoryResult<()> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    while lock.exists() {
        if Instant::now() >= deadline {
            if let Some(LockHolder { pid, name }) = lock_holder(lock, root) {
                warn!(lock = %lock.display(), pid, "`{name}` holds a lock of git; writes wait until it is released");
                return Ok(());
            }
            warn!(lock = %lock.display(), "removing a stale lock of git");
            match fs::remove_file(lock) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => return Ok(()),
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
