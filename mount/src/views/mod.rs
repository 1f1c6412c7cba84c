//! What is shown below `.svc/` of the mount and is on no disk: earlier versions, the tree as it was, answers about pages.
//!
//! One rule: a view is read, never written, and costs nothing until it is opened. A [`Place`] is a folder, file or link of a view;
//! this module gives places their inodes and answers the kernel, the files beside it say what is in them.
//!
//! The folders are not listed where they lie: whoever searches the mount with `grep -r` or `find` must not come through every
//! version of every page. [`guide`] is listed in their stead, and names them.

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
use crate::listings::{DirectoryListing, ListingEntry};
use crate::reply::RequestFailure;
use inode_table::{OpenContents, ViewInodeTable};

use guide::GUIDE;

pub use knowledge::{KnowledgeSource, LintFinding, PageFilter, PageHit};
pub(crate) use reader::ViewReader;

/// The directory of the tree below which the views are shown.
const ABOVE: &str = ".svc";

/// Set in the inodes and handles of views. The vfs counts its own from 1.
const OURS: u64 = 1 << 62;

/// Whether an inode or a handle is one of a view.
pub(crate) const fn is_ours(number: u64) -> bool {
    number & OURS != 0
}

/// The names below `.svc` that are views.
const NAMES: &[&str] = &[GUIDE, "history", "at", "search", "query", "tags", "backlinks", "lint"];

/// What a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ViewNodeKind {
    Folder,
    /// A file whose content never changes.
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

/// What `stat` shows of a place.
struct ViewAttributes {
    /// Length of a file or of a link's target, in bytes.
    size: u64,
    /// When it was changed; as the path it is like, when nothing is said.
    modified: Option<Timestamp>,
    /// The path whose owner and permissions hold for it, or those of the nearest directory above that is still there: what
    /// somebody may not read now, they may not read in its past.
    like: TreePath,
    /// Whether it is a program.
    is_executable: bool,
}

impl ViewAttributes {
    /// Of a folder.
    fn folder(like: &TreePath) -> Self {
        Self::of(0, like)
    }

    /// Of a file or link of so many bytes.
    fn of(size: usize, like: &TreePath) -> Self {
        Self { size: size as u64, modified: None, like: like.clone(), is_executable: false }
    }
}

/// A folder, file or link of a view.
type ViewNodeRef = Arc<dyn ViewNode>;

/// A folder, file or link of a view. Only a folder has names in it, only the others have a content.
trait ViewNode: Send + Sync {
    /// What tells it from every other place. Places of one key are one inode; a folder is in one place only.
    fn key(&self) -> Vec<u8>;
    /// What it is, known without looking.
    fn shape(&self) -> ViewNodeKind;
    /// Whether everybody finds the same names in it, so that the kernel may keep what it found for one for the next.
    fn is_for_all(&self) -> bool {
        true
    }
    /// What `stat` shows of it.
    fn look(&self, views: &MountViews) -> Result<ViewAttributes, Fault>;
    /// What has a name in it.
    fn find(
        &self,
        _views: &MountViews,
        _reader: &ViewReader,
        _name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        Ok(None)
    }
    /// What is listed in it: not all that is found need be.
    fn list(&self, _views: &MountViews, _reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        Ok(Vec::new())
    }
    /// Its whole content; of a link, its target.
    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::new())
    }
}

/// One name of a folder.
struct ViewEntry {
    name: String,
    place: ViewNodeRef,
}

/// The views of one mount.
pub(crate) struct MountViews {
    vfs: Arc<Vfs>,
    clock: Arc<dyn Clock>,
    knowledge: Option<Arc<dyn KnowledgeSource>>,
    table: ViewInodeTable,
    contents: OpenContents,
    past: past_file::PastCache,
    asked: links::RecentAnswers,
}

impl MountViews {
    /// The views of a space; those that need knowledge are there where there is some.
    pub(crate) fn new(vfs: Arc<Vfs>, clock: Arc<dyn Clock>, knowledge: Option<Arc<dyn KnowledgeSource>>) -> Self {
        Self {
            vfs,
            clock,
            knowledge,
            table: ViewInodeTable::default(),
            contents: OpenContents::default(),
            past: past_file::PastCache::default(),
            asked: links::RecentAnswers::default(),
        }
    }

