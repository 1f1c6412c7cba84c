//! Time, passed in.

use std::sync::atomic::{AtomicI64, Ordering};

/// A moment, to the nanosecond; written as RFC 3339 in UTC.
pub type Timestamp = jiff::Timestamp;

/// Where the present moment comes from; only the daemon chooses.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock for tests: one second later at each reading, so that order shows in snapshots.
#[derive(Debug)]
pub struct FrozenClock(AtomicI64);

impl FrozenClock {
    /// Starts at a moment, in seconds since 1970.
    pub const fn starting_at(seconds: i64) -> Self {
        Self(AtomicI64::new(seconds))
    }
}

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.fetch_add(1, Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }
}
