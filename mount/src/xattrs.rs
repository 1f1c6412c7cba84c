//! Extended attributes: `user.svc.…`, which svcfs provides, and all others below `user.`, which
//! programs set.
//!
//! Invariant: a listed attribute is read without waiting, because `cp -a` and `rsync -X` read all
//! listed attributes of every file. They also set them on the copy: setting a read-only attribute
//! of svcfs therefore succeeds without effect.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, Request};
use svcfs_base::Fault;
use svcfs_vfs::{EntryKind, NodeId, PathAttributes, SetXattrMode};

use crate::convert::utf8;
use crate::drafts::{DraftFiles, is_draft_id};
use crate::fuse_server::FuseServer;
use crate::reply::{RequestFailure, or_stale};

/// Flags of setxattr(2) (`linux/xattr.h`).
const XATTR_CREATE: i32 = 1;
const XATTR_REPLACE: i32 = 2;

/// Prefix of the names that programs may use.
const USER_PREFIX: &str = "user.";
/// Prefix of the names that svcfs provides.
const SVCFS_PREFIX: &str = "user.svc.";

/// An attribute that svcfs provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VirtualXattr {
    /// ETag of the recorded content, as in other protocols.
    ETag,
    /// Commit of the newest version.
    Version,
    /// Author of the newest version.
    Actor,
    /// Why the last save was rejected, else the lint errors of the stored page. Listed only after a
    /// rejection: otherwise the page must be read to know.
    Lint,
    /// The active claim of the page, as JSON.
    Claim,
    /// How many pages link to this one.
    Backlinks,
    /// Commit message of the caller's next save; the only one that can be set.
    Message,
    /// An undefined name with the prefix.
    Unknown,
}

impl VirtualXattr {
    /// The attribute with a name; none without the prefix.
    pub(crate) fn from_name(name: &OsStr) -> Option<Self> {
        Some(match name.to_str()?.strip_prefix(SVCFS_PREFIX)? {
            "etag" => Self::ETag,
            "version" => Self::Version,
            "actor" => Self::Actor,
            "lint" => Self::Lint,
            "claim" => Self::Claim,
            "backlinks" => Self::Backlinks,
            "message" => Self::Message,
            _ => Self::Unknown,
        })
    }
}

fn is_user_attribute(name: &OsStr) -> bool {
    name.as_bytes().starts_with(USER_PREFIX.as_bytes())
}

