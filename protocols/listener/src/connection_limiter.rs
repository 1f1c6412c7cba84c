//! How many connections there may be, and how many of them from one address.
//!
//! One rule: nobody keeps others out by connecting often. Addresses of this machine are not bounded: a proxy brings everybody from there.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::network_prefix;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at once; more wait in the system's queue.
const AT_ONCE: usize = 4096;
/// Those from one address.
const FROM_ONE: usize = 1024;

/// How many connections each address has.
type ConnectionCounts = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// The connections there are.
#[derive(Debug)]
pub struct ConnectionLimiter {
    places: Arc<Semaphore>,
    from: ConnectionCounts,
    from_one: usize,
}

/// A connection's place; given back when it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    _held: OwnedSemaphorePermit,
    from: Option<(ConnectionCounts, IpAddr)>,
}

impl ConnectionLimiter {
    fn of(at_once: usize, from_one: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(at_once)), from: Arc::default(), from_one }
    }

    /// Waits until there is room for one more.
    pub async fn wait_for_slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).acquire_owned().await.ok()
    }

    /// A place for a connection from this address; none when it has too many.
    pub fn admit(&self, room: OwnedSemaphorePermit, address: IpAddr) -> Option<ConnectionPermit> {
        if address.to_canonical().is_loopback() {
            return Some(ConnectionPermit { _held: room, from: None });
        }
        let address = network_prefix(address);
        let mut from = self.from.lock();
        let count = from.entry(address).or_default();
        if *count >= self.from_one {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { _held: room, from: Some((Arc::clone(&self.from), address)) })
    }
}

impl Default for ConnectionLimiter {
    /// Nobody yet.
    fn default() -> Self {
        Self::of(AT_ONCE, FROM_ONE)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some((from, address)) = &self.from else { return };
        let mut from = from.lock();
        if let Some(count) = from.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                from.remove(address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_takes_a_part_of_the_places_and_gives_them_back() {
        let crowd = ConnectionLimiter::of(8, 2);
        let place = async |address: &str| crowd.admit(crowd.wait_for_slot().await.unwrap(), address.parse().unwrap());
        let held = [place("10.0.0.1").await, place("10.0.0.1").await];
        assert!(held.iter().all(Option::is_some) && place("10.0.0.1").await.is_none());
        assert!(place("10.0.0.2").await.is_some(), "others come in");
        let own = [place("127.0.0.1").await, place("::1").await, place("127.0.0.1").await];
        assert!(own.iter().all(Option::is_some), "a proxy on this machine brings many");
        drop(held);
        assert!(place("10.0.0.1").await.is_some());
        drop(own);
        assert_eq!((crowd.from.lock().len(), crowd.places.available_permits()), (0, 8));
    }
}
