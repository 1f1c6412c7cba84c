//! Views: virtual files below `.svc/` of the mount, with earlier versions, past trees and query
//! results.
//!
//! Invariant: views are read-only, except that entries of [`board`] can be moved, and cost nothing
//! until opened. A [`ViewNode`] is a folder, file
//! or link of a view. This module assigns inodes and answers the kernel; the other modules provide
//! the content.
//!
//! View folders are not listed, so that `grep -r` or `find` do not visit every version of every
//! page. [`guide`] is listed instead, and documents them.

mod board;
mod guide;
mod history;
mod inode_table;
mod knowledge;
mod links;
mod lint;
mod past_file;
mod past_tree;
mod queries;
mod reader;
mod recent_cache;

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fuser::{Errno, FileAttr, FileHandle, FileType, FopenFlags, INodeNo};
use svcfs_base::{Caller, Clock, Fault, Kind, PathComponent, Protocol, Timestamp, TreePath};
use svcfs_vfs::{EntryKind, NodeId, PastState, PathAttributes, Vfs};

use crate::convert::{file_attr, file_type, name};
use crate::drafts::DRAFTS;
use crate::listings::{DirectoryListing, ListingEntry};
use crate::reply::RequestFailure;
use inode_table::{OpenContents, ViewInodeTable};

use guide::GUIDE;
use links::RelatedFolder;

pub use knowledge::{KnowledgeSource, LintFinding, PageFilter, PageHit, PageHits};
pub(crate) use reader::ViewReader;

/// The directory whose entries the views are.
const VIEWS_PARENT: &str = ".svc";

/// Set in inodes and handles of views. The vfs counts its own from 1.
const VIEW_ID_BIT: u64 = 1 << 62;

/// Whether an inode or a handle belongs to a view.
pub(crate) const fn is_view_id(number: u64) -> bool {
    number & VIEW_ID_BIT != 0
}

const VIEW_NAMES: &[&str] =
    &[GUIDE, "history", "at", "search", "query", "tags", "backlinks", "similar", "lint", "board", DRAFTS];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ViewNodeKind {
    Folder,
    /// With immutable content.
    File,
    Link,
}

impl ViewNodeKind {
    const fn kind(self) -> EntryKind {
        match self {
            Self::Folder => EntryKind::Directory,
            Self::File => EntryKind::File,
            Self::Link => EntryKind::Symlink,
        }
    }
}

/// Attributes of a view node.
struct ViewAttributes {
    /// Length of a file or of a link's target, in bytes.
    size: u64,
    /// Modification time; that of `permissions_of` if none.
    modified: Option<Timestamp>,
    /// The path from which owner and permissions are taken; if it is gone, its last known ones or
    /// those of the nearest directory above. A user who may not read a page may not read its past.
    permissions_of: TreePath,
    is_executable: bool,
}

impl ViewAttributes {
    fn folder(permissions_of: &TreePath) -> Self {
        Self::sized(0, permissions_of)
    }

    fn sized(size: usize, permissions_of: &TreePath) -> Self {
        Self { size: size as u64, modified: None, permissions_of: permissions_of.clone(), is_executable: false }
    }
}

type ViewNodeRef = Arc<dyn ViewNode>;

/// A folder, file or link of a view. Only a folder has entries, only the others have content.
trait ViewNode: Send + Sync {
    /// Unique key. Nodes with the same key are one inode; a folder has only one parent.
    fn key(&self) -> Vec<u8>;
    /// Its type, known without I/O: most nodes are folders.
    fn node_kind(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }
    /// Whether all users find the same names, so that the kernel may cache them.
    fn is_user_independent(&self) -> bool {
        true
    }
    /// Its attributes; by default those of a folder with the permissions of the tree's root.
    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&TreePath::root()))
    }
    /// Looks up an entry.
    fn lookup(
        &self,
        _views: &MountViews,
        _reader: &ViewReader,
        _name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        Ok(None)
    }
    /// Listed entries; a lookup may find more.
    fn list(&self, _views: &MountViews, _reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        Ok(Vec::new())
    }
    /// Moves an entry to another folder, given by its key.
    fn move_entry(
        &self,
        _views: &MountViews,
        _callers: (&ViewReader, &Caller),
        _name: &PathComponent,
        _target: (&[u8], &PathComponent),
    ) -> Result<(), RequestFailure> {
        Err(RequestFailure::Errno(Errno::EROFS))
    }
    /// The full content; of a link, its target.
    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::new())
    }
}

/// An entry of a folder.
struct ViewEntry {
    name: String,
    node: ViewNodeRef,
}

/// The views of one mount.
pub(crate) struct MountViews {
    vfs: Arc<Vfs>,
    clock: Arc<dyn Clock>,
    knowledge: Option<Arc<dyn KnowledgeSource>>,
    table: ViewInodeTable,
    contents: OpenContents,
    past: past_file::PastCache,
    recent_answers: links::RecentAnswers,
    boards: board::Boards,
}

