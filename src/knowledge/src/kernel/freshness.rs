//! How fresh an answer of the index must be.
//!
//! Invariant: an answer has every change that its own client made before it asked, and every change of other clients that was announced
//! more than [`MAX_AGE`] before. Were it to have the newest change of everybody, each question would wait for a pass of the indexer while
//! others write.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcfs_base::{Actor, Caller, Protocol, Seq};
use svcfs_vfs::Vfs;
use svcfs_work::Signal;

/// How old an answer may be for a client that changed nothing itself. 500 ms are promised; a save through the mount may be queued for
/// 50 ms before it is announced, and arrivals are measured to [`INTERVAL`].
const MAX_AGE: Duration = Duration::from_millis(400);

/// A question waits for all changes while at most so many came in the last [`QUIET_PERIOD`], or while only one client writes and the index
/// lacks at most [`FEW_UNREAD`] changes: that takes one short pass of the indexer, and a client that searches behind another one's write finds it.
const QUIET_CHANGES: u64 = 16;
const FEW_UNREAD: u64 = 4;
const QUIET_PERIOD: Duration = Duration::from_millis(250);

/// While questions are asked, the answer to a write waits when the index lacks a change of this age. Writers that never pause take all
/// processor time otherwise, the index falls behind, and every question waits for it.
const MAX_LAG: Duration = Duration::from_millis(200);

/// How long after a question that applies.
const QUESTION_PERIOD: Duration = Duration::from_secs(1);

/// Writes that wait at once. Each has one of the 64 places for quick requests.
const MAX_DELAYED_WRITES: usize = 16;

/// Arrivals that are closer together are recorded as one.
const INTERVAL: Duration = Duration::from_millis(25);

/// Arrivals that are recorded: 25 s of a flood.
const MAX_ARRIVALS: usize = 1_000;

/// Clients whose last change is recorded; those whose changes the index has read are dropped first.
const MAX_CLIENTS: usize = 4_096;

/// What tells one client from another. One request may have several of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ClientKey {
    Key(u64),
    Actor(Actor),
    Connection(u64),
    /// All clients of a protocol that tells no connections.
    Door(Protocol),
}

/// The last change of a client.
#[derive(Debug, Clone, Copy)]
struct LastChange {
    /// None while it may still be queued.
    position: Option<Seq>,
    /// Tells it from a later one.
    number: u64,
}

/// Changes that were announced within one [`INTERVAL`].
#[derive(Debug, Clone, Copy)]
struct ChangeArrival {
    since: Instant,
    /// The newest of them.
    last: u64,
}

/// What a question must wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequiredFreshness {
    /// Everything that was accepted before it, what is queued included.
    Everything,
    /// The changes up to this position.
    Position(Seq),
}

/// How old an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexAge {
    Exactly(Duration),
    AtLeast(Duration),
}

/// The last change of each client, when changes came in, and who waits for the index.
pub struct IndexFreshness {
    state: Mutex<FreshnessState>,
    /// The highest position that somebody waits for.
    demand: AtomicU64,
    /// Writes whose answers wait.
    delayed_writes: AtomicUsize,
    /// Wakes the indexer.
    wake: OnceLock<Signal>,
}

struct FreshnessState {
    clients: HashMap<ClientKey, LastChange>,
    /// Everybody waits for this: clients were dropped whose changes the index has not read.
    dropped: Seq,
    changes: u64,
    arrivals: VecDeque<ChangeArrival>,
    /// The client of the newest change, and when a change of another client came last.
    writer: Option<(ClientKey, Instant)>,
    last_question: Option<Instant>,
    /// The newest position before the recorded arrivals.
    before: u64,
}

impl IndexFreshness {
    /// Follows the changes of a tree.
    pub(super) fn follow(vfs: &Vfs) -> Arc<Self> {
        let state = FreshnessState {
            clients: HashMap::new(),
            dropped: Seq(0),
            changes: 0,
            arrivals: VecDeque::new(),
            writer: None,
            last_question: None,
            before: vfs.last_seq().0,
        };
        let freshness = Arc::new(Self::new(state));
        let observer = Arc::clone(&freshness);
        vfs.on_accepted(Box::new(move |caller, position| observer.accepted(caller, position, Instant::now())));
        let observer = Arc::downgrade(&freshness);
        vfs.feed().on_event(move |position| {
            let observer = observer.upgrade();
            observer.iter().for_each(|observer| observer.arrived(position, Instant::now()));
            observer.is_some()
        });
        freshness
    }

    fn new(state: FreshnessState) -> Self {
        let (demand, delayed_writes) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { state: Mutex::new(state), demand, delayed_writes, wake: OnceLock::new() }
    }

    /// Has this signal wake the indexer when somebody waits for it.
    pub(crate) fn woken_by(&self, signal: Signal) {
        let _only_the_first = self.wake.set(signal);
    }

    /// Has the indexer read the changes up to a position without delay.
    pub(super) fn demand(&self, position: Seq) {
        self.demand.fetch_max(position.0, Ordering::AcqRel);
        self.wake.get().into_iter().for_each(Signal::raise);
    }

    /// Whether somebody waits for changes beyond a position.
    pub(crate) fn is_demanded_beyond(&self, position: Seq) -> bool {
        self.demand.load(Ordering::Acquire) > position.0
    }

    /// Whether an index that has read up to a position lacks a change of at least this age.
    pub(crate) fn is_older(&self, read: Seq, age: Duration) -> bool {
        match self.age(read.0, Instant::now()) {
            Some(IndexAge::Exactly(found) | IndexAge::AtLeast(found)) => found >= age,
            None => false,
        }
    }

