//! The tree as nested nodes (contract 2.2).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_vfs::{DirectoryEntry, EntryKind};

use super::read;
use crate::kernel::Cx;

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
    /// Where people read the file; absent for a directory and without `server.public_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
}

/// The nodes inside a directory, `depth` levels of them (at least one).
///
/// Names that start with a dot are left out (gaps.md 2.2, D4). Links are shown and not followed, so that no tree is endless.
///
/// # Errors
/// `NotFound` with `path not found: <path>`; `NotDirectory` when a file stands there.
pub fn nodes(cx: &Cx<'_>, directory: &TreePath, depth: usize) -> Result<Vec<Node>, Fault> {
    let entries = cx.space.vfs.list(cx.caller.door, directory).map_err(|fault| {
        if fault.kind() == Kind::NotFound { Fault::not_found(format!("path not found: {directory}")) } else { fault }
    })?;
    let shown = entries.into_iter().filter(|entry| !entry.path.name().starts_with('.'));
    shown.map(|entry| node(cx, entry, depth)).collect()
}

fn node(cx: &Cx<'_>, entry: DirectoryEntry, depth: usize) -> Result<Node, Fault> {
    let DirectoryEntry { path, attributes } = entry;
    let name = path.name().to_owned();
    match attributes.kind {
        EntryKind::Directory => {
            let children = if depth > 1 { inside(cx, &path, depth - 1)? } else { Vec::new() };
            Ok(Node { path, name, is_dir: true, size: 0, children: Some(children), permalink: None })
        }
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {
            let permalink = read::permalink(cx, &path);
            Ok(Node { path, name, is_dir: false, size: attributes.size, children: None, permalink })
        }
    }
}

/// What lies inside a directory that was there a moment ago; nothing when it is gone, which is the answer of a moment later.
fn inside(cx: &Cx<'_>, directory: &TreePath, depth: usize) -> Result<Vec<Node>, Fault> {
    match nodes(cx, directory, depth) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(Vec::new()),
        outcome => outcome,
    }
}

/// The nodes as indented names, files with their size (gaps.md 4.21).
pub fn listing(nodes: &[Node]) -> String {
    let mut text = String::new();
    list(nodes, 0, &mut text);
    if text.is_empty() { "(empty)".to_owned() } else { text }
}

fn list(nodes: &[Node], level: usize, text: &mut String) {
    for Node { name, size, children, .. } in nodes {
        text.extend(std::iter::repeat_n("  ", level));
        match children {
            None => text.push_str(&format!("{name} ({size} bytes)\n")),
            Some(children) => {
                text.push_str(&format!("{name}/\n"));
                list(children, level + 1, text);
            }
        }
    }
}
