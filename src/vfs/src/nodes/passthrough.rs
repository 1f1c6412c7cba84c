//! Files that somebody else may read from the disk in our stead.

use std::fs::File;

use svcfs_base::TreePath;

use super::NodeId;
use super::body::RECORDED;
use crate::Vfs;

impl Vfs {
    /// The file of the disk that has exactly what is read of a node now, where it is of a kind that is `wanted` by its path and size in bytes:
    /// a larger file at least as much as a smaller one.
    /// None when some of what is read is unpublished or on its way to the disk, and when the disk refuses: reading says why.
    ///
    /// Opened after this, a change that was acknowledged before is in it; changes after are in the file that takes its place.
    pub fn clean_backing_file(&self, node: NodeId, wanted: impl Fn(&TreePath, u64) -> bool) -> Option<File> {
        let shared = self.nodes.shared(node).ok()?;
        // Held while it is published.
        let shared = shared.try_lock()?;
        let path = self.nodes.path_of(node).ok()?;
        if shared.staging.is_some() || self.core.overlay.get(&path).is_some() {
            return None;
        }
        // Nearly every file that programs open is a page, which is no reason to open it on the disk as well.
        if shared.large.is_none() && !wanted(&path, RECORDED) {
            return None;
        }
        let file = self.core.tree.open_file(&path).ok()?;
        let size = file.metadata().ok()?.len();
        wanted(&path, size).then_some(file)
    }
}
