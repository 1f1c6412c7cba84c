//! `.svc/draft/<id>/…`: the tree as a draft shows it, writable.
//!
//! Invariant: what is written here goes to `DraftView::apply` of one open draft and never to the
//! tree. A save is acknowledged when it is flushed to `drafts.db`; there is no `Soon`. Bytes that
//! are not published yet are in the dirty buffer of their file and are lost with the process.
//!
//! The kernel caches no names and attributes of drafts, so that changes through other protocols
//! are seen by the next request. Pages are cached while a file is open.

mod files;
mod names;
mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo};
use parking_lot::Mutex;
use svcfs_base::{DraftId, Fault, Kind, PathComponent, Protocol, TreePath};
use svcfs_vfs::{DraftView, EntryKind, NodeId, PathAttributes, Vfs};

use crate::convert::{file_attr, file_type};
use crate::listings::{DirectoryListing, ListingEntry};
use crate::reply::{RequestFailure, or_stale};
use nodes::{DraftEntry, DraftNodes};

/// Name of the folder in `.svc`.
pub(crate) const DRAFTS: &str = "draft";

/// Set in inodes and handles of drafts; views have the next bit.
const DRAFT_ID_BIT: u64 = 1 << 61;

/// Rejections that are remembered, the newest ones.
const MAX_REJECTIONS: usize = 256;

/// Whether an inode or a handle belongs to a draft.
pub(crate) const fn is_draft_id(number: u64) -> bool {
    number >> 61 == 1
}

/// The drafts of a space as one mount shows them.
pub(crate) struct DraftFiles {
    vfs: Arc<Vfs>,
    nodes: DraftNodes,
    /// Why the last save of a page was rejected, oldest first.
    rejections: Mutex<Vec<((DraftId, TreePath), String)>>,
}

impl DraftFiles {
    pub(crate) fn new(vfs: Arc<Vfs>) -> Self {
        Self { vfs, nodes: DraftNodes::default(), rejections: Mutex::default() }
    }

    /// The root of a draft, registered for as long as the mount lives.
    pub(crate) fn root(&self, id: DraftId) -> INodeNo {
        self.nodes.add_lookup(DraftEntry::Path(id, TreePath::root()))
    }

    /// Looks up the folder of all drafts; increments the lookup count. None if drafts are disabled.
    pub(crate) fn lookup_drafts(&self) -> Result<Option<FileAttr>, Fault> {
        if !self.vfs.are_drafts_enabled() {
            return Ok(None);
        }
        let attributes = self.drafts_attributes()?;
        Ok(Some(file_attr(NodeId(self.nodes.add_lookup(DraftEntry::Drafts).0), &attributes)))
    }

