//! The tree as nested nodes (contract 2.2).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Kind, Timestamp, TreePath, is_hidden_name};
use svcfs_vfs::{Attributes, DirectoryEntry, EntryKind};

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
    /// Last modification; with `details`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
    /// What it is; with `details`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<NodeType>,
}

/// What an entry of the tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeType {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A file that is a program.
    Executable,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket or a device, which has no content here.
    Special,
}

impl NodeType {
    const fn of(attributes: &Attributes) -> Self {
        match attributes.kind {
            EntryKind::Directory => Self::Directory,
            EntryKind::File if attributes.mode & 0o100 != 0 => Self::Executable,
            EntryKind::File => Self::File,
            EntryKind::Symlink => Self::Symlink,
            EntryKind::Special(_) => Self::Special,
        }
    }
}

/// How much of a tree is shown.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    /// Levels of directories, at least one.
    pub depth: usize,
    /// Whether everything a file system shows is.
    pub is_detailed: bool,
}

/// The nodes inside a directory; with details and of a file, that file alone.
///
/// # Errors
/// As [`nodes`].
pub fn asked(cx: &Cx<'_>, path: &TreePath, shown: Shown) -> Result<Vec<Node>, Fault> {
    if shown.is_detailed
        && !path.is_root()
        && let Ok(attributes) = cx.space.vfs.stat(cx.caller.door, path)
        && attributes.kind != EntryKind::Directory
    {
        return Ok(vec![node(cx, DirectoryEntry { path: path.clone(), attributes }, shown)?]);
    }
    nodes(cx, path, shown)
}

/// The nodes inside a directory.
///
/// Names that start with a dot are left out (gaps.md 2.2, D4), unless details are asked for. Links are shown and not followed, so that no tree is endless.
///
/// # Errors
/// `NotFound` with `path not found: <path>`; `NotDirectory` when a file stands there.
fn nodes(cx: &Cx<'_>, directory: &TreePath, shown: Shown) -> Result<Vec<Node>, Fault> {
    let entries = cx.space.vfs.list(cx.caller.door, directory).map_err(|fault| {
        if fault.kind() == Kind::NotFound { Fault::not_found(format!("path not found: {directory}")) } else { fault }
    })?;
    let entries = entries.into_iter().filter(|entry| shown.is_detailed || !is_hidden_name(entry.path.name()));
    entries.map(|entry| node(cx, entry, shown)).collect()
}

fn node(cx: &Cx<'_>, entry: DirectoryEntry, shown: Shown) -> Result<Node, Fault> {
    let DirectoryEntry { path, attributes } = entry;
    let name = path.name().to_owned();
    let modified = shown.is_detailed.then(|| read::moment(attributes.modified));
    let kind = shown.is_detailed.then(|| NodeType::of(&attributes));
    match attributes.kind {
        EntryKind::Directory => {
            let below = Shown { depth: shown.depth.saturating_sub(1), ..shown };
            let children = if below.depth > 0 { inside(cx, &path, below)? } else { Vec::new() };
            Ok(Node { path, name, is_dir: true, size: 0, children: Some(children), permalink: None, modified, kind })
        }
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {
            let permalink = read::permalink(cx, &path);
            let size = attributes.size;
            Ok(Node { path, name, is_dir: false, size, children: None, permalink, modified, kind })
        }
    }
}

/// What lies inside a directory that was there a moment ago; nothing when it is gone, which is the answer of a moment later.
fn inside(cx: &Cx<'_>, directory: &TreePath, shown: Shown) -> Result<Vec<Node>, Fault> {
    match nodes(cx, directory, shown) {
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
