//! Removal of a complete root.

use std::io;
use std::path::Path;

/// Removes a root with everything in it. It is renamed to `temporary` first, so that no reader sees
/// half of it.
pub fn remove_root(root: &Path, temporary: &Path) -> io::Result<()> {
    std::fs::rename(root, temporary)?;
    std::fs::remove_dir_all(temporary)
}
