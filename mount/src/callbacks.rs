//! One callback for each kernel request: translate, call, reply.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use svcfs_base::{Caller, Durability, Fault};
use svcfs_vfs::{SetAttributes, Vfs};

use crate::convert::{
    MODE_BITS, allocation, attr_ttl, handle, hole_search, is_virtual_id, node, open_mode, resolve_time, write_at,
};
use crate::drafts::is_draft_id;
use crate::fuse_server::FuseServer;
use crate::init_flags::{INIT_FLAGS, negotiate};
use crate::passthrough::is_eligible;
use crate::reply::{ErrorReply, FuseRequest, LookupReply, RequestFailure, ValueReply, answer, answer_with, or_stale};
use crate::session::SessionSentinel;
use crate::views::is_view_id;
use crate::xattrs::VirtualXattr;

/// Implements fuser's [`Filesystem`] for a space on this machine.
pub(crate) struct LocalCallbacks {
    vfs: Arc<Vfs>,
    server: Arc<FuseServer>,
    /// Open flags that bypass the page cache; empty where the kernel would then forbid shared
    /// mappings.
    bypass: FopenFlags,
    _alive: SessionSentinel,
}

impl LocalCallbacks {
    pub(crate) fn new(server: Arc<FuseServer>, alive: SessionSentinel) -> Self {
        Self { vfs: server.vfs.clone(), server, bypass: FopenFlags::empty(), _alive: alive }
    }

    /// The caller of a read, or of a change that is not versioned.
    fn caller(&self, request: &Request) -> Caller {
        self.server.user(request.uid())
    }

    /// The caller of a versioned change.
    fn author(&self, request: &Request) -> Caller {
        self.server.author(request)
    }

    fn answer<T, E, R>(&self, operation: &'static str, reply: R, call: impl FnOnce() -> Result<T, E>)
    where
        E: Into<RequestFailure>,
        R: ValueReply<T>,
    {
        answer(FuseRequest { operation, on_answer: self.server.on_answer.as_ref() }, reply, call);
    }

    fn answer_with<T, E, R>(
        &self,
        operation: &'static str,
        reply: R,
        call: impl FnOnce() -> Result<T, E>,
        send: impl FnOnce(R, T),
    ) where
        E: Into<RequestFailure>,
        R: ErrorReply,
    {
        answer_with(FuseRequest { operation, on_answer: self.server.on_answer.as_ref() }, reply, call, send);
    }
}

impl Filesystem for LocalCallbacks {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let offered = negotiate(config, INIT_FLAGS)?;
        if offered.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP) {
            self.bypass = FopenFlags::FOPEN_DIRECT_IO;
        }
        // Passthrough also needs shared mappings that bypass the cache: see `passthrough`.
        if offered.contains(InitFlags::FUSE_PASSTHROUGH | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP) {
            // The backing filesystem must not be stacked itself.
            let depth = config.set_max_stack_depth(1);
            depth.map_err(|max| io::Error::other(format!("the kernel allows a stack depth of at most {max}")))?;
            self.server.passthrough.enable();
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEntry) {
        let parent = self.server.map_root(parent);
        let lookup = || {
            let attributes = self.server.lookup(request, parent, entry)?;
            Ok::<_, RequestFailure>(LookupReply(attributes, self.server.entry_ttl(parent)))
        };
        self.answer("lookup", reply, lookup);
    }

