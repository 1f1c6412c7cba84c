//! A file of any length that is written beside its place, and then put there whole.

use std::sync::Arc;
use std::time::SystemTime;

use svcfs_base::{Caller, Change, Durability, Fault, FileKind, Kind, PathComponent, Precondition, TreePath};
use svcfs_listener::BlockSink;
use svcfs_vfs::{HandleId, NodeId, UPLOAD_AFFIXES, Vfs, WriteAt};
use uuid::Uuid;

use crate::context::{S3RequestContext, S3RequestError};
use crate::object_metadata::{ObjectMetadata, is_missing};
use crate::resolved::ResolvedNode;

/// Whether a name is that of a file on its way, which is no object.
pub(crate) fn is_on_its_way(name: &str) -> bool {
    name.starts_with(UPLOAD_AFFIXES.0) && name.ends_with(UPLOAD_AFFIXES.1)
}

/// Checks that something can be put at a path, before its body comes: keys of S3 know no folders, files do.
///
/// # Errors
/// `NotDirectory` where a file stands in the way; `Invalid` for what belongs to the server.
pub(crate) fn check_way(asked: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    if !asked.space.vfs.is_visible(asked.caller.protocol, path) {
        return Err(Fault::invalid("path", format_args!("path denied: `{path}` belongs to the server")));
    }
    let mut folder = path.parent();
    while let Some(path) = folder.filter(|path| !path.is_root() && asked.caller.permissions.covers(path)) {
        match ResolvedNode::at(asked, &path) {
            Ok(found) if found.is_folder() => break,
            Ok(_) => return Err(Fault::not_directory(&path)),
            Err(fault) if is_missing(&fault) => {}
            Err(fault) => return Err(fault),
        }
        folder = path.parent();
    }
    Ok(())
}

/// Makes the folders above a path that are not there yet.
///
/// # Errors
/// `NotDirectory` where a file stands in the way; those of the write path.
pub(crate) fn make_way(asked: &S3RequestContext, path: &TreePath) -> Result<(), Fault> {
    let mut missing = Vec::new();
    let mut folder = path.parent();
    while let Some(path) = folder.filter(|path| !path.is_root() && asked.caller.permissions.covers(path)) {
        match ResolvedNode::at(asked, &path) {
            Ok(found) if found.is_folder() => break,
            Ok(_) => return Err(Fault::not_directory(&path)),
            Err(fault) if fault.kind() == Kind::NotFound => missing.push(path.clone()),
            Err(fault) => return Err(fault),
        }
        folder = path.parent();
    }
    for path in missing.into_iter().rev() {
        match asked.space.vfs.apply(&asked.caller, Change::MakeDir { path }) {
            Err(fault) if fault.kind() == Kind::Exists => {}
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

/// A file of any length beside its place; gone when it is let go of.
pub(crate) struct StagedUpload {
    vfs: Arc<Vfs>,
    caller: Caller,
    node: NodeId,
    handle: HandleId,
    /// Where it is; none once it is in its place.
    path: Option<TreePath>,
    length: u64,
}

impl StagedUpload {
    /// A new one, in the folder that `path` lies in.
    ///
    /// # Errors
    /// Those of making that folder and the file.
    pub(crate) fn new(asked: &S3RequestContext, path: &TreePath) -> Result<Self, Fault> {
        make_way(asked, path)?;
        let (vfs, caller) = (Arc::clone(&asked.space.vfs), asked.caller.clone());
        let folder = ResolvedNode::parent_of(asked, path)?;
        let name =
            PathComponent::parse(&format!("{}{}{}", UPLOAD_AFFIXES.0, Uuid::new_v4().simple(), UPLOAD_AFFIXES.1))?;
        let (node, _, handle) = vfs.create(&caller, folder.node, &name, FileKind::Regular.git_mode() as u32 & 0o777)?;
        let path = Some(folder.path.join(&name));
        drop(folder);
        let beside = Self { vfs, caller, node, handle, path, length: 0 };
        beside.vfs.spill_to_disk(handle)?;
        Ok(beside)
    }

    /// Writes more of it.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.vfs.write_node(&self.caller, self.handle, WriteAt::Offset(self.length), data)?;
        self.length += data.len() as u64;
        Ok(())
    }

    /// Sees to it that all of it is on the disk, which takes its time.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        self.vfs.publish(&self.caller, self.node, Durability::Now)
    }

    /// Puts it in its place once it is flushed, instead of what is expected there, with what is to be remembered of it. Answers with its time.
    ///
    /// # Errors
    /// `Conflict`, `Exists` when it is something else; those of the disk. Nothing is there then but what was.
    pub(crate) fn into_place(
        mut self,
        asked: &S3RequestContext,
        place: &TreePath,
        (expect, record): (Precondition, ObjectMetadata),
    ) -> Result<SystemTime, S3RequestError> {
        let attributes = self.vfs.attributes(self.node)?;
        let of = attributes.large_file().map(|large| large.to_string()).unwrap_or_default();
        // Before it has its name: what is said of it is never said of what another puts there.
        ObjectMetadata { of, ..record }.keep_said(asked, self.node)?;
        let Some(path) = self.path.clone() else { return Ok(attributes.modified) };
        let folder = ResolvedNode::parent_of(asked, place)?;
        let (old, new) = (PathComponent::parse(path.name())?, PathComponent::parse(place.name())?);
        let how = (expect, Durability::Now);
        self.vfs.rename_node_expecting(&self.caller, (folder.node, &old), (folder.node, &new), how)?;
        self.path = None;
        // It is there; only its name may be nowhere but in memory.
        match self.vfs.flush_node(self.node) {
            Err(fault) if !is_missing(&fault) => Err(fault.into()),
            Ok(()) | Err(_) => Ok(attributes.modified),
        }
    }

    fn remove(&self, path: &TreePath) -> Result<(), Fault> {
        let mut folder = NodeId::ROOT;
        let mut found = Vec::new();
        let parent = path.parent().unwrap_or_else(TreePath::root);
        let outcome = parent.components().try_for_each(|name| {
            folder = self.vfs.lookup(&self.caller, folder, &PathComponent::parse(name)?)?.0;
            found.push(folder);
            Ok(())
        });
        let outcome = outcome.and_then(|()| self.vfs.unlink(&self.caller, folder, &PathComponent::parse(path.name())?));
        found.into_iter().for_each(|node| self.vfs.forget(node, 1));
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
            tracing::warn!(error = ?fault, "what came of an upload that broke off could not be removed");
        }
    }
}