    /// The root of the tree as it was; known for good.
    pub(crate) fn root(&self, state: PastState) -> INodeNo {
        self.table.find(Arc::new(past_tree::PastDirectory::root(state, state.commit.to_string())))
    }

    /// Whether a name of a directory of the tree is one of a view: it then is nobody's to make, rename or remove.
    pub(crate) fn has(&self, directory: NodeId, entry: &OsStr) -> bool {
        NAMES.iter().any(|view| entry == *view) && self.is_above(directory)
    }

    /// Whether the views lie in this directory of the tree.
    pub(crate) fn is_above(&self, directory: NodeId) -> bool {
        self.vfs.path_of(directory).is_ok_and(|path| path.as_str() == ABOVE)
    }

    /// Finds one of the views by its name; counts as a finding.
    pub(crate) fn enter(&self, caller: &Caller, view: &OsStr) -> Result<Option<FileAttr>, Fault> {
        let root = TreePath::root;
        let found: Option<ViewNodeRef> = match (view.to_str(), &self.knowledge) {
            (Some(GUIDE), _) => Some(Arc::new(guide::GuideFile)),
            (Some("history"), _) => Some(Arc::new(history::HistoryFolder(root()))),
            (Some("at"), _) => Some(Arc::new(past_tree::PastStates)),
            (Some("search"), Some(_)) => Some(Arc::new(links::SearchRoot)),
            (Some("query"), Some(_)) => Some(Arc::new(queries::QueryFolder(String::new()))),
            (Some("tags"), Some(_)) => Some(Arc::new(links::TagFolder(String::new()))),
            (Some("backlinks"), Some(_)) => Some(Arc::new(links::BacklinkFolder(root()))),
            (Some("lint"), Some(_)) => Some(Arc::new(lint::LintFolder(root()))),
            (Some(_) | None, _) => None,
        };
        self.given(caller, found)
    }

    /// Finds a name in a folder of a view; counts as a finding.
    pub(crate) fn lookup(
        &self,
        reader: &ViewReader,
        folder: INodeNo,
        entry: &OsStr,
    ) -> Result<Option<FileAttr>, Fault> {
        let folder = self.table.get(folder)?;
        // What no tree can hold is nowhere in a view, either.
        let Ok(name) = name(entry) else { return Ok(None) };
        let found = folder.find(self, reader, &name)?;
        self.given(&reader.caller, found)
    }

    fn given(&self, caller: &Caller, found: Option<ViewNodeRef>) -> Result<Option<FileAttr>, Fault> {
        let Some(place) = found else { return Ok(None) };
        let attributes = match self.attributes_of(caller, &*place) {
            Ok(attributes) => attributes,
            // Let go of since it was listed.
            Err(fault) if fault.kind() == Kind::NotFound => return Ok(None),
            Err(fault) => return Err(fault),
        };
        Ok(Some(file_attr(NodeId(self.table.find(place).0), &attributes)))
    }

    /// For how long the kernel may keep a name that it found, or did not find, in a folder of a view.
    pub(crate) fn kept_for(&self, folder: INodeNo, otherwise: Duration) -> Duration {
        let is_for_all = self.table.get(folder).is_ok_and(|folder| folder.is_for_all());
        if is_for_all { otherwise } else { Duration::ZERO }
    }

    /// Gives back `count` findings.
    pub(crate) fn forget(&self, inode: INodeNo, count: u64) {
        self.table.forget(inode, count);
    }

    /// What `stat` shows.
    pub(crate) fn attributes(&self, caller: &Caller, inode: INodeNo) -> Result<FileAttr, Fault> {
        let place = self.table.get(inode)?;
        Ok(file_attr(NodeId(inode.0), &self.attributes_of(caller, &*place)?))
    }

    fn attributes_of(&self, caller: &Caller, place: &dyn ViewNode) -> Result<PathAttributes, Fault> {
        let ViewAttributes { size, modified, like, is_executable } = place.look(self)?;
        let now = self.nearest(caller.protocol, like)?;
        let bits = now.mode & 0o666;
        let passing = (bits & 0o444) >> 2;
        let kind = place.shape().kind();
        let mode = match kind {
            EntryKind::Directory => bits | passing,
            EntryKind::File if is_executable => bits | passing,
            EntryKind::File | EntryKind::Special(_) => bits,
            EntryKind::Symlink => 0o777,
        };
        let modified = modified.map_or(now.modified, Into::into);
        let PathAttributes { uid, gid, .. } = now;
        let links = if kind == EntryKind::Directory { 2 } else { 1 };
        let (blocks, changed, accessed) = (size.div_ceil(512), modified, modified);
        Ok(PathAttributes { kind, size, blocks, mode, uid, gid, modified, changed, accessed, links })
    }

