//! Locks on sets of paths.
//!
//! Lock order everywhere: the tree lock, then path locks, then the queue.

use std::collections::BTreeSet;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use svcfs_base::TreePath;
use svcfs_work::{KeyedLockGuard, KeyedLocks};

#[derive(Default)]
pub(crate) struct PathLocks {
    /// Shared for changes of files; exclusive for renames of directories.
    tree: RwLock<()>,
    paths: KeyedLocks<TreePath>,
}

/// Locks of paths, released on drop before the tree lock.
pub(crate) struct PathLockGuard<'a> {
    _paths: KeyedLockGuard<'a, TreePath>,
    _tree: RwLockReadGuard<'a, ()>,
}

impl PathLocks {
    /// Waits until none of the paths is locked, then locks them all.
    pub(crate) fn lock(&self, paths: BTreeSet<TreePath>) -> PathLockGuard<'_> {
        let tree = self.tree.read();
        PathLockGuard { _paths: self.paths.lock(paths), _tree: tree }
    }

    pub(crate) fn lock_tree(&self) -> RwLockWriteGuard<'_, ()> {
        self.tree.write()
    }
}
