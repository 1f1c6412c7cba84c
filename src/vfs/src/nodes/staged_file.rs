//! A file of any length that is written to a temporary name and then installed by rename.

use std::sync::Arc;

use svcfs_base::{Caller, Durability, Fault, FileKind, Kind, PathComponent, Precondition, TreePath};
use uuid::Uuid;

use super::names::UPLOAD_AFFIXES;
use super::{HandleId, NodeId, WriteAt};
use crate::Vfs;

/// A staged file; removed when dropped before it is installed.
pub struct StagedFile {
    vfs: Arc<Vfs>,
    caller: Caller,
    node: NodeId,
    handle: HandleId,
    /// Its temporary path; `None` once it is installed.
    path: Option<TreePath>,
    length: u64,
}

impl StagedFile {
    /// Creates one in a folder.
    ///
    /// # Errors
    /// Those of [`Vfs::create`].
    pub fn create(vfs: &Arc<Vfs>, caller: &Caller, folder: (NodeId, &TreePath)) -> Result<Self, Fault> {
        let (vfs, caller) = (Arc::clone(vfs), caller.clone());
        let name = format!("{}{}{}", UPLOAD_AFFIXES.0, Uuid::new_v4().simple(), UPLOAD_AFFIXES.1);
        let name = PathComponent::parse(&name)?;
        let (node, _, handle) = vfs.create(&caller, folder.0, &name, FileKind::Regular.git_mode() as u32 & 0o777)?;
        let staged = Self { vfs, caller, node, handle, path: Some(folder.1.join(&name)), length: 0 };
        staged.vfs.spill_to_disk(handle)?;
        Ok(staged)
    }

    /// Its node; the installed file has the same.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Its temporary path; `None` once it is installed.
    #[must_use]
    pub const fn path(&self) -> Option<&TreePath> {
        self.path.as_ref()
    }

    /// Appends data.
    ///
    /// # Errors
    /// Those of [`Vfs::write_node`].
    pub fn append(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.vfs.write_node(&self.caller, self.handle, WriteAt::Offset(self.length), data)?;
        self.length += data.len() as u64;
        Ok(())
    }

    /// Flushes the file to disk, which may take long.
    ///
    /// # Errors
    /// Those of [`Vfs::publish`].
    pub fn flush(&self) -> Result<(), Fault> {
        self.vfs.publish(&self.caller, self.node, Durability::Now)
    }

    /// Moves the flushed file from its folder to a name in another, if the target is in the
    /// expected state.
    ///
    /// # Errors
    /// Those of [`Vfs::rename_node_expecting`]; the target is unchanged then.
    pub fn install(
        &mut self,
        folder: NodeId,
        (target_folder, target): (NodeId, &PathComponent),
        expected: Precondition,
    ) -> Result<(), Fault> {
        let Some(path) = &self.path else { return Ok(()) };
        let name = PathComponent::parse(path.name())?;
        let options = (expected, Durability::Now);
        self.vfs.rename_node_expecting(&self.caller, (folder, &name), (target_folder, target), options)?;
        self.path = None;
        // The rename is done, but may not be flushed yet. Another client may have removed the file.
        match self.vfs.flush_node(self.node) {
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::Stale | Kind::NotDirectory) => Ok(()),
            flushed => flushed,
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

impl Drop for StagedFile {
    fn drop(&mut self) {
        let removed = self.path.take().map_or(Ok(()), |path| self.remove(&path));
        let released = self.vfs.release(&self.caller, self.handle);
        self.vfs.forget(self.node, 1);
        if let Err(fault) = removed.and(released) {
            tracing::warn!(error = ?fault, "could not remove the temporary file of an aborted upload");
        }
    }
}
