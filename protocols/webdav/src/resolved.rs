//! A path resolved to its node, or to its entry in the draft of the caller.
//!
//! The node is pinned, because files too large for a version have no other identity, and because
//! writes through a mount are visible through their node only.

use std::sync::Arc;

use svcfs_base::{ETag, Fault, Kind, PathComponent, TreePath};
use svcfs_vfs::{CallerTree, EntryKind, NodeId, PathAttributes, Vfs};

use crate::context::WebdavRequestContext;
use crate::metadata::ResourceMetadata;

/// A node at a path, released when dropped; or an entry of a draft.
pub(crate) struct ResolvedResource<'a> {
    vfs: &'a Vfs,
    /// The path, links followed.
    pub(crate) path: TreePath,
    /// None if the caller sees a draft.
    node: Option<NodeId>,
    pub(crate) attributes: PathAttributes,
}

impl Drop for ResolvedResource<'_> {
    fn drop(&mut self) {
        self.node.into_iter().for_each(|node| self.vfs.forget(node, 1));
    }
}

impl<'a> ResolvedResource<'a> {
    /// Resolves a path, following links. Errors: `NotFound`, `Forbidden` outside the caller's
    /// permissions, `Invalid` for a link that leads out of the tree.
    pub(crate) fn at(context: &'a WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        let LookupContext { vfs, protocol, .. } = LookupContext::of(context);
        check_access(context, path)?;
        let target = vfs
            .tree_of(context.caller())
            .resolve_links(protocol, path)
            .map_err(|fault| as_not_found(context, path, fault))?;
        Self::lookup(context, target)
    }

    /// Resolves a path without following a link at its end.
    pub(crate) fn at_no_follow(context: &'a WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        check_access(context, path)?;
        Self::lookup(context, path.clone())
    }

    fn lookup(context: &'a WebdavRequestContext, path: TreePath) -> Result<Self, Fault> {
        let (vfs, caller) = (&context.space().vfs, context.caller());
        let found = match vfs.tree_of(caller) {
            CallerTree::Tree(vfs) => vfs.lookup_path(caller, &path).map(|(node, attributes)| (Some(node), attributes)),
            draft @ CallerTree::Draft(_) => {
                draft.stat_entry(caller.protocol, &path).map(|attributes| (None, attributes))
            }
        };
        // A path below a file does not exist. For a write, the missing parent folder is reported
        // separately.
        let (node, attributes) = found.map_err(|fault| match fault.kind() {
            Kind::NotDirectory => Fault::file_not_found(&path),
            _ => fault,
        })?;
        Ok(Self { vfs, node, attributes, path })
    }

    /// The node; none if the caller sees a draft, whose entries have none.
    pub(crate) const fn draftless_node(&self) -> Option<NodeId> {
        self.node
    }
    /// The node. Errors: `Forbidden` in a draft: the operation would change the tree.
    pub(crate) fn node(&self, context: &WebdavRequestContext) -> Result<NodeId, Fault> {
        self.vfs.check_writes_tree(context.caller())?;
        self.node.ok_or_else(|| Fault::file_not_found(&self.path))
    }

