//! Attributes of a file besides its content.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::SystemTime;

use rustix::fs::{self as sys, AtFlags, Gid, Mode, OFlags, Uid};
use svcfs_base::TreePath;

use super::stat::times;
use super::{TreeResult, WorkTree, disk};

impl WorkTree {
    /// Sets permission bits.
    pub fn set_mode(&self, path: &TreePath, mode: u32) -> TreeResult<()> {
        // Opened with `O_PATH`: the file may be unreadable, and opening a device or pipe has side
        // effects.
        let descriptor = self.open_at(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        let proc_path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        sys::chmod(proc_path, Mode::from_raw_mode(mode & 0o7777)).map_err(|error| disk(path, error))
    }

    /// The open parent directory and the name of a path in it; `.` for the root.
    fn parent_and_name<'a>(&self, path: &'a TreePath) -> TreeResult<(OwnedFd, &'a str)> {
        if path.is_root() {
            Ok((self.open_at(path, OFlags::PATH | OFlags::DIRECTORY)?, "."))
        } else {
            self.parent_of(path)
        }
    }

    /// Sets the owner, the group, or both.
    pub fn set_owner(&self, path: &TreePath, uid: Option<u32>, gid: Option<u32>) -> TreeResult<()> {
        let (parent, name) = self.parent_and_name(path)?;
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        sys::chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| disk(path, error))
    }

    /// Sets access time, modification time, or both; of a link itself, not of its target.
    pub fn set_times(
        &self,
        path: &TreePath,
        accessed: Option<SystemTime>,
        modified: Option<SystemTime>,
    ) -> TreeResult<()> {
        let (parent, name) = self.parent_and_name(path)?;
        sys::utimensat(&parent, name, &times(accessed, modified), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| disk(path, error))
    }
}
