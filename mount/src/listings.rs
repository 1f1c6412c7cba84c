use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fuser::{FileAttr, FileHandle, FileType, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{Caller, Fault, Seq};
use svcfs_vfs::{NodeId, Vfs};

use crate::convert::{file_attr, file_type, inode};

/// Attributes in a listing of at most this age need no new lookup, if no change was announced
/// since.
const MAX_FRESH_AGE: Duration = Duration::from_millis(100);

/// One entry of a listing.
pub(crate) struct ListingEntry {
    /// The entry's name, or `.` or `..`.
    pub(crate) name: Box<str>,
    pub(crate) inode: INodeNo,
    pub(crate) kind: FileType,
    /// Attributes when the listing was read; none if they must be looked up.
    pub(crate) attributes: Option<FileAttr>,
}

impl ListingEntry {
    /// Whether this is `.` or `..`, which the kernel does not look up.
    pub(crate) fn is_dots(&self) -> bool {
        matches!(&*self.name, "." | "..")
    }
}

/// Snapshot of a directory, so that offsets stay valid while it changes.
#[derive(Clone, Default)]
pub(crate) struct DirectoryListing {
    entries: Arc<[ListingEntry]>,
    /// When the directory was read, and the last announced change before that.
    read_at: Option<(Instant, Seq)>,
}

impl DirectoryListing {
    pub(crate) fn read(vfs: &Vfs, caller: &Caller, directory: NodeId) -> Result<Self, Fault> {
        let read_at = Some((Instant::now(), vfs.feed().last_seq()));
        let parent = vfs.path_of(directory).ok().and_then(|path| path.parent()).and_then(|path| vfs.node_at(&path));
        let dots = [(".", directory), ("..", parent.unwrap_or(NodeId::ROOT))].map(|(name, node)| ListingEntry {
            name: name.into(),
            inode: inode(node),
            kind: FileType::Directory,
            attributes: None,
        });
        let entries = vfs.entries(caller, directory)?;
        let entries = entries.into_iter().map(|(name, node, attributes)| ListingEntry {
            name: name.as_str().into(),
            inode: inode(node),
            kind: file_type(attributes.kind),
            attributes: Some(file_attr(node, &attributes)),
        });
        Ok(Self { entries: dots.into_iter().chain(entries).collect(), read_at })
    }

    /// Appends an entry.
    pub(crate) fn with_entry(self, entry: ListingEntry) -> Self {
        let entries = self.entries.iter().map(|entry| ListingEntry { name: entry.name.clone(), ..*entry });
        Self { entries: entries.chain([entry]).collect(), ..self }
    }

    /// Whether its attributes need no new lookup.
    pub(crate) fn is_fresh(&self, vfs: &Vfs) -> bool {
        self.read_at.is_some_and(|(read_at, seq)| read_at.elapsed() < MAX_FRESH_AGE && vfs.feed().last_seq() == seq)
    }

    /// The entries from an offset on, each with the offset of the next.
    pub(crate) fn entries_from(&self, offset: u64) -> impl Iterator<Item = (u64, &ListingEntry)> {
        (1..).zip(self.entries.iter()).skip(usize::try_from(offset).unwrap_or(usize::MAX))
    }
}

impl FromIterator<ListingEntry> for DirectoryListing {
    fn from_iter<I: IntoIterator<Item = ListingEntry>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect(), read_at: None }
    }
}

/// Listings of open directories, by handle.
#[derive(Default)]
pub(crate) struct OpenDirectories {
    last_handle: AtomicU64,
    open: Mutex<HashMap<u64, DirectoryListing>>,
}

impl OpenDirectories {
    /// A new handle without a listing.
    pub(crate) fn open(&self) -> FileHandle {
        FileHandle(self.last_handle.fetch_add(1, Ordering::Relaxed) + 1)
    }
    pub(crate) fn set(&self, handle: FileHandle, listing: DirectoryListing) {
        self.open.lock().insert(handle.0, listing);
    }
    pub(crate) fn get(&self, handle: FileHandle) -> DirectoryListing {
        self.open.lock().get(&handle.0).cloned().unwrap_or_default()
    }
    /// Removes a handle, and returns its listing.
    pub(crate) fn close(&self, handle: FileHandle) -> DirectoryListing {
        self.open.lock().remove(&handle.0).unwrap_or_default()
    }
}
