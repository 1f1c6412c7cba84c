//! What pages were, who changed them, and what changed lately (contract 4.4).
//!
//! One rule: history is read from `vfs` as it is; nothing here keeps a copy of it.

mod operations;
#[cfg(test)]
mod tests;

use svcfs_base::{Door, Fault, Kind, TreePath};
use svcfs_vfs::{Version, Vfs};

pub use operations::AREA;

/// The one file in history that callers of network doors may not see (gaps.md D4). `vfs` hides it in the tree; its history
/// methods do not know who asks.
const HIDDEN: &str = ".svc/config.toml";

fn is_hidden(door: Door, path: &TreePath) -> bool {
    let is_remote = match door {
        Door::Http | Door::Mcp | Door::Nfs | Door::WebDav | Door::S3 => true,
        Door::Fuse | Door::Cli | Door::Direct | Door::Internal => false,
    };
    is_remote && path.as_str() == HIDDEN
}

/// Refuses the root, which has no versions of its own, and hidden paths as if they did not exist.
fn admit(door: Door, path: &TreePath) -> Result<(), Fault> {
    if path.is_root() {
        return Err(Fault::new(Kind::Invalid, "path is required"));
    }
    if is_hidden(door, path) { Err(Fault::file_not_found(path)) } else { Ok(()) }
}

/// The versions of a path, newest first; of a removed page those before its removal, too.
///
/// A file that is there and has no history (a scratch file, or one that waits to be adopted) has none.
///
/// # Errors
/// `NotFound` for a path that neither exists nor ever existed.
pub fn versions(vfs: &Vfs, door: Door, path: &TreePath) -> Result<Vec<Version>, Fault> {
    admit(door, path)?;
    let versions = match vfs.versions(path) {
        Ok(versions) => versions,
        Err(fault) if fault.kind() == Kind::NotFound => Vec::new(),
        Err(fault) => return Err(fault),
    };
    if versions.is_empty() {
        vfs.stat(door, path)?;
    }
    Ok(versions)
}
