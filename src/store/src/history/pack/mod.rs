//! Packs of our own (gitformat-pack(5)): one for each batch, merged as they grow in number.
//!
//! One rule: a pack appears whole, and stays until a branch shows what is in it. Its data file is in place before its index, by
//! which git finds it; before both there is a `.keep` file, which keeps somebody's `git gc` from taking it for rubbish. A pack
//! that a checkpoint flushed goes only after the one that takes its place was flushed, too: the log does not have its objects.
//!
//! - `batch`: the pack of a batch. `index`: what stands beside a pack. `draft`: a file of either, until it is whole.
//!   `torn`: what a crash leaves.
//!   `renewal`: what a failed flush may have lost.
//! - `set`: which packs there are, and which are to become one. `join`: how they do. `merger`: who does it, and when.
//!   `listing`: git's own index over many packs, which has a say in it.
//!
//! The objects are not deltas of each other, so that packs are merged by putting their bodies one behind the other. Packing
//! tightly is what `git gc` is for.

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
pub(super) use torn::{is_whole, sweep_temporary};

const CHECKSUM_BYTES: usize = 20;
/// What our files are called until they are whole. Not a name that begins with `tmp_`: `git prune` takes those away.
pub(super) const TEMPORARY: &str = ".svcfs_";
/// What our `.keep` files say.
const KEEP: &str = "svcfs: until a branch shows it\n";
/// The file that they are further names of, beside the directory of packs.
const MARK: &str = "svcfs.keep";
/// After so many packs went, libgit2 is made to let go of them.
const MANY_REMOVED: usize = 24;

/// Files that may be used again, and who lets go of those that may not.
///
/// A power cut may leave such a file under the name that it had, with the bytes of what it became. So only files of packs that were not
/// flushed are used again: whatever is in them, the log has all of it, and an opening looks at each of them (`torn`).
#[derive(Clone, Copy)]
struct FileReuse<'a> {
    spares: &'a RecyclePool,
    disposal: &'a Reclaimer,
}

impl History {
    const fn reuse(&self) -> FileReuse<'_> {
        FileReuse { spares: &self.spares, disposal: &self.disposal }
    }

    /// Writes what was staged as a pack, so that everybody who opens the repository has it. Nothing is flushed. `git gc`
    /// leaves it alone until [`History::release`].
    ///
    /// # Errors
    /// `State` when it cannot be written; the objects are then kept for the next time.
    pub fn publish(&self) -> HistoryResult<()> {
        let mut writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        let fresh = writer.objects.deflated()?;
        if fresh.is_empty() {
            return Ok(());
        }
        let (pack, keep) = batch::kept(&self.fail, &directory, self.reuse(), &fresh)?;
        writer.objects.forget_fresh();
        self.merger.publish(pack, keep);
        self.fail.hit(FailPoint::PackDone);
        Ok(())
    }

    /// Says that a branch shows all that was published: git's housekeeping may have it, and small packs are merged.
    pub fn unpin_packs(&self) {
        self.merger.release(self.reuse());
        if self.merger.removed().load(Ordering::Relaxed) >= MANY_REMOVED {
            self.merger.removed().store(0, Ordering::Relaxed);
            self.let_go_of_packs();
        }
    }

    /// Says that everything published so far is about to be flushed.
    pub fn start_flush(&self) {
        self.merger.flushing();
    }

    /// Says that everything published before the last [`History::flushing`] is on the disk for good.
    pub fn finish_flush(&self) {
        self.merger.flushed();
    }

    /// Ends what goes on beside the writer: from here on nothing in the repository changes by itself, and another may have it. Files that
    /// wait to be used again go first: whoever opens it next gives theirs the same names.
    pub fn close(&self) {
        self.merger.stop();
        self.spares.clear();
        self.branches.clear();
        self.disposal.rest();
        drop(self.alone.lock().take());
    }

    /// libgit2 keeps a pack open for as long as a repository that has met it, also one that is gone: its file, its index in memory,
    /// its place on the disk.
    fn let_go_of_packs(&self) {
        match Repository::open(&self.root) {
            Ok(repository) => self.writer.lock().repository = repository,
            Err(error) => {
                warn!(%error, "git cannot be opened again; packs that were merged keep their place on the disk")
            }
        }
        self.readers.lock().clear();
    }
}

/// Removes a pack, its index first: what has no index is no pack to anybody.
fn remove(index: &Path) -> HistoryResult<()> {
    for file in [index.to_owned(), index.with_extension("pack")] {
        match fs::remove_file(file) {
            Ok(()) => {}
            // Somebody's `git repack` was first.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Moves a damaged pack to where git does not take it for one, its index first.
fn keep_aside(git: &Path, index: &Path) -> HistoryResult<()> {
    for file in [index.to_owned(), index.with_extension("pack")] {
        match set_aside_in_git(git, &file) {
            Ok(aside) => warn!(file = %aside.display(), "a pack of git is damaged; it is kept here"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
