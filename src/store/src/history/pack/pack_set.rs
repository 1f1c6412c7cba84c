//! The packs that svcfs may merge, and which are due.
//!
//! Invariant: packs have size classes; each class is six times as large as the one before, and six
//! packs of a class become one of a higher class. From 4 KiB to 2 GiB there are nine classes, which
//! leaves at most 45 packs. A byte is copied once per class.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Number of packs of a class that triggers a merge.
pub(super) const MERGE_FACTOR: usize = 6;
/// Smaller packs are in the lowest class, in bytes.
const MIN_CLASS_BYTES: u64 = 4 << 10;
/// Maximum packs per merge: a class left by an earlier version may have more than [`MERGE_FACTOR`].
const MAX_PARTS: usize = 64;

/// A complete pack on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredPack {
    /// The data file; the index is beside it.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Whether it is durable, or a flush has started: from then on the log need not have its
    /// objects.
    pub(super) is_flushed: bool,
}

impl StoredPack {
    /// Zero for the smallest.
    pub(super) fn class(&self) -> u32 {
        (self.bytes / MIN_CLASS_BYTES).checked_ilog(MERGE_FACTOR as u64).map_or(0, |class| class + 1)
    }
}

/// Limits of a merge.
#[derive(Debug, Clone, Copy)]
pub(super) struct MergeBounds {
    /// Only unflushed packs.
    pub(super) unflushed_only: bool,
    /// Only classes below this one.
    pub(super) below_class: u32,
    /// Maximum total size.
    pub(super) max_bytes: u64,
    /// Minimum number of packs.
    pub(super) min_packs: usize,
}

/// All packs of svcfs.
#[derive(Debug, Default)]
pub(super) struct PackSet {
    /// Packs that no branch contains yet, with our `.keep` files.
    pinned: Vec<(StoredPack, Option<PathBuf>)>,
    /// Packs that may be merged.
    mergeable: Vec<StoredPack>,
    /// Packs that are being merged.
    claimed: Vec<StoredPack>,
    /// Packs that are known to be durable.
    durable: HashSet<PathBuf>,
}

impl PackSet {
    /// Adds a pack that no branch contains yet.
    pub(super) fn publish(&mut self, pack: StoredPack, keep: Option<PathBuf>) {
        // It may replace an identical, flushed pack.
        self.durable.remove(&pack.path);
        self.pinned.push((pack, keep));
    }

    /// Unpins all packs; returns the `.keep` files to remove.
    pub(super) fn unpin(&mut self) -> Vec<PathBuf> {
        let mut keeps = Vec::new();
        for (pack, keep) in std::mem::take(&mut self.pinned) {
            keeps.extend(keep);
            self.add(pack);
        }
        keeps
    }

    /// Called before a flush: afterwards the log may drop the objects of these packs.
    pub(super) fn start_flush(&mut self) {
        let pinned = self.pinned.iter_mut().map(|(pack, _)| pack);
        // Including claimed packs: their merge may fail and be retried.
        for pack in pinned.chain(&mut self.mergeable).chain(&mut self.claimed) {
            pack.is_flushed = true;
        }
    }

    /// Called after the flush.
    pub(super) fn finish_flush(&mut self) {
        let all = self.pinned.iter().map(|(pack, _)| pack).chain(&self.mergeable).chain(&self.claimed);
        self.durable.extend(all.filter(|pack| pack.is_flushed).map(|pack| pack.path.clone()));
    }

    /// Records that a pack was flushed separately.
    pub(super) fn mark_durable(&mut self, path: PathBuf) {
        self.durable.insert(path);
    }

    /// Whether a pack is durable: later failed flushes do not affect it.
    pub(super) fn is_durable(&self, path: &Path) -> bool {
        self.durable.contains(path)
    }

    /// Removes a pack.
    pub(super) fn remove(&mut self, path: &Path) {
        self.durable.remove(path);
        self.claimed.retain(|pack| pack.path != path);
    }

    /// Adds a pack that a branch contains. Equal objects give the same file, which replaces the
    /// earlier one.
    pub(super) fn add(&mut self, pack: StoredPack) {
        match self.mergeable.iter_mut().find(|existing| existing.path == pack.path) {
            Some(existing) => existing.is_flushed &= pack.is_flushed,
            None => self.mergeable.push(pack),
        }
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        let mut all = self.pinned.iter().map(|(pack, _)| pack).chain(&self.mergeable).chain(&self.claimed);
        all.any(|pack| pack.path == path)
    }

    /// Returns claimed packs, which may be merged again.
    pub(super) fn unclaim(&mut self, parts: &[StoredPack]) {
        for part in self.take_claimed(parts) {
            self.add(part);
        }
    }

    /// Drops claimed packs: merged, or not mergeable.
    pub(super) fn drop_claim(&mut self, parts: &[StoredPack]) {
        self.take_claimed(parts);
    }

