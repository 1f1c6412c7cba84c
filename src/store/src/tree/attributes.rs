//! What a file has beside its content.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{self as sys, AtFlags, Gid, Mode, OFlags, Uid};
use svcfs_base::TreePath;

use super::stat::times;
use super::{TreeResult, WorkTree, disk};

impl WorkTree {
    /// Sets permission bits.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn set_mode(&self, path: &TreePath, mode: u32) -> TreeResult<()> {
        // Not opened to read: a file nobody may read has bits, too, and opening a device or a pipe does something.
        let descriptor = self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let itself = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        sys::chmod(itself, Mode::from_raw_mode(mode & 0o7777)).map_err(|error| disk(path, error))
    }

    /// A directory, and a name in it that leads to the path; the root has such a name, too.
    fn place_of<'a>(&self, path: &'a TreePath) -> TreeResult<(OwnedFd, &'a str)> {
        if path.is_root() {
            Ok((self.open_at(path, OFlags::PATH | OFlags::DIRECTORY)?, "."))
        } else {
            self.parent_of(path)
        }
    }

    /// Sets the owner, the group, or both.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn set_owner(&self, path: &TreePath, uid: Option<u32>, gid: Option<u32>) -> TreeResult<()> {
        let (parent, name) = self.place_of(path)?;
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        sys::chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| disk(path, error))
    }

    /// Sets access time, modification time, or both; links themselves, not what they point at.
    ///
    /// # Errors
    /// `Disk` with what the system said.
    pub fn set_times(
        &self,
        path: &TreePath,
        accessed: Option<SystemTime>,
        modified: Option<SystemTime>,
    ) -> TreeResult<()> {
        let (parent, name) = self.place_of(path)?;
        sys::utimensat(&parent, name, &times(accessed, modified), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| disk(path, error))
    }
}
