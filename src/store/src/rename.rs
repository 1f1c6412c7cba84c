//! Renames on file systems without the flags of renameat2(2): bindfs, some network file systems.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, statat};
use rustix::io::{self, Errno};
use rustix::path::Arg;

/// Whether the file system does not support a flag.
pub(crate) const fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Renames to a free name. Without `RENAME_NOREPLACE` the name is checked first, and a file that
/// another process creates in between is replaced.
///
/// # Errors
/// `EXIST`, or another system error.
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
