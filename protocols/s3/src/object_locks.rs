//! Whose turn it is to write an object and what is said of it: the disk has the two in two places, and both are of one write.

use std::collections::HashSet;

use parking_lot::{Condvar, Mutex};
use svcfs_base::TreePath;

/// A path in the space of this name.
type ObjectPath = (String, TreePath);

/// The places that are being written.
#[derive(Debug, Default)]
pub(crate) struct ObjectLocks {
    places: Mutex<HashSet<ObjectPath>>,
    ended: Condvar,
}

/// Holds one until it is dropped.
pub(crate) struct ObjectLockGuard<'a> {
    keeping: &'a ObjectLocks,
    place: ObjectPath,
}

impl ObjectLocks {
    /// Waits until no other request writes there. Blocks.
    pub(crate) fn hold(&self, space: &str, path: &TreePath) -> ObjectLockGuard<'_> {
        let place = (space.to_owned(), path.clone());
        let mut places = self.places.lock();
        while !places.insert(place.clone()) {
            self.ended.wait(&mut places);
        }
        drop(places);
        ObjectLockGuard { keeping: self, place }
    }
}

impl Drop for ObjectLockGuard<'_> {
    fn drop(&mut self) {
        self.keeping.places.lock().remove(&self.place);
        self.keeping.ended.notify_all();
    }
}
