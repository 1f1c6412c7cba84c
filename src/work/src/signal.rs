//! Wake-up calls between threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// "Look again": wakes the one task that waits. Calls made while nobody waits are remembered as one.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// A signal nobody has raised yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Wakes the waiter, or lets the next one pass at once.
    pub fn raise(&self) {
        *self.0.raised.lock() = true;
        self.0.changed.notify_all();
    }
    /// Waits until the signal is raised, at most this long (none: for ever), and takes it down; false when the time was up.
    pub fn wait(&self, at_most: Option<Duration>) -> bool {
        let deadline = at_most.and_then(|time| Instant::now().checked_add(time));
        let mut raised = self.0.raised.lock();
        while !*raised {
            match deadline {
                None => self.0.changed.wait(&mut raised),
                Some(deadline) => {
                    if self.0.changed.wait_until(&mut raised, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        std::mem::take(&mut *raised)
    }
}

/// Whether work should come to an end; asked for once, never taken back.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Flag>);

impl Stop {
    /// A stop nobody has asked for yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Asks everybody to end.
    pub fn request(&self) {
        *self.0.raised.lock() = true;
        self.0.changed.notify_all();
    }
    /// True once the end was asked for; long steps look here between parts.
    pub fn is_requested(&self) -> bool {
        *self.0.raised.lock()
    }
    /// Waits this long, or less when the end is asked for; true when it was.
    pub fn wait(&self, at_most: Duration) -> bool {
        let mut raised = self.0.raised.lock();
        self.0.changed.wait_while_for(&mut raised, |raised| !*raised, at_most);
        *raised
    }
}
