//! One callback for each kernel request: translate, call, reply.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use svcfs_base::{Actor, Fault, Kind};
use svcfs_vfs::{DiskSpace, NodeId, OpenMode, WriteAt};

use super::replies::{DIRECT_IO, or_stale};
use super::tree::{OpenAccess, RemoteTree};
use super::writeback::{ChangeAuthor, WriteOffset};
use crate::actors::{ActorResolver, AttributionPolicy};
use crate::convert::{flag_bits, minimal_attr, name, open_mode, utf8, write_at};
use crate::init_flags::{REMOTE_INIT_FLAGS, negotiate};
use crate::listings::{DirectoryListing, OpenDirectories};
use crate::reply::{RequestFailure, ValueReply, answer, answer_with, or_not_permitted};
use crate::session::SessionSentinel;
use crate::write_handles::{WriteHandle, WriteHandles, process_of};

/// Free space shown, in blocks of 4 KiB: the API does not report the server's.
const REPORTED_BLOCKS: u64 = 1 << 38;

const ETAG_XATTR: &str = "user.svc.etag";
/// Why the last save was rejected.
const REJECTION_XATTR: &str = "user.svc.lint";

/// Implements fuser's [`Filesystem`] for a space of a remote server.
pub(super) struct RemoteCallbacks {
    pub(super) tree: Arc<RemoteTree>,
    pub(super) writers: Arc<WriteHandles>,
    actors: ActorResolver,
    listings: OpenDirectories,
    _alive: SessionSentinel,
}

impl RemoteCallbacks {
    pub(super) fn new(
        tree: Arc<RemoteTree>,
        writers: Arc<WriteHandles>,
        (attribution, sentinel): (AttributionPolicy, SessionSentinel),
    ) -> Self {
        Self {
            tree,
            writers,
            actors: ActorResolver::new(attribution),
            listings: OpenDirectories::default(),
            _alive: sentinel,
        }
    }

    fn author(&self, request: &Request) -> ChangeAuthor {
        self.as_process(request, self.actors.author(request.uid(), request.pid()))
    }

    /// The author of data written through a handle, known since the open or the last write. The
    /// closing process is not inspected: see `actors`.
    fn handle_author(&self, request: &Request, file: FileHandle) -> ChangeAuthor {
        let name = self.writers.author(file).unwrap_or_else(|| self.actors.name(request.uid()));
        self.as_process(request, name)
    }

    fn as_process(&self, request: &Request, name: Actor) -> ChangeAuthor {
        ChangeAuthor { name, process: process_of(request.pid()) }
    }

    /// Registers a handle open for writing.
    fn register_open(&self, request: &Request, inode: INodeNo, (handle, mode): (u64, OpenMode)) -> FileHandle {
        if mode.write {
            let author = self.actors.author(request.uid(), request.pid());
            self.writers.add(FileHandle(handle), WriteHandle::new(NodeId(inode.0), author));
        }
        FileHandle(handle)
    }
}

