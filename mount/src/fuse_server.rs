//! State and helpers shared by the callbacks.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use fuser::{Errno, FileAttr, FileHandle, FopenFlags, INodeNo, OpenFlags, Request};
use svcfs_base::{Actor, Caller, Clock, Fault, Kind, OriginId, PathComponent, Protocol};
use svcfs_vfs::{EntryKind, HandleId, NodeId, OpenMode, SetAttributes, Vfs, WriteAt};

use crate::actors::ActorResolver;
use crate::convert::{ENTRY_TTL, attr_of, handle, is_virtual_id, minimal_attr, name, node};
use crate::drafts::{DRAFTS, DraftFiles, is_draft_id};
use crate::follower::FollowerProgress;
use crate::init_flags::MAX_WRITE_BYTES;
use crate::listings::{DirectoryListing, ListingEntry, OpenDirectories};
use crate::passthrough::{OpenReply, PassthroughFiles, is_eligible};
use crate::reply::{OnAnswer, RequestFailure, log, or_stale};
use crate::session::MountOptions;
use crate::views::{MountViews, ViewReader, is_view_id};
use crate::write_handles::{WriteHandle, WriteHandles};

/// Maximum bytes copied by one request: other requests for the file wait meanwhile.
const MAX_COPY_BYTES: u32 = 16 << 20;

/// A space and the state of one mount of it.
pub(crate) struct FuseServer {
    pub(crate) vfs: Arc<Vfs>,
    /// Used where the kernel says "now".
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) listings: OpenDirectories,
    /// Virtual files below `.svc/`.
    pub(crate) views: MountViews,
    /// Files below `.svc/draft/`.
    pub(crate) drafts: DraftFiles,
    /// Open files, and those the kernel reads itself (passthrough).
    pub(crate) passthrough: Arc<PassthroughFiles>,
    pub(crate) writers: WriteHandles,
    /// Inode shown as the root: that of a past state or of a draft when one is mounted.
    root: INodeNo,
    /// Distinguishes changes of this mount from those of other mounts.
    pub(crate) origin_id: OriginId,
    /// Called for each answered request.
    pub(crate) on_answer: Option<OnAnswer>,
    actors: ActorResolver,
    progress: Arc<FollowerProgress>,
}

impl FuseServer {
    pub(crate) fn new(vfs: Arc<Vfs>, options: &MountOptions, progress: Arc<FollowerProgress>) -> Arc<Self> {
        let MountOptions { clock, attribution, knowledge, past_state, draft, on_answer, .. } = options.clone();
        let drafts = DraftFiles::new(Arc::clone(&vfs));
        let views = MountViews::new(Arc::clone(&vfs), Arc::clone(&clock), knowledge);
        Arc::new(Self {
            origin_id: vfs.new_origin_id(),
            root: match (past_state, draft) {
                (Some(state), _) => views.root(state),
                (None, Some(id)) => drafts.root(id),
                (None, None) => INodeNo::ROOT,
            },
            views,
            drafts,
            vfs,
            clock,
            progress,
            on_answer,
            actors: ActorResolver::new(attribution),
            listings: OpenDirectories::default(),
            passthrough: Arc::default(),
            writers: WriteHandles::default(),
        })
    }

    /// Replaces the root inode by the one that is shown as the root.
    pub(crate) const fn map_root(&self, inode: INodeNo) -> INodeNo {
        if inode.0 == INodeNo::ROOT.0 { self.root } else { inode }
    }

    /// The drafts, for an inode of one.
    pub(crate) fn drafts_of(&self, inode: INodeNo) -> Option<&DraftFiles> {
        is_draft_id(inode.0).then_some(&self.drafts)
    }

    /// The caller of a user who reads.
    pub(crate) fn user(&self, uid: u32) -> Caller {
        self.caller(self.actors.name(uid), uid)
    }

    /// The same for the views, with the data needed to check permissions.
    pub(crate) fn view_reader(&self, request: &Request) -> ViewReader {
        ViewReader::new(self.user(request.uid()), (request.uid(), request.gid()), request.pid())
    }

    /// The caller of a change: the user, or the actor in `SVC_ACTOR` of the program's environment.
    pub(crate) fn author(&self, request: &Request) -> Caller {
        self.caller(self.actors.author(request.uid(), request.pid()), request.uid())
    }

