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

/// Connection limiter with LRU eviction.
pub(crate) struct LruConnectionLimiter {
    most: usize,
    seats: Mutex<ConnectionSlots>,
    /// Notified when a connection has ended or has become idle.
    changed: Notify,
}

#[derive(Default)]
struct ConnectionSlots {
    /// Logical clock: rises with each connection and each call.
    now: u64,
    taken: HashMap<u64, ConnectionSlot>,
}

struct ConnectionSlot {
    /// Time of the last call, or of the connect.
    since: u64,
    has_asked: bool,
    /// Calls in progress.
    questions: usize,
    gone: CancellationToken,
}

/// The slot of a connection, released on drop.
pub(crate) struct SlotGuard {
    crowd: Arc<LruConnectionLimiter>,
    number: u64,
    /// Cancelled when the connection must close.
    pub(crate) gone: CancellationToken,
}

/// A call in progress: until it is dropped, its connection is not evicted.
pub(crate) struct CallGuard {
    crowd: Arc<LruConnectionLimiter>,
    number: u64,
}

impl ConnectionSlots {
    fn next(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

impl LruConnectionLimiter {
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, seats: Mutex::default(), changed: Notify::new() })
    }

    /// Acquires a slot. One task at a time calls this; it waits while all other connections have
    /// calls in progress.
    pub(crate) async fn place(self: &Arc<Self>) -> SlotGuard {
        loop {
            if let Some(place) = self.free() {
                return place;
            }
            self.make_room();
            self.changed.notified().await;
        }
    }

    fn free(self: &Arc<Self>) -> Option<SlotGuard> {
        let mut seats = self.seats.lock();
        if seats.taken.len() >= self.most {
            return None;
        }
        let (number, gone) = (seats.next(), CancellationToken::new());
        let seat = ConnectionSlot { since: number, has_asked: false, questions: 0, gone: gone.clone() };
        seats.taken.insert(number, seat);
        Some(SlotGuard { crowd: Arc::clone(self), number, gone })
    }

    /// Closes one idle connection, unless one is closing already.
    fn make_room(&self) {
        let seats = self.seats.lock();
        if seats.taken.values().any(|seat| seat.gone.is_cancelled()) {
            return;
        }
        let resting = seats.taken.values().filter(|seat| seat.questions == 0);
        if let Some(seat) = resting.min_by_key(|seat| (seat.has_asked, seat.since)) {
            tracing::debug!(seat.has_asked, "a connection is ended for another one: all places are taken");
            seat.gone.cancel();
        }
    }
}

impl SlotGuard {
    /// Records that a complete call was received.
    pub(crate) fn asks(&self) -> CallGuard {
        let mut seats = self.crowd.seats.lock();
        let now = seats.next();
        if let Some(seat) = seats.taken.get_mut(&self.number) {
            (seat.since, seat.has_asked) = (now, true);
            seat.questions += 1;
        }
        CallGuard { crowd: Arc::clone(&self.crowd), number: self.number }
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut seats = self.crowd.seats.lock();
        if let Some(seat) = seats.taken.get_mut(&self.number) {
            seat.questions -= 1;
        }
        // Only a client that waits for a slot needs this.
        if seats.taken.len() >= self.crowd.most {
            self.crowd.changed.notify_one();
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.crowd.seats.lock().taken.remove(&self.number);
        self.crowd.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether another connection gets a slot now.
    async fn tries(crowd: &Arc<LruConnectionLimiter>) -> Option<SlotGuard> {
        tokio::select! {
            biased;
            place = crowd.place() => Some(place),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn whoever_never_asked_goes_first_and_then_who_asked_longest_ago() {
        let crowd = LruConnectionLimiter::of(3);
        let [old, silent, new] = [crowd.place().await, crowd.place().await, crowd.place().await];
        drop((old.asks(), new.asks()));
        let gone = || [&old, &silent, &new].map(|place| place.gone.is_cancelled());
        assert!(tries(&crowd).await.is_none());
        assert_eq!(gone(), [false, true, false]);
        assert!(tries(&crowd).await.is_none());
        assert_eq!(gone(), [false, true, false], "one goes for one who comes");
        drop(silent);
        let third = tries(&crowd).await.unwrap();
        let _answering = third.asks();
        assert!(tries(&crowd).await.is_none());
        assert!(old.gone.is_cancelled() && !new.gone.is_cancelled());
    }

    #[tokio::test]
    async fn nobody_goes_whose_question_is_being_answered_until_it_is() {
        let crowd = LruConnectionLimiter::of(1);
        let only = crowd.place().await;
        let (one, two) = (only.asks(), only.asks());
        let mut next = Box::pin(crowd.place());
        let mut waits = async || {
            tokio::select! {
                biased;
                _ = &mut next => panic!("there is no place"),
                () = std::future::ready(()) => {}
            }
        };
        waits().await;
        drop(one);
        waits().await;
        assert!(!only.gone.is_cancelled());
        drop(two);
        waits().await;
        assert!(only.gone.is_cancelled());
        drop(only);
        drop(next.await);
        assert!(crowd.seats.lock().taken.is_empty());
    }
}
