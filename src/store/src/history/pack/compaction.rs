//! Scheduling of pack compaction: small unflushed packs are merged inline by the committer, all
//! others by a helper that no writer waits for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use svcfs_work::SerialExecutor;
use tracing::warn;

use super::listing::{self, PackListing};
use super::merge::{MergeFailure, PackMerge};
use super::pack_set::{MERGE_FACTOR, MergeBounds, PackSet, StoredPack};
use super::{FileReuse, HistoryResult, TEMPORARY, remove};
use crate::{FailPoint, FailPoints};

/// Maximum size of a merged pack: larger merges occupy the disk for a minute. Offsets fit into 31
/// bits.
const MAX_BYTES: u64 = (2 << 30) - 1;
/// Limit of inline merges, in bytes: a few milliseconds.
const MAX_INLINE_BYTES: u64 = 2 << 20;
/// Limit of merges at shutdown, in bytes, so that packs of many short processes are merged, too.
const MAX_SHUTDOWN_BYTES: u64 = 32 << 20;

/// The packs of a repository, and their compaction.
pub(in super::super) struct Merger {
    shared: Arc<MergerShared>,
    helper: SerialExecutor,
}

struct MergerShared {
    directory: PathBuf,
    state: Mutex<MergerState>,
    /// Makes temporary names unique.
    next_number: AtomicUsize,
    /// Number of removed packs since it was last reset.
    removed: AtomicUsize,
    fail: FailPoints,
}

#[derive(Default)]
struct MergerState {
    packs: PackSet,
    /// A job is queued on the helper.
    is_scheduled: bool,
    /// The packs of earlier processes were added.
    has_scanned: bool,
    /// A checkpoint was completed, so packs of earlier processes are complete.
    has_checkpoint: bool,
    /// An I/O error occurred: no merges until the next flush.
    is_suspended: bool,
    is_stopping: bool,
}

impl Merger {
    /// For a directory of packs.
    pub(in super::super) fn new(directory: PathBuf, fail: FailPoints) -> Self {
        let shared = Arc::new(MergerShared {
            directory,
            state: Mutex::default(),
            next_number: AtomicUsize::new(0),
            removed: AtomicUsize::new(0),
            fail,
        });
        Self { shared, helper: SerialExecutor::new() }
    }

    pub(super) fn publish(&self, pack: StoredPack, keep: Option<PathBuf>) {
        self.shared.state.lock().packs.publish(pack, keep);
    }

