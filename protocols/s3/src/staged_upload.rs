//! A file of any length that is written to a temporary name next to its target and then installed
//! by rename.

use std::sync::Arc;
use std::time::SystemTime;

use svcfs_base::{Caller, Change, Durability, Fault, FileKind, Kind, PathComponent, Precondition, TreePath};
use svcfs_listener::BlockSink;
use svcfs_vfs::{HandleId, NodeId, UPLOAD_AFFIXES, Vfs, WriteAt};
use uuid::Uuid;

use crate::context::{S3RequestContext, S3RequestError};
use crate::object_metadata::{ObjectMetadata, is_missing};
use crate::resolved::ResolvedNode;

/// Whether a name is that of a staged file, which is not an object.
pub(crate) fn is_staged_name(name: &str) -> bool {
    name.starts_with(UPLOAD_AFFIXES.0) && name.ends_with(UPLOAD_AFFIXES.1)
}

/// Checks, before the body arrives, that a path can be written: S3 keys have no folders, files do.
/// Errors: `NotDirectory` when a parent is a file; `Invalid` for the server's own files.
pub(crate) fn check_parents(context: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    if !context.space.vfs.is_visible(context.caller.protocol, path) {
        return Err(Fault::invalid("path", format_args!("path denied: `{path}` belongs to the server")));
    }
    let mut folder = path.parent();
    while let Some(path) = folder.filter(|path| !path.is_root() && context.caller.permissions.covers(path)) {
        match ResolvedNode::at(context, &path) {
            Ok(entry) if entry.is_folder() => break,
            Ok(_) => return Err(Fault::not_directory(&path)),
            Err(fault) if is_missing(&fault) => {}
            Err(fault) => return Err(fault),
        }
        folder = path.parent();
    }
    Ok(())
}

/// Creates the missing parent folders of a path. Errors: `NotDirectory` when a parent is a file.
pub(crate) fn create_parents(context: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    let mut missing = Vec::new();
    let mut folder = path.parent();
    while let Some(path) = folder.filter(|path| !path.is_root() && context.caller.permissions.covers(path)) {
        match ResolvedNode::at(context, &path) {
            Ok(entry) if entry.is_folder() => break,
            Ok(_) => return Err(Fault::not_directory(&path)),
            Err(fault) if fault.kind() == Kind::NotFound => missing.push(path.clone()),
            Err(fault) => return Err(fault),
        }
        folder = path.parent();
    }
    for path in missing.into_iter().rev() {
        match context.space.vfs.apply(&context.caller, Change::MakeDir { path }) {
            Err(fault) if fault.kind() == Kind::Exists => {}
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

/// A staged file; removed when dropped before it is installed.
pub(crate) struct StagedUpload {
    vfs: Arc<Vfs>,
    caller: Caller,
    node: NodeId,
    handle: HandleId,
    /// Its temporary path; `None` once it is installed.
    path: Option<TreePath>,
    length: u64,
}

impl StagedUpload {
    /// Creates one in the folder of `path`.
    pub(crate) fn new(context: &S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        create_parents(context, path)?;
        let (vfs, caller) = (Arc::clone(&context.space.vfs), context.caller.clone());
        let folder = ResolvedNode::parent_of(context, path)?;
        let name =
            PathComponent::parse(&format!("{}{}{}", UPLOAD_AFFIXES.0, Uuid::new_v4().simple(), UPLOAD_AFFIXES.1))?;
        let (node, _, handle) = vfs.create(&caller, folder.node, &name, FileKind::Regular.git_mode() as u32 & 0o777)?;
        let path = Some(folder.path.join(&name));
        drop(folder);
        let staged = Self { vfs, caller, node, handle, path, length: 0 };
        staged.vfs.spill_to_disk(handle)?;
        Ok(staged)
    }

    /// Appends data.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.vfs.write_node(&self.caller, self.handle, WriteAt::Offset(self.length), data)?;
        self.length += data.len() as u64;
        Ok(())
    }

    /// Flushes the file to disk, which may take long.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        self.vfs.publish(&self.caller, self.node, Durability::Now)
    }

    /// Installs the flushed file with its metadata, if the target is in the expected state. Returns
    /// its modification time. Errors: `Conflict`, `Exists` when the target is in another state. The
    /// target is unchanged then.
    pub(crate) fn install(
        mut self,
        context: &S3RequestContext,
        target: &TreePath,
        (expect, record): (Precondition, ObjectMetadata),
    ) -> Result<SystemTime, S3RequestError> {
        let attributes = self.vfs.attributes(self.node)?;
        let of = attributes.large_file().map(|large| large.to_string()).unwrap_or_default();
        // Before the rename, so that the metadata is never stored with the file of another client.
        ObjectMetadata { of, ..record }.store_metadata(context, self.node)?;
        let Some(path) = self.path.clone() else { return Ok(attributes.modified) };
        let folder = ResolvedNode::parent_of(context, target)?;
        let (old, new) = (PathComponent::parse(path.name())?, PathComponent::parse(target.name())?);
        let options = (expect, Durability::Now);
        self.vfs.rename_node_expecting(&self.caller, (folder.node, &old), (folder.node, &new), options)?;
        self.path = None;
        // The rename is done, but may not be flushed yet.
        match self.vfs.flush_node(self.node) {
            Err(fault) if !is_missing(&fault) => Err(fault.into()),
            Ok(()) | Err(_) => Ok(attributes.modified),
        }
    }

    fn remove(&self, path: &TreePath) -> Result<(), Fault> {
        let mut folder = NodeId::ROOT;
        let mut pinned = Vec::new();
        let parent = path.parent().unwrap_or_else(TreePath::root);
        let outcome = parent.components().try_for_each(|name| {
            folder = self.vfs.lookup(&self.caller, folder, &PathComponent::parse(name)?)?.0;
            pinned.push(folder);
            Ok(())
        });
        let outcome = outcome.and_then(|()| self.vfs.unlink(&self.caller, folder, &PathComponent::parse(path.name())?));
        pinned.into_iter().for_each(|node| self.vfs.forget(node, 1));
        outcome
    }
}

impl BlockSink for StagedUpload {
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.append(block)
    }
}

impl Drop for StagedUpload {
    fn drop(&mut self) {
        let outcome = self.path.take().map_or(Ok(()), |path| self.remove(&path));
        let released = self.vfs.release(&self.caller, self.handle);
        self.vfs.forget(self.node, 1);
        if let Err(fault) = outcome.and(released) {
            tracing::warn!(error = ?fault, "could not remove the temporary file of an aborted upload");
        }
    }
}