    /// Looks up a name; a hit increments the lookup count.
    pub(crate) fn lookup(&self, parent: INodeNo, name: &PathComponent) -> Result<Option<FileAttr>, RequestFailure> {
        let entry = match self.nodes.entry(parent)? {
            DraftEntry::Drafts => match DraftId::parse(name.as_str()) {
                Some(id) => DraftEntry::Path(id, TreePath::root()),
                None => return Ok(None),
            },
            DraftEntry::Path(id, path) => DraftEntry::Path(id, path.join(name)),
        };
        match self.entry_attributes(&entry) {
            Ok(attributes) => Ok(Some(file_attr(NodeId(self.nodes.add_lookup(entry).0), &attributes))),
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    pub(crate) fn forget(&self, inode: INodeNo, count: u64) {
        self.nodes.forget(inode, count);
    }

    pub(crate) fn attributes(&self, inode: INodeNo) -> Result<FileAttr, RequestFailure> {
        let attributes = match self.nodes.entry(inode) {
            Ok(entry) => self.entry_attributes(&entry).map_err(or_stale)?,
            Err(fault) => self.orphan_attributes(inode).ok_or(fault)?,
        };
        Ok(file_attr(NodeId(inode.0), &attributes))
    }

    pub(crate) fn target(&self, inode: INodeNo) -> Result<String, RequestFailure> {
        let (_, path) = self.path(inode)?;
        self.vfs.read_link(Protocol::Fuse, &path).map_err(or_stale)
    }

    /// The entries of a directory.
    pub(crate) fn listing(&self, inode: INodeNo) -> Result<DirectoryListing, Fault> {
        let directory = self.nodes.entry(inode)?;
        let dots = [".", ".."].map(|name| ListingEntry {
            name: name.into(),
            inode,
            kind: FileType::Directory,
            attributes: None,
        });
        let mut entries: BTreeMap<String, (DraftEntry, FileType)> = BTreeMap::new();
        match directory {
            DraftEntry::Drafts => {
                for view in self.vfs.drafts() {
                    let id = view.draft().id;
                    entries.insert(id.to_string(), (DraftEntry::Path(id, TreePath::root()), FileType::Directory));
                }
            }
            DraftEntry::Path(id, path) => {
                for entry in self.view(id)?.list(Protocol::Fuse, &path)? {
                    let kind = file_type(entry.attributes.kind);
                    entries.insert(entry.path.name().to_owned(), (DraftEntry::Path(id, entry.path), kind));
                }
                for new in self.nodes.new_files(id, &path) {
                    entries.insert(new.name().to_owned(), (DraftEntry::Path(id, new), FileType::RegularFile));
                }
            }
        }
        let entries = entries.into_iter().map(|(name, (entry, kind))| ListingEntry {
            name: name.into(),
            inode: entry.number(),
            kind,
            attributes: None,
        });
        Ok(dots.into_iter().chain(entries).collect())
    }

    /// The reason of the last rejection; none if the last save was accepted.
    pub(crate) fn rejection(&self, inode: INodeNo) -> Option<String> {
        let place = self.path(inode).ok()?;
        let rejections = self.rejections.lock();
        rejections.iter().find(|(rejected, _)| *rejected == place).map(|(_, reason)| reason.clone())
    }

    /// The stored content of a page; none for anything else.
    pub(crate) fn content(&self, inode: INodeNo) -> Result<Option<svcfs_vfs::FileView>, Fault> {
        let (id, path) = self.path(inode)?;
        match self.view(id)?.read(Protocol::Fuse, &path) {
            Ok(file) => Ok(Some(file)),
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The text of a stored page; none for anything else.
    pub(crate) fn page_text(&self, inode: INodeNo) -> Result<Option<String>, Fault> {
        if !self.path(inode)?.1.is_page() {
            return Ok(None);
        }
        Ok(self.content(inode)?.and_then(|file| String::from_utf8(file.content.to_vec()).ok()))
    }

    fn record_rejection(&self, place: (DraftId, TreePath), reason: Option<String>) {
        let mut rejections = self.rejections.lock();
        rejections.retain(|(rejected, _)| *rejected != place);
        if let Some(reason) = reason {
            if rejections.len() == MAX_REJECTIONS {
                rejections.remove(0);
            }
            rejections.push((place, reason));
        }
    }

    fn view(&self, id: DraftId) -> Result<DraftView<'_>, Fault> {
        self.vfs.draft(id)
    }

    /// The draft and path of an inode.
    ///
    /// # Errors
    /// `Stale` when it was removed; `NotAllowed` for the folder of all drafts.
    fn path(&self, inode: INodeNo) -> Result<(DraftId, TreePath), Fault> {
        match self.nodes.entry(inode)? {
            DraftEntry::Path(id, path) => Ok((id, path)),
            DraftEntry::Drafts => Err(Fault::new(Kind::NotAllowed, "drafts are opened and closed through the API")),
        }
    }

    /// The draft and path of an entry that is about to be created or removed.
    fn child(&self, parent: INodeNo, name: &PathComponent) -> Result<(DraftId, TreePath), RequestFailure> {
        match self.nodes.entry(parent)? {
            DraftEntry::Drafts => Err(RequestFailure::Errno(Errno::EPERM)),
            DraftEntry::Path(id, path) => {
                let path = path.join(name);
                let is_protected = self.vfs.is_protected(Protocol::Fuse, &path);
                if is_protected { Err(RequestFailure::Errno(Errno::EPERM)) } else { Ok((id, path)) }
            }
        }
    }

    fn drafts_attributes(&self) -> Result<PathAttributes, Fault> {
        let root = self.vfs.stat(Protocol::Fuse, &TreePath::root())?;
        Ok(PathAttributes { mode: root.mode & !0o222, ..root })
    }

    fn entry_attributes(&self, entry: &DraftEntry) -> Result<PathAttributes, Fault> {
        let DraftEntry::Path(id, path) = entry else { return self.drafts_attributes() };
        let view = self.view(*id)?;
        let unsaved = self.nodes.unsaved(entry);
        let stored = match view.stat(Protocol::Fuse, path) {
            Err(fault) if fault.kind() == Kind::NotFound && self.nodes.is_new(entry) => {
                let parent = view.stat(Protocol::Fuse, &path.parent().unwrap_or_else(TreePath::root))?;
                new_file(&parent)
            }
            outcome => outcome?,
        };
        Ok(unsaved.map_or_else(|| stored.clone(), |(size, modified)| sized(stored.clone(), size, modified)))
    }

    /// Attributes of a file that was removed and is still open.
    fn orphan_attributes(&self, inode: INodeNo) -> Option<PathAttributes> {
        let size = self.nodes.orphan_size(inode)?;
        let root = self.vfs.stat(Protocol::Fuse, &TreePath::root()).ok()?;
        Some(PathAttributes { links: 0, ..sized(new_file(&root), size, SystemTime::now()) })
    }
}

fn new_file(parent: &PathAttributes) -> PathAttributes {
    let now = SystemTime::now();
    PathAttributes {
        kind: EntryKind::File,
        mode: 0o644,
        links: 1,
        ..sized(PathAttributes { accessed: now, ..parent.clone() }, 0, now)
    }
}

fn sized(attributes: PathAttributes, size: u64, modified: SystemTime) -> PathAttributes {
    PathAttributes { size, blocks: size.div_ceil(512), modified, changed: modified, ..attributes }
}
