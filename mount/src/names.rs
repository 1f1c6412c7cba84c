//! Creating, removing and renaming entries of the tree, of views and of drafts.

use std::ffi::OsStr;

use fuser::{Errno, FileAttr, FileHandle, FopenFlags, INodeNo, OpenFlags, RenameFlags, Request};
use rustix::fs::OFlags;
use svcfs_base::{Caller, Fault, Kind, PathComponent};
use svcfs_vfs::{HandleId, NodeId, PathAttributes, SET_GROUP_ID, SetAttributes, SpecialFile, SpecialKind};

use crate::convert::{MODE_BITS, file_attr, flag_bits, name, node, utf8};
use crate::drafts::is_draft_id;
use crate::fuse_server::FuseServer;
use crate::reply::{RequestFailure, or_not_permitted};
use crate::views::is_view_id;

impl FuseServer {
    /// Creates and opens a new file; its lookup count is 1. The first save determines the author.
    pub(crate) fn create(
        &self,
        request: &Request,
        parent: NodeId,
        name: &PathComponent,
        mode: u32,
    ) -> Result<(FileAttr, HandleId), Fault> {
        let (node, attributes, handle) = self.vfs.create(&self.user(request.uid()), parent, name, mode)?;
        Ok((self.set_owner(request, parent, (node, attributes))?, handle))
    }

