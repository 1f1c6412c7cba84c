//! The kernel's requests, one callback each: translate, call, answer.

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
use svcfs_vfs::{SetAttributes, SpecialFile, SpecialKind, Vfs};

use crate::convert::{
    PERMISSIONS, allocation, attr_of, handle, hole_search, kept_for, moment, node, open_mode, utf8, write_at,
};
use crate::fuse_server::FuseServer;
use crate::init_flags::{MAX_WRITE_BYTES, WANTED};
use crate::passthrough::{OpenReply, is_fit};
use crate::reply::{ErrorReply, FuseRequest, LookupReply, RequestFailure, ValueReply, answer, answer_with, gone};
use crate::session::SessionSentinel;
use crate::views::is_ours;
use crate::xattrs::VirtualXattr;

/// The door as fuser drives it.
pub(crate) struct LocalCallbacks {
    vfs: Arc<Vfs>,
    protocol: Arc<FuseServer>,
    /// How a handle goes past the page cache; nothing where the kernel would then forbid shared mappings.
    bypass: FopenFlags,
    _alive: SessionSentinel,
}

impl LocalCallbacks {
    /// Callbacks of a door, for one session.
    pub(crate) fn new(protocol: Arc<FuseServer>, alive: SessionSentinel) -> Self {
        Self { vfs: protocol.vfs.clone(), protocol, bypass: FopenFlags::empty(), _alive: alive }
    }

    /// Who looks at something.
    fn caller(&self, request: &Request) -> Caller {
        self.protocol.user(request.uid())
    }

    /// Who changes what is versioned.
    fn author(&self, request: &Request) -> Caller {
        self.protocol.author(request)
    }

