//! The claims of a space in memory, and their durable copy.
//!
//! Invariant: a change is visible to checks before it is durable, and acknowledged after. Changes
//! that wait at the same time share one flush, in the order in which they became visible.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex, RwLock};
use svcfs_base::{Claim, Fault, Timestamp, TreePath};
use svcfs_store::{ClaimFile, ClaimWrite, StatePaths, StoredClaims};

/// Number of events that a follower may be behind.
const MAX_EVENTS: usize = 4096;

/// What happened to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimEventKind {
    /// It started, or was renewed.
    Claim,
    /// Its holder released it.
    Release,
    /// Its lease ended.
    Expire,
}

impl ClaimEventKind {
    /// The name in the event stream.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Expire => "expire",
        }
    }
}

/// A change of a claim, as followers see it. Not logged: it is lost with the process.
#[derive(Debug, Clone)]
pub struct ClaimEvent {
    /// Its number in this process, from 1.
    pub number: u64,
    /// What happened.
    pub kind: ClaimEventKind,
    /// When it happened.
    pub time: Timestamp,
    /// The claim.
    pub claim: Claim,
}

type EventWaker = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// The outcome of the transaction that contains a change.
pub(crate) type WriteOutcome = Arc<OnceLock<Result<(), String>>>;

pub(crate) struct ClaimRegistry {
    file: ClaimFile,
    /// Number of claims: often none, which is checked without a lock.
    count: AtomicUsize,
    state: Mutex<ClaimState>,
    written: Condvar,
    wakers: RwLock<Vec<EventWaker>>,
}

struct ClaimState {
    by_path: BTreeMap<TreePath, Claim>,
    /// The same claims, by the end of their lease.
    by_expiry: BTreeSet<(Timestamp, TreePath)>,
    last_fence: u64,
    /// Changes for the next transaction, and its outcome.
    pending: (Vec<ClaimWrite>, WriteOutcome),
    is_writing: bool,
    events: VecDeque<Arc<ClaimEvent>>,
    last_event: u64,
}

impl ClaimState {
    fn insert(&mut self, claim: Claim) {
        self.remove(&claim.path);
        self.last_fence = self.last_fence.max(claim.fence);
        self.by_expiry.insert((claim.expires_at, claim.path.clone()));
        self.by_path.insert(claim.path.clone(), claim);
    }
    fn remove(&mut self, path: &TreePath) {
        if let Some(claim) = self.by_path.remove(path) {
            self.by_expiry.remove(&(claim.expires_at, claim.path));
        }
    }
}