impl FuseServer {
    /// The value of an attribute.
    ///
    /// # Errors
    /// `ENODATA` when the file does not have it.
    pub(crate) fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr) -> Result<Vec<u8>, RequestFailure> {
        let value = match VirtualXattr::from_name(name) {
            Some(attribute) => self.svcfs_attribute(request, inode, attribute),
            None => self.user_attribute(inode, name),
        };
        value.map_err(or_stale)?.ok_or(RequestFailure::Errno(Errno::NO_XATTR))
    }

    /// The value of an svcfs attribute; none when the file does not have it.
    fn svcfs_attribute(
        &self,
        request: &Request,
        inode: INodeNo,
        attribute: VirtualXattr,
    ) -> Result<Option<Vec<u8>>, Fault> {
        if let Some(drafts) = self.drafts_of(inode) {
            return self.draft_attribute(request, (drafts, inode), attribute);
        }
        let Ok(node) = self.node(inode) else { return Ok(None) };
        let path = self.vfs.path_of(node)?;
        let newest = || self.vfs.newest_version(&path);
        let value = match attribute {
            VirtualXattr::ETag => newest()?.map(|newest| newest.etag.to_string()),
            VirtualXattr::Version => newest()?.map(|newest| newest.version.hash.to_string()),
            VirtualXattr::Actor => newest()?.map(|newest| newest.version.author),
            VirtualXattr::Lint => match self.vfs.rejection_reason(node) {
                Some(reason) => Some(reason),
                None => self.views.lint_errors(&self.view_reader(request), &path)?,
            },
            VirtualXattr::Claim => self.vfs.claim_at(&path).map(|claim| claim.to_json().to_string()),
            VirtualXattr::Backlinks => self.views.count_backlinks(&self.view_reader(request), &path)?,
            VirtualXattr::Message => self.vfs.save_message(&self.author(request), &path),
            VirtualXattr::Unknown => None,
        };
        Ok(value.map(String::into_bytes))
    }

    /// The value of an attribute of a page in a draft, which has no versions, claims and links.
    fn draft_attribute(
        &self,
        request: &Request,
        (drafts, inode): (&DraftFiles, INodeNo),
        attribute: VirtualXattr,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let value = match attribute {
            VirtualXattr::ETag => drafts.content(inode)?.map(|file| file.etag.to_string()),
            VirtualXattr::Lint => match drafts.rejection(inode) {
                Some(reason) => Some(reason),
                None => drafts
                    .page_text(inode)?
                    .map_or(Ok(None), |text| self.views.lint_errors_in(&self.user(request.uid()), &text))?,
            },
            VirtualXattr::Version
            | VirtualXattr::Actor
            | VirtualXattr::Claim
            | VirtualXattr::Backlinks
            | VirtualXattr::Message
            | VirtualXattr::Unknown => None,
        };
        Ok(value.map(String::into_bytes))
    }

    /// Names of the attributes of a file in a draft, as [`Self::xattr_names`].
    pub(crate) fn draft_xattr_names(&self, drafts: &DraftFiles, inode: INodeNo) -> Vec<u8> {
        let name = drafts.rejection(inode).map(|_| [SVCFS_PREFIX, "lint", "\0"].concat().into_bytes());
        name.unwrap_or_default()
    }

    /// Names of the file's attributes that can be read without waiting, each ended by NUL.
    pub(crate) fn xattr_names(&self, node: NodeId) -> Result<Vec<u8>, Fault> {
        let mut names = Vec::new();
        let PathAttributes { kind, links, .. } = self.vfs.attributes(node)?;
        if kind == EntryKind::Symlink || (kind == EntryKind::Directory && links == 0) {
            // The kernel refuses `user.` attributes on links; a removed directory has none.
            return Ok(names);
        }
        let mut add = |name: &str| names.extend([SVCFS_PREFIX, name, "\0"].concat().into_bytes());
        let path = self.vfs.path_of(node)?;
        if self.vfs.claim_at(&path).is_some() {
            add("claim");
        }
        if self.vfs.try_newest_version(&path)?.is_some() {
            ["etag", "version", "actor"].into_iter().for_each(&mut add);
        }
        if self.vfs.rejection_reason(node).is_some() {
            add("lint");
        }
        for name in self.vfs.xattr_names(node)?.into_iter().filter(|name| !name.starts_with(SVCFS_PREFIX.as_bytes())) {
            names.extend(name);
            names.push(0);
        }
        Ok(names)
    }

    /// The value of an attribute that a program set.
    fn user_attribute(&self, inode: INodeNo, name: &OsStr) -> Result<Option<Vec<u8>>, Fault> {
        match (self.node(inode), is_user_attribute(name)) {
            (Ok(node), true) => self.vfs.xattr(node, name.as_bytes()),
            _ => Ok(None),
        }
    }

    /// Sets an attribute for a program; `flags` are those of setxattr(2).
    pub(crate) fn set_user_attribute(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        (value, flags): (&[u8], i32),
    ) -> Result<(), RequestFailure> {
        if is_draft_id(inode.0) {
            // As for a filesystem without them: `cp -a` goes on.
            return Err(RequestFailure::Errno(Errno::ENOTSUP));
        }
        let node = self.node(inode)?;
        if !is_user_attribute(name) {
            // Not ENOSYS: after that the kernel sends no more such requests.
            return Err(RequestFailure::Errno(Errno::ENOTSUP));
        }
        let (mode, failure) = match flags {
            0 => (SetXattrMode::CreateOrReplace, Errno::EIO),
            XATTR_CREATE => (SetXattrMode::Create, Errno::EEXIST),
            XATTR_REPLACE => (SetXattrMode::Replace, Errno::NO_XATTR),
            _ => return Err(RequestFailure::Errno(Errno::EINVAL)),
        };
        if self.vfs.set_xattr(&self.user(request.uid()), node, (name.as_bytes(), value), mode)? {
            Ok(())
        } else {
            Err(RequestFailure::Errno(failure))
        }
    }

    pub(crate) fn remove_user_attribute(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
    ) -> Result<(), RequestFailure> {
        let node = self.node(inode)?;
        if is_user_attribute(name) && self.vfs.remove_xattr(&self.user(request.uid()), node, name.as_bytes())? {
            Ok(())
        } else {
            Err(RequestFailure::Errno(Errno::NO_XATTR))
        }
    }

    /// Sets an svcfs attribute; `None` removes it.
    pub(crate) fn set_svcfs_attribute(
        &self,
        request: &Request,
        inode: INodeNo,
        (attribute, value): (VirtualXattr, Option<&[u8]>),
    ) -> Result<(), RequestFailure> {
        if is_draft_id(inode.0) {
            return Err(RequestFailure::Errno(Errno::ENOTSUP));
        }
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
            | VirtualXattr::Claim
            | VirtualXattr::Backlinks => Ok(()),
            VirtualXattr::Unknown => Err(RequestFailure::Errno(Errno::ENOTSUP)),
        }
    }
}
