//! A path, looked up.
//!
//! Why nodes, where a path would do? Because files too large to be recorded have no other name, and what clients say of an object is kept with its node.

use svcfs_base::{Fault, TreePath};
use svcfs_vfs::{EntryKind, NodeId, PathAttributes, Vfs};

use crate::context::S3RequestContext;

/// Something that stands at a path.
pub(crate) struct ResolvedNode<'a> {
    vfs: &'a Vfs,
    /// Where it is, links followed.
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
    /// What a path leads to, links followed.
    ///
    /// # Errors
    /// `NotFound`, `Forbidden` beyond the caller's reach, `Invalid` for a link that leads out of the tree.
    pub(crate) fn at(asked: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        asked.check(path)?;
        Self::exactly(asked, asked.space.vfs.resolve_links(asked.caller.protocol, path)?)
    }

    /// What stands at a path itself.
    ///
    /// # Errors
    /// As [`Found::at`].
    pub(crate) fn itself(asked: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        asked.check(path)?;
        Self::exactly(asked, path.clone())
    }

    fn exactly(asked: &'a S3RequestContext, path: TreePath) -> Result<Self, Fault> {
        let vfs = &*asked.space.vfs;
        let (node, attributes) = vfs.lookup_path(&asked.caller, &path)?;
        Ok(Self { vfs, node, attributes, path })
    }

    /// The folder that a path lies in.
    ///
    /// # Errors
    /// `NotFound` when there is none; `NotDirectory`.
    pub(crate) fn parent_of(asked: &'a S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        let parent = path.parent().ok_or_else(|| Fault::is_directory(path))?;
        // With a key for one folder, that folder is the highest that may be looked at.
        let found = if asked.caller.permissions.covers(&parent) {
            Self::at(asked, &parent)?
        } else {
            asked.caller.permissions.check_path(path)?;
            Self::exactly(asked, parent)?
        };
        if found.is_folder() { Ok(found) } else { Err(Fault::not_directory(&found.path)) }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.attributes.kind == EntryKind::Directory
    }
    pub(crate) fn is_file(&self) -> bool {
        self.attributes.kind == EntryKind::File
    }
    /// Whether no version has it.
    pub(crate) fn is_large(&self) -> bool {
        self.attributes.large_file().is_some()
    }
}
