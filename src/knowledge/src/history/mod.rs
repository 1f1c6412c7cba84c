//! What pages were, who changed them, and what changed lately (contract 4.4).
//!
//! One rule: history is read from `vfs` as it is; nothing here keeps a copy of it.

mod operations;
#[cfg(test)]
mod tests;

use svcfs_base::{Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{PageVersion, Vfs};

pub use operations::AREA;

use crate::kernel::given;

/// Refuses the root, which has no versions of its own, and hidden paths as if they did not exist.
fn admit(vfs: &Vfs, protocol: Protocol, path: &TreePath) -> Result<(), Fault> {
    given("path", path)?;
    if vfs.is_visible(protocol, path) { Ok(()) } else { Err(Fault::file_not_found(path)) }
}

/// The versions of a path, newest first; of a removed page those before its removal, too.
///
/// A file that is there and has no history (a scratch file, or one that waits to be adopted) has none.
///
/// # Errors
/// `NotFound` for a path that neither exists nor ever existed.
pub fn list_versions(vfs: &Vfs, protocol: Protocol, path: &TreePath) -> Result<Vec<PageVersion>, Fault> {
    admit(vfs, protocol, path)?;
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
