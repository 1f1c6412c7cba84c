//! The tree as nested nodes (contract 2.2).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Kind, Protocol, Timestamp, TreePath, is_hidden_name};
use svcfs_vfs::{DirectoryEntry, EntryKind, PathAttributes, Vfs};

use super::read;
use crate::kernel::OperationContext;

/// One file or directory of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileTreeNode {
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
    pub children: Option<Vec<FileTreeNode>>,
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
    pub(super) const fn of(attributes: &PathAttributes) -> Self {
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
pub struct ListingOptions {
    /// Levels of directories, at least one.
    pub depth: usize,
    /// Whether everything a file system shows is.
    pub is_detailed: bool,
}

/// The entries of a directory that a tree begins with; with details and of a file, that file alone.
///
/// Names that start with a dot are left out (gaps.md 2.2, D4), unless details are asked for. Links are shown and not followed, so that
/// no tree is endless.
///
/// # Errors
/// `NotFound`, with `path not found: <path>` where nothing is there. Reading conflicts with nothing: of a file it is the same kind,
/// because there is no directory of this name.
pub fn first(cx: &OperationContext<'_>, path: &TreePath, shown: ListingOptions) -> Result<Vec<DirectoryEntry>, Fault> {
    let (vfs, protocol) = (&cx.space.vfs, cx.caller.protocol);
    if shown.is_detailed
        && !path.is_root()
        && let Ok(attributes) = vfs.stat(protocol, path)
        && attributes.kind != EntryKind::Directory
    {
        return Ok(vec![DirectoryEntry { path: path.clone(), attributes }]);
    }
    entries(vfs, protocol, path, shown).map_err(|fault| match fault.kind() {
        Kind::NotFound => Fault::not_found(format!("path not found: {path}")),
        Kind::NotDirectory => Fault::not_found(fault.message().to_owned()),
        _ => fault,
    })
}

fn entries(
    vfs: &Vfs,
    protocol: Protocol,
    directory: &TreePath,
    shown: ListingOptions,
) -> Result<Vec<DirectoryEntry>, Fault> {
    let mut entries = vfs.list(protocol, directory)?;
    entries.retain(|entry| shown.is_detailed || !is_hidden_name(entry.path.name()));
    Ok(entries)
}

/// The entries of a directory that was there a moment ago; none when it is gone, which is the answer of a moment later.
///
/// # Errors
/// What the disk says.
pub fn inside(
    vfs: &Vfs,
    protocol: Protocol,
    directory: &TreePath,
    shown: ListingOptions,
) -> Result<Vec<DirectoryEntry>, Fault> {
    match entries(vfs, protocol, directory, shown) {
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(Vec::new()),
        outcome => outcome,
    }
}

/// The nodes of entries, and of what lies inside them.
///
/// # Errors
/// As [`inside`].
pub fn nodes(
    cx: &OperationContext<'_>,
    entries: Vec<DirectoryEntry>,
    shown: ListingOptions,
) -> Result<Vec<FileTreeNode>, Fault> {
    entries.into_iter().map(|entry| node(cx, entry, shown)).collect()
}

fn node(cx: &OperationContext<'_>, entry: DirectoryEntry, shown: ListingOptions) -> Result<FileTreeNode, Fault> {
    let DirectoryEntry { path, attributes } = entry;
    let name = path.name().to_owned();
    let modified = shown.is_detailed.then(|| read::to_timestamp(attributes.modified));
    let kind = shown.is_detailed.then(|| NodeType::of(&attributes));
    match attributes.kind {
        EntryKind::Directory => {
            let below = ListingOptions { depth: shown.depth.saturating_sub(1), ..shown };
            let is_listed = below.depth > 0;
            let entries = if is_listed { inside(&cx.space.vfs, cx.caller.protocol, &path, below)? } else { Vec::new() };
            let children = Some(nodes(cx, entries, below)?);
            Ok(FileTreeNode { path, name, is_dir: true, size: 0, children, permalink: None, modified, kind })
        }
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {
            let permalink = read::permalink(cx.public_url(), &path);
            let size = attributes.size;
            Ok(FileTreeNode { path, name, is_dir: false, size, children: None, permalink, modified, kind })
        }
    }
}

/// The nodes as indented names, files with their size (gaps.md 4.21).
pub fn listing(nodes: &[FileTreeNode]) -> String {
    let mut text = String::new();
    list(nodes, 0, &mut text);
    if text.is_empty() { "(empty)".to_owned() } else { text }
}

fn list(nodes: &[FileTreeNode], level: usize, text: &mut String) {
    for FileTreeNode { name, size, children, .. } in nodes {
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
