//! Limits the connections of a protocol, in total and per client address.
//!
//! Invariant: no client can lock others out with many connections. Loopback addresses have no limit
//! of their own, because a proxy brings all clients from there.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::network_prefix;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections in total; more wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 4096;
/// Connections of one client address.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 1024;

/// Connections per address.
type ConnectionCounts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// Counts the open connections.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    slots: Arc<Semaphore>,
    counts: ConnectionCounts,
    max_per_address: usize,
}

/// Permission for one connection; released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    _slot: OwnedSemaphorePermit,
    counts: Option<(ConnectionCounts, IpAddr)>,
}

impl ConnectionLimiter {
    fn new(max_total: usize, max_per_address: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(max_total)), counts: Arc::default(), max_per_address }
    }

    /// Waits until a connection is free.
    pub(crate) async fn wait_for_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.ok()
    }

    /// Admits a connection from this address; `None` when the address has too many.
    pub(crate) fn admit(&self, slot: OwnedSemaphorePermit, address: IpAddr) -> Option<ConnectionPermit> {
        if address.to_canonical().is_loopback() {
            return Some(ConnectionPermit { _slot: slot, counts: None });
        }
        let address = network_prefix(address);
        let mut counts = self.counts.lock();
        let count = counts.entry(address).or_default();
        if *count >= self.max_per_address {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { _slot: slot, counts: Some((Arc::clone(&self.counts), address)) })
    }
}

impl Default for ConnectionLimiter {
    fn default() -> Self {
        Self::new(MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some((counts, address)) = &self.counts else { return };
        let mut counts = counts.lock();
        if let Some(count) = counts.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_takes_a_part_of_the_places_and_gives_them_back() {
        let crowd = ConnectionLimiter::new(8, 2);
        let place = async |address: &str| crowd.admit(crowd.wait_for_slot().await.unwrap(), address.parse().unwrap());
        let held = [place("10.0.0.1").await, place("10.0.0.1").await];
        assert!(held.iter().all(Option::is_some) && place("10.0.0.1").await.is_none());
        assert!(place("10.0.0.2").await.is_some(), "others come in");
        let own = [place("127.0.0.1").await, place("::1").await, place("127.0.0.1").await];
        assert!(own.iter().all(Option::is_some), "a proxy on this machine brings many");
        drop(held);
        assert!(place("10.0.0.1").await.is_some());
        drop(own);
        assert_eq!((crowd.counts.lock().len(), crowd.slots.available_permits()), (0, 8));
    }
}
