//! The packs that are ours to merge, and which of them are due.
//!
//! One rule: packs are told apart by their size, in classes of which each holds packs six times as large as the one before;
//! six of a class become one of a higher class. From 4 KiB to 2 GiB there are nine classes, which leaves at most 45 packs, and a byte
//! is copied once for each class it passes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// So many packs of a class are merged.
pub(super) const FAN: usize = 6;
/// All packs that are smaller are of one class, in bytes.
const SMALLEST: u64 = 4 << 10;
/// Packs merged at once at most: of an earlier version of this program, a class may have more than [`FAN`].
const MAX_PARTS: usize = 64;

/// A whole pack on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredPack {
    /// Its data file; its index stands beside it.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Whether it is on the disk for good, or about to be: from then on the log need not have its objects.
    pub(super) is_flushed: bool,
}

impl StoredPack {
    /// Zero for the smallest.
    pub(super) fn class(&self) -> u32 {
        (self.bytes / SMALLEST).checked_ilog(FAN as u64).map_or(0, |class| class + 1)
    }
}

/// Which packs somebody may merge.
#[derive(Debug, Clone, Copy)]
pub(super) struct MergeBounds {
    /// Only those that were not flushed.
    pub(super) is_fresh: bool,
    /// Only of classes below this one.
    pub(super) below: u32,
    /// All together at most so large.
    pub(super) max_bytes: u64,
    /// Not fewer than this.
    pub(super) least: usize,
}

/// The packs that are ours.
#[derive(Debug, Default)]
pub(super) struct PackSet {
    /// Those that no branch shows yet, with our `.keep` files.
    hidden: Vec<(StoredPack, Option<PathBuf>)>,
    /// Those that may be merged.
    shown: Vec<StoredPack>,
    /// Those that are being merged.
    claimed: Vec<StoredPack>,
    /// Those of which a flush said that the disk has them, whoever made them.
    on_disk: HashSet<PathBuf>,
}

impl PackSet {
    /// Adds a pack that no branch shows yet.
    pub(super) fn publish(&mut self, pack: StoredPack, keep: Option<PathBuf>) {
        // In the place of its equal, perhaps, and of its flush.
        self.on_disk.remove(&pack.path);
        self.hidden.push((pack, keep));
    }

    /// A branch shows all packs; the `.keep` files that are not needed any more.
    pub(super) fn release(&mut self) -> Vec<PathBuf> {
        let mut keeps = Vec::new();
        for (pack, keep) in std::mem::take(&mut self.hidden) {
            keeps.extend(keep);
            self.add(pack);
        }
        keeps
    }

    /// From here on the log may let go of what these packs have, as soon as the flush is done.
    pub(super) fn flushing(&mut self) {
        let hidden = self.hidden.iter_mut().map(|(pack, _)| pack);
        // Also what is being merged: that may fail, and they are merged again.
        for pack in hidden.chain(&mut self.shown).chain(&mut self.claimed) {
            pack.is_flushed = true;
        }
    }

    /// Says that the flush which was about to come is done.
    pub(super) fn flushed(&mut self) {
        let all = self.hidden.iter().map(|(pack, _)| pack).chain(&self.shown).chain(&self.claimed);
        self.on_disk.extend(all.filter(|pack| pack.is_flushed).map(|pack| pack.path.clone()));
    }

    /// Says that a pack was flushed by itself.
    pub(super) fn place(&mut self, path: PathBuf) {
        self.on_disk.insert(path);
    }

    /// Whether the disk has a pack: no flush that fails later takes it back.
    pub(super) fn is_on_disk(&self, path: &Path) -> bool {
        self.on_disk.contains(path)
    }

    /// Says that a pack is gone.
    pub(super) fn forget(&mut self, path: &Path) {
        self.on_disk.remove(path);
        self.claimed.retain(|pack| pack.path != path);
    }

    /// Adds a pack that a branch shows. The same objects again are the same file again: replaced by its equal.
    pub(super) fn add(&mut self, pack: StoredPack) {
        match self.shown.iter_mut().find(|known| known.path == pack.path) {
            Some(known) => known.is_flushed &= pack.is_flushed,
            None => self.shown.push(pack),
        }
    }

