//! A path, looked up.
//!
//! Why nodes, where a path would do? Because files too large to be recorded have no other name, and what somebody is writing through a mount is
//! seen by its nodes only.

use svcfs_base::{ETag, Fault, Kind, PathComponent, TreePath};
use svcfs_vfs::{EntryKind, NodeId, PathAttributes, Vfs};

use crate::context::WebdavRequestContext;
use crate::metadata::ResourceMetadata;

/// Something that stands at a path.
pub(crate) struct ResolvedResource<'a> {
    vfs: &'a Vfs,
    /// Where it is, links followed.
    pub(crate) path: TreePath,
    pub(crate) node: NodeId,
    pub(crate) attributes: PathAttributes,
}

impl Drop for ResolvedResource<'_> {
    fn drop(&mut self) {
        self.vfs.forget(self.node, 1);
    }
}

impl<'a> ResolvedResource<'a> {
    /// What a path leads to, links followed.
    ///
    /// # Errors
    /// `NotFound`, `Forbidden` beyond the caller's reach, `Invalid` for a link that leads out of the tree.
    pub(crate) fn at(asked: &'a WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        let LookupContext { vfs, protocol, .. } = LookupContext::of(asked);
        check_reach(asked, path)?;
        let place = vfs.resolve_links(protocol, path).map_err(|fault| lost(asked, path, fault))?;
        Self::exactly(asked, place)
    }

    /// What stands at a path itself.
    ///
    /// # Errors
    /// As [`Found::at`].
    pub(crate) fn itself(asked: &'a WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        check_reach(asked, path)?;
        Self::exactly(asked, path.clone())
    }

    fn exactly(asked: &'a WebdavRequestContext, path: TreePath) -> Result<Self, Fault> {
        let vfs = &*asked.space().vfs;
        // Nothing is below a file. Who puts something there has no folder to put it into, which is asked for by itself.
        let (node, attributes) = vfs.lookup_path(asked.caller(), &path).map_err(|fault| match fault.kind() {
            Kind::NotDirectory => Fault::file_not_found(&path),
            _ => fault,
        })?;
        Ok(Self { vfs, node, attributes, path })
    }

    /// The folder that a path lies in.
    ///
    /// # Errors
    /// `NotFound` when there is none; `NotDirectory`; `Forbidden` for what nobody may make or take away there.
    pub(crate) fn parent_of(asked: &'a WebdavRequestContext, path: &TreePath) -> Result<Self, Fault> {
        let parent = path.parent().ok_or_else(|| Fault::is_directory(path))?;
        // With a key for one folder, that folder is the highest that may be looked at.
        let found = if asked.caller().permissions.covers(&parent) {
            Self::at(asked, &parent)?
        } else {
            asked.caller().permissions.check_path(path)?;
            Self::exactly(asked, parent)?
        };
        if !found.is_folder() {
            return Err(Fault::not_directory(&found.path));
        }
        check_not_ours(asked, path)?;
        Ok(found)
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.attributes.kind == EntryKind::Directory
    }
    /// Whether no version has it.
    pub(crate) fn is_large(&self) -> bool {
        self.attributes.large_file().is_some()
    }
    /// The name of the node that is found, for the vfs.
    ///
    /// # Errors
    /// Of the root.
    pub(crate) fn name(&self) -> Result<PathComponent, Fault> {
        PathComponent::parse(self.path.name())
    }
    /// What dav-server wants to know of it.
    ///
    /// # Errors
    /// Those of reading it.
    pub(crate) fn metadata(&self, asked: &WebdavRequestContext) -> Result<ResourceMetadata, Fault> {
        metadata(asked, &self.path, self.attributes.clone())
    }
    /// What is in this folder and may be seen, as it stands there; links are not followed.
    ///
    /// # Errors
    /// `NotDirectory`.
    pub(crate) fn entries(&self, asked: &WebdavRequestContext) -> Result<Vec<(TreePath, PathAttributes)>, Fault> {
        let mut entries = self.all_entries(asked)?;
        entries.retain(|(_, attributes)| !matches!(attributes.kind, EntryKind::Special(_)));
        Ok(entries)
    }
    /// The same, with pipes, sockets and devices, which no client is told of.
    ///
    /// # Errors
    /// `NotDirectory`.
    pub(crate) fn all_entries(&self, asked: &WebdavRequestContext) -> Result<Vec<(TreePath, PathAttributes)>, Fault> {
        let entries = self.vfs.entries(asked.caller(), self.node)?.into_iter();
        Ok(entries.map(|(name, _, attributes)| (self.path.join(&name), attributes)).collect())
    }
}

/// Checks that what a path leads to lies where the caller may look.
///
/// # Errors
/// `Forbidden`; `NotFound` to whoever looks, `Invalid` to whoever writes, for a link that leads out of the tree.
pub(crate) fn check_reach(asked: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let LookupContext { protocol, reach, .. } = LookupContext::of(asked);
    asked.space().check_path_access(reach, protocol, path).map_err(|fault| lost(asked, path, fault))
}

/// A link that leads out of the tree or in a circle is not there, as nothing is below a file; but nothing may be made in its place.
fn lost(asked: &WebdavRequestContext, path: &TreePath, fault: Fault) -> Fault {
    match fault.kind() {
        Kind::NotDirectory => Fault::file_not_found(path),
        Kind::Invalid if asked.is_looking() => Fault::file_not_found(path),
        _ => fault,
    }
}

/// Refuses to make or take away what belongs to the server.
///
/// # Errors
/// `Forbidden`.
pub(crate) fn check_not_ours(asked: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    if !asked.space().vfs.is_protected(asked.caller().protocol, path) {
        return Ok(());
    }
    let what = if path.is_root() { "the root of a space".to_owned() } else { format!("`{path}`") };
    Err(Fault::new(Kind::Forbidden, format!("{what} belongs to the server, and stays where it is")))
}

/// What dav-server wants to know of what stands at a path.
///
/// # Errors
/// Those of reading it.
pub(crate) fn metadata(
    asked: &WebdavRequestContext,
    path: &TreePath,
    attributes: PathAttributes,
) -> Result<ResourceMetadata, Fault> {
    if attributes.kind != EntryKind::File || !asked.wants_etags() {
        return Ok(ResourceMetadata::without_etag(attributes));
    }
    if attributes.large_file().is_some() {
        return Ok(ResourceMetadata::of_large(attributes));
    }
    let space = asked.space();
    let unread = attributes.clone();
    let read = || match space.vfs.read(asked.caller().protocol, path) {
        // What is told of it is of the same moment as its hash.
        Ok(file) => Ok((file.attributes, file.etag)),
        // Made through a mount, and not saved yet: to all others it is an empty file.
        Err(fault) if fault.kind() == Kind::NotFound => Ok((unread, ETag::from_content(b""))),
        Err(fault) => Err(fault),
    };
    let (attributes, etag) = asked.protocol().etags.of((&space.name, path), attributes, read)?;
    Ok(ResourceMetadata::of(attributes, etag))
}

/// What looking up needs of a request.
struct LookupContext<'a> {
    vfs: &'a Vfs,
    protocol: svcfs_base::Protocol,
    reach: &'a svcfs_base::Permissions,
}

impl<'a> LookupContext<'a> {
    fn of(asked: &'a WebdavRequestContext) -> Self {
        let caller = asked.caller();
        Self { vfs: &asked.space().vfs, protocol: caller.protocol, reach: &caller.permissions }
    }
}
