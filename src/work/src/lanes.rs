//! The way from an async door into blocking code.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

const QUICK_PLACES: usize = 64;
const SLOW_PLACES: usize = 4;
const PATIENCE: Duration = Duration::from_secs(5);

/// How much time a piece of work may be expected to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Milliseconds: reads, writes, queries. 64 at once.
    Quick,
    /// Seconds or minutes: imports, exports. 4 at once, so that they cannot crowd out the quick ones.
    Slow,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 2] = [Self::Quick, Self::Slow];
    /// The lane in a word, for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Slow => "slow",
        }
    }
}

/// Why a piece of work did not run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneError {
    /// Every place was taken for longer than callers are kept waiting.
    Busy {
        /// Which lane.
        lane: Lane,
        /// When to try again.
        retry_after: Duration,
    },
    /// The work panicked, with this message.
    Panicked(String),
    /// The runtime is shutting down.
    Stopped,
}

impl fmt::Display for LaneError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { retry_after, .. } => {
                write!(formatter, "the server is busy; try again in {} s", retry_after.as_secs())
            }
            Self::Panicked(message) => write!(formatter, "panicked: {message}"),
            Self::Stopped => formatter.write_str("the server is stopping"),
        }
    }
}

impl std::error::Error for LaneError {}

/// Two bounded lanes onto tokio's blocking pool.
#[derive(Debug)]
pub struct Lanes {
    quick: LaneSlots,
    slow: LaneSlots,
    patience: Duration,
}

#[derive(Debug)]
struct LaneSlots {
    free: Arc<Semaphore>,
    all: usize,
    waiting: AtomicUsize,
}

impl LaneSlots {
    fn new(all: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all)), all, waiting: AtomicUsize::new(0) }
    }
}

/// How full a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneOccupancy {
    /// Pieces of work at once, at most.
    pub capacity: usize,
    /// Pieces of work that run.
    pub busy: usize,
    /// Callers that wait for a place.
    pub waiting: usize,
}

/// One who waits for a place, for as long as they do; also when they give up.
struct SlotWaiter<'a>(&'a AtomicUsize);

impl<'a> SlotWaiter<'a> {
    fn at(places: &'a LaneSlots) -> Self {
        places.waiting.fetch_add(1, Ordering::Relaxed);
        Self(&places.waiting)
    }
}

impl Drop for SlotWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self::new(QUICK_PLACES, SLOW_PLACES, PATIENCE)
    }
}

impl Lanes {
    /// Lanes with this many places each, in which nobody waits for a place longer than `patience`.
    pub fn new(quick: usize, slow: usize, patience: Duration) -> Self {
        Self { quick: LaneSlots::new(quick), slow: LaneSlots::new(slow), patience }
    }

    const fn places(&self, lane: Lane) -> &LaneSlots {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Slow => &self.slow,
        }
    }

    /// How full a lane is at this moment.
    pub fn occupancy(&self, lane: Lane) -> LaneOccupancy {
        let LaneSlots { free, all, waiting } = self.places(lane);
        let busy = all.saturating_sub(free.available_permits());
        LaneOccupancy { capacity: *all, busy, waiting: waiting.load(Ordering::Relaxed) }
    }

    /// Runs blocking `work` once a place is free. Work that has begun runs to its end, and keeps its place, even when the
    /// returned future is dropped (a client that went away must not leave half a write).
    ///
    /// What is quick is done by the thread that asks: to wake another and to be woken by it takes longer than most of it. The
    /// caller's task does nothing else meanwhile, so that whoever watches the time asks [`Lanes::watched`].
    ///
    /// # Errors
    /// [`LaneError`]; only for `Panicked` can the work have had an effect.
    pub async fn run<T, W>(&self, lane: Lane, work: W) -> Result<T, LaneError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        // Only there can others of the runtime go on without this thread.
        let has_others = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if lane == Lane::Slow || !has_others() {
            return self.run_spawned(lane, work).await;
        }
        let _held_to_the_end = self.place(lane).await?;
        tokio::task::block_in_place(|| catch_unwind(AssertUnwindSafe(work)))
            .map_err(|panic| LaneError::from_panic(&*panic))
    }

    /// The same, always by another thread: the returned future can be given up while the work runs.
    ///
    /// # Errors
    /// As [`Lanes::run`].
    pub async fn run_spawned<T, W>(&self, lane: Lane, work: W) -> Result<T, LaneError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        self.spawn(lane, work).await?.await
    }

    /// The same, without waiting for its end: it runs while the caller does something else, also when the returned handle is dropped.
    ///
    /// # Errors
    /// `Busy` and `Stopped`, as [`Lanes::run`]; the handle has the others.
    pub async fn spawn<T, W>(&self, lane: Lane, work: W) -> Result<StartedWork<T>, LaneError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let place = self.place(lane).await?;
        Ok(StartedWork(tokio::task::spawn_blocking(move || {
            let _held_to_the_end = place;
            work()
        })))
    }

    async fn place(&self, lane: Lane) -> Result<OwnedSemaphorePermit, LaneError> {
        let places = self.places(lane);
        let _waiting = SlotWaiter::at(places);
        tokio::time::timeout(self.patience, Arc::clone(&places.free).acquire_owned())
            .await
            .map_err(|_| LaneError::Busy { lane, retry_after: self.patience.max(Duration::from_secs(1)) })?
            .map_err(|_| LaneError::Stopped)
    }

    /// Runs blocking `work` beside the lanes. For what is short and must not wait for them, such as telling how full they are.
    ///
    /// # Errors
    /// [`LaneError`], never `Busy`.
    pub async fn run_unbounded<T, W>(work: W) -> Result<T, LaneError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        StartedWork(tokio::task::spawn_blocking(work)).await
    }
}

/// Work that has begun; awaited, its outcome.
#[derive(Debug)]
pub struct StartedWork<T>(JoinHandle<T>);

impl<T> Future for StartedWork<T> {
    type Output = Result<T, LaneError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map_err(|error| match error.try_into_panic() {
            Ok(panic) => LaneError::from_panic(&*panic),
            Err(_) => LaneError::Stopped,
        })
    }
}

impl LaneError {
    /// Of what a thread panicked with.
    pub fn from_panic(panic: &(dyn std::any::Any + Send)) -> Self {
        Self::Panicked(panic_message(panic))
    }
}

/// What a panic said, if it said anything.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
