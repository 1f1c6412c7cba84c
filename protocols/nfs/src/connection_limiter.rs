//! The connections there are, and which of them ends when one more comes and all places are taken.
//!
//! One rule: nobody keeps others out by holding connections. Of those that nothing is being done for, the one goes that never asked anything, then the
//! one whose last question is the oldest: its client makes another and asks again (RFC 1813 4.2).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The connections there are.
pub(crate) struct LruConnectionLimiter {
    most: usize,
    seats: Mutex<ConnectionSlots>,
    /// Told when a connection has ended, or may end.
    changed: Notify,
}

#[derive(Default)]
struct ConnectionSlots {
    /// Rises with everything that happens: the order of it.
    now: u64,
    taken: HashMap<u64, ConnectionSlot>,
}

struct ConnectionSlot {
    /// When it asked last, or came.
    since: u64,
    has_asked: bool,
    /// Questions that are being answered.
    questions: usize,
    gone: CancellationToken,
}

/// A connection's place; given back when it is dropped.
pub(crate) struct SlotGuard {
    crowd: Arc<LruConnectionLimiter>,
    number: u64,
    /// Cancelled when the connection must end.
    pub(crate) gone: CancellationToken,
}

/// A question that is being answered, until it is dropped: nobody takes the place of whoever asked it.
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
    /// So many at most, and none yet.
    pub(crate) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, seats: Mutex::default(), changed: Notify::new() })
    }

    /// A place for one more. Asked by one at a time, who waits while questions of all others are being answered.
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

    /// Ends one connection, unless one is ending already.
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
    /// Notes that a whole question has come.
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
        // Only who finds no place waits for that.
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

    /// Whether one more finds a place now.
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
