//! How current an answer of the index must be.
//!
//! Invariant: an answer includes every change that its own client made before, and every change of
//! other clients that was announced more than [`MAX_AGE`] ago. Requiring the newest change of all
//! clients would make each read wait for the indexer while others write.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcfs_base::{Actor, Caller, Protocol, Seq};
use svcfs_vfs::Vfs;
use svcfs_work::Signal;

/// Maximum age of missing changes of other clients. The documented limit is 500 ms; a save through
/// the mount may be queued for 50 ms before it is announced, and arrivals are recorded with a
/// resolution of [`ARRIVAL_INTERVAL`].
const MAX_AGE: Duration = Duration::from_millis(400);

/// A read waits for all changes if at most this many arrived in the last [`QUIET_PERIOD`], or if
/// only one client writes and at most [`MAX_UNREAD`] changes are not indexed. That takes one short
/// step of the indexer, and a client that searches just after another client's write finds it.
const MAX_QUIET_CHANGES: u64 = 16;
const MAX_UNREAD: u64 = 4;
const QUIET_PERIOD: Duration = Duration::from_millis(250);

/// While there are reads, the answer to a write is delayed if a change of this age is not indexed.
/// Otherwise continuous writers use all processor time, and every read waits for the index.
const MAX_LAG: Duration = Duration::from_millis(200);

/// How long after a read that applies.
const READ_PERIOD: Duration = Duration::from_secs(1);

/// Limit of concurrently delayed writes. Each uses one of the 64 places of the quick lane.
const MAX_DELAYED_WRITES: usize = 16;

const ARRIVAL_INTERVAL: Duration = Duration::from_millis(25);

/// Limit of recorded arrivals: 25 s under full load.
const MAX_ARRIVALS: usize = 1_000;

/// Limit of clients whose last change is recorded; those with all changes indexed are dropped
/// first.
const MAX_CLIENTS: usize = 4_096;

/// Identifies a client. A request may have several keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ClientKey {
    Key(u64),
    Actor(Actor),
    Connection(u64),
    /// All clients of a protocol that does not identify connections.
    Protocol(Protocol),
}

#[derive(Debug, Clone, Copy)]
struct LastChange {
    /// None while it may still be queued.
    position: Option<Seq>,
    number: u64,
}

/// Changes that were announced within one [`ARRIVAL_INTERVAL`].
#[derive(Debug, Clone, Copy)]
struct ChangeArrival {
    since: Instant,
    last: u64,
}

/// What must be indexed before a read is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequiredFreshness {
    /// Everything accepted before, including queued changes.
    Everything,
    /// The changes up to this position.
    Position(Seq),
}

/// Age of the oldest change that is not indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexAge {
    Exactly(Duration),
    AtLeast(Duration),
}

/// Tracks the last change of each client, arrivals of changes, and waiters for the index.
pub struct IndexFreshness {
    state: Mutex<FreshnessState>,
    demand: AtomicU64,
    delayed_writes: AtomicUsize,
    wake: OnceLock<Signal>,
}

struct FreshnessState {
    clients: HashMap<ClientKey, LastChange>,
    /// All reads wait for this position: clients were dropped whose changes are not indexed.
    dropped: Seq,
    changes: u64,
    arrivals: VecDeque<ChangeArrival>,
    /// The client of the newest change, and since when it is the only one.
    writer: Option<(ClientKey, Instant)>,
    last_read: Option<Instant>,
    /// The newest position before the recorded arrivals.
    last_dropped_arrival: u64,
}

impl IndexFreshness {
    pub(super) fn follow(vfs: &Vfs) -> Arc<Self> {
        let state = FreshnessState {
            clients: HashMap::new(),
            dropped: Seq(0),
            changes: 0,
            arrivals: VecDeque::new(),
            writer: None,
            last_read: None,
            last_dropped_arrival: vfs.last_seq().0,
        };
        let freshness = Arc::new(Self::new(state));
        let observer = Arc::clone(&freshness);
        vfs.on_accepted(Box::new(move |caller, position| observer.record_accepted(caller, position, Instant::now())));
        let observer = Arc::downgrade(&freshness);
        vfs.feed().on_event(move |position| {
            let observer = observer.upgrade();
            observer.iter().for_each(|observer| observer.record_arrival(position, Instant::now()));
            observer.is_some()
        });
        freshness
    }

