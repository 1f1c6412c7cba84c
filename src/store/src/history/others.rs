//! Somebody else's git at work in the same repository, and what it leaves behind.
//!
//! One rule: a person's git is never stopped. We look for its traces, give way for a moment, and keep what it would let go of.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use git2::Repository;
use svcfs_base::CommitId;
use tracing::warn;

use super::{EMAIL, History, Outcome, commit_id, oid};

/// A lock that has been there for this long has lost its process.
const MAX_LOCKED: Duration = Duration::from_secs(60);
/// Where the ends of lines of commits stand that left every branch.
const KEPT: &str = "refs/svcfs/kept/";

/// The trace of one git command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace(u64);

impl History {
    /// The trace of a git command that is in the middle of something: it holds `.git/index.lock`, or it wrote `.git/index` less
    /// than `grace` ago and may be about to move the branch, which is the last thing `git checkout` or `git merge` does.
    pub fn others_at_work(&self, grace: Duration) -> Option<Trace> {
        let age = |stat: &Metadata| stat.modified().ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
        if let Ok(lock) = fs::symlink_metadata(self.directory.join("index.lock"))
            && age(&lock) < MAX_LOCKED
        {
            return Some(Trace(lock.ino()));
        }
        let index = fs::symlink_metadata(self.directory.join("index")).ok()?;
        let is_ours = *self.own_index.lock() == Some(written(&index));
        (!is_ours && age(&index) < grace).then(|| Trace(index.ino()))
    }

    /// The number of a git process that works in the root, other than one of this number. Looks at every process of the
    /// machine: a few milliseconds.
    pub fn git_in_the_root(&self, but: Option<u32>) -> Option<u32> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
            .filter(|(pid, _)| Some(*pid) != but)
            .find(|(_, process)| {
                let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
                (name.trim() == "git" || name.starts_with("git-"))
                    && fs::read_link(process.join("cwd")).is_ok_and(|folder| folder.starts_with(&self.root))
            })
            .map(|(pid, _)| pid)
    }

    /// Remembers `.git/index` as it stands as one of our own making.
    pub(super) fn own_the_index(&self) {
        *self.own_index.lock() = written_at(&self.directory.join("index"));
    }

    /// Keeps the commits of this server that lead to `left` and that HEAD, now at `to`, does not have, under a reference of ours:
    /// a rebase or a reset takes them off their branch, and `git gc` would take them away. True when there were any.
    ///
    /// What HEAD has again, and what another of these references has, is let go of.
    ///
    /// # Errors
    /// `Git`.
    pub fn keep(&self, left: CommitId, to: CommitId) -> Outcome<bool> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let (left, to) = (oid(left)?, oid(to)?);
        // After a crash it may be one that never reached the disk; the log makes it again.
        if repository.find_commit(left).is_err() || !has_ours(repository, left, to)? {
            return Ok(false);
        }
        let name = format!("{KEPT}{}", commit_id(left));
        repository.reference(&name, left, true, "svcfs: it left its branch")?;
        super::owner::give_below(repository.commondir(), &name)?;
        if let Err(error) = let_go(repository, left, to) {
            // One too many harms nobody.
            warn!(%error, "a reference below `{KEPT}` that is needed no more could not be removed");
        }
        Ok(true)
    }
}

/// Removes what HEAD has again, and what the newest of them has.
fn let_go(repository: &Repository, left: git2::Oid, to: git2::Oid) -> Outcome<()> {
    let names = repository.references_glob(&format!("{KEPT}*"))?;
    for mut reference in names.collect::<Result<Vec<_>, _>>()? {
        let Some(kept) = reference.target().filter(|kept| *kept != left) else { continue };
        let has = |tip| Ok::<_, git2::Error>(kept == tip || repository.graph_descendant_of(tip, kept)?);
        if has(to)? || has(left)? {
            reference.delete()?;
        }
    }
    Ok(())
}

/// Tells one writing of a file from another; none when there is no file.
pub(super) fn written_at(file: &Path) -> Option<(u64, SystemTime)> {
    fs::symlink_metadata(file).ok().as_ref().map(written)
}

fn written(stat: &Metadata) -> (u64, SystemTime) {
    (stat.ino(), stat.modified().unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Whether a commit that `to` does not have is of our making.
fn has_ours(repository: &Repository, left: git2::Oid, to: git2::Oid) -> Outcome<bool> {
    let mut walk = repository.revwalk()?;
    walk.push(left)?;
    walk.hide(to)?;
    for id in walk {
        if repository.find_commit(id?)?.committer().email_bytes() == EMAIL.as_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}