    /// What is known of a path or, where nothing is there, of what was there last or of the nearest directory above it.
    fn nearest(&self, protocol: Protocol, mut path: TreePath) -> Result<PathAttributes, Fault> {
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

    /// Who knows what is in the pages.
    fn knowledge(&self) -> Result<&dyn KnowledgeSource, Fault> {
        self.knowledge.as_deref().ok_or_else(|| Fault::not_found("nobody here knows what is in the pages"))
    }

    /// Of the pages that answer a question, those that the reader may read.
    fn shown(&self, reader: &ViewReader, found: Vec<PageHit>) -> Result<Vec<PageHit>, Fault> {
        let (mut readable, mut shown) = (reader.readable(&self.vfs), Vec::with_capacity(found.len()));
        for hit in found {
            if readable.has(&hit.path)? {
                shown.push(hit);
            }
        }
        Ok(shown)
    }

    /// How many pages that the reader may read link to a page; none where nobody knows, and of what is not in the tree's history.
    pub(crate) fn count_backlinks(&self, reader: &ViewReader, page: &TreePath) -> Result<Option<String>, Fault> {
        match &self.knowledge {
            Some(knowledge) if page.is_page() && self.vfs.is_versioned(page) => {
                let found = knowledge.backlinks(&reader.caller, page)?;
                Ok(Some(self.shown(reader, found)?.len().to_string()))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// What the views show of a directory of the tree, in name order: its versioned files, links and directories. None when there
    /// is no directory.
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

    /// Whether the views show what is at a path of the tree, if anything is.
    fn is_shown(&self, path: &TreePath) -> Result<bool, Fault> {
        match self.vfs.stat(Protocol::Fuse, path) {
            Ok(_) => Ok(self.vfs.is_versioned(path)),
            Err(fault) if fault.kind() == Kind::NotFound => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// The lines of a folder.
    pub(crate) fn listing(&self, reader: &ViewReader, folder: INodeNo) -> Result<DirectoryListing, Fault> {
        let place = self.table.get(folder)?;
        let dots = [".", ".."].map(|name| ListingEntry {
            name: name.into(),
            inode: folder,
            kind: FileType::Directory,
            known: None,
        });
        let lines = place.list(self, reader)?.into_iter().map(|ViewEntry { name, place }| ListingEntry {
            name: name.into(),
            inode: ViewInodeTable::number(&*place),
            kind: file_type(place.shape().kind()),
            known: None,
        });
        Ok(dots.into_iter().chain(lines).collect())
    }

    /// The line of what is listed beside the tree's own entries, in the directory where the views lie.
    pub(crate) fn guide(&self) -> ListingEntry {
        ListingEntry {
            name: GUIDE.into(),
            inode: ViewInodeTable::number(&guide::GuideFile),
            kind: FileType::RegularFile,
            known: None,
        }
    }

    /// The target of a link.
    pub(crate) fn target(&self, inode: INodeNo) -> Result<Bytes, Fault> {
        self.table.get(inode)?.content(self)
    }

    /// Opens a file to read: its content stays what it is now for this handle.
    pub(crate) fn open(&self, inode: INodeNo, is_writing: bool) -> Result<(FileHandle, FopenFlags), RequestFailure> {
        if is_writing {
            return Err(RequestFailure::Word(Errno::EROFS));
        }
        let place = self.table.get(inode)?;
        let handle = self.contents.open(inode, || place.content(self))?;
        let flags = FopenFlags::FOPEN_NOFLUSH | FopenFlags::FOPEN_KEEP_CACHE;
        Ok((handle, flags))
    }

    /// Bytes of an open file; fewer at its end.
    pub(crate) fn read(&self, handle: FileHandle, offset: u64, length: u32) -> Result<Bytes, Fault> {
        self.contents.read(handle, offset, length)
    }

    /// Closes a handle.
    pub(crate) fn close(&self, handle: FileHandle) {
        self.contents.close(handle);
    }
}
