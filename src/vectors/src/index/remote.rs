//! Transfer of vectors to a remote store.

use std::sync::atomic::Ordering;

use super::{VectorIndex, VectorIndexError, rows, store_name};

/// Vectors in one call of the store.
const BATCH: u32 = 256;

impl VectorIndex {
    /// Sends new vectors to the remote store and removes old ones there; nothing without a remote
    /// store. `is_stopped` ends it early; then, and after an error, a later call continues. Whether
    /// the store has all vectors.
    ///
    /// # Errors
    /// [`VectorIndexError::Store`]; [`VectorIndexError::Database`].
    pub fn sync_store(&self, is_stopped: impl Fn() -> bool) -> Result<bool, VectorIndexError> {
        let Some(remote) = &self.store else { return Ok(true) };
        let mut connection = self.writer.lock();
        if self.is_store_outdated.load(Ordering::Acquire) {
            remote.store.clear()?;
            rows::set_store(&mut connection, &store_name(remote, &self.current))?;
            self.is_store_outdated.store(false, Ordering::Release);
        }
        // All removals first: a chunk may have been removed and added again.
        loop {
            let removed = rows::chunks_to_remove(&connection, BATCH)?;
            if removed.is_empty() {
                break;
            }
            if is_stopped() {
                return Ok(false);
            }
            remote.store.delete(&removed)?;
            rows::mark_stored(&mut connection, &removed, &[])?;
        }
        loop {
            let added = rows::chunks_to_store(&connection, self.current.id, BATCH)?;
            if added.is_empty() {
                return Ok(true);
            }
            if is_stopped() {
                return Ok(false);
            }
            remote.store.upsert(&added)?;
            let ids: Vec<i64> = added.iter().map(|vector| vector.id).collect();
            rows::mark_stored(&mut connection, &[], &ids)?;
        }
    }
}
