//! The tree of pages with `visibility: public`.

use svcfs_base::{Fault, TreePath};

use super::listed_pages::listed_pages;
use crate::files::FileTreeNode;
use crate::kernel::OperationContext;

/// The public pages below a path as a tree, without empty directories.
///
/// # Errors
/// `NotFound` if nothing below a path other than the root is public; those of the index.
pub fn public_tree(cx: &OperationContext<'_>, below: &TreePath) -> Result<Vec<FileTreeNode>, Fault> {
    let listed = listed_pages(cx)?;
    let mut top = Vec::new();
    let pages = listed.pages.iter().filter(|(path, page)| page.is_public && *path != below && path.is_under(below));
    for (path, _) in pages {
        let size = cx.tree().stat(cx.caller.protocol, path).map_or(0, |attributes| attributes.size);
        insert(&mut top, below, path, size);
    }
    if top.is_empty() && !below.is_root() {
        return Err(Fault::not_found(format!("path not found: {below}")));
    }
    sort(&mut top);
    Ok(top)
}

/// Adds a page and the directories around it.
fn insert(nodes: &mut Vec<FileTreeNode>, below: &TreePath, path: &TreePath, size: u64) {
    let depth = if below.is_root() { 0 } else { below.components().count() };
    let Some(child) = ancestor(path, depth + 1) else { return };
    if child == *path {
        nodes.push(FileTreeNode::file(child, size));
        return;
    }
    let at = nodes.iter().position(|node| node.path == child && node.is_dir).unwrap_or_else(|| {
        nodes.push(FileTreeNode::directory(child.clone(), Some(Vec::new())));
        nodes.len() - 1
    });
    insert(nodes[at].children.get_or_insert_default(), &child, path, size);
}

/// The path cut to this number of components.
fn ancestor(path: &TreePath, depth: usize) -> Option<TreePath> {
    let components: Vec<&str> = path.components().take(depth).collect();
    TreePath::parse(&components.join("/")).ok().filter(|_| components.len() == depth)
}

fn sort(nodes: &mut [FileTreeNode]) {
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes.iter_mut().filter_map(|node| node.children.as_mut()).for_each(|children| sort(children));
}
