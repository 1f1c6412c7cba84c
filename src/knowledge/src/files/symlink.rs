//! Creation of symbolic links.

use bytes::Bytes;
use svcfs_base::{Change, Fault, Kind, TreePath, WriteResult};
use svcfs_vfs::EntryKind;

use crate::kernel::OperationContext;

/// Limit of the target in bytes, as in Linux.
const MAX_TARGET_BYTES: usize = 4095;

/// Whether a symbolic link is at the path.
pub fn is_link(cx: &OperationContext<'_>, path: &TreePath) -> bool {
    cx.tree().stat(cx.caller.protocol, path).is_ok_and(|attributes| attributes.kind == EntryKind::Symlink)
}

/// Creates a symbolic link, replacing an existing file. The target need not exist. A line break at
/// the end of the target is dropped, because many programs add one.
///
/// # Errors
/// `Invalid` for a target that is empty, absolute, not text, outside the tree or hidden from
/// callers; those of [`svcfs_vfs::Vfs::apply`].
pub fn create(cx: &OperationContext<'_>, path: TreePath, target: &Bytes) -> Result<WriteResult, Fault> {
    let target =
        std::str::from_utf8(target).map_err(|_| invalid_target("it is not UTF-8 text"))?.trim_end_matches(['\n', '\r']);
    let target_path = target_path(&path, target)?;
    if !cx.space.vfs.is_visible(cx.caller.protocol, &target_path) {
        return Err(invalid_target(format_args!("`{target_path}` is reserved for the server")));
    }
    cx.apply(Change::symlink(path, target).with_precondition(cx.caller.precondition.clone()))?.single()
}

/// The path in the tree that the target of a link at `path` names.
fn target_path(path: &TreePath, target: &str) -> Result<TreePath, Fault> {
    if target.is_empty() {
        return Err(invalid_target("it is empty"));
    }
    if target.len() > MAX_TARGET_BYTES {
        return Err(invalid_target(format_args!("it has {} bytes; the limit is {MAX_TARGET_BYTES}", target.len())));
    }
    if target.starts_with('/') {
        return Err(invalid_target("it is absolute; use a path relative to the directory of the link"));
    }
    let mut components: Vec<&str> = path.components().collect();
    components.pop();
    for component in target.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop().ok_or_else(|| invalid_target(format_args!("`{target}` is outside the tree")))?;
            }
            name => components.push(name),
        }
    }
    TreePath::parse(&components.join("/")).map_err(|fault| invalid_target(fault.message()))
}

fn invalid_target(reason: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Invalid, format!("invalid link target: {reason}"))
}