    /// All packs are reachable from a branch: unpins them, and merges small ones.
    pub(super) fn unpin(&self, reuse: FileReuse<'_>) {
        let keeps = self.shared.state.lock().packs.unpin();
        for keep in keeps {
            match fs::remove_file(&keep) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    warn!(file = %keep.display(), %error, "the `.keep` file of a pack could not be removed; `git gc` will not repack it");
                }
                Ok(()) | Err(_) => {}
            }
        }
        let small = MergeBounds {
            unflushed_only: true,
            below_class: u32::MAX,
            max_bytes: MAX_INLINE_BYTES,
            min_packs: MERGE_FACTOR,
        };
        while let Some(parts) = self.shared.claim(small) {
            self.shared.merge(&parts, MergeMode::Inline(reuse));
        }
        self.schedule(|_| {});
    }

    pub(super) fn start_flush(&self) {
        self.shared.state.lock().packs.start_flush();
    }

    pub(super) fn finish_flush(&self) {
        self.schedule(|state| {
            state.packs.finish_flush();
            (state.has_checkpoint, state.is_suspended) = (true, false);
        });
    }

    /// Whether a pack is durable, even after a failed flush.
    pub(super) fn is_durable(&self, pack: &Path) -> bool {
        self.shared.state.lock().packs.is_durable(pack)
    }

    /// Records that packs were flushed separately.
    pub(super) fn mark_durable(&self, packs: Vec<PathBuf>) {
        let mut state = self.shared.state.lock();
        packs.into_iter().for_each(|pack| state.packs.mark_durable(pack));
    }

    /// Stops the helper: small packs are still merged, a large merge is cancelled.
    pub(super) fn stop(&self) {
        if !self.shared.state.lock().is_stopping {
            self.schedule(|state| state.is_stopping = true);
        }
        self.helper.wait_idle();
    }

    /// Waits until the helper is idle.
    #[cfg(test)]
    pub(in super::super) fn wait_idle(&self) {
        self.helper.wait_idle();
    }

    fn schedule(&self, change: impl FnOnce(&mut MergerState)) {
        let mut state = self.shared.state.lock();
        change(&mut state);
        if !std::mem::replace(&mut state.is_scheduled, true) {
            let shared = Arc::clone(&self.shared);
            self.helper.submit(move || shared.run());
        }
    }

    /// Number of removed packs; the caller resets it.
    pub(super) fn removed(&self) -> &AtomicUsize {
        &self.shared.removed
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The mode of a merge.
enum MergeMode<'a> {
    /// Inline, by the committer, of packs that the log covers; their files are recycled.
    Inline(FileReuse<'a>),
    /// By the helper, flushed. New packs of lower size classes are merged first.
    Background(u32),
}

impl MergerShared {
    fn run(&self) {
        let must_scan = {
            let mut state = self.state.lock();
            state.is_scheduled = false;
            let must_scan = state.has_checkpoint && !state.has_scanned;
            state.has_scanned |= must_scan;
            must_scan
        };
        if must_scan && let Err(error) = self.scan() {
            warn!(%error, "existing packs could not be read for compaction; `git gc` can merge them");
        }
        self.merge_below(u32::MAX);
    }

    /// Adds packs of earlier processes.
    fn scan(&self) -> HistoryResult<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "pack") && path.with_extension("idx").exists() {
                let bytes = fs::metadata(&path)?.len();
                let mut state = self.state.lock();
                if !state.packs.contains(&path) {
                    state.packs.add(StoredPack { path, bytes, is_flushed: true });
                }
            }
        }
        Ok(())
    }

    fn merge_below(&self, class: u32) {
        let bounds = |is_stopping| MergeBounds {
            unflushed_only: false,
            below_class: class,
            max_bytes: if is_stopping { MAX_SHUTDOWN_BYTES } else { MAX_BYTES },
            min_packs: 2,
        };
        loop {
            let is_stopping = self.state.lock().is_stopping;
            let Some(parts) = self.claim(bounds(is_stopping)) else { return };
            let class = parts.iter().map(StoredPack::class).max().unwrap_or(0);
            self.merge(&parts, MergeMode::Background(class));
        }
    }

    /// Takes packs that are due for compaction; none without any, or after an I/O error. Packs in a
    /// multi-pack-index are left to git.
    fn claim(&self, bounds: MergeBounds) -> Option<Vec<StoredPack>> {
        loop {
            let mut parts = {
                let mut state = self.state.lock();
                if state.is_suspended {
                    return None;
                }
                state.packs.claim(bounds)?
            };
            match PackListing::read(&self.directory) {
                Ok(None) => return Some(parts),
                Ok(Some(listing)) => {
                    let in_listing: Vec<_> = parts.extract_if(.., |part| listing.contains(&part.path)).collect();
                    if in_listing.is_empty() {
                        return Some(parts);
                    }
                    let mut state = self.state.lock();
                    state.packs.drop_claim(&in_listing);
                    state.packs.unclaim(&parts);
                }
                Err(error) => {
                    warn!(%error, "git's multi-pack-index cannot be read; packs are not merged until the next checkpoint");
                    self.suspend(&parts);
                }
            }
        }
    }

    /// Returns the packs, and disables compaction until the next flush.
    fn suspend(&self, parts: &[StoredPack]) {
        let mut state = self.state.lock();
        state.packs.unclaim(parts);
        state.is_suspended = true;
    }

    fn merge(&self, parts: &[StoredPack], mode: MergeMode<'_>) {
        match self.try_merge(parts, &mode) {
            Ok(()) => {}
            Err(MergeFailure::Stopping) => self.state.lock().packs.unclaim(parts),
            Err(MergeFailure::Unfit(path, reason)) => {
                if let Some(reason) = reason {
                    warn!(file = %path.display(), "a git pack {reason}; run `git fsck`");
                }
                let (unfit, fit): (Vec<_>, Vec<_>) = parts.iter().cloned().partition(|part| part.path == path);
                let mut state = self.state.lock();
                state.packs.drop_claim(&unfit);
                state.packs.unclaim(&fit);
            }
            Err(MergeFailure::Store(error)) => {
                warn!(%error, "git packs could not be merged; they are unchanged, and the next checkpoint retries");
                self.suspend(parts);
            }
        }
    }

    fn try_merge(&self, parts: &[StoredPack], mode: &MergeMode<'_>) -> Result<(), MergeFailure> {
        let next_number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let merge = PackMerge {
            fail: &self.fail,
            directory: &self.directory,
            temporary: self.directory.join(format!("{TEMPORARY}merged-{next_number}")),
            is_flushed: matches!(mode, MergeMode::Background(_)),
            reuse: match mode {
                MergeMode::Inline(reuse) => Some(*reuse),
                MergeMode::Background(_) => None,
            },
        };
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        self.check_free_space(bytes)?;
        let mut between_slices = || match mode {
            MergeMode::Inline(_) => Ok(()),
            MergeMode::Background(_) if bytes > MAX_SHUTDOWN_BYTES && self.state.lock().is_stopping => {
                Err(MergeFailure::Stopping)
            }
            MergeMode::Background(class) => {
                self.merge_below(*class);
                Ok(())
            }
        };
        let merged = merge.run(parts, &mut between_slices)?;
        {
            let mut state = self.state.lock();
            state.packs.add(merged.clone());
            if merge.is_flushed {
                state.packs.mark_durable(merged.path.clone());
            }
        }
        for part in parts.iter().filter(|part| part.path != merged.path) {
            self.fail.check(FailPoint::PackDrop)?;
            self.remove(&part.path, mode)?;
        }
        self.state.lock().packs.drop_claim(parts);
        self.removed.fetch_add(parts.len(), Ordering::Relaxed);
        listing::remove_stale(&self.directory)?;
        Ok(())
    }

    /// Leaves free space for writers.
    fn check_free_space(&self, bytes: u64) -> Result<(), MergeFailure> {
        let disk = rustix::fs::statvfs(&self.directory).map_err(std::io::Error::from)?;
        if bytes > MAX_INLINE_BYTES && disk.f_bavail.saturating_mul(disk.f_frsize) / 2 < bytes {
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
        }
        Ok(())
    }

    /// Removes a pack whose objects are in another; not if someone has pinned it meanwhile.
    fn remove(&self, pack: &Path, mode: &MergeMode<'_>) -> HistoryResult<()> {
        let index = pack.with_extension("idx");
        if pack.with_extension("keep").exists() {
            return Ok(());
        }
        self.state.lock().packs.remove(pack);
        match mode {
            // The index first: without an index git ignores the pack.
            MergeMode::Inline(FileReuse { pool, reclaimer }) => {
                [&*index, pack].into_iter().try_for_each(|file| Ok(pool.recycle(file, reclaimer)?))
            }
            MergeMode::Background(_) => remove(&index),
        }
    }
}