impl MountViews {
    /// Without `knowledge`, views that need it do not exist.
    pub(crate) fn new(vfs: Arc<Vfs>, clock: Arc<dyn Clock>, knowledge: Option<Arc<dyn KnowledgeSource>>) -> Self {
        Self {
            vfs,
            clock,
            knowledge,
            table: ViewInodeTable::default(),
            contents: OpenContents::default(),
            past: past_file::PastCache::default(),
            recent_answers: links::RecentAnswers::default(),
            boards: board::Boards::default(),
        }
    }

    /// The root of a past tree, registered for as long as the mount lives.
    pub(crate) fn root(&self, state: PastState) -> INodeNo {
        self.table.add_lookup(Arc::new(past_tree::PastDirectory::root(state, state.commit.to_string())))
    }

    /// Whether a name in a directory of the tree is a view, and so cannot be created, renamed or
    /// removed.
    pub(crate) fn is_view(&self, directory: NodeId, entry: &OsStr) -> bool {
        VIEW_NAMES.iter().any(|view| entry == *view) && self.is_views_parent(directory)
    }

    /// Whether the views are entries of this directory.
    pub(crate) fn is_views_parent(&self, directory: NodeId) -> bool {
        self.vfs.path_of(directory).is_ok_and(|path| path.as_str() == VIEWS_PARENT)
    }

    /// Looks up a view by name; a hit increments the lookup count.
    pub(crate) fn lookup_view(&self, caller: &Caller, view: &OsStr) -> Result<Option<FileAttr>, Fault> {
        let root = TreePath::root;
        let view: Option<ViewNodeRef> = match (view.to_str(), &self.knowledge) {
            (Some(GUIDE), _) => Some(Arc::new(guide::GuideFile)),
            (Some("history"), _) => Some(Arc::new(history::HistoryFolder(root()))),
            (Some("at"), _) => Some(Arc::new(past_tree::PastStates)),
            (Some("search"), Some(_)) => Some(Arc::new(links::SearchRoot)),
            (Some("query"), Some(_)) => Some(Arc::new(queries::QueryFolder(String::new()))),
            (Some("tags"), Some(_)) => Some(Arc::new(links::TagFolder(String::new()))),
            (Some("backlinks"), Some(_)) => Some(Arc::new(RelatedFolder::backlinks())),
            (Some("similar"), Some(_)) => Some(Arc::new(RelatedFolder::similar())),
            (Some("board"), Some(_)) => Some(Arc::new(board::BoardRoot)),
            (Some("lint"), Some(_)) => Some(Arc::new(lint::LintFolder(root()))),
            (Some(_) | None, _) => None,
        };
        self.register(caller, view)
    }

    /// Looks up a name in a view folder; a hit increments the lookup count.
    pub(crate) fn lookup(
        &self,
        reader: &ViewReader,
        folder: INodeNo,
        entry: &OsStr,
    ) -> Result<Option<FileAttr>, Fault> {
        let folder = self.table.get(folder)?;
        // Names that the tree does not allow do not exist in views.
        let Ok(name) = name(entry) else { return Ok(None) };
        let entry = folder.lookup(self, reader, &name)?;
        self.register(&reader.caller, entry)
    }

    fn register(&self, caller: &Caller, node: Option<ViewNodeRef>) -> Result<Option<FileAttr>, Fault> {
        let Some(node) = node else { return Ok(None) };
        let attributes = match self.attributes_of(caller, &*node) {
            Ok(attributes) => attributes,
            // Removed since it was listed.
            Err(fault) if fault.kind() == Kind::NotFound => return Ok(None),
            Err(fault) => return Err(fault),
        };
        Ok(Some(file_attr(NodeId(self.table.add_lookup(node).0), &attributes)))
    }

    /// How long the kernel may cache that a name exists, or does not exist, in a view folder.
    pub(crate) fn entry_ttl(&self, folder: INodeNo, default_ttl: Duration) -> Duration {
        let is_user_independent = self.table.get(folder).is_ok_and(|folder| folder.is_user_independent());
        if is_user_independent { default_ttl } else { Duration::ZERO }
    }

    /// Decrements the lookup count.
    pub(crate) fn forget(&self, inode: INodeNo, count: u64) {
        self.table.forget(inode, count);
    }

    pub(crate) fn attributes(&self, caller: &Caller, inode: INodeNo) -> Result<FileAttr, Fault> {
        let node = self.table.get(inode)?;
        Ok(file_attr(NodeId(inode.0), &self.attributes_of(caller, &*node)?))
    }

    fn attributes_of(&self, caller: &Caller, node: &dyn ViewNode) -> Result<PathAttributes, Fault> {
        let ViewAttributes { size, modified, permissions_of, is_executable } = node.attributes(self)?;
        let source = self.nearest_attributes(caller.protocol, permissions_of)?;
        let bits = source.mode & 0o666;
        let search_bits = (bits & 0o444) >> 2;
        let kind = node.node_kind().kind();
        let mode = match kind {
            EntryKind::Directory => bits | search_bits,
            EntryKind::File if is_executable => bits | search_bits,
            EntryKind::File | EntryKind::Special(_) => bits,
            EntryKind::Symlink => 0o777,
        };
        let modified = modified.map_or(source.modified, Into::into);
        let PathAttributes { uid, gid, .. } = source;
        let links = if kind == EntryKind::Directory { 2 } else { 1 };
        let (blocks, changed, accessed) = (size.div_ceil(512), modified, modified);
        Ok(PathAttributes { kind, size, blocks, mode, uid, gid, modified, changed, accessed, links })
    }

