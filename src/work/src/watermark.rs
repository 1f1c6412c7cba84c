//! How far something has come, for others to wait on.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A number that only grows, such as the position up to which a follower has read a log.
#[derive(Debug, Default)]
pub struct Watermark {
    level: Mutex<u64>,
    risen: Condvar,
}

impl Watermark {
    /// A watermark at `level`.
    pub const fn new(level: u64) -> Self {
        Self { level: Mutex::new(level), risen: Condvar::new() }
    }
    /// The present level.
    pub fn level(&self) -> u64 {
        *self.level.lock()
    }
    /// Raises the level and wakes whoever waits for it; a lower number changes nothing.
    pub fn advance(&self, level: u64) {
        let mut present = self.level.lock();
        if *present < level {
            *present = level;
            self.risen.notify_all();
        }
    }
    /// Waits until the level is at least this, at most that long; true when it is.
    pub fn wait(&self, level: u64, at_most: Duration) -> bool {
        let mut present = self.level.lock();
        self.risen.wait_while_for(&mut present, |present| *present < level, at_most);
        *present >= level
    }
}
