//! What the callbacks share.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use fuser::{Errno, FileAttr, FileHandle, FopenFlags, INodeNo, OpenFlags, Request};
use rustix::fs::OFlags;
use svcfs_base::{Actor, Caller, Clock, Fault, Kind, OriginId, PathComponent, Protocol};
use svcfs_vfs::{EntryKind, HandleId, NodeId, OpenMode, PathAttributes, SET_GROUP_ID, SetAttributes, Vfs, WriteAt};

use crate::actors::ActorResolver;
use crate::convert::{KNOWN_TTL, attr_of, blank, file_attr, flag_bits, handle, name, node};
use crate::follower::FollowerProgress;
use crate::init_flags::MAX_WRITE_BYTES;
use crate::listings::{DirectoryListing, ListingEntry, OpenDirectories};
use crate::passthrough::{OpenReply, PassthroughFiles, is_fit};
use crate::reply::{OnAnswer, RequestFailure, gone, log};
use crate::session::MountOptions;
use crate::views::{MountViews, ViewReader, is_ours};
use crate::write_handles::{WriteHandle, WriteHandles};

/// Most bytes that one request copies: others wait for the file meanwhile.
const MAX_COPY_BYTES: u32 = 16 << 20;

/// The space and the protocol's tables.
pub(crate) struct FuseServer {
    /// The space behind the door.
    pub(crate) vfs: Arc<Vfs>,
    /// The present moment, for times the kernel calls "now".
    pub(crate) clock: Arc<dyn Clock>,
    /// Open directories.
    pub(crate) listings: OpenDirectories,
    /// What is shown below `.svc/` and is no part of the tree.
    pub(crate) views: MountViews,
    /// Files that the kernel reads by itself.
    pub(crate) passing: Arc<PassthroughFiles>,
    /// Handles open for writing.
    pub(crate) writers: WriteHandles,
    /// What is shown as the root.
    root: INodeNo,
    /// Tells the changes made here from those of other mounts.
    pub(crate) entrance: OriginId,
    /// Told of each request that was answered.
    pub(crate) on_answer: Option<OnAnswer>,
    actors: ActorResolver,
    progress: Arc<FollowerProgress>,
}

impl FuseServer {
    /// The door of a space, with nothing open.
    pub(crate) fn new(vfs: Arc<Vfs>, options: &MountOptions, progress: Arc<FollowerProgress>) -> Arc<Self> {
        let MountOptions { clock, attribution, knowledge, past_state: at, on_answer, .. } = options.clone();
        let views = MountViews::new(Arc::clone(&vfs), Arc::clone(&clock), knowledge);
        Arc::new(Self {
            entrance: vfs.new_origin_id(),
            root: at.map_or(INodeNo::ROOT, |state| views.root(state)),
            views,
            vfs,
            clock,
            progress,
            on_answer,
            actors: ActorResolver::new(attribution),
            listings: OpenDirectories::default(),
            passing: Arc::default(),
            writers: WriteHandles::default(),
        })
    }

    /// What stands behind an inode that the kernel looks at: its root may be another one of ours.
    pub(crate) const fn seen(&self, inode: INodeNo) -> INodeNo {
        if inode.0 == INodeNo::ROOT.0 { self.root } else { inode }
    }

    /// A user of the mount, by number, who looks at something.
    pub(crate) fn user(&self, uid: u32) -> Caller {
        self.caller(self.actors.name(uid))
    }

    /// A user of the mount who looks at what is shown below `.svc/`.
    pub(crate) fn reader(&self, request: &Request) -> ViewReader {
        ViewReader::new(self.user(request.uid()), (request.uid(), request.gid()), request.pid())
    }

    /// Who changes something: the user, or whom their program says it works for.
    pub(crate) fn author(&self, request: &Request) -> Caller {
        self.caller(self.actors.author(request.uid(), request.pid()))
    }

    /// Who saves what was written through a handle: known since it was opened or written to. Not asked of the program that closes it: one that
    /// is becoming another (execve(2)) closes handles while it holds the lock that its environment is read with.
    pub(crate) fn saver(&self, request: &Request, file: FileHandle) -> Caller {
        self.caller(self.writers.author(file).unwrap_or_else(|| self.actors.name(request.uid())))
    }

    /// Notes who writes through a handle.
    pub(crate) fn wrote(&self, request: &Request, file: FileHandle) {
        self.writers.wrote(file, request.pid(), || self.actors.author(request.uid(), request.pid()));
    }

