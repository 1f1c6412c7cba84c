//! Extended attributes: `user.svc.…`, which svcfs gives its files, and all others below `user.`, which programs give theirs.
//!
//! One rule: what is listed costs no wait, because `cp -a` and `rsync -X` read every attribute that is listed, of every file. Those
//! programs also set what they read on the copy: what cannot be set is therefore taken, and nothing comes of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, Request};
use svcfs_base::Fault;
use svcfs_vfs::{EntryKind, NodeId, PathAttributes, SetXattrMode};

use crate::convert::utf8;
use crate::fuse_server::FuseServer;
use crate::reply::RequestFailure;

/// Of setxattr(2), as the kernel passes them on (`linux/xattr.h`).
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// What the names that programs may use begin with.
const PROGRAMS: &str = "user.";
/// What the names of ours begin with.
const OURS: &str = "user.svc.";

/// One of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VirtualXattr {
    /// The hash of the recorded content, as the ETag of other doors.
    ETag,
    /// The newest version: its commit.
    Version,
    /// Who wrote it.
    Actor,
    /// Why the last save was refused (gaps.md D6).
    Lint,
    /// How many pages link to this one.
    Backlinks,
    /// What the caller's next save is for; the one that can be set.
    Message,
    /// Begins like ours, and is none.
    Unknown,
}

impl VirtualXattr {
    /// The attribute of a name; none when the name is not one of ours.
    pub(crate) fn of(name: &OsStr) -> Option<Self> {
        Some(match name.to_str()?.strip_prefix(OURS)? {
            "etag" => Self::ETag,
            "version" => Self::Version,
            "actor" => Self::Actor,
            "lint" => Self::Lint,
            "backlinks" => Self::Backlinks,
            "message" => Self::Message,
            _ => Self::Unknown,
        })
    }
}

/// Whether programs may use a name: the others are the system's.
fn is_programs(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PROGRAMS.as_bytes())
}

impl FuseServer {
    /// The value of one of our attributes; none when the file does not have it.
    pub(crate) fn attribute(
        &self,
        request: &Request,
        inode: INodeNo,
        attribute: VirtualXattr,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let Ok(node) = self.node(inode) else { return Ok(None) };
        let path = self.vfs.path_of(node)?;
        let newest = || self.vfs.newest_version(&path);
        let value = match attribute {
            VirtualXattr::ETag => newest()?.map(|newest| newest.etag.to_string()),
            VirtualXattr::Version => newest()?.map(|newest| newest.version.hash.to_string()),
            VirtualXattr::Actor => newest()?.map(|newest| newest.version.author),
            VirtualXattr::Lint => self.vfs.rejection_reason(node),
            VirtualXattr::Backlinks => self.views.count_backlinks(&self.reader(request), &path)?,
            VirtualXattr::Message => self.vfs.save_message(&self.author(request), &path),
            VirtualXattr::Unknown => None,
        };
        Ok(value.map(String::into_bytes))
    }

    /// The names of ours that a file has and that are told at once, each ended by NUL.
    pub(crate) fn attributes(&self, node: NodeId) -> Result<Vec<u8>, Fault> {
        let mut names = Vec::new();
        let PathAttributes { kind, links, .. } = self.vfs.attributes(node)?;
        if kind == EntryKind::Symlink || (kind == EntryKind::Directory && links == 0) {
            // The kernel lets nobody have attributes below `user.` of a link; and a directory that was removed has none.
            return Ok(names);
        }
        let mut add = |name: &str| names.extend([OURS, name, "\0"].concat().into_bytes());
        if self.vfs.try_newest_version(&self.vfs.path_of(node)?)?.is_some() {
            ["etag", "version", "actor"].into_iter().for_each(&mut add);
        }
        if self.vfs.rejection_reason(node).is_some() {
            add("lint");
        }
        for name in self.vfs.xattr_names(node)?.into_iter().filter(|name| !name.starts_with(OURS.as_bytes())) {
            names.extend(name);
            names.push(0);
        }
        Ok(names)
    }

    /// The value of an attribute that a program set.
    pub(crate) fn programs_attribute(&self, inode: INodeNo, name: &OsStr) -> Result<Option<Vec<u8>>, Fault> {
        match (self.node(inode), is_programs(name)) {
            (Ok(node), true) => self.vfs.xattr(node, name.as_bytes()),
            _ => Ok(None),
        }
    }

    /// Sets an attribute for a program; `flags` are those of setxattr(2).
    pub(crate) fn set_programs_attribute(
        &self,
        inode: INodeNo,
        name: &OsStr,
        (value, flags): (&[u8], i32),
    ) -> Result<(), RequestFailure> {
        let node = self.node(inode)?;
        if !is_programs(name) {
            // Not ENOSYS: told that, the kernel does not ask again.
            return Err(RequestFailure::Word(Errno::ENOTSUP));
        }
        let (how, otherwise) = match flags {
            0 => (SetXattrMode::CreateOrReplace, Errno::EIO),
            XATTR_CREATE => (SetXattrMode::Create, Errno::EEXIST),
            XATTR_REPLACE => (SetXattrMode::Replace, Errno::NO_XATTR),
            _ => return Err(RequestFailure::Word(Errno::EINVAL)),
        };
        if self.vfs.set_xattr(node, name.as_bytes(), value, how)? {
            Ok(())
        } else {
            Err(RequestFailure::Word(otherwise))
        }
    }

    /// Takes an attribute away for a program.
    pub(crate) fn remove_programs_attribute(&self, inode: INodeNo, name: &OsStr) -> Result<(), RequestFailure> {
        let node = self.node(inode)?;
        if is_programs(name) && self.vfs.remove_xattr(node, name.as_bytes())? {
            Ok(())
        } else {
            Err(RequestFailure::Word(Errno::NO_XATTR))
        }
    }

    /// Sets one of our attributes, or takes it away.
    pub(crate) fn set_attribute(
        &self,
        request: &Request,
        inode: INodeNo,
        (attribute, value): (VirtualXattr, Option<&[u8]>),
    ) -> Result<(), RequestFailure> {
        let node = self.node(inode)?;
        match attribute {
            VirtualXattr::Message => {
                let path = self.vfs.path_of(node)?;
                let text = value.map(|value| utf8(OsStr::from_bytes(value))).transpose()?;
                Ok(self.vfs.set_save_message(&self.author(request), &path, text)?)
            }
            VirtualXattr::ETag
            | VirtualXattr::Version
            | VirtualXattr::Actor
            | VirtualXattr::Lint
            | VirtualXattr::Backlinks => Ok(()),
            VirtualXattr::Unknown => Err(RequestFailure::Word(Errno::ENOTSUP)),
        }
    }
}
