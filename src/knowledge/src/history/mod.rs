//! Versions of pages, their authors and recent changes.
//!
//! Invariant: history is read from `vfs`; nothing is copied here.

mod operations;
#[cfg(test)]
mod tests;

use svcfs_base::{Fault, Kind, Protocol, TreePath};
use svcfs_vfs::{NamePeriod, PageVersion, Vfs};

pub use operations::AREA;

use crate::kernel::{OperationContext, require_path};

/// Refuses the root, which has no versions, and hidden paths as if they did not exist.
pub(crate) fn check_readable(vfs: &Vfs, protocol: Protocol, path: &TreePath) -> Result<(), Fault> {
    require_path("path", path)?;
    if vfs.is_visible(protocol, path) { Ok(()) } else { Err(Fault::file_not_found(path)) }
}

/// The names of a page, newest first, through the renames that the caller may see; only the given
/// one without `follow`.
///
/// # Errors
/// `NotFound` for a hidden path; those of reading history.
pub fn names_of_page(cx: &OperationContext<'_>, path: &TreePath, follow: bool) -> Result<Vec<NamePeriod>, Fault> {
    let (vfs, protocol) = (&cx.space.vfs, cx.caller.protocol);
    check_readable(vfs, protocol, path)?;
    if !follow {
        return Ok(vec![NamePeriod::always(path.clone())]);
    }
    vfs.names_of_page(path, |former| can_read(cx, former))
}

/// Whether the caller may see the history of a path, such as a former name.
pub(crate) fn can_read(cx: &OperationContext<'_>, path: &TreePath) -> bool {
    cx.caller.permissions.covers(path) && cx.space.vfs.is_visible(cx.caller.protocol, path)
}

/// The versions of a page with these names, newest first, also of a removed page.
///
/// An existing file without history (a scratch file, or one that is not adopted yet) has none.
///
/// # Errors
/// `NotFound` for a path that never existed.
pub fn list_versions(vfs: &Vfs, protocol: Protocol, names: &[NamePeriod]) -> Result<Vec<PageVersion>, Fault> {
    let versions = match vfs.versions_under(names) {
        Ok(versions) => versions,
        Err(fault) if fault.kind() == Kind::NotFound => Vec::new(),
        Err(fault) => return Err(fault),
    };
    if versions.is_empty() {
        vfs.stat(protocol, &names[0].path)?;
    }
    Ok(versions)
}
