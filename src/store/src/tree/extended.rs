//! Extended attributes of files and directories in the `user.` namespace (xattr(7)).
//!
//! Invariant: they exist on the disk only, not in versions or log records. A file that replaces
//! another inherits them.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{self as sys, OFlags, XattrFlags};
use rustix::io::Errno;
use svcfs_base::TreePath;

use super::{LargeFileStaging, TreeResult, WorkTree, disk};

/// The namespace of user attributes; all others belong to the system.
const USER_NAMESPACE: &[u8] = b"user.";
/// Maximum length of a name list or a value in Linux, in bytes.
const MAX_XATTR_BYTES: usize = 65_536;

/// Whether an attribute may already exist when it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattrMode {
    /// It may exist.
    CreateOrReplace,
    /// It must not exist (`XATTR_CREATE`).
    Create,
    /// It must exist (`XATTR_REPLACE`).
    Replace,
}

/// A temporary file that receives the attributes of a file which is not created yet: errors of the
/// file system show up here first. Removed on drop.
#[derive(Debug)]
pub struct XattrProbe(LargeFileStaging);

impl XattrProbe {
    /// Sets an attribute of the file that will be created at a path, whether it exists or not.
    ///
    /// # Errors
    /// As [`WorkTree::set_xattr`]; the attribute is unchanged then.
    pub fn set_xattr(&self, path: &TreePath, name: &[u8], value: &[u8]) -> TreeResult<()> {
        self.0.file().set_extended(name, value).map_err(|error| disk(path, error))
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As [`WorkTree::remove_xattr`].
    pub fn remove_xattr(&self, path: &TreePath, name: &[u8]) -> TreeResult<()> {
        self.0.file().remove_extended(name).map_err(|error| disk(path, error))
    }
}

impl WorkTree {
    /// The value of an attribute; none when the file does not have it.
    pub fn xattr(&self, path: &TreePath, name: &[u8]) -> TreeResult<Option<Vec<u8>>> {
        let (_file, proc_path) = self.proc_path(path)?;
        value(&proc_path, name).map_err(|error| disk(path, error))
    }

    /// The names of all attributes of a file, unordered.
    pub fn list_xattrs(&self, path: &TreePath) -> TreeResult<Vec<Vec<u8>>> {
        let (_file, proc_path) = self.proc_path(path)?;
        names(&proc_path).map_err(|error| disk(path, error))
    }

    /// Sets an attribute; returns false when `set_mode` does not permit it.
    ///
    /// # Errors
    /// `Disk` with the system error, such as no space or no support for attributes.
    pub fn set_xattr(&self, path: &TreePath, name: &[u8], value: &[u8], set_mode: SetXattrMode) -> TreeResult<bool> {
        let (_file, proc_path) = self.proc_path(path)?;
        let flags = match set_mode {
            SetXattrMode::CreateOrReplace => XattrFlags::empty(),
            SetXattrMode::Create => XattrFlags::CREATE,
            SetXattrMode::Replace => XattrFlags::REPLACE,
        };
        match sys::setxattr(&proc_path, name, value, flags) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NODATA) => Ok(false),
            Err(error) => Err(disk(path, error)),
        }
    }

    /// A file to test attributes on.
    pub fn xattr_probe(&self) -> TreeResult<XattrProbe> {
        self.stage_large().map(XattrProbe)
    }

    /// Removes an attribute; false when it did not exist.
    pub fn remove_xattr(&self, path: &TreePath, name: &[u8]) -> TreeResult<bool> {
        let (_file, proc_path) = self.proc_path(path)?;
        match sys::removexattr(&proc_path, name) {
            Ok(()) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(error) => Err(disk(path, error)),
        }
    }

    /// Flushes a file or directory with its attributes and its name.
    pub fn flush_path(&self, path: &TreePath) -> TreeResult<()> {
        let file = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)?;
        sys::fsync(&file).map_err(|error| disk(path, error))
    }

    /// A path to exactly this file while the descriptor is open; also for unreadable files.
    fn proc_path(&self, path: &TreePath) -> TreeResult<(OwnedFd, String)> {
        let file = self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let proc_path = proc_path_of(&file);
        Ok((file, proc_path))
    }
}

/// Copies the attributes of a replaced file to the new one. A file system without attributes has
/// none to copy.
pub(super) fn inherit_xattrs(new: &File, before: &OwnedFd) -> rustix::io::Result<()> {
    let before = proc_path_of(before);
    for name in names(&before)? {
        if let Some(value) = value(&before, &name)? {
            sys::fsetxattr(new, &*name, &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

fn proc_path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn names(proc_path: &str) -> rustix::io::Result<Vec<Vec<u8>>> {
    let list = match with_buffer(|buffer| sys::listxattr(proc_path, buffer)) {
        Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(Vec::new()),
        list => list?,
    };
    let attribute_names = list.split(|byte| *byte == 0);
    Ok(attribute_names.filter(|name| name.starts_with(USER_NAMESPACE)).map(<[u8]>::to_vec).collect())
}

/// The value of an attribute of a file open for reading; none when the file does not have it.
pub(super) fn read_xattr(file: &OwnedFd, name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
    optional(with_buffer(|buffer| sys::fgetxattr(file, name, buffer)))
}

fn value(proc_path: &str, name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
    optional(with_buffer(|buffer| sys::getxattr(proc_path, name, buffer)))
}

fn optional(value: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Option<Vec<u8>>> {
    match value {
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        value => value.map(Some),
    }
}

/// Calls with a small buffer first: most results are short or empty.
fn with_buffer(mut call: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = [0; 256];
    match call(&mut buffer) {
        Ok(length) => Ok(buffer[..length].to_vec()),
        Err(Errno::RANGE) => {
            let mut buffer = vec![0; MAX_XATTR_BYTES];
            let length = call(&mut buffer)?;
            buffer.truncate(length);
            Ok(buffer)
        }
        Err(error) => Err(error),
    }
}