    fn new(state: FreshnessState) -> Self {
        let (demand, delayed_writes) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { state: Mutex::new(state), demand, delayed_writes, wake: OnceLock::new() }
    }

    /// Sets the signal that wakes the indexer on demand.
    pub(crate) fn set_wake_signal(&self, signal: Signal) {
        let _ignored = self.wake.set(signal);
    }

    /// Requests that the changes up to a position are indexed without delay.
    pub(super) fn demand(&self, position: Seq) {
        self.demand.fetch_max(position.0, Ordering::AcqRel);
        self.wake.get().into_iter().for_each(Signal::raise);
    }

    /// Whether a caller waits for changes beyond a position.
    pub(crate) fn is_demanded_beyond(&self, position: Seq) -> bool {
        self.demand.load(Ordering::Acquire) > position.0
    }

    /// Whether an index that is current up to a position lacks a change of at least this age.
    pub(crate) fn is_older(&self, read: Seq, age: Duration) -> bool {
        match self.age(read.0, Instant::now()) {
            Some(IndexAge::Exactly(index_age) | IndexAge::AtLeast(index_age)) => index_age >= age,
            None => false,
        }
    }

    fn record_accepted(&self, caller: &Caller, position: Option<Seq>, now: Instant) {
        let mut state = self.state.lock();
        let connection_key = connection_key(caller);
        if state.writer.as_ref().is_none_or(|(writer, _)| *writer != connection_key) {
            state.writer = Some((connection_key, now));
        }
        state.changes += 1;
        let change = LastChange { position, number: state.changes };
        for key in keys(caller) {
            state.clients.insert(key, change);
        }
        state.prune(0);
    }

    fn record_arrival(&self, position: Seq, now: Instant) {
        let state = &mut *self.state.lock();
        match state.arrivals.back_mut() {
            Some(arrival) if now.saturating_duration_since(arrival.since) < ARRIVAL_INTERVAL => {
                arrival.last = arrival.last.max(position.0);
            }
            Some(_) | None => state.arrivals.push_back(ChangeArrival { since: now, last: position.0 }),
        }
        while state.arrivals.len() > MAX_ARRIVALS {
            state.last_dropped_arrival =
                state.arrivals.pop_front().map_or(state.last_dropped_arrival, |arrival| arrival.last);
        }
    }

    /// What a read of this caller must wait for, and the client's changes that may still be queued.
    pub(super) fn required(
        &self,
        caller: &Caller,
        (read, now): (u64, Instant),
    ) -> (RequiredFreshness, Vec<QueuedChange>) {
        let mut state = self.state.lock();
        state.last_read = Some(now);
        state.prune(read);
        let own = |key: ClientKey| state.clients.get(&key).map(|change| (key, *change));
        let own: Vec<(ClientKey, LastChange)> = keys(caller).into_iter().filter_map(own).collect();
        let queued: Vec<QueuedChange> = own
            .iter()
            .filter(|(_, change)| change.position.is_none())
            .map(|(key, change)| QueuedChange(key.clone(), change.number))
            .collect();
        if !queued.is_empty() || state.is_quiet(read, now) {
            return (RequiredFreshness::Everything, queued);
        }
        let own = own.iter().filter_map(|(_, change)| change.position).max().unwrap_or(Seq(0));
        let other_clients = Seq(state.announced_before(now.checked_sub(MAX_AGE)));
        (RequiredFreshness::Position(own.max(other_clients).max(state.dropped)), queued)
    }

    /// The position of the last announced change of this caller's client.
    pub(crate) fn last_own_change(&self, caller: &Caller) -> Seq {
        self.state.lock().last_own_change(caller)
    }

