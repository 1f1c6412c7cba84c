//! Work that is done once for all requests that wait for the same.
//!
//! The requests wait without a place in a lane.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// With more entries, those that no request uses are removed.
const MAX_UNUSED: usize = 256;

/// Lets one request at a time do the work of a key.
pub(crate) struct SingleFlight<K>(Mutex<HashMap<K, Weak<tokio::sync::Mutex<()>>>>);

impl<K> Default for SingleFlight<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> SingleFlight<K> {
    /// Waits until no other request does the work of this key; the turn ends with the guard.
    pub(crate) async fn wait_turn(&self, key: K) -> OwnedMutexGuard<()> {
        self.entry(key).lock_owned().await
    }

    fn entry(&self, key: K) -> Arc<tokio::sync::Mutex<()>> {
        let mut running = self.0.lock();
        if let Some(entry) = running.get(&key).and_then(Weak::upgrade) {
            return entry;
        }
        if running.len() >= MAX_UNUSED {
            running.retain(|_, entry| entry.strong_count() > 0);
        }
        let entry = Arc::default();
        running.insert(key, Arc::downgrade(&entry));
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_request_at_a_time_does_the_work_of_a_key() {
        let flight = SingleFlight::default();
        let first = flight.wait_turn(0).await;
        let other = flight.wait_turn(1).await;
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), flight.wait_turn(0)).await;
        assert!(waits.is_err());
        drop((first, other));
        for key in 0..1_000 {
            drop(flight.wait_turn(key).await);
        }
        assert!(flight.0.lock().len() <= MAX_UNUSED);
    }
}