    /// Resolves the parent folder of a path. Errors: `NotFound` when there is none; `NotDirectory`;
    /// `Forbidden` for protected names.
    pub(crate) fn parent_of(context: &'a WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        let parent = path.parent().ok_or_else(|| Fault::is_directory(path))?;
        // A key for one folder may not look above that folder.
        let resource = if context.caller().permissions.covers(&parent) {
            Self::at(context, &parent)?
        } else {
            context.caller().permissions.check_path(path)?;
            Self::lookup(context, parent)?
        };
        if !resource.is_folder() {
            return Err(Fault::not_directory(&resource.path));
        }
        check_not_protected(context, path)?;
        Ok(resource)
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.attributes.kind == EntryKind::Directory
    }
    /// Whether the file is too large to be versioned.
    pub(crate) fn is_large(&self) -> bool {
        self.attributes.large_file().is_some()
    }
    /// The name in its folder. Errors: For the root, which has none.
    pub(crate) fn name(&self) -> Result<PathComponent, Fault> {
        PathComponent::parse(self.path.name())
    }
    /// The metadata for dav-server.
    pub(crate) fn metadata(&self, context: &WebdavRequestContext) -> Result<ResourceMetadata, Fault> {
        metadata(context, &self.path, self.attributes.clone())
    }
    /// The visible entries of this folder; links are not followed. Errors: `NotDirectory`.
    pub(crate) fn entries(&self, context: &WebdavRequestContext) -> Result<Vec<(TreePath, PathAttributes)>, Fault> {
        let mut entries = self.all_entries(context)?;
        entries.retain(|(_, attributes)| !matches!(attributes.kind, EntryKind::Special(_)));
        Ok(entries)
    }
    /// All entries, including pipes, sockets and devices, which clients do not see. Errors:
    /// `NotDirectory`.
    pub(crate) fn all_entries(&self, context: &WebdavRequestContext) -> Result<Vec<(TreePath, PathAttributes)>, Fault> {
        let Some(node) = self.node else {
            let entries = context.tree().list(context.caller().protocol, &self.path)?.into_iter();
            return Ok(entries.map(|entry| (entry.path, entry.attributes)).collect());
        };
        let entries = self.vfs.entries(context.caller(), node)?.into_iter();
        Ok(entries.map(|(name, _, attributes)| (self.path.join(&name), attributes)).collect())
    }
}

/// Checks that the caller may access the target of a path. Errors: `Forbidden`; for a link that
/// leads out of the tree `NotFound` to readers, `Invalid` to writers.
pub(crate) fn check_access(context: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let LookupContext { protocol, permissions, .. } = LookupContext::of(context);
    context.space().check_path_access(permissions, protocol, path).map_err(|fault| as_not_found(context, path, fault))
}

/// For readers, a link that leads out of the tree or forms a cycle does not exist; but writers must
/// not replace it.
fn as_not_found(context: &WebdavRequestContext, path: &TreePath, fault: Fault) -> Fault {
    match fault.kind() {
        Kind::NotDirectory => Fault::file_not_found(path),
        Kind::Invalid if context.is_read_only() => Fault::file_not_found(path),
        _ => fault,
    }
}

/// Refuses to create or remove the server's own files. Errors: `Forbidden`.
pub(crate) fn check_not_protected(context: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    if !context.space().vfs.is_protected(context.caller().protocol, path) {
        return Ok(());
    }
    let subject = if path.is_root() { "the root of a space".to_owned() } else { format!("`{path}`") };
    Err(Fault::new(Kind::Forbidden, format!("{subject} belongs to the server and cannot be created or removed")))
}

/// The metadata of a path for dav-server.
pub(crate) fn metadata(
    context: &WebdavRequestContext,
    path: &TreePath,
    attributes: PathAttributes,
) -> Result<ResourceMetadata, Fault> {
    if attributes.kind != EntryKind::File || !context.needs_etags() {
        return Ok(ResourceMetadata::without_etag(attributes));
    }
    if attributes.large_file().is_some() {
        return Ok(ResourceMetadata::of_large(attributes));
    }
    let (space, tree) = (context.space(), context.tree());
    let unsaved_attributes = attributes.clone();
    let read = || match tree.read(context.caller().protocol, path) {
        // Attributes and hash from the same read.
        Ok(file) => Ok((file.attributes, file.etag)),
        // Created through a mount and not saved yet: other clients see an empty file.
        Err(fault) if fault.kind() == Kind::NotFound => Ok((unsaved_attributes, ETag::from_content(b""))),
        Err(fault) => Err(fault),
    };
    let (attributes, etag) = match tree.is_draft() {
        // The cache is that of the tree.
        true => read()?,
        false => context.protocol().etags.get_or_read((&space.name, path), attributes, read)?,
    };
    Ok(ResourceMetadata::of(attributes, etag))
}

/// The parts of a context that a lookup needs.
struct LookupContext<'a> {
    vfs: &'a Arc<Vfs>,
    protocol: svcfs_base::Protocol,
    permissions: &'a svcfs_base::Permissions,
}

impl<'a> LookupContext<'a> {
    fn of(context: &'a WebdavRequestContext) -> Self {
        let caller = context.caller();
        Self { vfs: &context.space().vfs, protocol: caller.protocol, permissions: &caller.permissions }
    }
}