    /// Like [`Self::create`], and registers the handle.
    ///
    /// # Errors
    /// `ESTALE` when the file exists now and `O_EXCL` is not set; otherwise those of
    /// [`Vfs::create`].
    pub(crate) fn create_opened(
        &self,
        request: &Request,
        (parent, entry): (INodeNo, &OsStr),
        (mode, flags): (u32, i32),
        bypass: FopenFlags,
    ) -> Result<(FileAttr, FileHandle, FopenFlags), RequestFailure> {
        if let Some(drafts) = self.drafts_of(parent) {
            let (attributes, handle) = drafts.create(parent, &name(entry)?)?;
            self.writers.add(handle, self.new_writer(request, NodeId(attributes.ino.0)));
            return Ok((attributes, handle, FopenFlags::empty()));
        }
        let (parent, entry) = self.entry(parent, entry)?;
        match self.create(request, parent, &entry, mode) {
            Ok((attributes, handle)) => {
                let writer = self.new_writer(request, node(attributes.ino));
                let (file, opened) = self.register_open(handle, Some(writer), bypass);
                self.passthrough.register_open(attributes.ino);
                Ok((attributes, file, opened | self.passthrough.write_open_flags(OpenFlags(flags), entry.as_str())))
            }
            // Another protocol created the file first. The kernel looks the name up again, checks
            // permissions and opens that file.
            Err(fault) if fault.kind() == Kind::Exists && !flag_bits(flags).contains(OFlags::EXCL) => {
                Err(RequestFailure::Errno(self.passthrough.retry_lookup(request.pid())))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Creates a special file, or an empty file.
    pub(crate) fn mknod(
        &self,
        request: &Request,
        (parent, entry): (INodeNo, &OsStr),
        mode: u32,
        device: u32,
    ) -> Result<FileAttr, RequestFailure> {
        if let Some(drafts) = self.drafts_of(parent) {
            return match SpecialKind::from_mode(mode) {
                Some(_) => Err(RequestFailure::Errno(Errno::EPERM)),
                None => drafts.create_empty(&self.author(request), parent, &name(entry)?),
            };
        }
        let (directory, entry) = self.entry(parent, entry)?;
        let permissions = mode & MODE_BITS;
        if let Some(kind) = SpecialKind::from_mode(mode) {
            let special = SpecialFile { kind, device: u64::from(device) };
            let caller = self.user(request.uid());
            let created = self.vfs.make_special(&caller, (directory, &entry), special, permissions)?;
            return Ok(self.set_owner(request, directory, created)?);
        }
        let (attributes, handle) = self.create(request, directory, &entry, permissions)?;
        self.vfs.release(&self.author(request), handle)?;
        Ok(attributes)
    }

    /// Creates a directory; increments the lookup count.
    pub(crate) fn make_directory(
        &self,
        request: &Request,
        (parent, entry): (INodeNo, &OsStr),
        mode: u32,
    ) -> Result<FileAttr, RequestFailure> {
        if let Some(drafts) = self.drafts_of(parent) {
            return drafts.make_directory(&self.author(request), parent, &name(entry)?);
        }
        let (parent, entry) = self.entry(parent, entry)?;
        let created = self.vfs.make_directory(&self.user(request.uid()), parent, &entry, mode)?;
        Ok(self.set_owner(request, parent, created)?)
    }

    pub(crate) fn unlink(&self, request: &Request, (parent, entry): (INodeNo, &OsStr)) -> Result<(), RequestFailure> {
        let caller = self.author(request);
        if let Some(drafts) = self.drafts_of(parent) {
            return drafts.unlink(&caller, parent, &name(entry)?);
        }
        let (parent, entry) = self.entry(parent, entry)?;
        self.vfs.unlink(&caller, parent, &entry).map_err(or_not_permitted)
    }

    pub(crate) fn remove_directory(
        &self,
        request: &Request,
        (parent, entry): (INodeNo, &OsStr),
    ) -> Result<(), RequestFailure> {
        if let Some(drafts) = self.drafts_of(parent) {
            return drafts.remove_directory(&self.author(request), parent, &name(entry)?);
        }
        let (parent, entry) = self.entry(parent, entry)?;
        Ok(self.vfs.remove_directory(&self.user(request.uid()), parent, &entry)?)
    }

    /// Creates a symbolic link; increments the lookup count.
    ///
    /// # Errors
    /// `EPERM` in a draft.
    pub(crate) fn make_link(
        &self,
        request: &Request,
        (parent, entry): (INodeNo, &OsStr),
        target: &OsStr,
    ) -> Result<FileAttr, RequestFailure> {
        if is_draft_id(parent.0) {
            return Err(RequestFailure::Errno(Errno::EPERM));
        }
        let (parent, entry) = self.entry(parent, entry)?;
        let created = self.vfs.make_link(&self.author(request), parent, &entry, utf8(target)?)?;
        Ok(self.set_owner(request, parent, created)?)
    }

    /// Renames an entry.
    ///
    /// # Errors
    /// `EXDEV` between the tree and a draft; `EINVAL` for flags that are not supported.
    pub(crate) fn rename(
        &self,
        request: &Request,
        (parent, entry): (INodeNo, &OsStr),
        (new_parent, new_entry): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), RequestFailure> {
        let caller = self.author(request);
        let is_exchange = flags == RenameFlags::RENAME_EXCHANGE;
        if let Some(drafts) = self.drafts_of(parent).or_else(|| self.drafts_of(new_parent)) {
            if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
                return Err(RequestFailure::Errno(Errno::EINVAL));
            }
            let (from, to) = ((parent, &name(entry)?), (new_parent, &name(new_entry)?));
            return drafts.rename(&caller, from, to, flags.is_empty());
        }
        if is_view_id(parent.0) && !is_exchange {
            return self.move_view_entry((request, &caller), (parent, entry), (new_parent, new_entry));
        }
        let (from, to) = (self.entry(parent, entry)?, self.entry(new_parent, new_entry)?);
        let (from, to) = ((from.0, &from.1), (to.0, &to.1));
        if is_exchange {
            self.vfs.exchange(&caller, from, to)?;
        } else if RenameFlags::RENAME_NOREPLACE.contains(flags) {
            self.vfs.rename_node(&caller, from, to, flags.is_empty())?;
        } else {
            return Err(RequestFailure::Errno(Errno::EINVAL));
        }
        Ok(())
    }

    /// Moves an entry of a view folder.
    ///
    /// # Errors
    /// `EROFS` unless both folders are views that allow it; those of the move.
    fn move_view_entry(
        &self,
        (request, author): (&Request, &Caller),
        (parent, entry): (INodeNo, &OsStr),
        (new_parent, new_entry): (INodeNo, &OsStr),
    ) -> Result<(), RequestFailure> {
        if !is_view_id(new_parent.0) {
            return Err(RequestFailure::Errno(Errno::EROFS));
        }
        let (from, to) = ((parent, &name(entry)?), (new_parent, &name(new_entry)?));
        self.views.move_entry((&self.view_reader(request), author), from, to)
    }

    /// Creates a hard link to a pipe, a socket or a device; increments the lookup count.
    ///
    /// # Errors
    /// `EPERM` for any other file.
    pub(crate) fn link(
        &self,
        request: &Request,
        inode: INodeNo,
        (parent, entry): (INodeNo, &OsStr),
    ) -> Result<FileAttr, RequestFailure> {
        if is_draft_id(inode.0) || is_draft_id(parent.0) {
            return Err(RequestFailure::Errno(Errno::EPERM));
        }
        let (directory, entry) = self.entry(parent, entry)?;
        let linked = self.vfs.link_special(&self.user(request.uid()), self.node(inode)?, (directory, &entry))?;
        let (node, attributes) = linked.ok_or(RequestFailure::Errno(Errno::EPERM))?;
        Ok(file_attr(node, &attributes))
    }

    /// Sets the owner of a new node, which the vfs creates as this process, to the requesting user.
    /// The group is the user's, or the directory's if that has the set-group-id bit.
    fn set_owner(
        &self,
        request: &Request,
        parent: NodeId,
        created: (NodeId, PathAttributes),
    ) -> Result<FileAttr, Fault> {
        let (node, attributes) = created;
        let directory = self.vfs.attributes(parent)?;
        let gid = if directory.mode & SET_GROUP_ID == 0 { request.gid() } else { directory.gid };
        if (attributes.uid, attributes.gid) == (request.uid(), gid) {
            return Ok(file_attr(node, &attributes));
        }
        let owner = SetAttributes { uid: Some(request.uid()), gid: Some(gid), ..SetAttributes::default() };
        let attributes = self.vfs.set_attributes(&self.user(request.uid()), node, owner)?;
        Ok(file_attr(node, &attributes))
    }
}
