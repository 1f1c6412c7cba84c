//! A whole root that is taken off the disk.

use std::io;
use std::path::Path;

/// Removes a root with everything in it. It gets another name first, so that nothing finds half of it where it was.
///
/// # Errors
/// Those of the disk.
pub fn remove_root(root: &Path, beside: &Path) -> io::Result<()> {
    std::fs::rename(root, beside)?;
    std::fs::remove_dir_all(beside)
}
