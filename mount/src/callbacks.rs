//! The kernel's requests, one callback each: translate, call, answer.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FileType, OFlags};
use svcfs_base::{Durability, Kind};
use svcfs_vfs::SetAttributes;

use crate::answer::{answer, answer_with};
use crate::convert::{KNOWN_TTL, PERMISSIONS, file_attr, flag_bits, handle, moment, name, node, open_mode, utf8};
use crate::door::KernelDoor;
use crate::writers::Writer;

/// Longest write of one request, in bytes; the most Linux sends.
const MAX_WRITE_BYTES: u32 = 1 << 20;

/// The extended attribute that says why the last save of a file was refused (gaps.md D6).
const LINT_ATTRIBUTE: &str = "user.svc.lint";

/// What is asked of the kernel where it offers it. Not asked for: the write-back cache (`flush` must find all bytes here), and
/// locks (the kernel then keeps them itself, which is right for one machine).
const WANTED: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_ATOMIC_O_TRUNC)
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    // Pages go when size or modification time turn out different: the safety net below the follower.
    .union(InitFlags::FUSE_AUTO_INVAL_DATA)
    // The tree has no set-user-id bits and no file capabilities; without this, writes ask for them first.
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);

/// The door as fuser drives it.
pub(crate) struct Callbacks {
    door: Arc<KernelDoor>,
    /// How a handle goes past the page cache; nothing where the kernel would then forbid shared mappings.
    bypass: FopenFlags,
    /// Dropped with the session: tells [`crate::Mount`] that it is over.
    _alive: Sender<Infallible>,
}

impl Callbacks {
    /// Callbacks of a door, for one session.
    pub(crate) fn new(door: Arc<KernelDoor>, alive: Sender<Infallible>) -> Self {
        Self {
            door,
            bypass: FopenFlags::empty(),
            _alive: alive,
        }
    }
}

