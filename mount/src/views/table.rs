//! Inodes and handles of views.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fuser::{FileHandle, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{Fault, Kind};

use super::{OURS, Place, PlaceRef};

struct Known {
    key: Vec<u8>,
    place: PlaceRef,
    found: u64,
}

/// The places the kernel knows, by inode.
#[derive(Default)]
pub(super) struct Table(Mutex<HashMap<u64, Known>>);

impl Table {
    /// The number a place has unless another one has it already: the same for the same place at every look, so that a listing
    /// need not remember what it lists.
    pub(super) fn number(place: &dyn Place) -> INodeNo {
        number(&place.key())
    }

    /// The inode of a place; counts as a finding.
    pub(super) fn find(&self, place: PlaceRef) -> INodeNo {
        let key = place.key();
        let mut known = self.0.lock();
        let mut inode = number(&key).0;
        // Two places whose numbers are the same by chance.
        while known.get(&inode).is_some_and(|other| other.key != key) {
            inode = (inode + 1) | OURS;
        }
        known.entry(inode).or_insert(Known { key, place, found: 0 }).found += 1;
        INodeNo(inode)
    }

    /// The place of an inode.
    pub(super) fn get(&self, inode: INodeNo) -> Result<PlaceRef, Fault> {
        let known = self.0.lock();
        known.get(&inode.0).map(|known| PlaceRef::clone(&known.place)).ok_or_else(stale)
    }

    /// Gives back `count` findings.
    pub(super) fn forget(&self, inode: INodeNo, count: u64) {
        let mut known = self.0.lock();
        if let Some(place) = known.get_mut(&inode.0) {
            place.found = place.found.saturating_sub(count);
            if place.found == 0 {
                known.remove(&inode.0);
            }
        }
    }
}

fn number(key: &[u8]) -> INodeNo {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    INodeNo(OURS | (hasher.finish() & (OURS - 1)))
}

fn stale() -> Fault {
    Fault::new(Kind::Stale, "what was shown here is gone")
}

/// Open files, each with the content it had when it was opened.
#[derive(Default)]
pub(super) struct Contents {
    last: AtomicU64,
    open: Mutex<HashMap<u64, Bytes>>,
}

impl Contents {
    /// A handle of a content.
    pub(super) fn open(&self, content: Bytes) -> FileHandle {
        let handle = OURS | (self.last.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.lock().insert(handle, content);
        FileHandle(handle)
    }

    /// Bytes at an offset; fewer at the end.
    pub(super) fn read(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Bytes, Fault> {
        let content = self.open.lock().get(&handle.0).cloned().ok_or_else(stale)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let end = start.saturating_add(length as usize).min(content.len());
        Ok(content.slice(start..end))
    }

    /// Forgets a handle.
    pub(super) fn close(&self, handle: FileHandle) {
        self.open.lock().remove(&handle.0);
    }
}
