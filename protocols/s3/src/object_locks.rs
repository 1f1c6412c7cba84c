//! One lock per object: content and metadata are in two places on disk, and must come from the same
//! write.

use std::collections::HashSet;

use parking_lot::{Condvar, Mutex};
use svcfs_base::TreePath;

/// A path in the space of this name.
type ObjectPath = (String, TreePath);

/// The paths that are being written.
#[derive(Debug, Default)]
pub(crate) struct ObjectLocks {
    paths: Mutex<HashSet<ObjectPath>>,
    unlocked: Condvar,
}

/// The lock of one object, until dropped.
pub(crate) struct ObjectLockGuard<'a> {
    locks: &'a ObjectLocks,
    path: ObjectPath,
}

impl ObjectLocks {
    /// Waits until no other request writes the object. Blocks.
    pub(crate) fn lock(&self, space: &str, path: &TreePath) -> ObjectLockGuard<'_> {
        let path = (space.to_owned(), path.clone());
        let mut paths = self.paths.lock();
        while !paths.insert(path.clone()) {
            self.unlocked.wait(&mut paths);
        }
        drop(paths);
        ObjectLockGuard { locks: self, path }
    }
}

impl Drop for ObjectLockGuard<'_> {
    fn drop(&mut self) {
        self.locks.paths.lock().remove(&self.path);
        self.locks.unlocked.notify_all();
    }
}
