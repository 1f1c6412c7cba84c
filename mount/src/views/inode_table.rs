//! Inodes and handles of views.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fuser::{Errno, FileHandle, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{Fault, Kind};

use super::{VIEW_ID_BIT, ViewNode, ViewNodeRef};
use crate::convert::read_range;
use crate::reply::RequestFailure;

struct ViewInode {
    key: Vec<u8>,
    node: ViewNodeRef,
    lookup_count: u64,
}

/// Nodes the kernel knows, by inode.
#[derive(Default)]
pub(super) struct ViewInodeTable(Mutex<HashMap<u64, ViewInode>>);

impl ViewInodeTable {
    /// The preferred inode of a node: a hash of its key, so that listings need not register their
    /// entries.
    pub(super) fn number(node: &dyn ViewNode) -> INodeNo {
        number(&node.key())
    }

    /// The inode of a node; increments the lookup count.
    pub(super) fn add_lookup(&self, node: ViewNodeRef) -> INodeNo {
        let key = node.key();
        let mut inodes = self.0.lock();
        let mut inode = number(&key).0;
        // Hash collision.
        while inodes.get(&inode).is_some_and(|other| other.key != key) {
            inode = (inode + 1) | VIEW_ID_BIT;
        }
        inodes.entry(inode).or_insert(ViewInode { key, node, lookup_count: 0 }).lookup_count += 1;
        INodeNo(inode)
    }

    pub(super) fn get(&self, inode: INodeNo) -> Result<ViewNodeRef, Fault> {
        let inodes = self.0.lock();
        inodes.get(&inode.0).map(|known| ViewNodeRef::clone(&known.node)).ok_or_else(stale)
    }

    /// Decrements the lookup count.
    pub(super) fn forget(&self, inode: INodeNo, count: u64) {
        let mut inodes = self.0.lock();
        if let Some(node) = inodes.get_mut(&inode.0) {
            node.lookup_count = node.lookup_count.saturating_sub(count);
            if node.lookup_count == 0 {
                inodes.remove(&inode.0);
            }
        }
    }
}

fn number(key: &[u8]) -> INodeNo {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    INodeNo(VIEW_ID_BIT | (hasher.finish() & (VIEW_ID_BIT - 1)))
}

fn stale() -> Fault {
    Fault::new(Kind::Stale, "this view file is gone; look up its path again")
}

/// Limit of the content of open files.
const MAX_OPEN_BYTES: usize = 256 << 20;

/// Open files. All handles of a node share its content, which does not change.
#[derive(Default)]
pub(super) struct OpenContents {
    last: AtomicU64,
    open: Mutex<ContentTable>,
}

#[derive(Default)]
struct ContentTable {
    /// The node of each handle.
    handles: HashMap<u64, u64>,
    /// Content and number of handles of each node.
    contents: HashMap<u64, (Bytes, usize)>,
    bytes: usize,
}

impl OpenContents {
    /// Opens a node; `read` is called if it has no handle yet.
    ///
    /// # Errors
    /// `ENFILE` when open files use the whole limit; those of `read`.
    pub(super) fn open(
        &self,
        INodeNo(node): INodeNo,
        read: impl FnOnce() -> Result<Bytes, Fault>,
    ) -> Result<FileHandle, RequestFailure> {
        let handle = VIEW_ID_BIT | (self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let shared = self.open.lock().contents.get(&node).map(|(content, _)| content.clone());
        let content = shared.map_or_else(read, Ok)?;
        let mut open = self.open.lock();
        let ContentTable { handles, contents, bytes } = &mut *open;
        match contents.entry(node) {
            Entry::Occupied(mut entry) => entry.get_mut().1 += 1,
            Entry::Vacant(_) if *bytes + content.len() > MAX_OPEN_BYTES => {
                return Err(RequestFailure::Errno(Errno::ENFILE));
            }
            Entry::Vacant(new) => {
                *bytes += content.len();
                new.insert((content, 1));
            }
        }
        handles.insert(handle, node);
        Ok(FileHandle(handle))
    }

    pub(super) fn read(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Bytes, Fault> {
        let open = self.open.lock();
        let (content, _) = open.handles.get(&handle.0).and_then(|node| open.contents.get(node)).ok_or_else(stale)?;
        Ok(content.slice(read_range(content.len(), offset, length)))
    }

    pub(super) fn close(&self, handle: FileHandle) {
        let mut open = self.open.lock();
        let ContentTable { handles, contents, bytes } = &mut *open;
        let Some(node) = handles.remove(&handle.0) else { return };
        if let Entry::Occupied(mut entry) = contents.entry(node) {
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                *bytes -= entry.remove().0.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: VIEW-2
    #[test]
    fn openers_share_the_content_of_a_view_within_a_memory_limit() {
        let contents = OpenContents::default();
        let open = |node| contents.open(INodeNo(node), || Ok(Bytes::from(vec![0; MAX_OPEN_BYTES / 4])));
        let places: Vec<FileHandle> = (0..4).filter_map(|node| open(node).ok()).collect();
        let again: Vec<FileHandle> = (0..1000).filter_map(|_| open(0).ok()).collect();
        assert_eq!((places.len(), again.len()), (4, 1000));
        let at = |handle| contents.read(handle, 0, 1).unwrap().as_ptr();
        assert!(again.iter().all(|handle| at(*handle) == at(places[0])));
        let is_refused =
            |node| matches!(open(node), Err(RequestFailure::Errno(errno)) if errno.code() == Errno::ENFILE.code());
        assert!(is_refused(4));
        again.into_iter().for_each(|handle| contents.close(handle));
        assert!(is_refused(4), "the first still has it");
        contents.close(places[0]);
        assert!(open(4).is_ok());
    }
}
