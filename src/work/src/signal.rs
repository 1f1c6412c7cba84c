//! Wake-up calls between threads.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// "Look again": wakes the one task that listens. Calls made while it is at work are remembered as one.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<SignalCall>);

#[derive(Default)]
struct SignalCall {
    is_raised: AtomicBool,
    /// Whom it wakes.
    listener: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for SignalCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Call").field("is_raised", &self.is_raised).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct StopFlag {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// A signal nobody has raised yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Wakes the listener, or lets it go on at once when it is about to wait.
    pub fn raise(&self) {
        self.0.is_raised.store(true, Ordering::SeqCst);
        if let Some(listener) = self.0.listener.get() {
            listener();
        }
    }
    /// Whether it was raised since this was asked last.
    pub(crate) fn take(&self) -> bool {
        self.0.is_raised.swap(false, Ordering::SeqCst)
    }
    /// Whether the next [`Signal::take`] will find it raised.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_raised.load(Ordering::SeqCst)
    }
    /// Calls this whenever it is raised. A signal has one listener: further ones are not called.
    pub(crate) fn calls(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.listener.set(Box::new(listener));
    }
}

/// Whether work should come to an end; asked for once, never taken back.
#[derive(Debug, Clone, Default)]
pub struct StopToken(Arc<StopFlag>);

impl StopToken {
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