    /// The caller for data written through a handle, known since the open or the last write. The
    /// closing process is not inspected: during execve(2) it closes handles while it holds the lock
    /// under which its environment is read.
    pub(crate) fn handle_author(&self, request: &Request, file: FileHandle) -> Caller {
        self.caller(self.writers.author(file).unwrap_or_else(|| self.actors.name(request.uid())), request.uid())
    }

    /// Records the author of a write through a handle.
    pub(crate) fn record_write(&self, request: &Request, file: FileHandle) {
        self.writers.record_write(file, request.pid(), || self.actors.author(request.uid(), request.pid()));
    }

    pub(crate) fn new_writer(&self, request: &Request, node: NodeId) -> WriteHandle {
        WriteHandle::new(node, self.actors.author(request.uid(), request.pid()))
    }

    /// Forgets a handle, and returns the caller for what it has not published.
    pub(crate) fn remove_writer(&self, request: &Request, file: FileHandle) -> Caller {
        let uid = request.uid();
        self.writers.remove(file).map_or_else(|| self.user(uid), |writer| self.caller(writer.author, uid))
    }

    /// The node of an inode that is about to be changed.
    ///
    /// # Errors
    /// `EROFS` for an inode of a view.
    pub(crate) fn node(&self, inode: INodeNo) -> Result<NodeId, RequestFailure> {
        if is_virtual_id(inode.0) { Err(RequestFailure::Errno(Errno::EROFS)) } else { Ok(node(inode)) }
    }

    /// The directory and name of an entry that is about to be created or removed.
    ///
    /// # Errors
    /// `EROFS` for a view; `Invalid` or `NameTooLong` for a name the tree does not allow.
    pub(crate) fn entry(&self, parent: INodeNo, entry: &OsStr) -> Result<(NodeId, PathComponent), RequestFailure> {
        let directory = self.node(parent)?;
        if self.views.is_view(directory, entry) {
            return Err(RequestFailure::Errno(Errno::EROFS));
        }
        Ok((directory, name(entry)?))
    }

    pub(crate) fn attributes(&self, request: &Request, inode: INodeNo) -> Result<FileAttr, RequestFailure> {
        if let Some(drafts) = self.drafts_of(inode) {
            return drafts.attributes(inode);
        }
        if is_view_id(inode.0) {
            return Ok(self.views.attributes(&self.user(request.uid()), inode)?);
        }
        self.vfs.attributes(node(inode)).map(|attr| attr_of(inode, &attr)).map_err(or_stale)
    }

    pub(crate) fn set_attributes(
        &self,
        caller: &Caller,
        inode: INodeNo,
        set: SetAttributes,
    ) -> Result<FileAttr, RequestFailure> {
        if let Some(drafts) = self.drafts_of(inode) {
            return drafts.set_attributes(caller, inode, &set);
        }
        self.vfs.set_attributes(caller, self.node(inode)?, set).map(|attr| attr_of(inode, &attr)).map_err(or_stale)
    }

    /// Opens a file of a draft.
    pub(crate) fn open_in_draft(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: OpenMode,
    ) -> Result<(FileHandle, FopenFlags), RequestFailure> {
        let handle = self.drafts.open(inode, mode.write)?;
        if mode.write {
            self.writers.add(handle, self.new_writer(request, NodeId(inode.0)));
        }
        Ok((handle, if mode.write { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH }))
    }

    /// The offset of the next data or hole.
    ///
    /// # Errors
    /// `ENXIO` beyond the end of the file.
    pub(crate) fn seek(
        &self,
        request: &Request,
        inode: INodeNo,
        (offset, to_hole): (u64, bool),
    ) -> Result<u64, RequestFailure> {
        let position = if is_virtual_id(inode.0) {
            // The only hole is the one at the end.
            let size = self.attributes(request, inode)?.size;
            (offset < size).then_some(if to_hole { size } else { offset })
        } else {
            self.vfs.seek_node(node(inode), offset, to_hole)?
        };
        position.ok_or(RequestFailure::Errno(Errno::ENXIO))
    }