    fn take_claimed(&mut self, parts: &[StoredPack]) -> Vec<StoredPack> {
        self.claimed.extract_if(.., |pack| parts.iter().any(|part| part.path == pack.path)).collect()
    }

    /// Claims packs of the lowest class that is due; none when no class is.
    pub(super) fn claim(&mut self, bounds: MergeBounds) -> Option<Vec<StoredPack>> {
        self.mergeable.sort_unstable_by_key(|pack| pack.bytes);
        let is_candidate =
            |pack: &StoredPack| pack.class() < bounds.below_class && !(bounds.unflushed_only && pack.is_flushed);
        let candidates: Vec<usize> =
            (0..self.mergeable.len()).filter(|at| is_candidate(&self.mergeable[*at])).collect();
        let class = |at: &usize| self.mergeable[*at].class();
        for group in candidates.chunk_by(|a, b| class(a) == class(b)).filter(|group| group.len() >= MERGE_FACTOR) {
            let mut sum = 0;
            let fits = |at: &&usize| {
                sum += self.mergeable[**at].bytes;
                sum <= bounds.max_bytes
            };
            let claimed: Vec<usize> = group.iter().take(MAX_PARTS).take_while(fits).copied().collect();
            if claimed.len() >= bounds.min_packs {
                // In reverse, so that earlier positions stay valid.
                let parts: Vec<_> = claimed.into_iter().rev().map(|at| self.mergeable.remove(at)).collect();
                self.claimed.extend_from_slice(&parts);
                return Some(parts);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: MergeBounds =
        MergeBounds { unflushed_only: false, below_class: u32::MAX, max_bytes: u64::MAX, min_packs: 2 };

    fn pack(name: usize, bytes: u64) -> StoredPack {
        StoredPack { path: PathBuf::from(format!("pack-{name}.pack")), bytes, is_flushed: false }
    }

    /// Packs of one size come one by one and are merged as they are due; how many there were at
    /// most, and how often a byte was copied.
    fn grown(count: usize, bytes: u64) -> (usize, f64) {
        let (mut packs, mut most, mut copied) = (PackSet::default(), 0, 0);
        for n in 0..count {
            packs.add(pack(n, bytes));
            while let Some(parts) = packs.claim(ALL) {
                let sum: u64 = parts.iter().map(|part| part.bytes).sum();
                copied += sum;
                packs.drop_claim(&parts);
                packs.add(pack(count + n, sum));
            }
            most = most.max(packs.mergeable.len());
        }
        (most, copied as f64 / (count as u64 * bytes) as f64)
    }

    /// Shows: GIT-10
    #[test]
    fn hundred_thousand_packs_merge_to_few_with_few_copies_per_byte() {
        for (count, bytes, copies) in [(100_000, 7 << 10, 6.5), (100_000, 600, 8.0), (2_000, 400 << 10, 4.5)] {
            let (most, copied) = grown(count, bytes);
            assert!(most <= 45, "{count} packs of {bytes} bytes: {most} at once");
            assert!(copied <= copies, "{count} packs of {bytes} bytes: a byte was copied {copied} times");
        }
    }

    #[test]
    fn packs_of_every_size_stay_fewer_than_fifty() {
        let mut packs = PackSet::default();
        let (mut state, mut most) = (7_u64, 0);
        for n in 0..50_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            packs.add(pack(n, 300 << (state >> 60)));
            while let Some(parts) = packs.claim(ALL) {
                packs.drop_claim(&parts);
                packs.add(pack(50_000 + n, parts.iter().map(|part| part.bytes).sum()));
            }
            most = most.max(packs.mergeable.len());
        }
        assert!(most < 50, "{most}");
    }

    #[test]
    fn what_is_claimed_stays_within_its_bounds() {
        let mut packs = PackSet::default();
        (0..MERGE_FACTOR).for_each(|n| packs.add(pack(n, 5000)));
        let bounds = MergeBounds { unflushed_only: true, max_bytes: 20_000, ..ALL };
        assert_eq!(packs.claim(MergeBounds { below_class: 1, ..bounds }), None, "of a higher class");
        assert_eq!(packs.claim(MergeBounds { min_packs: MERGE_FACTOR, ..bounds }), None, "too large together");
        let parts = packs.claim(bounds).unwrap();
        assert_eq!(parts.len(), 4);
        packs.unclaim(&parts);
        packs.start_flush();
        assert_eq!(packs.claim(bounds), None, "flushed");
    }

    #[test]
    fn packs_flushed_during_a_failed_merge_are_merged_as_flushed() {
        let mut packs = PackSet::default();
        (0..MERGE_FACTOR).for_each(|n| packs.add(pack(n, 5000)));
        let parts = packs.claim(ALL).unwrap();
        packs.start_flush();
        packs.finish_flush();
        packs.unclaim(&parts);
        assert_eq!(packs.claim(MergeBounds { unflushed_only: true, ..ALL }), None);
        assert!(packs.claim(ALL).unwrap().iter().all(|part| part.is_flushed && packs.is_durable(&part.path)));
    }
}
