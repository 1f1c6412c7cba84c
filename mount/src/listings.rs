//! Open directories.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fuser::{FileAttr, FileHandle, FileType, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{Caller, Fault, Seq};
use svcfs_vfs::{NodeId, Vfs};

use crate::convert::{file_attr, file_type, inode};

/// For so long what a listing says of a file is as good as another look, if nothing was announced meanwhile.
const FRESH: Duration = Duration::from_millis(100);

/// One line of a listing.
pub(crate) struct ListingEntry {
    /// The entry's name, or `.` or `..`.
    pub(crate) name: Box<str>,
    /// Its node.
    pub(crate) inode: INodeNo,
    /// What it is.
    pub(crate) kind: FileType,
    /// What was known of it when the listing was made; none of what is to be looked up.
    pub(crate) known: Option<FileAttr>,
}

impl ListingEntry {
    /// True for `.` and `..`, which the kernel knows without looking them up.
    pub(crate) fn is_dots(&self) -> bool {
        matches!(&*self.name, "." | "..")
    }
}

/// A directory as it was when reading it began: offsets stay good however it changes meanwhile.
#[derive(Clone, Default)]
pub(crate) struct DirectoryListing {
    lines: Arc<[ListingEntry]>,
    /// When the directory was read, and what had been announced before.
    made: Option<(Instant, Seq)>,
}

impl DirectoryListing {
    /// Reads a directory.
    pub(crate) fn of(vfs: &Vfs, caller: &Caller, directory: NodeId) -> Result<Self, Fault> {
        let made = Some((Instant::now(), vfs.feed().last_seq()));
        let above = vfs.path_of(directory).ok().and_then(|path| path.parent()).and_then(|path| vfs.node_at(&path));
        let dots = [(".", directory), ("..", above.unwrap_or(NodeId::ROOT))].map(|(name, node)| ListingEntry {
            name: name.into(),
            inode: inode(node),
            kind: FileType::Directory,
            known: None,
        });
        let entries = vfs.entries(caller, directory)?;
        let lines = entries.into_iter().map(|(name, node, attributes)| ListingEntry {
            name: name.as_str().into(),
            inode: inode(node),
            kind: file_type(attributes.kind),
            known: Some(file_attr(node, &attributes)),
        });
        Ok(Self { lines: dots.into_iter().chain(lines).collect(), made })
    }

    /// The same with one more line at its end.
    pub(crate) fn and(self, line: ListingEntry) -> Self {
        let lines = self.lines.iter().map(|line| ListingEntry { name: line.name.clone(), ..*line });
        Self { lines: lines.chain([line]).collect(), ..self }
    }

    /// Whether what it knows of files is as good as another look.
    pub(crate) fn is_fresh(&self, vfs: &Vfs) -> bool {
        self.made.is_some_and(|(made, seq)| made.elapsed() < FRESH && vfs.feed().last_seq() == seq)
    }

    /// The lines from an offset on, each with the offset of the next.
    pub(crate) fn after(&self, offset: u64) -> impl Iterator<Item = (u64, &ListingEntry)> {
        (1..).zip(self.lines.iter()).skip(usize::try_from(offset).unwrap_or(usize::MAX))
    }
}

impl FromIterator<ListingEntry> for DirectoryListing {
    fn from_iter<I: IntoIterator<Item = ListingEntry>>(lines: I) -> Self {
        Self { lines: lines.into_iter().collect(), made: None }
    }
}

/// The directories processes have open, by handle.
#[derive(Default)]
pub(crate) struct OpenDirectories {
    last: AtomicU64,
    open: Mutex<HashMap<u64, DirectoryListing>>,
}

impl OpenDirectories {
    /// A new handle, with nothing read yet.
    pub(crate) fn open(&self) -> FileHandle {
        FileHandle(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
    /// Remembers what a handle reads.
    pub(crate) fn begin(&self, handle: FileHandle, listing: DirectoryListing) {
        self.open.lock().insert(handle.0, listing);
    }
    /// What a handle reads.
    pub(crate) fn get(&self, handle: FileHandle) -> DirectoryListing {
        self.open.lock().get(&handle.0).cloned().unwrap_or_default()
    }
    /// Forgets a handle, and tells what it read.
    pub(crate) fn close(&self, handle: FileHandle) -> DirectoryListing {
        self.open.lock().remove(&handle.0).unwrap_or_default()
    }
}
