//! Wake-up signals between threads.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes the one task that listens. Signals raised while the task is busy are merged into one.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<SignalCall>);

#[derive(Default)]
struct SignalCall {
    is_raised: AtomicBool,
    /// Called when the signal is raised.
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
    /// A signal that is not raised.
    pub fn new() -> Self {
        Self::default()
    }
    /// Wakes the listener. A listener that is about to wait continues immediately.
    pub fn raise(&self) {
        self.0.is_raised.store(true, Ordering::SeqCst);
        if let Some(listener) = self.0.listener.get() {
            listener();
        }
    }
    /// Whether the signal was raised since the last call.
    pub(crate) fn take(&self) -> bool {
        self.0.is_raised.swap(false, Ordering::SeqCst)
    }
    /// Whether the next [`Signal::take`] will return true.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.is_raised.load(Ordering::SeqCst)
    }
    /// Registers the listener. A signal has one listener; further ones are ignored.
    pub(crate) fn set_listener(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.listener.set(Box::new(listener));
    }
}

/// A request to stop, which cannot be revoked.
#[derive(Debug, Clone, Default)]
pub struct StopToken(Arc<StopFlag>);

impl StopToken {
    /// A token that is not requested.
    pub fn new() -> Self {
        Self::default()
    }
    /// Requests the end of all work that holds this token.
    pub fn request(&self) {
        *self.0.raised.lock() = true;
        self.0.changed.notify_all();
    }
    /// Whether the end was requested; long steps check this between parts.
    pub fn is_requested(&self) -> bool {
        *self.0.raised.lock()
    }
    /// Waits for `timeout` or until the end is requested; true when it was requested.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut raised = self.0.raised.lock();
        self.0.changed.wait_while_for(&mut raised, |raised| !*raised, timeout);
        *raised
    }
}