    /// What must be indexed before a write of this caller is answered, see [`MAX_LAG`]; none if it
    /// is not delayed.
    pub(super) fn delay_write(&self, caller: &Caller, (read, now): (u64, Instant)) -> Option<DelayedWrite<'_>> {
        let state = self.state.lock();
        state.last_read.filter(|last| now.saturating_duration_since(*last) < READ_PERIOD)?;
        let due = state.announced_before(now.checked_sub(MAX_LAG));
        let is_delayed = due > read && state.last_own_change(caller).0 > read;
        drop(state);
        let write = is_delayed.then(|| DelayedWrite::start(&self.delayed_writes, Seq(due)))?;
        (write.number <= MAX_DELAYED_WRITES).then_some(write)
    }

    /// Records the position of changes that were queued and are announced now.
    pub(super) fn record_announced(&self, queued: Vec<QueuedChange>, position: Seq) {
        let mut state = self.state.lock();
        for QueuedChange(key, number) in queued {
            if let Some(change) = state.clients.get_mut(&key).filter(|change| change.number == number) {
                change.position = Some(position);
            }
        }
    }

    /// The age of the oldest change after a position; none if there is none.
    pub(super) fn age(&self, read: u64, now: Instant) -> Option<IndexAge> {
        let state = self.state.lock();
        let arrival = state.arrivals.iter().find(|arrival| arrival.last > read)?;
        let age = now.saturating_duration_since(arrival.since);
        Some(if state.last_dropped_arrival > read { IndexAge::AtLeast(age) } else { IndexAge::Exactly(age) })
    }
}

/// A write whose answer is delayed until a position is indexed.
pub(super) struct DelayedWrite<'f> {
    pub(super) position: Seq,
    number: usize,
    count: &'f AtomicUsize,
}

impl<'f> DelayedWrite<'f> {
    fn start(count: &'f AtomicUsize, position: Seq) -> Self {
        Self { position, number: count.fetch_add(1, Ordering::Relaxed) + 1, count }
    }
}

impl Drop for DelayedWrite<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A change that may still be queued: the client and its number.
pub(super) struct QueuedChange(ClientKey, u64);

impl FreshnessState {
    /// Bounds the number of clients: drops those whose changes are indexed, then all if needed.
    fn prune(&mut self, read: u64) {
        if self.clients.len() <= MAX_CLIENTS {
            return;
        }
        self.clients.retain(|_, change| change.position.is_none_or(|position| position.0 > read));
        if self.clients.len() > MAX_CLIENTS {
            let newest = self.clients.values().filter_map(|change| change.position).max();
            self.dropped = self.dropped.max(newest.unwrap_or(Seq(0)));
            self.clients.clear();
        }
    }

    fn last_own_change(&self, caller: &Caller) -> Seq {
        let positions = keys(caller).into_iter().filter_map(|key| self.clients.get(&key)?.position);
        positions.max().unwrap_or(Seq(0))
    }

    /// The newest position announced at or before a time.
    fn announced_before(&self, time: Option<Instant>) -> u64 {
        let is_before = |arrival: &&ChangeArrival| time.is_some_and(|time| arrival.since <= time);
        self.arrivals.iter().rev().find(is_before).map_or(self.last_dropped_arrival, |arrival| arrival.last)
    }

    fn is_quiet(&self, read: u64, now: Instant) -> bool {
        let newest = self.arrivals.back().map_or(self.last_dropped_arrival, |arrival| arrival.last);
        let start = now.checked_sub(QUIET_PERIOD);
        let is_long_ago = |since: Instant| start.is_some_and(|start| since <= start);
        let has_one_writer = self.writer.as_ref().is_some_and(|(_, since)| is_long_ago(*since));
        newest.saturating_sub(self.announced_before(start)) <= MAX_QUIET_CHANGES
            || has_one_writer && newest.saturating_sub(read) <= MAX_UNREAD
    }
}

fn connection_key(caller: &Caller) -> ClientKey {
    caller.client.connection.map_or(ClientKey::Protocol(caller.protocol), ClientKey::Connection)
}

fn keys(caller: &Caller) -> Vec<ClientKey> {
    let mut keys = vec![connection_key(caller)];
    keys.extend(caller.client.key.map(ClientKey::Key));
    keys.extend(caller.actor.clone().map(ClientKey::Actor));
    keys
}

#[cfg(test)]
mod tests;
