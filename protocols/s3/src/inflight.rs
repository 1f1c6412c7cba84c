//! Which uploads in parts are being completed: a client that has not heard of it asks again while the first time is still in progress.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The names of uploads that are being completed.
#[derive(Debug, Default)]
pub(crate) struct InFlightCompletions {
    names: Mutex<HashSet<String>>,
    ended: Notify,
}

/// Holds one until it is dropped.
pub(crate) struct CompletionGuard {
    completing: Arc<InFlightCompletions>,
    name: String,
}

impl InFlightCompletions {
    /// Waits until nobody else completes it.
    pub(crate) async fn hold(self: &Arc<Self>, name: &str) -> CompletionGuard {
        loop {
            // Before it is looked at: what ends between the two is heard of.
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.names.lock().insert(name.to_owned()) {
                return CompletionGuard { completing: Arc::clone(self), name: name.to_owned() };
            }
            ended.await;
        }
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.completing.names.lock().remove(&self.name);
        self.completing.ended.notify_waiters();
    }
}
