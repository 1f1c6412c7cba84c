//! A path resolved to its node, or to its entry in the draft of the caller.
//!
//! The node is pinned, because files too large for a version have no other identity, and because
//! object metadata is stored with the node.

use svcfs_base::{Fault, TreePath};
use svcfs_vfs::{CallerTree, EntryKind, NodeId, PathAttributes, Vfs};

use crate::context::S3RequestContext;

/// A node at a path, released when dropped; or an entry of a draft.
pub(crate) struct ResolvedNode<'a> {
    vfs: &'a Vfs,
    /// The path, links followed.
    pub(crate) path: TreePath,
    /// None if the caller sees a draft.
    node: Option<NodeId>,
    pub(crate) attributes: PathAttributes,
}

impl Drop for ResolvedNode<'_> {
    fn drop(&mut self) {
        self.node.into_iter().for_each(|node| self.vfs.forget(node, 1));
    }
}

impl<'a> ResolvedNode<'a> {
    /// Resolves a path, following links. Errors: `NotFound`, `Forbidden` outside the caller's
    /// permissions, `Invalid` for a link that leads out of the tree.
    pub(crate) fn at(context: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        context.check(path)?;
        Self::lookup(context, context.tree().resolve_links(context.caller.protocol, path)?)
    }

    /// Resolves a path without following a link at its end.
    pub(crate) fn at_no_follow(context: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        context.check(path)?;
        Self::lookup(context, path.clone())
    }

    fn lookup(context: &'a S3RequestContext, path: TreePath) -> Result<Self, Fault> {
        let vfs = &*context.space.vfs;
        let (node, attributes) = match context.tree() {
            CallerTree::Tree(vfs) => {
                let (node, attributes) = vfs.lookup_path(&context.caller, &path)?;
                (Some(node), attributes)
            }
            draft @ CallerTree::Draft(_) => (None, draft.stat_entry(context.caller.protocol, &path)?),
        };
        Ok(Self { vfs, node, attributes, path })
    }

    /// The node; none if the caller sees a draft, whose entries have none.
    pub(crate) const fn draftless_node(&self) -> Option<NodeId> {
        self.node
    }
    /// The node. Errors: `Forbidden` in a draft: the operation would change the tree.
    pub(crate) fn node(&self, context: &S3RequestContext) -> Result<NodeId, Fault> {
        self.vfs.check_writes_tree(&context.caller)?;
        self.node.ok_or_else(|| Fault::file_not_found(&self.path))
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
