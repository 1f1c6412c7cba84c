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
    /// Resolves a path, following links.
    ///
    /// # Errors
    /// `NotFound`, `Forbidden` outside the caller's permissions, `Invalid` for a link that leads
    /// out of the tree.
    pub(crate) fn at(asked: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        asked.check(path)?;
        Self::lookup(asked, asked.space.vfs.resolve_links(asked.caller.protocol, path)?)
    }

    /// Resolves a path without following a link at its end.
    ///
    /// # Errors
    /// As [`ResolvedNode::at`].
    pub(crate) fn at_no_follow(asked: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        asked.check(path)?;
        Self::lookup(asked, path.clone())
    }

    fn lookup(asked: &'a S3RequestContext, path: TreePath) -> Result<Self, Fault> {
        let vfs = &*asked.space.vfs;
        let (node, attributes) = vfs.lookup_path(&asked.caller, &path)?;
        Ok(Self { vfs, node, attributes, path })
    }

    /// Resolves the parent folder of a path.
    ///
    /// # Errors
    /// `NotFound` when there is none; `NotDirectory`.
    pub(crate) fn parent_of(asked: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        let parent = path.parent().ok_or_else(|| Fault::is_directory(path))?;
        // A key for one folder may not look above that folder.
        let folder = if asked.caller.permissions.covers(&parent) {
            Self::at(asked, &parent)?
        } else {
            asked.caller.permissions.check_path(path)?;
            Self::lookup(asked, parent)?
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
