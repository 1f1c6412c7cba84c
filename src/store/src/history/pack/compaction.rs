//! Who merges packs: small ones that were not flushed, the committer by the way; all others, a helper that no writer waits for.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use svcfs_work::SerialExecutor;
use tracing::warn;

use super::listing::{self, PackListing};
use super::merge::{MergeFailure, PackMerge};
use super::pack_set::{FAN, MergeBounds, PackSet, StoredPack};
use super::{FileReuse, HistoryResult, TEMPORARY, remove};
use crate::{FailPoint, FailPoints};

/// Larger packs are not made: merging them takes a minute of the disk. Their offsets fit into 31 bits.
const MAX_BYTES: u64 = (2 << 30) - 1;
/// What the committer merges by the way, in bytes: a few milliseconds.
const MAX_BY_THE_WAY: u64 = 2 << 20;
/// What is merged still when the server stops, so that packs of many short lives are merged, too.
const MAX_AT_THE_END: u64 = 32 << 20;

/// The packs of a repository, and who merges them.
pub(in super::super) struct Merger {
    shared: Arc<MergerShared>,
    helper: SerialExecutor,
}

struct MergerShared {
    directory: PathBuf,
    state: Mutex<MergerState>,
    /// Tells temporary names apart.
    serial: AtomicUsize,
    /// Packs that went since somebody asked.
    removed: AtomicUsize,
    fail: FailPoints,
}

#[derive(Default)]
struct MergerState {
    packs: PackSet,
    /// The helper was called.
    is_called: bool,
    /// Packs of earlier lives were looked for.
    has_looked: bool,
    /// Everything is flushed: what lies there from earlier lives is whole.
    is_settled: bool,
    /// The disk refused: left until the next flush.
    is_refused: bool,
    is_stopping: bool,
}

impl Merger {
    /// For a directory of packs.
    pub(in super::super) fn of(directory: PathBuf, fail: FailPoints) -> Self {
        let shared = Arc::new(MergerShared {
            directory,
            state: Mutex::default(),
            serial: AtomicUsize::new(0),
            removed: AtomicUsize::new(0),
            fail,
        });
        Self { shared, helper: SerialExecutor::new() }
    }

    pub(super) fn publish(&self, pack: StoredPack, keep: Option<PathBuf>) {
        self.shared.state.lock().packs.publish(pack, keep);
    }

    /// A branch shows all packs: git's housekeeping may have them, and small ones are merged.
    pub(super) fn release(&self, reuse: FileReuse<'_>) {
        let keeps = self.shared.state.lock().packs.release();
        for keep in keeps {
            match fs::remove_file(&keep) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    warn!(file = %keep.display(), %error, "a mark that keeps a pack from `git gc` could not be removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
        let small = MergeBounds { is_fresh: true, below: u32::MAX, max_bytes: MAX_BY_THE_WAY, least: FAN };
        while let Some(parts) = self.shared.claim(small) {
            self.shared.merge(&parts, MergeMode::Along(reuse));
        }
        self.call(|_| {});
    }

    pub(super) fn flushing(&self) {
        self.shared.state.lock().packs.flushing();
    }

    pub(super) fn flushed(&self) {
        self.call(|state| {
            state.packs.flushed();
            (state.is_settled, state.is_refused) = (true, false);
        });
    }

    /// Whether the disk has a pack, also after a flush that failed.
    pub(super) fn is_on_disk(&self, pack: &Path) -> bool {
        self.shared.state.lock().packs.is_on_disk(pack)
    }

    /// Says that packs were flushed by themselves.
    pub(super) fn place(&self, packs: Vec<PathBuf>) {
        let mut state = self.shared.state.lock();
        packs.into_iter().for_each(|pack| state.packs.place(pack));
    }

    /// Ends the work: what is small is merged still, a large merge is given up.
    pub(super) fn stop(&self) {
        if !self.shared.state.lock().is_stopping {
            self.call(|state| state.is_stopping = true);
        }
        self.helper.wait_idle();
    }

    /// Waits until nothing is being merged any more.
    #[cfg(test)]
    pub(in super::super) fn rest(&self) {
        self.helper.wait_idle();
    }

    fn call(&self, change: impl FnOnce(&mut MergerState)) {
        let mut state = self.shared.state.lock();
        change(&mut state);
        if !std::mem::replace(&mut state.is_called, true) {
            let shared = Arc::clone(&self.shared);
            self.helper.submit(move || shared.look_and_merge());
        }
    }

    /// How many packs went since this was asked.
    pub(super) fn removed(&self) -> &AtomicUsize {
        &self.shared.removed
    }
}

impl Drop for Merger {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How packs are merged.
enum MergeMode<'a> {
    /// By the committer, of packs that the log has; their files are used again.
    Along(FileReuse<'a>),
    /// By the helper, flushed. Packs of lower classes than this, which came meanwhile, are merged first.
    Aside(u32),
}

impl MergerShared {
    fn look_and_merge(&self) {
        let is_to_look = {
            let mut state = self.state.lock();
            state.is_called = false;
            let is_to_look = state.is_settled && !state.has_looked;
            state.has_looked |= is_to_look;
            is_to_look
        };
        if is_to_look && let Err(error) = self.look() {
            warn!(%error, "packs of git from before the start could not be looked at; `git gc` merges them, too");
        }
        self.merge_below(u32::MAX);
    }

    /// Looks for packs of earlier lives of the server.
    fn look(&self) -> HistoryResult<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "pack") && path.with_extension("idx").exists() {
                let bytes = fs::metadata(&path)?.len();
                let mut state = self.state.lock();
                if !state.packs.knows(&path) {
                    state.packs.add(StoredPack { path, bytes, is_flushed: true });
                }
            }
        }
        Ok(())
    }

