//! Renames on disks that do not know the flags of renameat2(2): bindfs, some network disks.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, statat};
use rustix::io::{self, Errno};
use rustix::path::Arg;

/// Whether a disk does not know a flag.
pub(crate) const fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Renames to a name that is free. Where the disk does not know `RENAME_NOREPLACE`, it is asked for the name first: what
/// another process puts there in between is replaced.
///
/// # Errors
/// `EXIST`; what else the system said.
pub(crate) fn rename_to_free(
    (old_directory, old): (impl AsFd, impl Arg + Copy),
    (new_directory, new): (impl AsFd, impl Arg + Copy),
) -> io::Result<()> {
    match renameat_with(&old_directory, old, &new_directory, new, RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(error) => {}
        outcome => return outcome,
    }
    match statat(&new_directory, new, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(&old_directory, old, &new_directory, new),
        Err(error) => Err(error),
    }
}
