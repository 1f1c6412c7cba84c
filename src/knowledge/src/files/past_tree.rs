//! The nodes of an earlier tree.

use svcfs_base::{Fault, TreePath};
use svcfs_vfs::PastState;

use super::tree::FileTreeNode;
use crate::kernel::OperationContext;

/// The entries of a directory of an earlier tree, down to `depth` levels, without hidden names.
///
/// # Errors
/// `NotFound` if it did not exist.
pub fn nodes(
    cx: &OperationContext<'_>,
    state: &PastState,
    directory: &TreePath,
    depth: usize,
) -> Result<Vec<FileTreeNode>, Fault> {
    let vfs = &cx.space.vfs;
    let names =
        if vfs.is_visible(cx.caller.protocol, directory) { vfs.past_directory(state, directory)? } else { None };
    let missing = || Fault::not_found(format!("path not found: {directory} did not exist at that time"));
    let mut nodes = Vec::new();
    for entry in names.ok_or_else(missing)? {
        let path = directory.join(&entry.name);
        if !vfs.hidden_files().lists_name(&path) || !vfs.is_visible(cx.caller.protocol, &path) {
            continue;
        }
        nodes.push(match entry.leaf {
            None => {
                let children = if depth > 1 { self::nodes(cx, state, &path, depth - 1)? } else { Vec::new() };
                FileTreeNode::directory(path, Some(children))
            }
            Some((content, _)) => FileTreeNode::file(path, vfs.stored_size(&content)?),
        });
    }
    Ok(nodes)
}