    pub(super) fn knows(&self, path: &Path) -> bool {
        let mut all = self.hidden.iter().map(|(pack, _)| pack).chain(&self.shown).chain(&self.claimed);
        all.any(|pack| pack.path == path)
    }

    /// Takes back what was claimed and may be merged again.
    pub(super) fn put_back(&mut self, parts: &[StoredPack]) {
        for part in self.taken(parts) {
            self.add(part);
        }
    }

    /// Says that what was claimed is thought of no more: it is in another pack, or unfit.
    pub(super) fn drop_claim(&mut self, parts: &[StoredPack]) {
        self.taken(parts);
    }

    fn taken(&mut self, parts: &[StoredPack]) -> Vec<StoredPack> {
        self.claimed.extract_if(.., |pack| parts.iter().any(|part| part.path == pack.path)).collect()
    }

    /// Claims packs of the lowest class that has too many; none when no class has.
    pub(super) fn claim(&mut self, bounds: MergeBounds) -> Option<Vec<StoredPack>> {
        self.shown.sort_unstable_by_key(|pack| pack.bytes);
        let is_meant = |pack: &StoredPack| pack.class() < bounds.below && !(bounds.is_fresh && pack.is_flushed);
        let meant: Vec<usize> = (0..self.shown.len()).filter(|at| is_meant(&self.shown[*at])).collect();
        let class = |at: &usize| self.shown[*at].class();
        for crowd in meant.chunk_by(|one, other| class(one) == class(other)).filter(|crowd| crowd.len() >= FAN) {
            let mut sum = 0;
            let fits = |at: &&usize| {
                sum += self.shown[**at].bytes;
                sum <= bounds.max_bytes
            };
            let claimed: Vec<usize> = crowd.iter().take(MAX_PARTS).take_while(fits).copied().collect();
            if claimed.len() >= bounds.least {
                // From behind, so that places before stay.
                let parts: Vec<_> = claimed.into_iter().rev().map(|at| self.shown.remove(at)).collect();
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

    const ALL: MergeBounds = MergeBounds { is_fresh: false, below: u32::MAX, max_bytes: u64::MAX, least: 2 };

    fn pack(name: usize, bytes: u64) -> StoredPack {
        StoredPack { path: PathBuf::from(format!("pack-{name}.pack")), bytes, is_flushed: false }
    }

    /// Packs of one size come one by one and are merged as they are due; how many there were at most, and how often a byte was
    /// copied.
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
            most = most.max(packs.shown.len());
        }
        (most, copied as f64 / (count as u64 * bytes) as f64)
    }

    #[test]
    fn hundred_thousand_packs_become_few_and_a_byte_is_copied_a_few_times() {
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
            most = most.max(packs.shown.len());
        }
        assert!(most < 50, "{most}");
    }

    #[test]
    fn what_is_claimed_stays_within_its_bounds() {
        let mut packs = PackSet::default();
        (0..FAN).for_each(|n| packs.add(pack(n, 5000)));
        let bounds = MergeBounds { is_fresh: true, max_bytes: 20_000, ..ALL };
        assert_eq!(packs.claim(MergeBounds { below: 1, ..bounds }), None, "of a higher class");
        assert_eq!(packs.claim(MergeBounds { least: FAN, ..bounds }), None, "too large together");
        let parts = packs.claim(bounds).unwrap();
        assert_eq!(parts.len(), 4);
        packs.put_back(&parts);
        packs.flushing();
        assert_eq!(packs.claim(bounds), None, "flushed");
    }

    #[test]
    fn packs_that_were_flushed_while_a_merge_of_them_failed_are_merged_as_flushed_ones() {
        let mut packs = PackSet::default();
        (0..FAN).for_each(|n| packs.add(pack(n, 5000)));
        let parts = packs.claim(ALL).unwrap();
        packs.flushing();
        packs.flushed();
        packs.put_back(&parts);
        assert_eq!(packs.claim(MergeBounds { is_fresh: true, ..ALL }), None);
        assert!(packs.claim(ALL).unwrap().iter().all(|part| part.is_flushed && packs.is_on_disk(&part.path)));
    }
}
