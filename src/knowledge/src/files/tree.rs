//! The tree as nested nodes.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Caller, Fault, Kind, Timestamp, TreePath};
use svcfs_vfs::{DirectoryEntry, EntryKind, PathAttributes, Vfs};

use super::read;
use crate::kernel::OperationContext;

/// A file or directory of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileTreeNode {
    /// Full path from the root of the space.
    pub path: TreePath,
    /// Last component of the path.
    pub name: String,
    /// True for a directory; false for a symbolic link.
    #[serde(rename = "isDir")]
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub size: u64,
    /// Entries of a directory in name order, empty at the deepest level; null for a file.
    pub children: Option<Vec<FileTreeNode>>,
    /// Public address of the file; absent for a directory and without `server.public_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// Last modification; only with `details`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<Timestamp>,
    /// Type of the entry; only with `details`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<NodeType>,
}

impl FileTreeNode {
    /// A directory with its entries.
    pub(crate) fn directory(path: TreePath, children: Option<Vec<Self>>) -> Self {
        let name = path.name().to_owned();
        Self { path, name, is_dir: true, size: 0, children, permalink: None, modified: None, kind: None }
    }
    /// A file.
    pub(crate) fn file(path: TreePath, size: u64) -> Self {
        let name = path.name().to_owned();
        Self { path, name, is_dir: false, size, children: None, permalink: None, modified: None, kind: None }
    }
}

/// Type of a tree entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeType {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// An executable file.
    Executable,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device; without content here.
    Special,
}

impl NodeType {
    pub(super) const fn new(attributes: &PathAttributes) -> Self {
        match attributes.kind {
            EntryKind::Directory => Self::Directory,
            EntryKind::File if attributes.mode & 0o100 != 0 => Self::Executable,
            EntryKind::File => Self::File,
            EntryKind::Symlink => Self::Symlink,
            EntryKind::Special(_) => Self::Special,
        }
    }
}

/// Options of a tree listing.
#[derive(Debug, Clone, Copy)]
pub struct ListingOptions {
    /// Levels of directories, at least one.
    pub depth: usize,
    /// Whether hidden names and file attributes are included.
    pub is_detailed: bool,
}

/// The entries at the top of a listing. With details, a path that is a file gives that file alone.
///
/// Hidden names are left out unless details are requested. Symbolic links are listed
/// and not followed, so that every tree is finite.
///
/// # Errors
/// `NotFound`, with `path not found: <path>` if nothing is there. A file without details is
/// `NotFound`, too: there is no directory of this name.
pub fn list_top(
    cx: &OperationContext<'_>,
    path: &TreePath,
    options: ListingOptions,
) -> Result<Vec<DirectoryEntry>, Fault> {
    let protocol = cx.caller.protocol;
    if options.is_detailed
        && !path.is_root()
        && let Ok(attributes) = cx.tree().stat(protocol, path)
        && attributes.kind != EntryKind::Directory
    {
        return Ok(vec![DirectoryEntry { path: path.clone(), attributes }]);
    }
    entries((&cx.space.vfs, cx.caller), path, options).map_err(|fault| match fault.kind() {
        Kind::NotFound => Fault::not_found(format!("path not found: {path}")),
        Kind::NotDirectory => Fault::not_found(fault.message().to_owned()),
        _ => fault,
    })
}

fn entries(
    (vfs, caller): (&Arc<Vfs>, &Caller),
    directory: &TreePath,
    options: ListingOptions,
) -> Result<Vec<DirectoryEntry>, Fault> {
    let mut entries = vfs.tree_of(caller).list(caller.protocol, directory)?;
    entries.retain(|entry| options.is_detailed || vfs.hidden_files().lists_name(&entry.path));
    Ok(entries)
}

/// The entries of a directory; none if it was removed since it was listed.
pub fn list_children(
    (vfs, caller): (&Arc<Vfs>, &Caller),
    directory: &TreePath,
    options: ListingOptions,
) -> Result<Vec<DirectoryEntry>, Fault> {
    match entries((vfs, caller), directory, options) {
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(Vec::new()),
        outcome => outcome,
    }
}

/// The nodes of entries, including their descendants.
///
/// # Errors
/// As [`list_children`].
pub fn nodes(
    cx: &OperationContext<'_>,
    entries: Vec<DirectoryEntry>,
    options: ListingOptions,
) -> Result<Vec<FileTreeNode>, Fault> {
    entries.into_iter().map(|entry| node(cx, entry, options)).collect()
}

fn node(cx: &OperationContext<'_>, entry: DirectoryEntry, options: ListingOptions) -> Result<FileTreeNode, Fault> {
    let DirectoryEntry { path, attributes } = entry;
    let name = path.name().to_owned();
    let modified = options.is_detailed.then(|| read::to_timestamp(attributes.modified));
    let kind = options.is_detailed.then(|| NodeType::new(&attributes));
    match attributes.kind {
        EntryKind::Directory => {
            let child_options = ListingOptions { depth: options.depth.saturating_sub(1), ..options };
            let is_listed = child_options.depth > 0;
            let entries =
                if is_listed { list_children((&cx.space.vfs, cx.caller), &path, child_options)? } else { Vec::new() };
            let children = Some(nodes(cx, entries, child_options)?);
            Ok(FileTreeNode { path, name, is_dir: true, size: 0, children, permalink: None, modified, kind })
        }
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {
            let permalink = read::permalink(cx.public_url(), &path);
            let size = attributes.size;
            Ok(FileTreeNode { path, name, is_dir: false, size, children: None, permalink, modified, kind })
        }
    }
}

/// The nodes as indented names; files with their size.
pub fn render_tree(nodes: &[FileTreeNode]) -> String {
    let mut text = String::new();
    render_nodes(nodes, 0, &mut text);
    if text.is_empty() { "(empty)".to_owned() } else { text }
}

fn render_nodes(nodes: &[FileTreeNode], level: usize, text: &mut String) {
    for FileTreeNode { name, size, children, modified, kind, is_dir, permalink, .. } in nodes {
        text.extend(std::iter::repeat_n("  ", level));
        let changed = modified.map(|time| format!(", changed {time}")).unwrap_or_default();
        let link = if *kind == Some(NodeType::Symlink) { ", symbolic link" } else { "" };
        let address = permalink.as_ref().map(|address| format!(", {address}")).unwrap_or_default();
        match is_dir {
            false => text.push_str(&format!("{name} ({size} bytes{changed}{link}{address})\n")),
            true => text.push_str(&format!("{name}/{changed}\n")),
        }
        children.iter().for_each(|children| render_nodes(children, level + 1, text));
    }
}
