//! Packs of svcfs (gitformat-pack(5)): one per batch, compacted as their number grows.
//!
//! Invariant: a pack is installed complete, and stays until a branch contains its objects. The data
//! file is installed before the index, and a `.keep` file before both, so that `git gc` does not
//! remove the pack. A flushed pack is removed only after its replacement is flushed, because the
//! log does not have its objects.
//!
//! - `batch`: the pack of a batch. `index`: the index file. `temp_pack`: a file being written.
//!   `torn`: leftovers of a crash. `rewrite`: packs after a failed flush.
//! - `pack_set`: existing packs, and those due for compaction. `merge`: a merge. `compaction`:
//!   scheduling. `listing`: git's multi-pack-index, which restricts it.
//!
//! Objects are not stored as deltas, so that packs are merged by concatenation. `git gc` packs
//! tightly.

mod batch;
mod compaction;
mod index;
mod listing;
mod merge;
mod pack_set;
mod rewrite;
mod temp_pack;
mod torn;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use git2::Repository;
use tracing::warn;

use super::inspection::set_aside_in_git;
use super::{History, HistoryResult, owner};
use crate::FailPoint;
use crate::deferred_unlink::Reclaimer;
use crate::recycled_files::RecyclePool;

pub(super) use compaction::Merger;
pub(super) use torn::{is_complete, sweep_temporary};

const CHECKSUM_BYTES: usize = 20;
/// Prefix of temporary files. Not `tmp_`, which `git prune` removes.
pub(super) const TEMPORARY: &str = ".svcfs_";
/// Content of our `.keep` files.
const KEEP_TEXT: &str = "svcfs: until a branch shows it\n";
/// The file that `.keep` files are hard links to, beside the pack directory.
const KEEP_SOURCE: &str = "svcfs.keep";
/// After this many removed packs, libgit2's handles are closed.
const MAX_REMOVED_PACKS: usize = 24;

/// Recycled files, and the reclaimer of others.
///
/// After a power failure a recycled file may have its old name and new content. So only files of
/// unflushed packs are recycled: the log has their objects, and recovery checks each of them
/// (`torn`).
#[derive(Clone, Copy)]
struct FileReuse<'a> {
    pool: &'a RecyclePool,
    reclaimer: &'a Reclaimer,
}

impl History {
    const fn reuse(&self) -> FileReuse<'_> {
        FileReuse { pool: &self.recycled_packs, reclaimer: &self.reclaimer }
    }

    /// Writes staged objects as a pack, so that every process with the repository sees them.
    /// Nothing is flushed. `git gc` ignores the pack until [`History::unpin_packs`].
    ///
    /// # Errors
    /// `State` when it cannot be written; the objects then stay staged.
    pub fn publish(&self) -> HistoryResult<()> {
        let mut writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        let new_objects = writer.objects.deflate_all()?;
        if new_objects.is_empty() {
            return Ok(());
        }
        let (pack, keep) = batch::write_pinned(&self.fail, &directory, self.reuse(), &new_objects)?;
        writer.objects.clear();
        self.merger.publish(pack, keep);
        self.fail.hit(FailPoint::PackDone);
        Ok(())
    }

    /// Called when a branch contains all published objects: unpins packs for `git gc`, and merges
    /// small ones.
    pub fn unpin_packs(&self) {
        self.merger.unpin(self.reuse());
        if self.merger.removed().load(Ordering::Relaxed) >= MAX_REMOVED_PACKS {
            self.merger.removed().store(0, Ordering::Relaxed);
            self.reopen_repository();
        }
    }

    /// Called before a flush: it covers everything published so far.
    pub fn start_flush(&self) {
        self.merger.start_flush();
    }

    /// Called after a flush: everything published before [`History::start_flush`] is durable.
    pub fn finish_flush(&self) {
        self.merger.finish_flush();
    }

    /// Stops background work and releases the repository. Recycled files are removed first: the
    /// next process uses the same names.
    pub fn close(&self) {
        self.merger.stop();
        self.recycled_packs.clear();
        self.recycled_refs.clear();
        self.reclaimer.wait_idle();
        drop(self.repo_lock.lock().take());
    }

    /// libgit2 keeps packs open, even removed ones: the file, its index in memory, its disk space.
    fn reopen_repository(&self) {
        match Repository::open(&self.root) {
            Ok(repository) => self.writer.lock().repository = repository,
            Err(error) => {
                warn!(%error, "the repository cannot be reopened; merged packs still occupy disk space")
            }
        }
        self.readers.lock().clear();
    }
}

/// Removes a pack, its index first: without an index git ignores the pack.
fn remove(index: &Path) -> HistoryResult<()> {
    for file in [index.to_owned(), index.with_extension("pack")] {
        match fs::remove_file(file) {
            Ok(()) => {}
            // Removed by a concurrent `git repack`.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Moves a damaged pack to `.git/damaged`, its index first.
fn quarantine(git: &Path, index: &Path) -> HistoryResult<()> {
    for file in [index.to_owned(), index.with_extension("pack")] {
        match set_aside_in_git(git, &file) {
            Ok(aside) => warn!(file = %aside.display(), "a git pack is damaged and was moved here"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
