//! Limits the number of connections and selects which one to close when another client connects.
//!
//! Invariant: a client cannot lock others out by holding connections. Among idle connections, those
//! that never sent a call are closed first, then the least recently used one: its client reconnects
//! and sends again (RFC 1813 4.2).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) struct LruConnectionLimiter {
    limit: usize,
    slots: Mutex<ConnectionSlots>,
    /// Notified when a connection has ended or has become idle.
    changed: Notify,
}

#[derive(Default)]
struct ConnectionSlots {
    /// Logical clock: rises with each connection and each call.
    clock: u64,
    by_id: HashMap<u64, ConnectionSlot>,
}

struct ConnectionSlot {
    /// Time of the last call, or of the connect.
    last_active: u64,
    has_called: bool,
    active_calls: usize,
    closed: CancellationToken,
}

/// The slot of a connection, released on drop.
pub(crate) struct SlotGuard {
    limiter: Arc<LruConnectionLimiter>,
    id: u64,
    /// Cancelled when the connection must close.
    pub(crate) closed: CancellationToken,
}

/// A call in progress: until it is dropped, its connection is not evicted.
pub(crate) struct CallGuard {
    limiter: Arc<LruConnectionLimiter>,
    id: u64,
}

impl ConnectionSlots {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

impl LruConnectionLimiter {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, slots: Mutex::default(), changed: Notify::new() })
    }

    /// Acquires a slot. One task at a time calls this; it waits while all other connections have
    /// calls in progress.
    pub(crate) async fn acquire(self: &Arc<Self>) -> SlotGuard {
        loop {
            if let Some(slot) = self.try_acquire() {
                return slot;
            }
            self.evict_idle();
            self.changed.notified().await;
        }
    }

    fn try_acquire(self: &Arc<Self>) -> Option<SlotGuard> {
        let mut slots = self.slots.lock();
        if slots.by_id.len() >= self.limit {
            return None;
        }
        let (id, closed) = (slots.tick(), CancellationToken::new());
        let slot = ConnectionSlot { last_active: id, has_called: false, active_calls: 0, closed: closed.clone() };
        slots.by_id.insert(id, slot);
        Some(SlotGuard { limiter: Arc::clone(self), id, closed })
    }

    /// Closes one idle connection, unless one is closing already.
    fn evict_idle(&self) {
        let slots = self.slots.lock();
        if slots.by_id.values().any(|slot| slot.closed.is_cancelled()) {
            return;
        }
        let idle = slots.by_id.values().filter(|slot| slot.active_calls == 0);
        if let Some(slot) = idle.min_by_key(|slot| (slot.has_called, slot.last_active)) {
            tracing::debug!(slot.has_called, "evicted an idle connection: the connection limit is reached");
            slot.closed.cancel();
        }
    }
}

impl SlotGuard {
    /// Records that a complete call was received.
    pub(crate) fn start_call(&self) -> CallGuard {
        let mut slots = self.limiter.slots.lock();
        let clock = slots.tick();
        if let Some(slot) = slots.by_id.get_mut(&self.id) {
            (slot.last_active, slot.has_called) = (clock, true);
            slot.active_calls += 1;
        }
        CallGuard { limiter: Arc::clone(&self.limiter), id: self.id }
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut slots = self.limiter.slots.lock();
        if let Some(slot) = slots.by_id.get_mut(&self.id) {
            slot.active_calls -= 1;
        }
        // Only a client that waits for a slot needs this.
        if slots.by_id.len() >= self.limiter.limit {
            self.limiter.changed.notify_one();
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.limiter.slots.lock().by_id.remove(&self.id);
        self.limiter.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether another connection gets a slot now.
    async fn tries(limiter: &Arc<LruConnectionLimiter>) -> Option<SlotGuard> {
        tokio::select! {
            biased;
            slot = limiter.acquire() => Some(slot),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn idle_connections_are_closed_first_never_used_before_oldest() {
        let limiter = LruConnectionLimiter::new(3);
        let [old, silent, new] = [limiter.acquire().await, limiter.acquire().await, limiter.acquire().await];
        drop((old.start_call(), new.start_call()));
        let closed = || [&old, &silent, &new].map(|slot| slot.closed.is_cancelled());
        assert!(tries(&limiter).await.is_none());
        assert_eq!(closed(), [false, true, false]);
        assert!(tries(&limiter).await.is_none());
        assert_eq!(closed(), [false, true, false], "one goes for one who comes");
        drop(silent);
        let third = tries(&limiter).await.unwrap();
        let _answering = third.start_call();
        assert!(tries(&limiter).await.is_none());
        assert!(old.closed.is_cancelled() && !new.closed.is_cancelled());
    }

    #[tokio::test]
    async fn a_connection_with_a_request_in_flight_is_not_closed() {
        let limiter = LruConnectionLimiter::new(1);
        let only = limiter.acquire().await;
        let (one, two) = (only.start_call(), only.start_call());
        let mut tick = Box::pin(limiter.acquire());
        let mut waits = async || {
            tokio::select! {
                biased;
                _ = &mut tick => panic!("there is no place"),
                () = std::future::ready(()) => {}
            }
        };
        waits().await;
        drop(one);
        waits().await;
        assert!(!only.closed.is_cancelled());
        drop(two);
        waits().await;
        assert!(only.closed.is_cancelled());
        drop(only);
        drop(tick.await);
        assert!(limiter.slots.lock().by_id.is_empty());
    }
}