impl ClaimRegistry {
    pub(crate) fn open(paths: &StatePaths) -> Result<Self, Fault> {
        let (file, StoredClaims { claims, last_fence }) = ClaimFile::open(&paths.claims())?;
        let count = AtomicUsize::new(claims.len());
        let (by_path, by_expiry, pending, is_writing, events, last_event) = Default::default();
        let mut state = ClaimState { by_path, by_expiry, last_fence, pending, is_writing, events, last_event };
        claims.into_iter().for_each(|claim| state.insert(claim));
        Ok(Self { file, count, state: Mutex::new(state), written: Condvar::new(), wakers: RwLock::default() })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The claim of a page, lapsed or not.
    pub(super) fn at(&self, path: &TreePath) -> Option<Claim> {
        if self.is_empty() { None } else { self.state.lock().by_path.get(path).cloned() }
    }

    /// The claims at and below a path, lapsed ones included.
    pub(super) fn below(&self, path: &TreePath) -> Vec<Claim> {
        if self.is_empty() {
            return Vec::new();
        }
        let state = self.state.lock();
        if path.is_root() {
            return state.by_path.values().cloned().collect();
        }
        // Names such as `a-b` sort between `a` and `a/b`.
        let from = state.by_path.range(path.clone()..);
        let prefixed = from.take_while(|(claimed, _)| claimed.as_str().starts_with(path.as_str()));
        prefixed.filter(|(claimed, _)| claimed.is_under(path)).map(|(_, claim)| claim.clone()).collect()
    }

    /// The claims whose lease has ended, the longest ago first.
    pub(super) fn lapsed(&self, now: Timestamp) -> Vec<Claim> {
        let state = self.state.lock();
        let lapsed = state.by_expiry.iter().take_while(|(expires_at, _)| *expires_at <= now);
        lapsed.filter_map(|(_, path)| state.by_path.get(path).cloned()).collect()
    }

    /// Changes the claim of a page in memory only: `change` gets the present one and a new fence
    /// number, and returns the new one, or why not. Returns the claim before.
    pub(super) fn update<E>(
        &self,
        path: &TreePath,
        change: impl FnOnce(Option<&Claim>, u64) -> Result<Option<Claim>, E>,
    ) -> Result<Option<Claim>, E> {
        self.change(&mut self.state.lock(), path, change)
    }

    /// As [`update`](Self::update), and adds the change to the next transaction.
    pub(super) fn update_durably<E>(
        &self,
        path: &TreePath,
        change: impl FnOnce(Option<&Claim>, u64) -> Result<Option<Claim>, E>,
    ) -> Result<(Option<Claim>, WriteOutcome), E> {
        let mut state = self.state.lock();
        let before = self.change(&mut state, path, change)?;
        let write = match state.by_path.get(path) {
            Some(claim) => ClaimWrite::Put(claim.clone()),
            None => ClaimWrite::Remove(path.clone()),
        };
        state.pending.0.push(write);
        Ok((before, Arc::clone(&state.pending.1)))
    }

    fn change<E>(
        &self,
        state: &mut ClaimState,
        path: &TreePath,
        change: impl FnOnce(Option<&Claim>, u64) -> Result<Option<Claim>, E>,
    ) -> Result<Option<Claim>, E> {
        let new_fence = state.last_fence + 1;
        let before = state.by_path.get(path).cloned();
        match change(before.as_ref(), new_fence)? {
            Some(claim) => state.insert(claim),
            None => state.remove(path),
        }
        self.count.store(state.by_path.len(), Ordering::Relaxed);
        Ok(before)
    }

    /// Waits until a transaction is durable; the first waiter writes it.
    ///
    /// # Errors
    /// `Unavailable` when the disk refused it; its changes are undone then.
    pub(super) fn wait(&self, outcome: &WriteOutcome) -> Result<(), Fault> {
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = outcome.get() {
                let to_fault = |error| Fault::unavailable(format!("the claim could not be stored: {error}"));
                return outcome.clone().map_err(to_fault);
            }
            if state.is_writing {
                self.written.wait(&mut state);
                continue;
            }
            state.is_writing = true;
            let (writes, batch) = std::mem::take(&mut state.pending);
            drop(state);
            let result = self.file.write(&writes).map_err(|error| error.to_string());
            state = self.state.lock();
            state.is_writing = false;
            if let Err(error) = &result {
                self.revert(&mut state, error);
            }
            let _only_here = batch.set(result);
            self.written.notify_all();
        }
    }

    /// After a failed write: what the file has is valid again, and changes made since then fail.
    fn revert(&self, state: &mut ClaimState, error: &str) {
        tracing::error!(error, "claims could not be stored");
        let (_, batch) = std::mem::take(&mut state.pending);
        let _only_here = batch.set(Err(error.to_owned()));
        if let Ok(stored) = self.file.read() {
            (state.by_path, state.by_expiry) = Default::default();
            stored.claims.into_iter().for_each(|claim| state.insert(claim));
            self.count.store(state.by_path.len(), Ordering::Relaxed);
        }
    }

    pub(super) fn announce(&self, kind: ClaimEventKind, time: Timestamp, claim: Claim) {
        let number = {
            let mut state = self.state.lock();
            state.last_event += 1;
            let number = state.last_event;
            state.events.push_back(Arc::new(ClaimEvent { number, kind, time, claim }));
            if state.events.len() > MAX_EVENTS {
                state.events.pop_front();
            }
            number
        };
        self.wakers.write().retain(|wake| wake(number));
    }

    pub(super) fn last_event(&self) -> u64 {
        self.state.lock().last_event
    }

    pub(super) fn events_after(&self, number: u64) -> (Vec<Arc<ClaimEvent>>, bool) {
        let state = self.state.lock();
        let first = state.events.front().map_or(state.last_event + 1, |event| event.number);
        let events = state.events.iter().filter(|event| event.number > number).cloned().collect();
        (events, first > number + 1)
    }

    pub(super) fn on_event(&self, wake: EventWaker) {
        self.wakers.write().push(wake);
    }
}
