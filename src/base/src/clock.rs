//! The clock, passed as a parameter.

use std::sync::atomic::{AtomicI64, Ordering};

/// A time with nanosecond precision; written as RFC 3339 in UTC.
pub type Timestamp = jiff::Timestamp;

/// Source of the current time; only the daemon chooses one.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A test clock that advances one second with each reading, so that snapshots show the order.
#[derive(Debug)]
pub struct FrozenClock(AtomicI64);

impl FrozenClock {
    /// Starts at a time, in seconds since 1970.
    pub const fn starting_at(seconds: i64) -> Self {
        Self(AtomicI64::new(seconds))
    }
}

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.fetch_add(1, Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }
}
