//! Locks on sets of paths.
//!
//! Lock order everywhere: the tree lock, then path locks, then the queue.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use svcfs_base::TreePath;

#[derive(Default)]
pub(crate) struct PathLocks {
    /// Shared for changes of files; exclusive for renames of directories.
    tree: RwLock<()>,
    locked: Mutex<BTreeSet<TreePath>>,
    released: Condvar,
}

pub(crate) struct PathLockGuard<'a> {
    locks: &'a PathLocks,
    paths: BTreeSet<TreePath>,
    _tree: RwLockReadGuard<'a, ()>,
}

impl PathLocks {
    /// Waits until none of the paths is locked, then locks them all.
    pub(crate) fn lock(&self, paths: BTreeSet<TreePath>) -> PathLockGuard<'_> {
        let tree = self.tree.read();
        let mut locked = self.locked.lock();
        // All or none: no thread waits while it holds a path, so there is no deadlock.
        while paths.iter().any(|path| locked.contains(path)) {
            self.released.wait(&mut locked);
        }
        locked.extend(paths.iter().cloned());
        PathLockGuard { locks: self, paths, _tree: tree }
    }

    pub(crate) fn lock_tree(&self) -> RwLockWriteGuard<'_, ()> {
        self.tree.write()
    }
}

impl Drop for PathLockGuard<'_> {
    fn drop(&mut self) {
        let mut locked = self.locks.locked.lock();
        for path in &self.paths {
            locked.remove(path);
        }
        drop(locked);
        self.locks.released.notify_all();
    }
}