    fn merge_below(&self, class: u32) {
        let bounds = |is_stopping| MergeBounds {
            is_fresh: false,
            below: class,
            max_bytes: if is_stopping { MAX_AT_THE_END } else { MAX_BYTES },
            least: 2,
        };
        loop {
            let is_stopping = self.state.lock().is_stopping;
            let Some(parts) = self.claim(bounds(is_stopping)) else { return };
            let class = parts.iter().map(StoredPack::class).max().unwrap_or(0);
            self.merge(&parts, MergeMode::Aside(class));
        }
    }

    /// Takes packs out that are due; none when there are none or the disk refused a moment ago. Packs that are listed are left to
    /// git from here on.
    fn claim(&self, bounds: MergeBounds) -> Option<Vec<StoredPack>> {
        loop {
            let mut parts = {
                let mut state = self.state.lock();
                if state.is_refused {
                    return None;
                }
                state.packs.claim(bounds)?
            };
            match PackListing::of(&self.directory) {
                Ok(None) => return Some(parts),
                Ok(Some(listing)) => {
                    let listed: Vec<_> = parts.extract_if(.., |part| listing.names(&part.path)).collect();
                    if listed.is_empty() {
                        return Some(parts);
                    }
                    let mut state = self.state.lock();
                    state.packs.drop_claim(&listed);
                    state.packs.put_back(&parts);
                }
                Err(error) => {
                    warn!(%error, "git's list of packs cannot be read; packs are not merged");
                    self.refused(&parts);
                }
            }
        }
    }

    /// Packs stay as they are, and the disk is left alone until the next flush.
    fn refused(&self, parts: &[StoredPack]) {
        let mut state = self.state.lock();
        state.packs.put_back(parts);
        state.is_refused = true;
    }

    fn merge(&self, parts: &[StoredPack], way: MergeMode<'_>) {
        match self.joined(parts, &way) {
            Ok(()) => {}
            Err(MergeFailure::Stopping) => self.state.lock().packs.put_back(parts),
            Err(MergeFailure::Unfit(path, reason)) => {
                if let Some(reason) = reason {
                    warn!(file = %path.display(), "a pack of git {reason}; run `git fsck`");
                }
                let (unfit, fit): (Vec<_>, Vec<_>) = parts.iter().cloned().partition(|part| part.path == path);
                let mut state = self.state.lock();
                state.packs.drop_claim(&unfit);
                state.packs.put_back(&fit);
            }
            Err(MergeFailure::Store(error)) => {
                warn!(%error, "packs of git could not be merged; they are whole, and it is tried again");
                self.refused(parts);
            }
        }
    }

    fn joined(&self, parts: &[StoredPack], way: &MergeMode<'_>) -> Result<(), MergeFailure> {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let join = PackMerge {
            fail: &self.fail,
            directory: &self.directory,
            temporary: self.directory.join(format!("{TEMPORARY}merged-{serial}")),
            is_flushed: matches!(way, MergeMode::Aside(_)),
            reuse: match way {
                MergeMode::Along(reuse) => Some(*reuse),
                MergeMode::Aside(_) => None,
            },
        };
        let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
        self.has_room_for(bytes)?;
        let mut between = || match way {
            MergeMode::Along(_) => Ok(()),
            MergeMode::Aside(_) if bytes > MAX_AT_THE_END && self.state.lock().is_stopping => {
                Err(MergeFailure::Stopping)
            }
            MergeMode::Aside(class) => {
                self.merge_below(*class);
                Ok(())
            }
        };
        let merged = join.run(parts, &mut between)?;
        {
            let mut state = self.state.lock();
            state.packs.add(merged.clone());
            if join.is_flushed {
                state.packs.place(merged.path.clone());
            }
        }
        for part in parts.iter().filter(|part| part.path != merged.path) {
            self.fail.check(FailPoint::PackDrop)?;
            self.remove(&part.path, way)?;
        }
        self.state.lock().packs.drop_claim(parts);
        self.removed.fetch_add(parts.len(), Ordering::Relaxed);
        listing::drop_broken(&self.directory)?;
        Ok(())
    }

    /// Writers need the disk more than this does.
    fn has_room_for(&self, bytes: u64) -> Result<(), MergeFailure> {
        let disk = rustix::fs::statvfs(&self.directory).map_err(std::io::Error::from)?;
        if bytes > MAX_BY_THE_WAY && disk.f_bavail.saturating_mul(disk.f_frsize) / 2 < bytes {
            return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
        }
        Ok(())
    }

    /// Removes a pack whose objects are in another; not one that somebody wants to keep meanwhile.
    fn remove(&self, pack: &Path, way: &MergeMode<'_>) -> HistoryResult<()> {
        let index = pack.with_extension("idx");
        if pack.with_extension("keep").exists() {
            return Ok(());
        }
        self.state.lock().packs.forget(pack);
        match way {
            // The index first: what has no index is no pack to anybody.
            MergeMode::Along(FileReuse { spares, disposal }) => {
                [&*index, pack].into_iter().try_for_each(|file| Ok(spares.keep(file, disposal)?))
            }
            MergeMode::Aside(_) => remove(&index),
        }
    }
}
