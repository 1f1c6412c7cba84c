//! Inodes and handles of views.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fuser::{Errno, FileHandle, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{Fault, Kind};

use super::{OURS, ViewNode, ViewNodeRef};
use crate::reply::RequestFailure;

struct ViewInode {
    key: Vec<u8>,
    place: ViewNodeRef,
    found: u64,
}

/// The places the kernel knows, by inode.
#[derive(Default)]
pub(super) struct ViewInodeTable(Mutex<HashMap<u64, ViewInode>>);

impl ViewInodeTable {
    /// The number a place has unless another one has it already: the same for the same place at every look, so that a listing
    /// need not remember what it lists.
    pub(super) fn number(place: &dyn ViewNode) -> INodeNo {
        number(&place.key())
    }

    /// The inode of a place; counts as a finding.
    pub(super) fn find(&self, place: ViewNodeRef) -> INodeNo {
        let key = place.key();
        let mut known = self.0.lock();
        let mut inode = number(&key).0;
        // Two places whose numbers are the same by chance.
        while known.get(&inode).is_some_and(|other| other.key != key) {
            inode = (inode + 1) | OURS;
        }
        known.entry(inode).or_insert(ViewInode { key, place, found: 0 }).found += 1;
        INodeNo(inode)
    }

    /// The place of an inode.
    pub(super) fn get(&self, inode: INodeNo) -> Result<ViewNodeRef, Fault> {
        let known = self.0.lock();
        known.get(&inode.0).map(|known| ViewNodeRef::clone(&known.place)).ok_or_else(stale)
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

/// So many bytes of open files are in memory at most.
const IN_MEMORY: usize = 256 << 20;

/// Open files. All who have a place open share its content, which never changes.
#[derive(Default)]
pub(super) struct OpenContents {
    last: AtomicU64,
    open: Mutex<ContentTable>,
}

#[derive(Default)]
struct ContentTable {
    /// Which place a handle is of.
    handles: HashMap<u64, u64>,
    /// What places hold, and how many handles there are of each.
    contents: HashMap<u64, (Bytes, usize)>,
    /// How much that is together.
    bytes: usize,
}

impl OpenContents {
    /// A handle of a place, whose content is read when nobody has it open.
    ///
    /// # Errors
    /// `ENFILE` while other files that are open take all the room; those of reading it.
    pub(super) fn open(
        &self,
        INodeNo(place): INodeNo,
        read: impl FnOnce() -> Result<Bytes, Fault>,
    ) -> Result<FileHandle, RequestFailure> {
        let handle = OURS | (self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let known = self.open.lock().contents.get(&place).map(|(content, _)| content.clone());
        let content = known.map_or_else(read, Ok)?;
        let mut open = self.open.lock();
        let ContentTable { handles, contents, bytes } = &mut *open;
        match contents.entry(place) {
            Entry::Occupied(mut known) => known.get_mut().1 += 1,
            Entry::Vacant(_) if *bytes + content.len() > IN_MEMORY => return Err(RequestFailure::Errno(Errno::ENFILE)),
            Entry::Vacant(new) => {
                *bytes += content.len();
                new.insert((content, 1));
            }
        }
        handles.insert(handle, place);
        Ok(FileHandle(handle))
    }

    /// Bytes at an offset; fewer at the end.
    pub(super) fn read(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Bytes, Fault> {
        let open = self.open.lock();
        let (content, _) = open.handles.get(&handle.0).and_then(|place| open.contents.get(place)).ok_or_else(stale)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let end = start.saturating_add(length as usize).min(content.len());
        Ok(content.slice(start..end))
    }

    /// Forgets a handle.
    pub(super) fn close(&self, handle: FileHandle) {
        let mut open = self.open.lock();
        let ContentTable { handles, contents, bytes } = &mut *open;
        let Some(place) = handles.remove(&handle.0) else { return };
        if let Entry::Occupied(mut known) = contents.entry(place) {
            known.get_mut().1 -= 1;
            if known.get().1 == 0 {
                *bytes -= known.remove().0.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_open_a_view_share_its_content_and_views_together_take_no_more_than_there_is_room_for() {
        let contents = OpenContents::default();
        let open = |place| contents.open(INodeNo(place), || Ok(Bytes::from(vec![0; IN_MEMORY / 4])));
        let places: Vec<FileHandle> = (0..4).filter_map(|place| open(place).ok()).collect();
        let again: Vec<FileHandle> = (0..1000).filter_map(|_| open(0).ok()).collect();
        assert_eq!((places.len(), again.len()), (4, 1000));
        let at = |handle| contents.read(handle, 0, 1).unwrap().as_ptr();
        assert!(again.iter().all(|handle| at(*handle) == at(places[0])));
        let is_refused =
            |place| matches!(open(place), Err(RequestFailure::Errno(errno)) if errno.code() == Errno::ENFILE.code());
        assert!(is_refused(4));
        again.into_iter().for_each(|handle| contents.close(handle));
        assert!(is_refused(4), "the first still has it");
        contents.close(places[0]);
        assert!(open(4).is_ok());
    }
}
