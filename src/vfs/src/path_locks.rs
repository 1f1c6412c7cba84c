//! Path locks, taken in sorted order.
//!
//! Lock order everywhere: the tree lock, then path locks, then the queue; never upwards.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use svcfs_base::TreePath;

#[derive(Default)]
pub(crate) struct PathLocks {
    /// Shared by changes of files; exclusive while whole directories move.
    tree: RwLock<()>,
    locked: Mutex<BTreeSet<TreePath>>,
    released: Condvar,
}

/// Holds some paths until dropped.
pub(crate) struct PathLockGuard<'a> {
    locks: &'a PathLocks,
    paths: BTreeSet<TreePath>,
    _tree: RwLockReadGuard<'a, ()>,
}

impl PathLocks {
    /// Waits until none of the paths is held by another, then holds them all.
    pub(crate) fn lock(&self, paths: BTreeSet<TreePath>) -> PathLockGuard<'_> {
        let tree = self.tree.read();
        let mut held = self.locked.lock();
        // All or nothing: nobody waits while holding a path, so no order of waiting can deadlock.
        while paths.iter().any(|path| held.contains(path)) {
            self.released.wait(&mut held);
        }
        held.extend(paths.iter().cloned());
        PathLockGuard { locks: self, paths, _tree: tree }
    }

    /// Waits until no path is held, then keeps everybody out.
    pub(crate) fn lock_tree(&self) -> RwLockWriteGuard<'_, ()> {
        self.tree.write()
    }
}

impl Drop for PathLockGuard<'_> {
    fn drop(&mut self) {
        let mut held = self.locks.locked.lock();
        for path in &self.paths {
            held.remove(path);
        }
        drop(held);
        self.locks.released.notify_all();
    }
}