impl Filesystem for RemoteCallbacks {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(config, REMOTE_INIT_FLAGS).map(drop)
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEntry) {
        answer("lookup", reply, || {
            let ttl = self.tree.ttl();
            Ok::<_, Fault>(self.tree.lookup(parent, &name(entry)?)?.ok_or(ttl))
        });
    }

    fn forget(&self, _request: &Request, inode: INodeNo, count: u64) {
        self.tree.nodes.forget(inode, count);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        answer("getattr", reply, || self.tree.attributes(inode).map_err(or_stale));
    }

    /// Modes and owners are refused, because the API has none; times are accepted without effect.
    /// Modes of unsaved files are also accepted without effect: programs create private scratch
    /// files.
    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        answer("setattr", reply, || {
            let current = self.tree.attributes(inode).map_err(or_stale)?.attributes;
            let is_new = || self.tree.nodes.path(inode).is_ok_and(|path| self.tree.nodes.is_local_file(&path));
            let is_changed = mode.is_some_and(|mode| mode & 0o7777 != u32::from(current.perm) && !is_new())
                || uid.is_some_and(|uid| uid != current.uid)
                || gid.is_some_and(|gid| gid != current.gid);
            if is_changed {
                return Err(RequestFailure::Errno(Errno::EPERM));
            }
            if let Some(size) = size {
                if let Some(file) = file {
                    self.writers.record_write(file, request.pid(), || self.actors.author(request.uid(), request.pid()));
                }
                self.tree.resize(&self.author(request), (inode, file.map(|file| file.0)), size).map_err(or_stale)?;
            }
            self.tree.attributes(inode).map_err(or_stale)
        });
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        answer("readlink", reply, || self.tree.target(inode).map_err(or_stale));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        answer("mknod", reply, || {
            if rustix::fs::FileType::from_raw_mode(mode) != rustix::fs::FileType::RegularFile {
                return Err(RequestFailure::Errno(Errno::EPERM));
            }
            let (created, handle) = self.tree.create(parent, &name(entry)?)?;
            self.tree.release(&self.author(request), created.attributes.ino, handle)?;
            Ok(self.tree.attributes(created.attributes.ino)?)
        });
    }

    fn mkdir(&self, _request: &Request, parent: INodeNo, entry: &OsStr, _mode: u32, _umask: u32, reply: ReplyEntry) {
        answer("mkdir", reply, || self.tree.make_directory(parent, &name(entry)?));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        let author = self.author(request);
        answer("unlink", reply, || self.tree.unlink(&author, parent, &name(entry)?).map_err(or_not_permitted));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        let author = self.author(request);
        answer("rmdir", reply, || self.tree.remove_directory(&author, parent, &name(entry)?));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, target: &Path, reply: ReplyEntry) {
        let author = self.author(request);
        answer("symlink", reply, || self.tree.make_link(&author, parent, (&name(entry)?, utf8(target.as_os_str())?)));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
        new_parent: INodeNo,
        new_entry: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let author = self.author(request);
        answer("rename", reply, || {
            if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
                return Err(RequestFailure::Errno(Errno::EINVAL));
            }
            let (from, to) = ((parent, &name(entry)?), (new_parent, &name(new_entry)?));
            self.tree.rename(&author, from, to, flags.is_empty())
        });
    }

    fn link(&self, _request: &Request, _inode: INodeNo, _parent: INodeNo, _entry: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mode = open_mode(flags);
        answer("open", reply, || {
            let opening = (inode, process_of(request.pid()));
            let handle = self.tree.open(opening, OpenAccess::of(flags)).map_err(or_stale)?;
            // A read-only handle needs no `flush`.
            let flags = if mode.write { DIRECT_IO } else { DIRECT_IO | FopenFlags::FOPEN_NOFLUSH };
            Ok::<_, RequestFailure>((self.register_open(request, inode, (handle, mode)), flags))
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
        _mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        answer("create", reply, || match self.tree.create(parent, &name(entry)?) {
            Ok((created, handle)) => {
                let mode = OpenMode { write: true, truncate: false };
                Ok((created, self.register_open(request, created.attributes.ino, (handle, mode))))
            }
            // The file was created elsewhere. The kernel looks the name up again and opens that
            // file.
            Err(fault) if fault.kind() == Kind::Exists && !flag_bits(flags).contains(OFlags::EXCL) => {
                Err(RequestFailure::Errno(Errno::ESTALE))
            }
            Err(fault) => Err(fault.into()),
        });
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer("read", reply, || self.tree.read(inode, file.0, (offset, size)).map_err(or_stale));
    }

    fn write(
        &self,
        request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer("write", reply, || {
            // Recorded first: a copy of the handle that another process closes now must not save
            // half of it.
            self.writers.record_write(file, request.pid(), || self.actors.author(request.uid(), request.pid()));
            let position = match write_at(offset, flags, write_flags) {
                WriteAt::Offset(offset) | WriteAt::Mapped(offset) => WriteOffset::Offset(offset),
                WriteAt::End => WriteOffset::End,
            };
            self.tree.write(file.0, position, data)?;
            u32::try_from(data.len()).map_err(Fault::internal)
        });
    }

    fn flush(&self, request: &Request, inode: INodeNo, file: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        if !self.writers.is_writer_close(file, request.pid()) {
            // The writer's own close, or the last one, saves the complete file.
            return reply.ok();
        }
        let author = self.handle_author(request, file);
        answer("flush", reply, || self.tree.flush(&author, inode, file.0));
    }

    fn fsync(&self, request: &Request, inode: INodeNo, file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let author = self.handle_author(request, file);
        answer("fsync", reply, || self.tree.fsync(&author, inode, file.0));
    }

    fn release(
        &self,
        request: &Request,
        inode: INodeNo,
        file: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let author = self.handle_author(request, file);
        self.writers.remove(file);
        answer("release", reply, || self.tree.release(&author, inode, file.0));
    }

    fn opendir(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(self.listings.open(), FopenFlags::empty());
    }

    fn readdir(&self, _request: &Request, inode: INodeNo, file: FileHandle, offset: u64, reply: ReplyDirectory) {
        let listing = || self.listing(inode, (file, offset));
        answer_with("readdir", reply, listing, |mut reply, listing| {
            for (next, entry) in listing.entries_from(offset) {
                if reply.add(entry.inode, next, entry.kind, &*entry.name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        file: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let listing = || self.listing(inode, (file, offset));
        answer_with("readdirplus", reply, listing, |mut reply, listing| {
            for (next, entry) in listing.entries_from(offset) {
                let is_counted = !entry.is_dots() && self.tree.nodes.add_lookup(entry.inode);
                let attributes = entry.attributes.unwrap_or_else(|| minimal_attr(entry.inode, entry.kind));
                if !entry.is_dots() && !is_counted {
                    continue;
                }
                // An open file may have been written to since.
                let ttl = if self.tree.nodes.is_open(entry.inode, None) { Duration::ZERO } else { self.tree.ttl() };
                if reply.add(entry.inode, next, &*entry.name, &ttl, &attributes, Generation(0)) {
                    if is_counted {
                        self.tree.nodes.forget(entry.inode, 1);
                    }
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(&self, _request: &Request, _inode: INodeNo, file: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        for (_, entry) in self.listings.close(file).entries_from(0) {
            // Nodes that were listed and never looked up are referenced only by the listing.
            self.tree.nodes.forget(entry.inode, 0);
        }
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _inode: INodeNo, _file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let files = u64::from(u32::MAX);
        reply.send_value(DiskSpace {
            block_size: 4096,
            blocks: REPORTED_BLOCKS,
            free: REPORTED_BLOCKS,
            available: REPORTED_BLOCKS,
            files,
            files_free: files,
        });
    }

    fn getxattr(&self, _request: &Request, inode: INodeNo, attribute: &OsStr, size: u32, reply: ReplyXattr) {
        answer("getxattr", reply, || {
            let value = match attribute.to_str() {
                Some(ETAG_XATTR) => {
                    let path = self.tree.nodes.path(inode).map_err(or_stale)?;
                    match self.tree.attributes(inode).map_err(or_stale)?.attributes.kind {
                        fuser::FileType::RegularFile => Some(self.tree.version(&path).map_err(or_stale)?.to_string()),
                        _ => None,
                    }
                }
                Some(REJECTION_XATTR) => self.tree.nodes.shared(inode).map_err(or_stale)?.lock().rejection.clone(),
                _ => None,
            };
            value.map(|value| (value.into_bytes(), size)).ok_or(RequestFailure::Errno(Errno::NO_XATTR))
        });
    }

    fn listxattr(&self, _request: &Request, _inode: INodeNo, size: u32, reply: ReplyXattr) {
        reply.send_value((Vec::new(), size));
    }

    fn setxattr(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOTSUP);
    }

    fn removexattr(&self, _request: &Request, _inode: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::NO_XATTR);
    }

    /// No ioctl is supported. Some runtimes test at every `open` for a terminal; fuser would log a
    /// warning each time.
    fn ioctl(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _output_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer("fallocate", reply, || {
            if mode != 0 {
                return Err(RequestFailure::Errno(Errno::ENOTSUP));
            }
            let size = offset.checked_add(length).ok_or(Errno::EFBIG)?;
            if self.tree.attributes(inode)?.attributes.size < size {
                self.tree.resize(&self.author(request), (inode, Some(file.0)), size)?;
            }
            Ok(())
        });
    }

    /// The kernel reads and writes instead; fuser would log a warning.
    fn copy_file_range(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        _offset: u64,
        _to_inode: INodeNo,
        _to: FileHandle,
        _to_offset: u64,
        _length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::ENOSYS);
    }
}

impl RemoteCallbacks {
    /// The listing of an open directory; offset 0 (also after `rewinddir`) reads it again.
    fn listing(&self, inode: INodeNo, (file, offset): (FileHandle, u64)) -> Result<DirectoryListing, RequestFailure> {
        if offset > 0 {
            return Ok(self.listings.get(file));
        }
        let listing = self.tree.listing(inode).map_err(or_stale)?;
        self.listings.set(file, listing.clone());
        Ok(listing)
    }
}
