//! Runs blocking code for async code, with bounded concurrency.

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

const QUICK_SLOTS: usize = 64;
const SLOW_SLOTS: usize = 4;
const SLOT_TIMEOUT: Duration = Duration::from_secs(5);

/// Expected duration of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Milliseconds: reads, writes, queries. 64 concurrent pieces of work.
    Quick,
    /// Seconds or minutes: imports, exports. 4 concurrent pieces of work, so that they do not block
    /// quick ones.
    Slow,
}

impl Lane {
    /// Every lane.
    pub const ALL: [Self; 2] = [Self::Quick, Self::Slow];
    /// Name of the lane for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Slow => "slow",
        }
    }
}

/// Why a piece of work did not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneError {
    /// No slot became free before the timeout.
    Busy {
        /// Which lane.
        lane: Lane,
        /// When to retry.
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

/// Two bounded lanes in front of tokio's blocking pool.
#[derive(Debug)]
pub struct Lanes {
    quick: LaneSlots,
    slow: LaneSlots,
    timeout: Duration,
}

#[derive(Debug)]
struct LaneSlots {
    permits: Arc<Semaphore>,
    capacity: usize,
    waiting: AtomicUsize,
}

impl LaneSlots {
    fn new(capacity: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(capacity)), capacity, waiting: AtomicUsize::new(0) }
    }
}

/// Load of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneOccupancy {
    /// Number of slots.
    pub capacity: usize,
    /// Slots in use.
    pub busy: usize,
    /// Callers that wait for a slot.
    pub waiting: usize,
}

/// Counts a caller that waits for a slot, also when the caller gives up.
struct SlotWaiter<'a>(&'a AtomicUsize);

impl<'a> SlotWaiter<'a> {
    fn at(slots: &'a LaneSlots) -> Self {
        slots.waiting.fetch_add(1, Ordering::Relaxed);
        Self(&slots.waiting)
    }
}

impl Drop for SlotWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self::new(QUICK_SLOTS, SLOW_SLOTS, SLOT_TIMEOUT)
    }
}

impl Lanes {
    /// Lanes with this many slots each, in which callers wait at most `timeout` for a slot.
    pub fn new(quick: usize, slow: usize, timeout: Duration) -> Self {
        Self { quick: LaneSlots::new(quick), slow: LaneSlots::new(slow), timeout }
    }

    const fn slots(&self, lane: Lane) -> &LaneSlots {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Slow => &self.slow,
        }
    }

    /// Current load of a lane.
    pub fn occupancy(&self, lane: Lane) -> LaneOccupancy {
        let LaneSlots { permits, capacity, waiting } = self.slots(lane);
        let busy = capacity.saturating_sub(permits.available_permits());
        LaneOccupancy { capacity: *capacity, busy, waiting: waiting.load(Ordering::Relaxed) }
    }

    /// Runs blocking `work` once a slot is free. Work that has started runs to its end and holds
    /// its slot, even when the returned future is dropped: a client that disconnects must not leave
    /// half a write.
    ///
    /// Quick work runs on the calling thread, because waking another thread and being woken takes
    /// longer than most of it. The caller's task makes no progress meanwhile; callers with a
    /// timeout use [`Lanes::run_spawned`].
    ///
    /// # Errors
    /// [`LaneError`]; only for `Panicked` can the work have had an effect.
    pub async fn run<T, W>(&self, lane: Lane, work: W) -> Result<T, LaneError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        // Only a multi-thread runtime can run other tasks without this thread.
        let is_multi_thread = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if lane == Lane::Slow || !is_multi_thread() {
            return self.run_spawned(lane, work).await;
        }
        let _permit = self.acquire_slot(lane).await?;
        tokio::task::block_in_place(|| catch_unwind(AssertUnwindSafe(work)))
            .map_err(|panic| LaneError::from_panic(&*panic))
    }

    /// Like [`Lanes::run`], but always on another thread: the returned future can be dropped while
    /// the work runs.
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

    /// Starts the work and returns a handle; the work also runs when the handle is dropped.
    ///
    /// # Errors
    /// `Busy` and `Stopped`, as [`Lanes::run`]; the handle returns the others.
    pub async fn spawn<T, W>(&self, lane: Lane, work: W) -> Result<StartedWork<T>, LaneError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let acquire_slot = self.acquire_slot(lane).await?;
        Ok(StartedWork(tokio::task::spawn_blocking(move || {
            let _permit = acquire_slot;
            work()
        })))
    }

    async fn acquire_slot(&self, lane: Lane) -> Result<OwnedSemaphorePermit, LaneError> {
        let slots = self.slots(lane);
        let _waiting = SlotWaiter::at(slots);
        tokio::time::timeout(self.timeout, Arc::clone(&slots.permits).acquire_owned())
            .await
            .map_err(|_| LaneError::Busy { lane, retry_after: self.timeout.max(Duration::from_secs(1)) })?
            .map_err(|_| LaneError::Stopped)
    }

    /// Runs blocking `work` outside the lanes. For short work that must not wait for a slot, such
    /// as reporting the load.
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

/// Work that has started; awaiting it gives its result.
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
    /// From the payload of a panic.
    pub fn from_panic(panic: &(dyn std::any::Any + Send)) -> Self {
        Self::Panicked(panic_message(panic))
    }
}

/// The message of a panic, if it has one.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