    fn forget(&self, _request: &Request, inode: INodeNo, count: u64) {
        self.server.forget(inode, count);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        let inode = self.server.map_root(inode);
        self.answer("getattr", reply, || self.server.attributes(request, inode));
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        file: Option<FileHandle>,
        _created: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Other attributes exist only on disk and are not versioned.
        let is_versioned = size.is_some() || mode.is_some();
        let caller = if is_versioned { self.author(request) } else { self.caller(request) };
        let resolve = |time| resolve_time(&*self.server.clock, time);
        let set = SetAttributes {
            size,
            mode: mode.map(|mode| mode & MODE_BITS),
            uid,
            gid,
            modified: modified.map(resolve),
            accessed: accessed.map(resolve),
            handle: file.filter(|file| !is_virtual_id(file.0)).map(handle),
        };
        let inode = self.server.map_root(inode);
        self.answer("setattr", reply, || self.server.set_attributes(&caller, inode, set));
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        if is_view_id(inode.0) {
            return self.answer("readlink", reply, || self.server.views.target(inode));
        }
        if let Some(drafts) = self.server.drafts_of(inode) {
            return self.answer("readlink", reply, || drafts.target(inode).map(Bytes::from));
        }
        let caller = self.caller(request);
        self.answer("readlink", reply, || {
            self.vfs.link_target(&caller, node(inode)).map(Bytes::from).map_err(or_stale)
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let parent = self.server.map_root(parent);
        self.answer("mknod", reply, || self.server.mknod(request, (parent, entry), mode, device));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, entry: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let parent = self.server.map_root(parent);
        self.answer("mkdir", reply, || self.server.make_directory(request, (parent, entry), mode & MODE_BITS));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        let parent = self.server.map_root(parent);
        self.answer("unlink", reply, || self.server.unlink(request, (parent, entry)));
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        let parent = self.server.map_root(parent);
        self.answer("rmdir", reply, || self.server.remove_directory(request, (parent, entry)));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, target: &Path, reply: ReplyEntry) {
        let parent = self.server.map_root(parent);
        self.answer("symlink", reply, || self.server.make_link(request, (parent, entry), target.as_os_str()));
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
        let (from, to) = ((self.server.map_root(parent), entry), (self.server.map_root(new_parent), new_entry));
        self.answer("rename", reply, || self.server.rename(request, from, to, flags));
    }

    /// Implemented although mostly refused: git tries it for each object, and fuser would log a
    /// warning each time.
    fn link(&self, request: &Request, inode: INodeNo, parent: INodeNo, entry: &OsStr, reply: ReplyEntry) {
        let parent = self.server.map_root(parent);
        self.answer("link", reply, || self.server.link(request, inode, (parent, entry)));
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mode = open_mode(flags);
        if is_view_id(inode.0) {
            return self.answer("open", reply, || self.server.views.open(inode, mode.write));
        }
        if is_draft_id(inode.0) {
            return self.answer("open", reply, || self.server.open_in_draft(request, inode, mode));
        }
        let opened = || self.server.open(request, inode, (mode, flags), self.bypass);
        self.answer_with("open", reply, opened, |reply, opened| {
            let file = || self.vfs.clean_backing_file(node(inode), is_eligible);
            self.server.passthrough.reply_open(reply, inode, opened, file);
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let parent = self.server.map_root(parent);
        self.answer("create", reply, || {
            self.server.create_opened(request, (parent, entry), (mode & MODE_BITS, flags), self.bypass)
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
        if is_view_id(file.0) {
            return self.answer("read", reply, || self.server.views.read(file, offset, size));
        }
        if is_draft_id(file.0) {
            return self.answer("read", reply, || self.server.drafts.read(file, offset, size));
        }
        self.answer("read", reply, || self.vfs.read_node(node(inode), offset, size as usize).map_err(or_stale));
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
        self.answer("write", reply, || {
            // Recorded first: a copy of the handle that another process closes now must not publish
            // half a save.
            self.server.record_write(request, file);
            if is_draft_id(file.0) {
                return self.server.drafts.write(file, write_at(offset, flags, write_flags), data);
            }
            let caller = self.server.handle_author(request, file);
            let written = self.vfs.write_node(&caller, handle(file), write_at(offset, flags, write_flags), data)?;
            Ok(u32::try_from(written).map_err(Fault::internal)?)
        });
    }

    fn flush(&self, request: &Request, _inode: INodeNo, file: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        if is_view_id(file.0) || !self.server.writers.is_writer_close(file, request.pid()) {
            // The writer's own close, or the last one, publishes the complete save.
            return reply.ok();
        }
        let caller = self.server.handle_author(request, file);
        if is_draft_id(file.0) {
            return self.answer("flush", reply, || self.server.drafts.flush(&caller, file));
        }
        self.answer("flush", reply, || self.vfs.publish_handle(&caller, handle(file), Durability::Soon));
    }

    fn fsync(&self, request: &Request, _inode: INodeNo, file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        if is_view_id(file.0) {
            return reply.ok();
        }
        let caller = self.server.handle_author(request, file);
        if is_draft_id(file.0) {
            return self.answer("fsync", reply, || self.server.drafts.fsync(&caller, file));
        }
        self.answer("fsync", reply, || self.vfs.publish_handle(&caller, handle(file), Durability::Now));
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
        if is_view_id(file.0) {
            self.server.views.close(file);
            return reply.ok();
        }
        if is_draft_id(file.0) {
            let author = self.server.remove_writer(request, file);
            self.server.drafts.release(&author, file);
            return reply.ok();
        }
        self.server.passthrough.close(inode);
        let author = self.server.remove_writer(request, file);
        self.answer("release", reply, || self.vfs.release(&author, handle(file)));
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let inode = self.server.map_root(inode);
        reply.opened(self.server.listings.open(), self.server.listing_flags(inode));
    }

    fn readdir(&self, request: &Request, inode: INodeNo, file: FileHandle, offset: u64, reply: ReplyDirectory) {
        let inode = self.server.map_root(inode);
        let listing = || self.server.listing(request, inode, (file, offset));
        self.answer_with("readdir", reply, listing, |mut reply, listing| {
            for (next, entry) in listing.entries_from(offset) {
                if reply.add(self.server.current_inode(entry.inode), next, entry.kind, &*entry.name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(&self, request: &Request, inode: INodeNo, file: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        let inode = self.server.map_root(inode);
        let listing = || self.server.listing(request, inode, (file, offset));
        self.answer_with("readdirplus", reply, listing, |mut reply, listing| {
            let (is_fresh, ttl) = (listing.is_fresh(&self.vfs), self.server.entry_ttl(inode));
            for (next, entry) in listing.entries_from(offset) {
                let Some(attributes) = self.server.entry_attributes(request, inode, (entry, is_fresh)) else {
                    continue;
                };
                if reply.add(
                    attributes.ino,
                    next,
                    &*entry.name,
                    &attr_ttl(&attributes).min(ttl),
                    &attributes,
                    Generation(0),
                ) {
                    self.server.undo_lookup(entry, &attributes);
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(&self, _request: &Request, _inode: INodeNo, file: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        for (_, entry) in self.server.listings.close(file).entries_from(0).filter(|(_, entry)| !entry.is_dots()) {
            // Nodes that were listed and never looked up are referenced only by the listing.
            self.server.forget(entry.inode, 0);
        }
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _inode: INodeNo, _file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.answer("fsyncdir", reply, || self.vfs.wait_applied().map(drop));
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        self.answer("statfs", reply, || self.vfs.disk_space());
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let inode = self.server.map_root(inode);
        self.answer("getxattr", reply, || self.server.getxattr(request, inode, name).map(|value| (value, size)));
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let inode = self.server.map_root(inode);
        self.answer("listxattr", reply, || {
            let names = match self.server.drafts_of(inode) {
                Some(drafts) => Ok(self.server.draft_xattr_names(drafts, inode)),
                None => self.server.node(inode).map_or(Ok(Vec::new()), |node| self.server.xattr_names(node)),
            };
            names.map(|names| (names, size)).map_err(or_stale)
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.answer("setxattr", reply, || match VirtualXattr::from_name(name) {
            Some(attribute) => self.server.set_svcfs_attribute(request, inode, (attribute, Some(value))),
            None => self.server.set_user_attribute(request, inode, name, (value, flags)),
        });
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.answer("removexattr", reply, || match VirtualXattr::from_name(name) {
            Some(attribute) => self.server.set_svcfs_attribute(request, inode, (attribute, None)),
            None => self.server.remove_user_attribute(request, inode, name),
        });
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

    fn lseek(&self, request: &Request, inode: INodeNo, _file: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.answer("lseek", reply, || {
            self.server.seek(request, inode, hole_search(offset, whence).ok_or(Errno::EINVAL)?)
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.answer("fallocate", reply, || {
            let part = allocation(offset, length, mode).filter(|_| !is_virtual_id(file.0)).ok_or(Errno::ENOTSUP)?;
            Ok::<_, RequestFailure>(self.vfs.allocate(&self.author(request), handle(file), part)?)
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        inode: INodeNo,
        file: FileHandle,
        offset: u64,
        _to_inode: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.answer("copy_file_range", reply, || {
            self.server.copy_range(request, (inode, file, offset), (to, to_offset), length)
        });
    }
}