impl Filesystem for Callbacks {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let offered = WANTED & config.capabilities();
        let missing = |flags| io::Error::other(format!("the kernel offered {flags:?} and takes it back"));
        config.add_capabilities(offered).map_err(missing)?;
        if offered.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP) {
            self.bypass = FopenFlags::FOPEN_DIRECT_IO;
        }
        let refused = |most| {
            io::Error::other(format!(
                "writes of {MAX_WRITE_BYTES} bytes are over the limit of {most}"
            ))
        };
        config.set_max_write(MAX_WRITE_BYTES).map_err(refused)?;
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEntry) {
        answer("lookup", reply, || {
            match self
                .door
                .vfs
                .lookup(&self.door.caller(request), node(parent), &name(entry)?)
            {
                Ok((node, attributes)) => Ok(Some(file_attr(node, &attributes))),
                Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
                Err(fault) => Err(fault.into()),
            }
        });
    }

    fn forget(&self, _request: &Request, inode: INodeNo, count: u64) {
        self.door.vfs.forget(node(inode), count);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        answer("getattr", reply, || {
            Ok(file_attr(node(inode), &self.door.vfs.attributes(node(inode))?))
        });
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
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttributes {
            size,
            mode: mode.map(|mode| mode & PERMISSIONS),
            uid,
            gid,
            modified: modified.map(|time| moment(&*self.door.clock, time)),
            accessed: accessed.map(|time| moment(&*self.door.clock, time)),
        };
        answer("setattr", reply, || {
            let caller = self.door.caller(request);
            let attributes = self.door.vfs.set_attributes(&caller, node(inode), set)?;
            if size.is_some() && handle.is_none() {
                // truncate(2): no close follows that would publish it.
                self.door.vfs.publish(&caller, node(inode), Durability::Soon)?;
            }
            Ok(file_attr(node(inode), &attributes))
        });
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        answer("readlink", reply, || Ok(self.door.vfs.link_target(node(inode))?.into()));
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
            if FileType::from_raw_mode(mode) != FileType::RegularFile {
                return Err(Errno::EPERM.into());
            }
            let (caller, name) = (self.door.caller(request), name(entry)?);
            let (node, attributes, handle) =
                self.door
                    .vfs
                    .create(&caller, node(parent), &name, mode & PERMISSIONS, true)?;
            self.door.vfs.release(&caller, handle)?;
            Ok(self.door.given(request, (node, attributes))?)
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, entry: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        answer("mkdir", reply, || {
            let (caller, name) = (self.door.caller(request), name(entry)?);
            let made = self
                .door
                .vfs
                .make_directory(&caller, node(parent), &name, mode & PERMISSIONS)?;
            Ok(self.door.given(request, made)?)
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        answer("unlink", reply, || {
            Ok(self
                .door
                .vfs
                .unlink(&self.door.caller(request), node(parent), &name(entry)?)?)
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, entry: &OsStr, reply: ReplyEmpty) {
        answer("rmdir", reply, || {
            Ok(self
                .door
                .vfs
                .remove_directory(&self.door.caller(request), node(parent), &name(entry)?)?)
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, entry: &OsStr, target: &Path, reply: ReplyEntry) {
        answer("symlink", reply, || {
            let (caller, name) = (self.door.caller(request), name(entry)?);
            let made = self
                .door
                .vfs
                .make_link(&caller, node(parent), &name, utf8(target.as_os_str())?)?;
            Ok(self.door.given(request, made)?)
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer("rename", reply, || {
            let (caller, name, new_name) = (self.door.caller(request), name(entry)?, name(new_name)?);
            let (from, to) = ((node(parent), &name), (node(new_parent), &new_name));
            if flags == RenameFlags::RENAME_EXCHANGE {
                Ok(self.door.vfs.exchange(&caller, from, to)?)
            } else if RenameFlags::RENAME_NOREPLACE.contains(flags) {
                Ok(self.door.vfs.rename_node(&caller, from, to, flags.is_empty())?)
            } else {
                Err(Errno::EINVAL.into())
            }
        });
    }

    fn link(&self, _request: &Request, _inode: INodeNo, _parent: INodeNo, _name: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer("open", reply, || {
            let (node, mode) = (node(inode), open_mode(flags));
            let handle = self.door.vfs.open_node(&self.door.caller(request), node, mode)?;
            let writer = mode.write.then(|| Writer {
                node,
                uid: request.uid(),
            });
            Ok(self.door.opened(handle, writer, self.bypass))
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        entry: &OsStr,
        mode: u32,
        _umask: u32,
        open_flags: i32,
        reply: ReplyCreate,
    ) {
        answer("create", reply, || {
            let (caller, name) = (self.door.caller(request), name(entry)?);
            match self
                .door
                .vfs
                .create(&caller, node(parent), &name, mode & PERMISSIONS, true)
            {
                Ok((node, attributes, handle)) => {
                    let attributes = self.door.given(request, (node, attributes))?;
                    let writer = Writer {
                        node,
                        uid: request.uid(),
                    };
                    let (handle, flags) = self.door.opened(handle, Some(writer), self.bypass);
                    Ok((attributes, handle, flags))
                }
                // Another door was faster than the kernel knew. It looks again, and opens what is there after checking that
                // this caller may.
                Err(fault) if fault.kind() == Kind::Exists && !flag_bits(open_flags).contains(OFlags::EXCL) => {
                    Err(Errno::ESTALE.into())
                }
                Err(fault) => Err(fault.into()),
            }
        });
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer("read", reply, || {
            Ok(self.door.vfs.read_node(node(inode), offset, size as usize)?)
        });
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        answer("write", reply, || {
            Ok(self.door.vfs.write_node(handle(file), offset, data)? as u32)
        });
    }

    fn flush(&self, request: &Request, inode: INodeNo, _handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        answer("flush", reply, || {
            Ok(self
                .door
                .vfs
                .publish(&self.door.caller(request), node(inode), Durability::Soon)?)
        });
    }

    fn fsync(&self, request: &Request, inode: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        answer("fsync", reply, || {
            Ok(self
                .door
                .vfs
                .publish(&self.door.caller(request), node(inode), Durability::Now)?)
        });
    }

    fn release(
        &self,
        request: &Request,
        _inode: INodeNo,
        file: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        answer("release", reply, || {
            let uid = self
                .door
                .writers
                .remove(file)
                .map_or_else(|| request.uid(), |writer| writer.uid);
            Ok(self.door.vfs.release(&self.door.user(uid), handle(file))?)
        });
    }

    fn opendir(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(self.door.listings.open(), FopenFlags::empty());
    }

    fn readdir(&self, request: &Request, inode: INodeNo, file: FileHandle, offset: u64, reply: ReplyDirectory) {
        let listing = || Ok(self.door.listing(request, inode, (file, offset))?);
        answer_with("readdir", reply, listing, |mut reply, listing| {
            for (next, line) in listing.after(offset) {
                if reply.add(line.inode, next, line.kind, &*line.name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(&self, request: &Request, inode: INodeNo, file: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        let listing = || Ok(self.door.listing(request, inode, (file, offset))?);
        answer_with("readdirplus", reply, listing, |mut reply, listing| {
            for (next, line) in listing.after(offset) {
                let Some(attributes) = self.door.found(request, inode, line) else {
                    continue;
                };
                if reply.add(
                    attributes.ino,
                    next,
                    &*line.name,
                    &KNOWN_TTL,
                    &attributes,
                    Generation(0),
                ) {
                    self.door.unfound(line, &attributes);
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(&self, _request: &Request, _inode: INodeNo, file: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.door.listings.close(file);
        reply.ok();
    }

    /// Names are on the disk when the request that changed them is answered; there is nothing left to do.
    fn fsyncdir(&self, _request: &Request, _inode: INodeNo, _file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        answer("statfs", reply, || Ok(self.door.vfs.disk()?));
    }

    fn getxattr(&self, _request: &Request, inode: INodeNo, attribute: &OsStr, room: u32, reply: ReplyXattr) {
        answer("getxattr", reply, || {
            let wanted = attribute == LINT_ATTRIBUTE;
            let refusal = wanted.then(|| self.door.vfs.refusal(node(inode))).flatten();
            Ok((refusal.ok_or(Errno::NO_XATTR)?.into_bytes(), room))
        });
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, room: u32, reply: ReplyXattr) {
        answer("listxattr", reply, || {
            let names = self
                .door
                .vfs
                .refusal(node(inode))
                .map(|_| format!("{LINT_ATTRIBUTE}\0"));
            Ok((names.unwrap_or_default().into_bytes(), room))
        });
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
        reply.error(Errno::ENOTSUP);
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer("fallocate", reply, || {
            if mode != 0 {
                return Err(Errno::ENOTSUP.into());
            }
            let size = offset.checked_add(length).ok_or(Errno::EFBIG)?;
            if self.door.vfs.attributes(node(inode))?.size < size {
                let longer = SetAttributes {
                    size: Some(size),
                    ..SetAttributes::default()
                };
                self.door
                    .vfs
                    .set_attributes(&self.door.caller(request), node(inode), longer)?;
            }
            Ok(())
        });
    }
}
