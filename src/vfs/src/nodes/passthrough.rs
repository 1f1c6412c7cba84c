//! Files that the kernel may read directly (FUSE passthrough).

use std::fs::File;

use svcfs_base::TreePath;

use super::NodeId;
use super::body::MAX_VERSIONED_BYTES;
use crate::Vfs;

impl Vfs {
    /// The file on disk with exactly the node's content, if `wanted` accepts its path and size in
    /// bytes (it must accept a larger file whenever it accepts a smaller one). None when content is
    /// dirty or pending, and on disk errors.
    ///
    /// It includes every change acknowledged before; later changes replace the file.
    pub fn clean_backing_file(&self, node: NodeId, wanted: impl Fn(&TreePath, u64) -> bool) -> Option<File> {
        let shared = self.nodes.shared(node).ok()?;
        let shared = shared.try_lock()?;
        let path = self.nodes.path_of(node).ok()?;
        if shared.dirty.is_some() || self.core.overlay.get(&path).is_some() {
            return None;
        }
        // Most opened files are pages, which do not need to be opened on disk.
        if shared.large.is_none() && !wanted(&path, MAX_VERSIONED_BYTES) {
            return None;
        }
        let file = self.core.tree.open_file(&path).ok()?;
        let size = file.metadata().ok()?.len();
        wanted(&path, size).then_some(file)
    }
}