    /// Looks up a name in a directory; a hit increments the lookup count.
    pub(crate) fn lookup(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
    ) -> Result<Option<FileAttr>, RequestFailure> {
        if is_view_id(parent.0) {
            return Ok(self.views.lookup(&self.view_reader(request), parent, entry)?);
        }
        if let Some(drafts) = self.drafts_of(parent) {
            // Names that the tree does not allow do not exist.
            return name(entry).map_or(Ok(None), |name| drafts.lookup(parent, &name));
        }
        let caller = self.user(request.uid());
        let parent = node(parent);
        if self.views.is_view(parent, entry) {
            if entry == DRAFTS {
                return Ok(self.drafts.lookup_drafts()?);
            }
            return Ok(self.views.lookup_view(&caller, entry)?);
        }
        match self.vfs.lookup(&caller, parent, &name(entry)?) {
            Ok((node, attributes)) => {
                let is_file = attributes.kind == EntryKind::File;
                let inode = if is_file {
                    self.passthrough.inode_for_lookup(node, request.pid())
                } else {
                    self.passthrough.current_inode(node)
                };
                Ok(Some(attr_of(inode, &attributes)))
            }
            Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    /// How long the kernel may cache names of a directory.
    pub(crate) fn entry_ttl(&self, directory: INodeNo) -> Duration {
        match directory.0 {
            number if is_view_id(number) => self.views.entry_ttl(directory, ENTRY_TTL),
            number if is_draft_id(number) => Duration::ZERO,
            _ => ENTRY_TTL,
        }
    }

    /// Decrements the lookup count.
    pub(crate) fn forget(&self, inode: INodeNo, count: u64) {
        if is_view_id(inode.0) {
            self.views.forget(inode, count);
        } else if is_draft_id(inode.0) {
            self.drafts.forget(inode, count);
        } else {
            self.vfs.forget(node(inode), count);
            // An unlinked inode that is still open keeps its generation.
            if self.passthrough.has_generations() && !self.vfs.has_lookups(node(inode)) {
                self.passthrough.forget(node(inode));
            }
        }
    }

    /// The inode that names of a listed file resolve to now.
    pub(crate) fn current_inode(&self, listed: INodeNo) -> INodeNo {
        if is_virtual_id(listed.0) { listed } else { self.passthrough.current_inode(node(listed)) }
    }

    pub(crate) fn open(
        &self,
        request: &Request,
        inode: INodeNo,
        (mode, open_flags): (OpenMode, OpenFlags),
        bypass: FopenFlags,
    ) -> Result<OpenReply, RequestFailure> {
        let (node, is_reader) = (node(inode), !mode.write);
        self.passthrough
            .admit_open(inode, (request.pid(), is_reader), || self.vfs.clean_backing_file(node, is_eligible))?;
        let handle = match self.vfs.open_node(&self.user(request.uid()), node, mode) {
            Ok(handle) => handle,
            Err(fault) => {
                self.passthrough.close(inode);
                self.passthrough.retry_lookup(request.pid());
                return Err(or_stale(fault));
            }
        };
        let writer = mode.write.then(|| self.new_writer(request, node));
        let (handle, flags) = self.register_open(handle, writer, bypass);
        let path = self.vfs.path_of(node);
        let write_flags = path.map(|path| self.passthrough.write_open_flags(open_flags, path.name()));
        Ok(OpenReply { handle, flags: flags | write_flags.unwrap_or(FopenFlags::empty()), is_reader })
    }

    /// Registers a handle, and returns how its file may be cached.
    ///
    /// Pages survive from one open to the next while the follower is up to date. While it is
    /// behind, or a change is not announced yet, they may be older than what another protocol's
    /// writer was acknowledged. Then the handle bypasses them (`bypass` is empty on kernels that
    /// would forbid shared mappings; the pages are then only dropped). A read-only handle needs no
    /// `flush`.
    pub(crate) fn register_open(
        &self,
        opened: HandleId,
        writer: Option<WriteHandle>,
        bypass: FopenFlags,
    ) -> (FileHandle, FopenFlags) {
        let handle = FileHandle(opened.0);
        // In this order: a change is announced before it stops being pending.
        let is_current = !self.vfs.has_pending_change(opened) && self.is_up_to_date();
        let cached = if is_current { FopenFlags::FOPEN_KEEP_CACHE } else { bypass };
        match writer {
            Some(writer) => {
                self.writers.add(handle, writer);
                (handle, cached)
            }
            None => (handle, cached | FopenFlags::FOPEN_NOFLUSH),
        }
    }

    /// Copies bytes between files, up to the limit of one request; the caller requests the rest.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for files of the views, which the kernel then reads itself; those of
    /// [`Vfs::write_node`].
    pub(crate) fn copy_range(
        &self,
        request: &Request,
        (inode, from, offset): (INodeNo, FileHandle, u64),
        (to, to_offset): (FileHandle, u64),
        length: u64,
    ) -> Result<u32, RequestFailure> {
        if is_virtual_id(from.0) || is_virtual_id(to.0) {
            return Err(RequestFailure::Errno(Errno::EOPNOTSUPP));
        }
        self.record_write(request, to);
        let (caller, mut copied) = (self.handle_author(request, to), 0_u32);
        let length = u32::try_from(length).unwrap_or(u32::MAX).min(MAX_COPY_BYTES);
        while copied < length {
            let (done, chunk) = (u64::from(copied), (length - copied).min(MAX_WRITE_BYTES));
            let bytes =
                self.vfs.read_node(node(inode), offset.saturating_add(done), chunk as usize).map_err(or_stale)?;
            if bytes.is_empty() {
                break;
            }
            let target = WriteAt::Offset(to_offset.saturating_add(done));
            match self.vfs.write_node(&caller, handle(to), target, &bytes) {
                // A short copy is a success; the request for the rest returns the error.
                Err(fault) if copied == 0 => return Err(fault.into()),
                Err(_) => break,
                Ok(written) => copied += u32::try_from(written).unwrap_or(chunk),
            }
        }
        Ok(copied)
    }

    /// Whether the kernel may cache a listing until it changes an entry itself or the follower
    /// invalidates it. Not while the follower is behind, and not for views, which are computed on
    /// each read.
    pub(crate) fn listing_flags(&self, inode: INodeNo) -> FopenFlags {
        if is_virtual_id(inode.0) || !self.is_up_to_date() {
            return FopenFlags::empty();
        }
        FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
    }

    /// The listing of an open directory; offset 0 (also after `rewinddir`) reads it from the vfs
    /// again.
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
        let listing = if is_view_id(inode.0) {
            self.views.listing(&self.view_reader(request), inode)?
        } else if let Some(drafts) = self.drafts_of(inode) {
            drafts.listing(inode)?
        } else {
            let own = DirectoryListing::read(&self.vfs, &self.user(request.uid()), node(inode))?;
            if self.views.is_views_parent(node(inode)) { own.with_entry(self.views.guide_entry()) } else { own }
        };
        self.listings.set(handle, listing.clone());
        Ok(listing)
    }

    /// Attributes of a listing entry for `readdirplus`, which increments the lookup count except
    /// for `.` and `..`. None when the file is gone.
    ///
    /// Looked up again unless the listing is fresh: the kernel caches these attributes, and the
    /// listing may be older than an invalidation it has already handled.
    pub(crate) fn entry_attributes(
        &self,
        request: &Request,
        directory: INodeNo,
        (entry, is_fresh): (&ListingEntry, bool),
    ) -> Option<FileAttr> {
        if entry.is_dots() {
            return Some(minimal_attr(entry.inode, entry.kind));
        }
        if is_fresh
            && entry.attributes.is_some()
            && self.vfs.add_lookup(node(entry.inode), (node(directory), &entry.name))
        {
            return entry
                .attributes
                .map(|attributes| FileAttr { ino: self.current_inode(attributes.ino), ..attributes });
        }
        match self.lookup(request, directory, OsStr::new(&*entry.name)) {
            Ok(attributes) => attributes,
            Err(RequestFailure::Errno(_)) => None,
            Err(RequestFailure::Fault(fault)) => {
                log("readdirplus", &fault);
                None
            }
        }
    }

    /// Undoes the lookup of an entry that did not fit into the reply.
    pub(crate) fn undo_lookup(&self, entry: &ListingEntry, attributes: &FileAttr) {
        if !entry.is_dots() {
            self.forget(attributes.ino, 1);
        }
    }

    /// Author and node of every handle still open for writing.
    pub(crate) fn open_writers(&self) -> Vec<(Caller, NodeId)> {
        // Their users are not known any more.
        self.writers.all().into_iter().map(|writer| (self.caller(writer.author, u32::MAX), writer.node)).collect()
    }

    /// Whether the kernel received the invalidations of all announced changes.
    fn is_up_to_date(&self) -> bool {
        self.progress.position() >= self.vfs.feed().last_seq()
    }

    fn caller(&self, actor: Actor, uid: u32) -> Caller {
        let caller = Caller::new(Protocol::Fuse).with_origin(self.origin_id).with_actor(actor);
        Caller { may_unlock: uid == 0, ..caller }
    }
}
