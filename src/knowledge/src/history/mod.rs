//! Versions of pages, their authors and recent changes.
//!
//! Invariant: history is read from `vfs`; nothing is copied here.

mod operations;
#[cfg(test)]
mod tests;

use svcfs_base::{Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{PageVersion, Vfs};

pub use operations::AREA;

use crate::kernel::require_path;

/// Refuses the root, which has no versions, and hidden paths as if they did not exist.
fn check_readable(vfs: &Vfs, protocol: Protocol, path: &TreePath) -> Result<(), Fault> {
    require_path("path", path)?;
    if vfs.is_visible(protocol, path) { Ok(()) } else { Err(Fault::file_not_found(path)) }
}

/// The versions of a path, newest first, also of a removed page.
///
/// An existing file without history (a scratch file, or one that is not adopted yet) has none.
///
/// # Errors
/// `NotFound` for a path that never existed.
pub fn list_versions(vfs: &Vfs, protocol: Protocol, path: &TreePath) -> Result<Vec<PageVersion>, Fault> {
    check_readable(vfs, protocol, path)?;
    let versions = match vfs.versions(path) {
        Ok(versions) => versions,
        Err(fault) if fault.kind() == Kind::NotFound => Vec::new(),
        Err(fault) => return Err(fault),
    };
    if versions.is_empty() {
        vfs.stat(protocol, path)?;
    }
    Ok(versions)
}
