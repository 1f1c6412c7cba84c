//! A path resolved to its node.
//!
//! The node is pinned, because files too large for a version have no other identity, and because
//! object metadata is stored with the node.

use svcfs_base::{Fault, TreePath};
use svcfs_vfs::{EntryKind, NodeId, PathAttributes, Vfs};

use crate::context::S3RequestContext;

/// A node at a path; released when dropped.
pub(crate) struct ResolvedNode<'a> {
    vfs: &'a Vfs,
    /// The path, links followed.
    pub(crate) path: TreePath,
    pub(crate) node: NodeId,
    pub(crate) attributes: PathAttributes,
}

impl Drop for ResolvedNode<'_> {
    fn drop(&mut self) {
        self.vfs.forget(self.node, 1);
    }
}

impl<'a> ResolvedNode<'a> {
    /// Resolves a path, following links. Errors: `NotFound`, `Forbidden` outside the caller's
    /// permissions, `Invalid` for a link that leads out of the tree.
    pub(crate) fn at(context: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        context.check(path)?;
        Self::lookup(context, context.space.vfs.resolve_links(context.caller.protocol, path)?)
    }

    /// Resolves a path without following a link at its end.
    pub(crate) fn at_no_follow(context: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        context.check(path)?;
        Self::lookup(context, path.clone())
    }

    fn lookup(context: &'a S3RequestContext, path: TreePath) -> Result<Self, Fault> {
        let vfs = &*context.space.vfs;
        let (node, attributes) = vfs.lookup_path(&context.caller, &path)?;
        Ok(Self { vfs, node, attributes, path })
    }

    /// Resolves the parent folder of a path. Errors: `NotFound` when there is none; `NotDirectory`.
    pub(crate) fn parent_of(context: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        let parent = path.parent().ok_or_else(|| Fault::is_directory(path))?;
        // A key for one folder may not look above that folder.
        let folder = if context.caller.permissions.covers(&parent) {
            Self::at(context, &parent)?
        } else {
            context.caller.permissions.check_path(path)?;
            Self::lookup(context, parent)?
        };
        if folder.is_folder() { Ok(folder) } else { Err(Fault::not_directory(&folder.path)) }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.attributes.kind == EntryKind::Directory
    }
    pub(crate) fn is_file(&self) -> bool {
        self.attributes.kind == EntryKind::File
    }
    /// Whether the file is too large to be versioned.
    pub(crate) fn is_large(&self) -> bool {
        self.attributes.large_file().is_some()
    }
}