    /// A handle of this user's to be written to.
    pub(crate) fn writer(&self, request: &Request, node: NodeId) -> WriteHandle {
        WriteHandle::new(node, self.actors.author(request.uid(), request.pid()))
    }

    /// Forgets a handle, and says who gets what it still holds.
    pub(crate) fn released(&self, request: &Request, file: FileHandle) -> Caller {
        self.writers.remove(file).map_or_else(|| self.user(request.uid()), |writer| self.caller(writer.author))
    }

    /// The node of an inode whose file is about to be changed.
    ///
    /// # Errors
    /// `EROFS` for one of a view.
    pub(crate) fn node(&self, inode: INodeNo) -> Result<NodeId, RequestFailure> {
        if is_ours(inode.0) { Err(RequestFailure::Word(Errno::EROFS)) } else { Ok(node(inode)) }
    }

    /// The directory and name of an entry that is about to be made or taken away.
    ///
    /// # Errors
    /// `EROFS` for a view and what is in it; those of a name that no tree can hold.
    pub(crate) fn entry(&self, parent: INodeNo, entry: &OsStr) -> Result<(NodeId, PathComponent), RequestFailure> {
        let directory = self.node(parent)?;
        if self.views.has(directory, entry) {
            return Err(RequestFailure::Word(Errno::EROFS));
        }
        Ok((directory, name(entry)?))
    }

    /// Where the next data, or the next hole, of a file begins.
    ///
    /// # Errors
    /// `ENXIO` behind its end.
    pub(crate) fn seek(
        &self,
        request: &Request,
        inode: INodeNo,
        (offset, to_hole): (u64, bool),
    ) -> Result<u64, RequestFailure> {
        let found = if is_ours(inode.0) {
            // No holes: after its end comes the only one.
            let size = self.views.attributes(&self.user(request.uid()), inode)?.size;
            (offset < size).then_some(if to_hole { size } else { offset })
        } else {
            self.vfs.seek_node(node(inode), offset, to_hole)?
        };
        found.ok_or(RequestFailure::Word(Errno::ENXIO))
    }