    /// Attributes of a path; if it is gone, its last known ones or those of the nearest directory
    /// above.
    fn nearest_attributes(&self, protocol: Protocol, mut path: TreePath) -> Result<PathAttributes, Fault> {
        loop {
            match self.vfs.stat(protocol, &path) {
                Err(fault) if fault.kind() == Kind::NotFound => match self.vfs.tombstone_attributes(&path)? {
                    Some(last) => return Ok(last),
                    None => path = path.parent().ok_or(fault)?,
                },
                outcome => return outcome,
            }
        }
    }

    fn knowledge(&self) -> Result<&dyn KnowledgeSource, Fault> {
        self.knowledge
            .as_deref()
            .ok_or_else(|| Fault::not_found("search, tags, links and lint are not available on this mount"))
    }

    /// Keeps the pages that the reader may read.
    fn filter_readable(&self, reader: &ViewReader, hits: Vec<PageHit>) -> Result<Vec<PageHit>, Fault> {
        let (mut access, mut readable) = (reader.access(&self.vfs), Vec::with_capacity(hits.len()));
        for hit in hits {
            if access.can_read(&hit.path)? {
                readable.push(hit);
            }
        }
        Ok(readable)
    }

    /// Number of pages linking to a page that the reader may read; none without knowledge, and for
    /// unversioned files.
    pub(crate) fn count_backlinks(&self, reader: &ViewReader, page: &TreePath) -> Result<Option<String>, Fault> {
        match &self.knowledge {
            Some(knowledge) if page.is_page() && self.vfs.is_versioned(page) => {
                let hits = knowledge.backlinks(&reader.caller, page)?;
                Ok(Some(self.filter_readable(reader, hits)?.len().to_string()))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Versioned entries of a directory of the tree, by name; none when it is no directory.
    fn directory(&self, path: &TreePath) -> Result<Option<Vec<(TreePath, EntryKind)>>, Fault> {
        let entries = match self.vfs.list(Protocol::Fuse, path) {
            Ok(entries) => entries,
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let entries = entries.into_iter().map(|entry| (entry.path, entry.attributes.kind));
        let is_shown = |(path, kind): &(TreePath, EntryKind)| {
            !matches!(kind, EntryKind::Special(_)) && self.vfs.is_versioned(path)
        };
        Ok(Some(entries.filter(is_shown).collect()))
    }

    /// Whether a path exists and is versioned.
    fn is_shown(&self, path: &TreePath) -> Result<bool, Fault> {
        match self.vfs.stat(Protocol::Fuse, path) {
            Ok(_) => Ok(self.vfs.is_versioned(path)),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    pub(crate) fn listing(&self, reader: &ViewReader, folder: INodeNo) -> Result<DirectoryListing, Fault> {
        let node = self.table.get(folder)?;
        let dots = [".", ".."].map(|name| ListingEntry {
            name: name.into(),
            inode: folder,
            kind: FileType::Directory,
            attributes: None,
        });
        let entries = node.list(self, reader)?.into_iter().map(|ViewEntry { name, node }| ListingEntry {
            name: name.into(),
            inode: ViewInodeTable::number(&*node),
            kind: file_type(node.node_kind().kind()),
            attributes: None,
        });
        Ok(dots.into_iter().chain(entries).collect())
    }

    /// The entry to list beside the tree's own entries in `.svc`.
    pub(crate) fn guide_entry(&self) -> ListingEntry {
        ListingEntry {
            name: GUIDE.into(),
            inode: ViewInodeTable::number(&guide::GuideFile),
            kind: FileType::RegularFile,
            attributes: None,
        }
    }

    pub(crate) fn target(&self, inode: INodeNo) -> Result<Bytes, Fault> {
        self.table.get(inode)?.content(self)
    }

    /// Opens a file for reading: the handle keeps the current content.
    pub(crate) fn open(&self, inode: INodeNo, is_writing: bool) -> Result<(FileHandle, FopenFlags), RequestFailure> {
        if is_writing {
            return Err(RequestFailure::Errno(Errno::EROFS));
        }
        let node = self.table.get(inode)?;
        let handle = self.contents.open(inode, || node.content(self))?;
        let flags = FopenFlags::FOPEN_NOFLUSH | FopenFlags::FOPEN_KEEP_CACHE;
        Ok((handle, flags))
    }

    pub(crate) fn read(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Bytes, Fault> {
        self.contents.read(handle, offset, length)
    }

    pub(crate) fn close(&self, handle: FileHandle) {
        self.contents.close(handle);
    }
}
