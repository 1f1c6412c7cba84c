//! The way from an async door into blocking code.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

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
    quick: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Lanes {
    fn default() -> Self {
        Self::new(QUICK_PLACES, SLOW_PLACES, PATIENCE)
    }
}

impl Lanes {
    /// Lanes with this many places each, in which nobody waits for a place longer than `patience`.
    pub fn new(quick: usize, slow: usize, patience: Duration) -> Self {
        Self { quick: Arc::new(Semaphore::new(quick)), slow: Arc::new(Semaphore::new(slow)), patience }
    }

    /// Runs blocking `work` once a place is free. Work that has begun runs to its end, and keeps its place, even when the
    /// returned future is dropped (a client that went away must not leave half a write).
    ///
    /// # Errors
    /// [`LaneError`]; only for `Panicked` can the work have had an effect.
    pub async fn run<T, W>(&self, lane: Lane, work: W) -> Result<T, LaneError>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let places = match lane {
            Lane::Quick => &self.quick,
            Lane::Slow => &self.slow,
        };
        let place = tokio::time::timeout(self.patience, Arc::clone(places).acquire_owned())
            .await
            .map_err(|_| LaneError::Busy { lane, retry_after: self.patience.max(Duration::from_secs(1)) })?
            .map_err(|_| LaneError::Stopped)?;
        let outcome = tokio::task::spawn_blocking(move || {
            let _held_to_the_end = place;
            work()
        })
        .await;
        outcome.map_err(|error| match error.try_into_panic() {
            Ok(panic) => LaneError::Panicked(panic_message(&*panic)),
            Err(_) => LaneError::Stopped,
        })
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