    /// Finds a name in a directory, or nothing; counts as a finding.
    pub(crate) fn lookup(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
    ) -> Result<Option<FileAttr>, RequestFailure> {
        if is_ours(parent.0) {
            return Ok(self.views.lookup(&self.reader(request), parent, entry)?);
        }
        let caller = self.user(request.uid());
        let parent = node(parent);
        if self.views.has(parent, entry) {
            return Ok(self.views.enter(&caller, entry)?);
        }
        match self.vfs.lookup(&caller, parent, &name(entry)?) {
            Ok((node, attributes)) => {
                let is_file = attributes.kind == EntryKind::File;
                let inode =
                    if is_file { self.passing.looked_up(node, request.pid()) } else { self.passing.present(node) };
                Ok(Some(attr_of(inode, &attributes)))
            }
            Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    /// For how long the kernel may keep the names of a directory.
    pub(crate) fn kept_in(&self, directory: INodeNo) -> Duration {
        if is_ours(directory.0) { self.views.kept_for(directory, KNOWN_TTL) } else { KNOWN_TTL }
    }

    /// Gives findings back.
    pub(crate) fn forget(&self, inode: INodeNo, count: u64) {
        if is_ours(inode.0) {
            self.views.forget(inode, count);
        } else {
            self.vfs.forget(node(inode), count);
            // One that is open without a name is known yet.
            if self.passing.has_others() && !self.vfs.has_lookups(node(inode)) {
                self.passing.forgotten(node(inode));
            }
        }
    }

    /// The inode that a name leads to now, of a file that a listing gave.
    pub(crate) fn shown(&self, listed: INodeNo) -> INodeNo {
        if is_ours(listed.0) { listed } else { self.passing.present(node(listed)) }
    }

    /// Opens a file.
    pub(crate) fn open(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: OpenMode,
        bypass: FopenFlags,
    ) -> Result<OpenReply, RequestFailure> {
        let (node, is_reader) = (node(inode), !mode.write);
        self.passing.enter(inode, (request.pid(), is_reader), || self.vfs.clean_backing_file(node, is_fit))?;
        let handle = match self.vfs.open_node(&self.user(request.uid()), node, mode) {
            Ok(handle) => handle,
            Err(fault) => {
                self.passing.closed(inode);
                self.passing.send_back(request.pid());
                return Err(gone(fault));
            }
        };
        let writer = mode.write.then(|| self.writer(request, node));
        let (handle, flags) = self.opened(handle, writer, bypass);
        Ok(OpenReply { handle, flags, is_reader })
    }

    /// How a file is opened to be written, where that is past the page cache.
    pub(crate) fn to_write(&self, inode: INodeNo, flags: OpenFlags) -> FopenFlags {
        let path = self.vfs.path_of(node(inode));
        path.map_or(FopenFlags::empty(), |path| self.passing.to_write(flags, path.name()))
    }

    /// Remembers a handle open for writing, and says how its file may be cached.
    ///
    /// Pages are kept from one open to the next while the follower is up to date. While it is not, or a change is about to be
    /// announced to it, they may be older than what was acknowledged to another door's writer or seen by its readers: then the
    /// handle goes past them (`bypass`, nothing on kernels where that would forbid shared mappings; the pages are then only
    /// dropped). Closing a read-only handle publishes nothing and need not be asked for.
    pub(crate) fn opened(
        &self,
        opened: HandleId,
        writer: Option<WriteHandle>,
        bypass: FopenFlags,
    ) -> (FileHandle, FopenFlags) {
        let handle = FileHandle(opened.0);
        // In this order: a change is announced before it is settled.
        let is_current = !self.vfs.has_pending_change(opened) && self.is_followed();
        let cached = if is_current { FopenFlags::FOPEN_KEEP_CACHE } else { bypass };
        match writer {
            Some(writer) => {
                self.writers.add(handle, writer);
                (handle, cached)
            }
            None => (handle, cached | FopenFlags::FOPEN_NOFLUSH),
        }
    }

    /// Creates and opens a file that is not there yet; counts as found once. It is nobody's change until it is saved.
    pub(crate) fn create(
        &self,
        request: &Request,
        parent: NodeId,
        name: &PathComponent,
        mode: u32,
    ) -> Result<(FileAttr, HandleId), Fault> {
        let (node, attributes, handle) = self.vfs.create(&self.user(request.uid()), parent, name, mode)?;
        Ok((self.given(request, parent, (node, attributes))?, handle))
    }

    /// The same, with the handle as the kernel gets it.
    ///
    /// # Errors
    /// As [`KernelDoor::create`].
    pub(crate) fn create_opened(
        &self,
        request: &Request,
        (parent, entry): (NodeId, &PathComponent),
        (mode, flags): (u32, i32),
        bypass: FopenFlags,
    ) -> Result<(FileAttr, FileHandle, FopenFlags), RequestFailure> {
        match self.create(request, parent, entry, mode) {
            Ok((attributes, handle)) => {
                let writer = self.writer(request, node(attributes.ino));
                let (file, opened) = self.opened(handle, Some(writer), bypass);
                self.passing.opened(attributes.ino);
                Ok((attributes, file, opened | self.passing.to_write(OpenFlags(flags), entry.as_str())))
            }
            // Another door was faster than the kernel knew. It looks again, and opens what is there after checking that
            // this caller may.
            Err(fault) if fault.kind() == Kind::Exists && !flag_bits(flags).contains(OFlags::EXCL) => {
                Err(RequestFailure::Word(self.passing.send_back(request.pid())))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Copies bytes from one file to another, as many as one request may take; the caller asks for the rest.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for files of the views, which the kernel then reads itself; as [`Vfs::write_node`].
    pub(crate) fn copy_range(
        &self,
        request: &Request,
        (inode, from, offset): (INodeNo, FileHandle, u64),
        (to, to_offset): (FileHandle, u64),
        length: u64,
    ) -> Result<u32, RequestFailure> {
        if is_ours(from.0) || is_ours(to.0) {
            return Err(RequestFailure::Word(Errno::EOPNOTSUPP));
        }
        self.wrote(request, to);
        let (caller, mut copied) = (self.saver(request, to), 0_u32);
        let length = u32::try_from(length).unwrap_or(u32::MAX).min(MAX_COPY_BYTES);
        while copied < length {
            let (done, part) = (u64::from(copied), (length - copied).min(MAX_WRITE_BYTES));
            let bytes = self.vfs.read_node(node(inode), offset.saturating_add(done), part as usize).map_err(gone)?;
            if bytes.is_empty() {
                break;
            }
            let at = WriteAt::Offset(to_offset.saturating_add(done));
            match self.vfs.write_node(&caller, handle(to), at, &bytes) {
                // As with any write that is cut short, the caller learns why when it asks for the rest.
                Err(fault) if copied == 0 => return Err(fault.into()),
                Err(_) => break,
                Ok(written) => copied += u32::try_from(written).unwrap_or(part),
            }
        }
        Ok(copied)
    }

    /// Gives a pipe, a socket or a device one more name; counts as found once.
    ///
    /// # Errors
    /// `EPERM` for anything else.
    pub(crate) fn link(
        &self,
        request: &Request,
        inode: INodeNo,
        (parent, entry): (INodeNo, &OsStr),
    ) -> Result<FileAttr, RequestFailure> {
        let (directory, entry) = self.entry(parent, entry)?;
        let linked = self.vfs.link_special(&self.user(request.uid()), self.node(inode)?, (directory, &entry))?;
        let (node, attributes) = linked.ok_or(RequestFailure::Word(Errno::EPERM))?;
        Ok(file_attr(node, &attributes))
    }

    /// Gives a node just made to the user who made it, as on any disk; the vfs makes it as the user of this process. Its group is
    /// that user's, or the directory's where that has the set-group-id bit.
    pub(crate) fn given(
        &self,
        request: &Request,
        parent: NodeId,
        made: (NodeId, PathAttributes),
    ) -> Result<FileAttr, Fault> {
        let (node, attributes) = made;
        let directory = self.vfs.attributes(parent)?;
        let gid = if directory.mode & SET_GROUP_ID == 0 { request.gid() } else { directory.gid };
        if (attributes.uid, attributes.gid) == (request.uid(), gid) {
            return Ok(file_attr(node, &attributes));
        }
        let owner = SetAttributes { uid: Some(request.uid()), gid: Some(gid), ..SetAttributes::default() };
        let attributes = self.vfs.set_attributes(&self.user(request.uid()), node, owner)?;
        Ok(file_attr(node, &attributes))
    }

    /// How the kernel may keep a listing: until a name in it comes or goes, which it knows itself or is told by the follower. Not at all while
    /// the follower is behind: then it lets go of what it has, and asks. Nor what a view makes up anew each time.
    pub(crate) fn cached_listing(&self, inode: INodeNo) -> FopenFlags {
        if is_ours(inode.0) || !self.is_followed() {
            return FopenFlags::empty();
        }
        FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
    }

    /// An open directory; reading it from the start (also after `rewinddir`) looks at it anew.
    pub(crate) fn listing(
        &self,
        request: &Request,
        inode: INodeNo,
        at: (FileHandle, u64),
    ) -> Result<DirectoryListing, Fault> {
        let (handle, offset) = at;
        if offset > 0 {
            return Ok(self.listings.get(handle));
        }
        let listing = if is_ours(inode.0) {
            self.views.listing(&self.reader(request), inode)?
        } else {
            let own = DirectoryListing::of(&self.vfs, &self.user(request.uid()), node(inode))?;
            if self.views.is_above(node(inode)) { own.and(self.views.guide()) } else { own }
        };
        self.listings.begin(handle, listing.clone());
        Ok(listing)
    }

    /// A line of a listing as the kernel takes it with attributes: a finding, but for `.` and `..`. None when it is gone.
    ///
    /// Looked up anew unless the listing is fresh, because what the kernel is told here it believes for a while, and the listing may be
    /// older than a change it was told of since.
    pub(crate) fn found(
        &self,
        request: &Request,
        directory: INodeNo,
        (line, is_fresh): (&ListingEntry, bool),
    ) -> Option<FileAttr> {
        if line.is_dots() {
            return Some(blank(line.inode, line.kind));
        }
        if is_fresh && line.known.is_some() && self.vfs.add_lookup(node(line.inode), (node(directory), &line.name)) {
            return line.known.map(|known| FileAttr { ino: self.shown(known.ino), ..known });
        }
        match self.lookup(request, directory, OsStr::new(&*line.name)) {
            Ok(found) => found,
            Err(RequestFailure::Word(_)) => None,
            Err(RequestFailure::Fault(fault)) => {
                log("readdirplus", &fault);
                None
            }
        }
    }

    /// Takes a finding back that did not fit into the answer.
    pub(crate) fn unfound(&self, line: &ListingEntry, attributes: &FileAttr) {
        if !line.is_dots() {
            self.forget(attributes.ino, 1);
        }
    }

    /// Every handle still open for writing: who opened it, and what it writes.
    pub(crate) fn still_open(&self) -> Vec<(Caller, NodeId)> {
        self.writers.all().into_iter().map(|writer| (self.caller(writer.author), writer.node)).collect()
    }

    /// Whether the kernel was told of everything that was announced.
    fn is_followed(&self) -> bool {
        self.progress.done() >= self.vfs.feed().last_seq()
    }

    fn caller(&self, actor: Actor) -> Caller {
        Caller::new(Protocol::Fuse).with_origin(self.entrance).with_actor(actor)
    }
}