    fn answer<T, E, R>(&self, operation: &'static str, reply: R, call: impl FnOnce() -> Result<T, E>)
    where
        E: Into<RequestFailure>,
        R: ValueReply<T>,
    {
        answer(FuseRequest { operation, told: self.protocol.on_answer.as_ref() }, reply, call);
    }

    fn answer_with<T, E, R>(
        &self,
        operation: &'static str,
        reply: R,
        call: impl FnOnce() -> Result<T, E>,
        give: impl FnOnce(R, T),
    ) where
        E: Into<RequestFailure>,
        R: ErrorReply,
    {
        answer_with(FuseRequest { operation, told: self.protocol.on_answer.as_ref() }, reply, call, give);
    }
}

impl Filesystem for LocalCallbacks {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let offered = WANTED & config.capabilities();
        config.add_capabilities(offered).map_err(|left| io::Error::other(format!("the kernel took {left:?} back")))?;
        if offered.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP) {
            self.bypass = FopenFlags::FOPEN_DIRECT_IO;
        }
        // Needs the kernel's leave for mapping past the cache, too: see `passing`.
        if offered.contains(InitFlags::FUSE_PASSTHROUGH | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP) {
            // A disk that lies upon no other.
            let taken = config.set_max_stack_depth(1);
            taken.map_err(|most| io::Error::other(format!("the kernel stacks at most {most} disks")))?;
            self.protocol.passing.begin();
        }
        config
            .set_max_write(MAX_WRITE_BYTES)
            .map_err(|most| io::Error::other(format!("writes are limited to {most}")))?;
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEntry) {
        let parent = self.protocol.seen(parent);
        let looked = || {
            Ok::<_, RequestFailure>(LookupReply(
                self.protocol.lookup(request, parent, entry)?,
                self.protocol.kept_in(parent),
            ))
        };
        self.answer("lookup", reply, looked);
    }

    fn forget(&self, _request: &Request, inode: INodeNo, count: u64) {
        self.protocol.forget(inode, count);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        let inode = self.protocol.seen(inode);
        if is_ours(inode.0) {
            return self.answer("getattr", reply, || self.protocol.views.attributes(&self.caller(request), inode));
        }
        let node = node(inode);
        self.answer("getattr", reply, || self.vfs.attributes(node).map(|found| attr_of(inode, &found)).map_err(gone));
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
        // Other attributes are the disk's alone.
        let is_versioned = size.is_some() || mode.is_some();
        let caller = if is_versioned { self.author(request) } else { self.caller(request) };
        let moment = |time| moment(&*self.protocol.clock, time);
        let set = SetAttributes {
            size,
            mode: mode.map(|mode| mode & PERMISSIONS),
            uid,
            gid,
            modified: modified.map(moment),
            accessed: accessed.map(moment),
            handle: file.filter(|file| !is_ours(file.0)).map(handle),
        };
        self.answer("setattr", reply, || {
            let node = self.protocol.node(inode)?;
            self.vfs.set_attributes(&caller, node, set).map(|now| attr_of(inode, &now)).map_err(gone)
        });
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        if is_ours(inode.0) {
            return self.answer("readlink", reply, || self.protocol.views.target(inode));
        }
        let caller = self.caller(request);
        self.answer("readlink", reply, || self.vfs.link_target(&caller, node(inode)).map(Bytes::from).map_err(gone));
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
        self.answer("mknod", reply, || {
            let (directory, entry) = self.protocol.entry(parent, entry)?;
            if let Some(kind) = SpecialKind::from_mode(mode) {
                let special = SpecialFile { kind, device: u64::from(device) };
                let (caller, mode) = (self.caller(request), mode & PERMISSIONS);
                let made = self.vfs.make_special(&caller, (directory, &entry), special, mode)?;
                return Ok::<_, RequestFailure>(self.protocol.given(request, directory, made)?);
            }
            let (attributes, handle) = self.protocol.create(request, directory, &entry, mode & PERMISSIONS)?;
            self.vfs.release(&self.author(request), handle)?;
            Ok(attributes)
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, entry: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let (caller, mode) = (self.caller(request), mode & PERMISSIONS);
        self.answer("mkdir", reply, || {
            let (parent, entry) = self.protocol.entry(parent, entry)?;
            let made = self.vfs.make_directory(&caller, parent, &entry, mode)?;
            Ok::<_, RequestFailure>(self.protocol.given(request, parent, made)?)
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        let caller = self.author(request);
        self.answer("unlink", reply, || {
            let (parent, entry) = self.protocol.entry(parent, entry)?;
            Ok::<_, RequestFailure>(self.vfs.unlink(&caller, parent, &entry)?)
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        let caller = self.caller(request);
        self.answer("rmdir", reply, || {
            let (parent, entry) = self.protocol.entry(parent, entry)?;
            Ok::<_, RequestFailure>(self.vfs.remove_directory(&caller, parent, &entry)?)
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, target: &Path, reply: ReplyEntry) {
        let caller = self.author(request);
        self.answer("symlink", reply, || {
            let (parent, entry) = self.protocol.entry(parent, entry)?;
            let made = self.vfs.make_link(&caller, parent, &entry, utf8(target.as_os_str())?)?;
            Ok::<_, RequestFailure>(self.protocol.given(request, parent, made)?)
        });
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
        let caller = self.author(request);
        self.answer("rename", reply, || {
            let (from, to) = (self.protocol.entry(parent, entry)?, self.protocol.entry(new_parent, new_entry)?);
            let (from, to) = ((from.0, &from.1), (to.0, &to.1));
            if flags == RenameFlags::RENAME_EXCHANGE {
                self.vfs.exchange(&caller, from, to)?;
            } else if RenameFlags::RENAME_NOREPLACE.contains(flags) {
                self.vfs.rename_node(&caller, from, to, flags.is_empty())?;
            } else {
                return Err(RequestFailure::Word(Errno::EINVAL));
            }
            Ok(())
        });
    }

    /// Answered here, because git tries it once for each object and fuser would log each as a warning.
    fn link(&self, request: &Request, inode: INodeNo, parent: INodeNo, entry: &OsStr, reply: ReplyEntry) {
        self.answer("link", reply, || self.protocol.link(request, inode, (parent, entry)));
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mode = open_mode(flags);
        if is_ours(inode.0) {
            return self.answer("open", reply, || self.protocol.views.open(inode, mode.write));
        }
        let opened = || {
            let opened = self.protocol.open(request, inode, mode, self.bypass)?;
            Ok::<_, RequestFailure>(OpenReply { flags: opened.flags | self.protocol.to_write(inode, flags), ..opened })
        };
        self.answer_with("open", reply, opened, |reply, opened| {
            self.protocol.passing.give(reply, inode, opened, || self.vfs.clean_backing_file(node(inode), is_fit));
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
        self.answer("create", reply, || {
            let (parent, entry) = self.protocol.entry(parent, entry)?;
            self.protocol.create_opened(request, (parent, &entry), (mode & PERMISSIONS, flags), self.bypass)
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
        if is_ours(file.0) {
            return self.answer("read", reply, || self.protocol.views.read(file, offset, size));
        }
        self.answer("read", reply, || self.vfs.read_node(node(inode), offset, size as usize).map_err(gone));
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
            // Noted first: a copy of the handle that another program closes meanwhile must not publish half of it.
            self.protocol.wrote(request, file);
            let caller = self.protocol.saver(request, file);
            let written = self.vfs.write_node(&caller, handle(file), write_at(offset, flags, write_flags), data)?;
            u32::try_from(written).map_err(Fault::internal)
        });
    }

    fn flush(&self, request: &Request, _inode: INodeNo, file: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        if is_ours(file.0) || !self.protocol.writers.is_own_close(file, request.pid()) {
            // Half a save is nobody's version; the writer's own close, or the last one, publishes it.
            return reply.ok();
        }
        let caller = self.protocol.saver(request, file);
        self.answer("flush", reply, || self.vfs.publish_handle(&caller, handle(file), Durability::Soon));
    }

    fn fsync(&self, request: &Request, _inode: INodeNo, file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        if is_ours(file.0) {
            return reply.ok();
        }
        let caller = self.protocol.saver(request, file);
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
        if is_ours(file.0) {
            self.protocol.views.close(file);
            return reply.ok();
        }
        self.protocol.passing.closed(inode);
        let author = self.protocol.released(request, file);
        self.answer("release", reply, || self.vfs.release(&author, handle(file)));
    }

    fn opendir(&self, _request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let inode = self.protocol.seen(inode);
        reply.opened(self.protocol.listings.open(), self.protocol.cached_listing(inode));
    }

    fn readdir(&self, request: &Request, inode: INodeNo, file: FileHandle, offset: u64, reply: ReplyDirectory) {
        let inode = self.protocol.seen(inode);
        let listing = || self.protocol.listing(request, inode, (file, offset));
        self.answer_with("readdir", reply, listing, |mut reply, listing| {
            for (next, line) in listing.after(offset) {
                if reply.add(self.protocol.shown(line.inode), next, line.kind, &*line.name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(&self, request: &Request, inode: INodeNo, file: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        let inode = self.protocol.seen(inode);
        let listing = || self.protocol.listing(request, inode, (file, offset));
        self.answer_with("readdirplus", reply, listing, |mut reply, listing| {
            let (is_fresh, kept) = (listing.is_fresh(&self.vfs), self.protocol.kept_in(inode));
            for (next, line) in listing.after(offset) {
                let Some(found) = self.protocol.found(request, inode, (line, is_fresh)) else { continue };
                if reply.add(found.ino, next, &*line.name, &kept_for(&found).min(kept), &found, Generation(0)) {
                    self.protocol.unfound(line, &found);
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(&self, _request: &Request, _inode: INodeNo, file: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        for (_, line) in self.protocol.listings.close(file).after(0).filter(|(_, line)| !line.is_dots()) {
            // Nodes that were listed and never looked at are known to nobody but the listing.
            self.protocol.forget(line.inode, 0);
        }
        reply.ok();
    }

    fn fsyncdir(&self, _request: &Request, _inode: INodeNo, _file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.answer("fsyncdir", reply, || self.vfs.wait_applied().map(drop));
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        self.answer("statfs", reply, || self.vfs.disk_space());
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        let inode = self.protocol.seen(inode);
        self.answer("getxattr", reply, || {
            let value = match VirtualXattr::of(name) {
                Some(attribute) => self.protocol.attribute(request, inode, attribute),
                None => self.protocol.programs_attribute(inode, name),
            };
            let value = value.map_err(gone)?;
            value.map(|value| (value, room)).ok_or(RequestFailure::Word(Errno::NO_XATTR))
        });
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        let inode = self.protocol.seen(inode);
        self.answer("listxattr", reply, || {
            let names = self.protocol.node(inode).map_or(Ok(Vec::new()), |node| self.protocol.attributes(node));
            names.map(|names| (names, room)).map_err(gone)
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
        self.answer("setxattr", reply, || match VirtualXattr::of(name) {
            Some(attribute) => self.protocol.set_attribute(request, inode, (attribute, Some(value))),
            None => self.protocol.set_programs_attribute(inode, name, (value, flags)),
        });
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.answer("removexattr", reply, || match VirtualXattr::of(name) {
            Some(attribute) => self.protocol.set_attribute(request, inode, (attribute, None)),
            None => self.protocol.remove_programs_attribute(inode, name),
        });
    }

    /// None is known. Some languages ask at every `open` whether it is a terminal; fuser would log each as a warning.
    fn ioctl(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _room: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    fn lseek(&self, request: &Request, inode: INodeNo, _file: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.answer("lseek", reply, || {
            self.protocol.seek(request, inode, hole_search(offset, whence).ok_or(Errno::EINVAL)?)
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
            let part = allocation(offset, length, mode).ok_or(Errno::ENOTSUP)?;
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
            self.protocol.copy_range(request, (inode, file, offset), (to, to_offset), length)
        });
    }
}
