//! The tree as nested nodes (contract 2.2).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Door, Fault, Kind, TreePath};
use svcfs_vfs::{DirectoryEntry, EntryKind, Vfs};

/// One file or directory of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// Full path from the knowledge root.
    pub path: TreePath,
    /// Last component of the path.
    pub name: String,
    /// True for a directory. A symbolic link is not one, whatever it points at.
    #[serde(rename = "isDir")]
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub size: u64,
    /// What lies inside, in name order; null for a file. Empty for a directory at the deepest level asked for.
    pub children: Option<Vec<Node>>,
}

/// The nodes inside a directory, `depth` levels of them (at least one).
///
/// Names that start with a dot are left out (gaps.md 2.2, D4). Links are shown and not followed, so that no tree is endless.
///
/// # Errors
/// `NotFound` with `path not found: <path>`; `NotDirectory` when a file stands there.
pub fn nodes(vfs: &Vfs, door: Door, directory: &TreePath, depth: usize) -> Result<Vec<Node>, Fault> {
    let entries = vfs.list(door, directory).map_err(|fault| {
        if fault.kind() == Kind::NotFound { Fault::not_found(format!("path not found: {directory}")) } else { fault }
    })?;
    let shown = entries.into_iter().filter(|entry| !entry.path.name().starts_with('.'));
    shown.map(|entry| node(vfs, door, entry, depth)).collect()
}

fn node(vfs: &Vfs, door: Door, entry: DirectoryEntry, depth: usize) -> Result<Node, Fault> {
    let DirectoryEntry { path, attributes } = entry;
    let is_dir = match attributes.kind {
        EntryKind::Directory => true,
        EntryKind::File | EntryKind::Symlink => false,
    };
    let children = if !is_dir {
        None
    } else if depth > 1 {
        match nodes(vfs, door, &path, depth - 1) {
            Ok(inside) => Some(inside),
            // Removed between the two listings: the answer is that of a moment later.
            Err(fault) if fault.kind() == Kind::NotFound => Some(Vec::new()),
            Err(fault) => return Err(fault),
        }
    } else {
        Some(Vec::new())
    };
    Ok(Node { name: path.name().to_owned(), is_dir, size: if is_dir { 0 } else { attributes.size }, children, path })
}
