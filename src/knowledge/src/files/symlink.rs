//! Symbolic links made on request (gaps.md 4.3).

use bytes::Bytes;
use svcfs_base::{Change, Fault, Kind, TreePath, WriteResult};
use svcfs_vfs::EntryKind;

use crate::kernel::OperationContext;

/// Longest target, in bytes; what Linux takes.
const MAX_TARGET_BYTES: usize = 4095;

/// True when a symbolic link is at the path.
pub fn is_link(cx: &OperationContext<'_>, path: &TreePath) -> bool {
    cx.space.vfs.stat(cx.caller.protocol, path).is_ok_and(|there| there.kind == EntryKind::Symlink)
}

/// Makes a symbolic link, in place of the file that is there. Nothing needs to be at the target yet. A line break at the end of
/// the target is dropped: no name ends so, and most programs that send one line add it.
///
/// # Errors
/// `Invalid` for a target that is empty, absolute, no text, or leads out of the tree or to what callers may not see; those of
/// [`svcfs_vfs::Vfs::apply`].
pub fn make(cx: &OperationContext<'_>, path: TreePath, target: &Bytes) -> Result<WriteResult, Fault> {
    let target =
        std::str::from_utf8(target).map_err(|_| denied("it is not UTF-8 text"))?.trim_end_matches(['\n', '\r']);
    let place = place(&path, target)?;
    if !cx.space.vfs.is_visible(cx.caller.protocol, &place) {
        return Err(denied(format_args!("`{place}` belongs to the server")));
    }
    cx.apply(Change::symlink(path, target).with_precondition(cx.caller.precondition.clone()))?.single()
}

/// The place in the tree that the target of a link at `path` names.
fn place(path: &TreePath, target: &str) -> Result<TreePath, Fault> {
    if target.is_empty() {
        return Err(denied("it is empty"));
    }
    if target.len() > MAX_TARGET_BYTES {
        return Err(denied(format_args!("it has {} bytes; the limit is {MAX_TARGET_BYTES}", target.len())));
    }
    if target.starts_with('/') {
        return Err(denied("it is absolute; write it relative to the directory the link is in"));
    }
    let mut parts: Vec<&str> = path.components().collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| denied(format_args!("`{target}` leads out of the tree")))?;
            }
            name => parts.push(name),
        }
    }
    TreePath::parse(&parts.join("/")).map_err(|fault| denied(fault.message()))
}

fn denied(why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Invalid, format!("the target of the link cannot be used: {why}"))
}
