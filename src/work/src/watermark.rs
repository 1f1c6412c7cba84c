//! A progress counter that threads can wait on.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A monotonic number, such as the log position that a follower has reached.
#[derive(Debug, Default)]
pub struct Watermark {
    level: Mutex<u64>,
    raised: Condvar,
}

impl Watermark {
    /// A watermark at `level`.
    pub const fn new(level: u64) -> Self {
        Self { level: Mutex::new(level), raised: Condvar::new() }
    }
    /// The present level.
    pub fn level(&self) -> u64 {
        *self.level.lock()
    }
    /// Raises the level and wakes the threads that wait for it; a lower number changes nothing.
    pub fn advance(&self, level: u64) {
        let mut current = self.level.lock();
        if *current < level {
            *current = level;
            self.raised.notify_all();
        }
    }
    /// Waits up to `timeout` until the level is reached; true when it is.
    pub fn wait(&self, level: u64, timeout: Duration) -> bool {
        let mut current = self.level.lock();
        self.raised.wait_while_for(&mut current, |current| *current < level, timeout);
        *current >= level
    }
}
