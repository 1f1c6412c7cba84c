//! What the callbacks share.

use std::sync::Arc;

use fuser::{FileAttr, FileHandle, FopenFlags, INodeNo, Request};
use svcfs_base::{Actor, Caller, Clock, Door, Entrance, Fault, Name};
use svcfs_vfs::{Attributes, HandleId, NodeId, SET_GROUP_ID, SetAttributes, Vfs};

use crate::actors::{Actors, Attribution};
use crate::answer::log;
use crate::convert::{blank, file_attr, node};
use crate::follower::Progress;
use crate::listings::{Line, Listing, Listings};
use crate::writers::{Writer, Writers};

/// The space and the protocol's tables.
pub(crate) struct KernelDoor {
    /// The space behind the door.
    pub(crate) vfs: Arc<Vfs>,
    /// The present moment, for times the kernel calls "now".
    pub(crate) clock: Arc<dyn Clock>,
    /// Open directories.
    pub(crate) listings: Listings,
    /// Handles open for writing.
    pub(crate) writers: Writers,
    /// Tells the changes made here from those of other mounts.
    pub(crate) entrance: Entrance,
    actors: Actors,
    progress: Arc<Progress>,
}

impl KernelDoor {
    /// The door of a space, with nothing open.
    pub(crate) fn new(
        vfs: Arc<Vfs>,
        clock: Arc<dyn Clock>,
        attribution: Attribution,
        progress: Arc<Progress>,
    ) -> Arc<Self> {
        Arc::new(Self {
            entrance: vfs.entrance(),
            vfs,
            clock,
            progress,
            actors: Actors::new(attribution),
            listings: Listings::default(),
            writers: Writers::default(),
        })
    }

    /// A user of the mount, by number, who looks at something.
    pub(crate) fn user(&self, uid: u32) -> Caller {
        self.caller(self.actors.name(uid))
    }

    /// Who changes something: the user, or whom their program says it works for.
    pub(crate) fn author(&self, request: &Request) -> Caller {
        self.caller(self.actors.author(request.uid(), request.pid()))
    }

    /// Who saves what was written through a handle.
    pub(crate) fn saver(&self, request: &Request, file: FileHandle) -> Caller {
        self.caller(self.writers.author(file, || self.actors.author(request.uid(), request.pid())))
    }

    /// Notes who writes through a handle.
    pub(crate) fn wrote(&self, request: &Request, file: FileHandle) {
        self.writers.wrote(file, request.pid(), || self.actors.author(request.uid(), request.pid()));
    }

    /// A handle of this user's to be written to.
    pub(crate) fn writer(&self, request: &Request, node: NodeId) -> Writer {
        Writer::new(node, self.actors.name(request.uid()))
    }

    /// Forgets a handle, and says who gets what it still holds.
    pub(crate) fn released(&self, request: &Request, file: FileHandle) -> Caller {
        self.writers.remove(file).map_or_else(|| self.user(request.uid()), |writer| self.caller(writer.author))
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
        writer: Option<Writer>,
        bypass: FopenFlags,
    ) -> (FileHandle, FopenFlags) {
        let handle = FileHandle(opened.0);
        // In this order: a change is announced before it is settled.
        let is_current = !self.vfs.is_settling(opened) && self.progress.done() >= self.vfs.feed().last();
        let cached = if is_current { FopenFlags::FOPEN_KEEP_CACHE } else { bypass };
        match writer {
            Some(writer) => {
                self.writers.add(handle, writer);
                (handle, cached)
            }
            None => (handle, cached | FopenFlags::FOPEN_NOFLUSH),
        }
    }

    /// Creates and opens a file that is not there yet; counts as found once.
    pub(crate) fn create(
        &self,
        request: &Request,
        parent: NodeId,
        name: &Name,
        mode: u32,
    ) -> Result<(FileAttr, HandleId), Fault> {
        let (node, attributes, handle) = self.vfs.create(&self.author(request), parent, name, mode)?;
        Ok((self.given(request, parent, (node, attributes))?, handle))
    }

    /// Gives a node just made to the user who made it, as on any disk; the vfs makes it as the user of this process. Its group is
    /// that user's, or the directory's where that has the set-group-id bit.
    pub(crate) fn given(
        &self,
        request: &Request,
        parent: NodeId,
        made: (NodeId, Attributes),
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

    /// An open directory; reading it from the start (also after `rewinddir`) looks at it anew.
    pub(crate) fn listing(&self, request: &Request, inode: INodeNo, at: (FileHandle, u64)) -> Result<Listing, Fault> {
        let (handle, offset) = at;
        if offset > 0 {
            return Ok(self.listings.get(handle));
        }
        let listing = Listing::of(&self.vfs, &self.user(request.uid()), node(inode))?;
        self.listings.begin(handle, listing.clone());
        Ok(listing)
    }

    /// A line of a listing as the kernel takes it with attributes: a finding, but for `.` and `..`. None when it is gone.
    ///
    /// Looked up anew, because what the kernel is told here it believes for a while, and the listing may be older than a change
    /// it was told of since.
    pub(crate) fn found(&self, request: &Request, directory: INodeNo, line: &Line) -> Option<FileAttr> {
        if line.is_dots() {
            return Some(blank(line.inode, line.kind));
        }
        let looked_up =
            Name::parse(&line.name).and_then(|name| self.vfs.lookup(&self.user(request.uid()), node(directory), &name));
        match looked_up {
            Ok((node, attributes)) => Some(file_attr(node, &attributes)),
            Err(fault) => {
                log("readdirplus", &fault);
                None
            }
        }
    }

    /// Takes a finding back that did not fit into the answer.
    pub(crate) fn unfound(&self, line: &Line, attributes: &FileAttr) {
        if !line.is_dots() {
            self.vfs.forget(node(attributes.ino), 1);
        }
    }

    /// Every handle still open for writing: who opened it, and what it writes.
    pub(crate) fn still_open(&self) -> Vec<(Caller, NodeId)> {
        self.writers.all().into_iter().map(|writer| (self.caller(writer.author), writer.node)).collect()
    }

    fn caller(&self, actor: Actor) -> Caller {
        Caller::new(Door::Fuse).through(self.entrance).named(actor)
    }
}