    fn accepted(&self, caller: &Caller, position: Option<Seq>, now: Instant) {
        let mut state = self.state.lock();
        let place = place(caller);
        if state.writer.as_ref().is_none_or(|(writer, _)| *writer != place) {
            state.writer = Some((place, now));
        }
        state.changes += 1;
        let change = LastChange { position, number: state.changes };
        for key in keys(caller) {
            state.clients.insert(key, change);
        }
        state.prune(0);
    }

    fn arrived(&self, position: Seq, now: Instant) {
        let state = &mut *self.state.lock();
        match state.arrivals.back_mut() {
            Some(arrival) if now.saturating_duration_since(arrival.since) < INTERVAL => {
                arrival.last = arrival.last.max(position.0);
            }
            Some(_) | None => state.arrivals.push_back(ChangeArrival { since: now, last: position.0 }),
        }
        while state.arrivals.len() > MAX_ARRIVALS {
            state.before = state.arrivals.pop_front().map_or(state.before, |arrival| arrival.last);
        }
    }

    /// What a question of this caller must wait for, and the changes of theirs that may still be queued.
    pub(super) fn required(
        &self,
        caller: &Caller,
        (read, now): (u64, Instant),
    ) -> (RequiredFreshness, Vec<QueuedChange>) {
        let mut state = self.state.lock();
        state.last_question = Some(now);
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
        let others = Seq(state.announced_before(now.checked_sub(MAX_AGE)));
        (RequiredFreshness::Position(own.max(others).max(state.dropped)), queued)
    }

    /// The position of the last change of this caller's client that is known to be announced.
    pub(super) fn own(&self, caller: &Caller) -> Seq {
        self.state.lock().own(caller)
    }

    /// What the index must read before a write of this caller is answered, see [`MAX_LAG`]; none when it is answered at once.
    pub(super) fn delay(&self, caller: &Caller, (read, now): (u64, Instant)) -> Option<DelayedWrite<'_>> {
        let state = self.state.lock();
        state.last_question.filter(|last| now.saturating_duration_since(*last) < QUESTION_PERIOD)?;
        let due = state.announced_before(now.checked_sub(MAX_LAG));
        let is_delayed = due > read && state.own(caller).0 > read;
        drop(state);
        let delay = is_delayed.then(|| DelayedWrite::begin(&self.delayed_writes, Seq(due)))?;
        (delay.number <= MAX_DELAYED_WRITES).then_some(delay)
    }

    /// Records that what was queued is announced by now.
    pub(super) fn announced(&self, queued: Vec<QueuedChange>, position: Seq) {
        let mut state = self.state.lock();
        for QueuedChange(key, number) in queued {
            if let Some(change) = state.clients.get_mut(&key).filter(|change| change.number == number) {
                change.position = Some(position);
            }
        }
    }

    /// How old the oldest change is that an index has not read which has read up to a position; none when it has read all of them.
    pub(super) fn age(&self, read: u64, now: Instant) -> Option<IndexAge> {
        let state = self.state.lock();
        let arrival = state.arrivals.iter().find(|arrival| arrival.last > read)?;
        let age = now.saturating_duration_since(arrival.since);
        Some(if state.before > read { IndexAge::AtLeast(age) } else { IndexAge::Exactly(age) })
    }
}

/// A write whose answer waits until the index has read up to a position.
pub(super) struct DelayedWrite<'f> {
    pub(super) position: Seq,
    /// How many wait, this one included.
    number: usize,
    count: &'f AtomicUsize,
}

impl<'f> DelayedWrite<'f> {
    fn begin(count: &'f AtomicUsize, position: Seq) -> Self {
        Self { position, number: count.fetch_add(1, Ordering::Relaxed) + 1, count }
    }
}

impl Drop for DelayedWrite<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A change that may still be queued: whose, and which.
pub(super) struct QueuedChange(ClientKey, u64);

impl FreshnessState {
    /// Bounds the number of clients: drops those whose changes the index has read, and all of them where that is not enough.
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

    /// See [`Freshness::own`].
    fn own(&self, caller: &Caller) -> Seq {
        let own = keys(caller).into_iter().filter_map(|key| self.clients.get(&key)?.position);
        own.max().unwrap_or(Seq(0))
    }

    /// The newest position that was announced at or before a moment.
    fn announced_before(&self, moment: Option<Instant>) -> u64 {
        let is_before = |arrival: &&ChangeArrival| moment.is_some_and(|moment| arrival.since <= moment);
        self.arrivals.iter().rev().find(is_before).map_or(self.before, |arrival| arrival.last)
    }

    fn is_quiet(&self, read: u64, now: Instant) -> bool {
        let newest = self.arrivals.back().map_or(self.before, |arrival| arrival.last);
        let begin = now.checked_sub(QUIET_PERIOD);
        let is_lone = |since: Instant| begin.is_some_and(|begin| since <= begin);
        let has_one_writer = self.writer.as_ref().is_some_and(|(_, since)| is_lone(*since));
        newest.saturating_sub(self.announced_before(begin)) <= QUIET_CHANGES
            || has_one_writer && newest.saturating_sub(read) <= FEW_UNREAD
    }
}

/// The connection of a caller.
fn place(caller: &Caller) -> ClientKey {
    caller.client.connection.map_or(ClientKey::Door(caller.protocol), ClientKey::Connection)
}

fn keys(caller: &Caller) -> Vec<ClientKey> {
    let mut keys = vec![place(caller)];
    keys.extend(caller.client.key.map(ClientKey::Key));
    keys.extend(caller.actor.clone().map(ClientKey::Actor));
    keys
}

#[cfg(test)]
mod tests;
