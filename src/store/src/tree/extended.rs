//! Extended attributes of files and directories: those below `user.`, which programs make as they like (xattr(7)).
//!
//! One rule: they are the disk's alone. No version and no record of the log has them; a file that takes the place of another
//! gets the other's.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{self as sys, OFlags, XattrFlags};
use rustix::io::Errno;
use svcfs_base::TreePath;

use super::{LargeFileStaging, TreeResult, WorkTree, disk};

/// What the names begin with; all others are the system's.
const PROGRAMS: &[u8] = b"user.";
/// The longest list of names, and the longest value, that Linux knows.
const LONGEST: usize = 65_536;

/// Whether an attribute may be there already when it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattrMode {
    /// It may.
    CreateOrReplace,
    /// It may not (`XATTR_CREATE`).
    Create,
    /// It must (`XATTR_REPLACE`).
    Replace,
}

/// A file that is nowhere in the tree, and gets the attributes that one is to have which is not there yet: what the disk does not take here, it would
/// not take there. Taken away when this is dropped.
#[derive(Debug)]
pub struct XattrProbe(LargeFileStaging);

impl XattrProbe {
    /// Sets an attribute, whether it is there or not, of the file that is to come to a path.
    ///
    /// # Errors
    /// As [`WorkTree::set_extended`]; what was there is as it was then.
    pub fn set_xattr(&self, path: &TreePath, name: &[u8], value: &[u8]) -> TreeResult<()> {
        self.0.file().set_extended(name, value).map_err(|error| disk(path, error))
    }

    /// Takes an attribute away.
    ///
    /// # Errors
    /// As [`WorkTree::remove_extended`].
    pub fn remove_xattr(&self, path: &TreePath, name: &[u8]) -> TreeResult<()> {
        self.0.file().remove_extended(name).map_err(|error| disk(path, error))
    }
}

impl WorkTree {
    /// The value of an attribute; none when the file does not have it.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn xattr(&self, path: &TreePath, name: &[u8]) -> TreeResult<Option<Vec<u8>>> {
        let (_file, itself) = self.itself(path)?;
        value(&itself, name).map_err(|error| disk(path, error))
    }

    /// The names of all that a file has, in no order.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn list_xattrs(&self, path: &TreePath) -> TreeResult<Vec<Vec<u8>>> {
        let (_file, itself) = self.itself(path)?;
        names(&itself).map_err(|error| disk(path, error))
    }

    /// Sets an attribute; false when it is there and may not be, or is not and must.
    ///
    /// # Errors
    /// `Disk` with what the system said: there is no room, or this disk has no such attributes.
    pub fn set_xattr(&self, path: &TreePath, name: &[u8], value: &[u8], how: SetXattrMode) -> TreeResult<bool> {
        let (_file, itself) = self.itself(path)?;
        let flags = match how {
            SetXattrMode::CreateOrReplace => XattrFlags::empty(),
            SetXattrMode::Create => XattrFlags::CREATE,
            SetXattrMode::Replace => XattrFlags::REPLACE,
        };
        match sys::setxattr(&itself, name, value, flags) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NODATA) => Ok(false),
            Err(error) => Err(disk(path, error)),
        }
    }

    /// A file to try attributes on.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn xattr_probe(&self) -> TreeResult<XattrProbe> {
        self.stage_large().map(XattrProbe)
    }

    /// Takes an attribute away; false when it was not there.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn remove_xattr(&self, path: &TreePath, name: &[u8]) -> TreeResult<bool> {
        let (_file, itself) = self.itself(path)?;
        match sys::removexattr(&itself, name) {
            Ok(()) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(error) => Err(disk(path, error)),
        }
    }

    /// Brings a file or directory to the disk, with its attributes and its name.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn flush_path(&self, path: &TreePath) -> TreeResult<()> {
        let file = self.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)?;
        sys::fsync(&file).map_err(|error| disk(path, error))
    }

    /// A name that leads to exactly this file, as long as the descriptor is open; a file nobody may read has attributes, too.
    fn itself(&self, path: &TreePath) -> TreeResult<(OwnedFd, String)> {
        let file = self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let itself = name_of(&file);
        Ok((file, itself))
    }
}

/// Gives a new file the attributes of the one whose place it takes. A disk without attributes has none to give.
pub(super) fn inherit(new: &File, before: &OwnedFd) -> rustix::io::Result<()> {
    let before = name_of(before);
    for name in names(&before)? {
        if let Some(value) = value(&before, &name)? {
            sys::fsetxattr(new, &*name, &value, XattrFlags::empty())?;
        }
    }
    Ok(())
}

fn name_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn names(itself: &str) -> rustix::io::Result<Vec<Vec<u8>>> {
    let list = match filled(|room| sys::listxattr(itself, room)) {
        Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(Vec::new()),
        list => list?,
    };
    let all = list.split(|byte| *byte == 0);
    Ok(all.filter(|name| name.starts_with(PROGRAMS)).map(<[u8]>::to_vec).collect())
}

/// The value of an attribute of a file that is open to be read; none when the file does not have it.
pub(super) fn of_open(file: &OwnedFd, name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
    told(filled(|room| sys::fgetxattr(file, name, room)))
}

fn value(itself: &str, name: &[u8]) -> rustix::io::Result<Option<Vec<u8>>> {
    told(filled(|room| sys::getxattr(itself, name, room)))
}

fn told(value: rustix::io::Result<Vec<u8>>) -> rustix::io::Result<Option<Vec<u8>>> {
    match value {
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
        value => value.map(Some),
    }
}

/// What a call fills, in as much room as it needs: most have little to say, or nothing.
fn filled(mut call: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut room = [0; 256];
    match call(&mut room) {
        Ok(length) => Ok(room[..length].to_vec()),
        Err(Errno::RANGE) => {
            let mut room = vec![0; LONGEST];
            let length = call(&mut room)?;
            room.truncate(length);
            Ok(room)
        }
        Err(error) => Err(error),
    }
}
