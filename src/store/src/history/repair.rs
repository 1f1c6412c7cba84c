//! What a crash or a power cut may leave of git: files that reached the disk without their bytes, and locks of a dead process.
//!
//! One rule: only what cannot be anything else is taken away. Whatever was in it, the log brings it again.

mod index;
mod objects;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use git2::{ErrorClass, Reflog, ReflogEntry};
use svcfs_base::CommitId;
use tracing::warn;

use super::inspection::{LockHolder, holder};
use super::{History, HistoryResult, branch, current_reference, head_of, oid, owner};

pub(super) use index::is_damaged;
pub(super) use objects::is_torn;

/// A branch is locked for milliseconds: a lock that outlives this has lost its process.
const MAX_LOCKED: Duration = Duration::from_secs(2);

impl History {
    /// Takes away the lock of a dead process on the branch, and puts a branch without bytes back to `settled`; true when the
    /// branch was put back.
    ///
    /// # Errors
    /// `Git` when the branch cannot be read for another reason, `State` when a lock cannot be removed.
    pub fn repair_branch(&self, settled: Option<CommitId>) -> HistoryResult<bool> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let name = current_reference(repository)?;
        let file = repository.commondir().join(&name);
        drop_stale_lock(&repository.commondir().join(format!("{name}.lock")), &self.root)?;
        drop_stale_lock(&repository.path().join("HEAD.lock"), &self.root)?;
        match head_of(repository) {
            Err(crate::StoreError::Git(error)) if error.class() == ErrorClass::Reference && is_without_bytes(&file) => {
                fs::remove_file(&file)?;
            }
            outcome => return outcome.map(|_| false),
        }
        if let Some(settled) = settled {
            repository.reference(&name, oid(settled)?, true, "svcfs: the branch was lost in a crash")?;
        }
        Ok(true)
    }

    /// Takes the current branch from a commit that was lost back to another one, and what came after that out of its log: git takes it for damage.
    ///
    /// # Errors
    /// `Git` as [`History::advance`]; when the log of the branch cannot be written.
    pub fn rollback_branch(&self, lost: CommitId, to: CommitId) -> HistoryResult<()> {
        let (lost_id, to_id) = (oid(lost)?, oid(to)?);
        let is_lost = |step: &ReflogEntry<'_>| step.id_new() == lost_id;
        let since = |log: &Reflog| log.iter().position(|step| step.id_new() == to_id);
        self.drop_from_logs(|log| since(log).unwrap_or_else(|| log.iter().take_while(is_lost).count()))?;
        self.advance(Some(lost), to)?;
        // That it stood at what was lost is forgotten, too.
        self.drop_from_logs(|log| usize::from(log.get(0).is_some_and(|step| step.id_old() == lost_id)))
    }

    /// Takes moves to commits that were lost, or lost some of what they have, out of the logs of HEAD and the current branch: git takes them for
    /// damage. `settled` and what is older was flushed.
    ///
    /// # Errors
    /// `Git` when a log cannot be read or written, `State` as well.
    pub fn repair_reflogs(&self, settled: Option<CommitId>) -> HistoryResult<()> {
        let Some(head) = self.head()? else { return Ok(()) };
        let lately = self.stood_since(settled)?;
        let whole = self.ancestors_among((None, head), &lately)?;
        let mut lost = HashSet::new();
        for commit in lately.difference(&whole) {
            if !self.has_commit(*commit)? || !self.has_all_objects(Some(head), *commit)? {
                lost.insert(oid(*commit)?);
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        self.change_logs(|log| {
            let is_lost = |(at, step): (usize, ReflogEntry<'_>)| lost.contains(&step.id_new()).then_some(at);
            let lost: Vec<_> = log.iter().enumerate().filter_map(is_lost).collect();
            // The oldest first, so that the places of the others stay what they are; what comes after it comes from where it came from.
            lost.iter().rev().try_for_each(|at| log.remove(*at, true))
        })
    }

    /// Where HEAD and the current branch stood since they stood at a commit.
    fn stood_since(&self, settled: Option<CommitId>) -> HistoryResult<HashSet<CommitId>> {
        let writer = self.writer.lock();
        let branch = current_reference(&writer.repository)?;
        let mut stood = HashSet::new();
        for name in ["HEAD", &branch] {
            stood.extend(branch::stood_since((&writer.repository, name), settled)?);
        }
        Ok(stood)
    }

    /// Takes the newest moves out of the logs of HEAD and the current branch, as many as `count` says of each.
    fn drop_from_logs(&self, count: impl Fn(&Reflog) -> usize) -> HistoryResult<()> {
        self.change_logs(|log| (0..count(log)).try_for_each(|_| log.remove(0, false)))
    }

    /// Writes the logs of HEAD and the current branch anew, where there are any.
    fn change_logs(&self, change: impl Fn(&mut Reflog) -> Result<(), git2::Error>) -> HistoryResult<()> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let branch = current_reference(repository)?;
        for name in ["HEAD", &branch] {
            if branch::log_of(repository, name).exists() {
                let mut log = repository.reflog(name)?;
                change(&mut log)?;
                log.write()?;
            }
        }
        Ok(owner::give_branch(repository, &branch)?)
    }

    /// Whether `.git/index` was not written since a moment: what it names may have been lost with the power.
    pub fn is_index_older_than(&self, moment: SystemTime) -> bool {
        let index = self.folder.join("index");
        fs::metadata(index).and_then(|stat| stat.modified()).is_ok_and(|modified| modified < moment)
    }
}

fn is_without_bytes(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

fn drop_stale_lock(lock: &Path, root: &Path) -> HistoryResult<()> {
    let deadline = Instant::now() + MAX_LOCKED;
    while lock.exists() {
        if Instant::now() >= deadline {
            if let Some(LockHolder { pid, name }) = holder(lock, root) {
                warn!(lock = %lock.display(), pid, "`{name}` holds a lock of git; writes wait until it lets go");
                return Ok(());
            }
            warn!(lock = %lock.display(), "a lock of git that no process holds is taken away");
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
