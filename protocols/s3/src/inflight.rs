//! Multipart uploads that are being completed: a client may retry while the first request is still
//! in progress.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The ids of these uploads.
#[derive(Debug, Default)]
pub(crate) struct InFlightCompletions {
    ids: Mutex<HashSet<String>>,
    ended: Notify,
}

/// Exclusive right to complete or abort one upload, until dropped.
pub(crate) struct CompletionGuard {
    completions: Arc<InFlightCompletions>,
    name: String,
}

impl InFlightCompletions {
    /// Waits until no other request completes the upload.
    pub(crate) async fn lock(self: &Arc<Self>, name: &str) -> CompletionGuard {
        loop {
            // Registered before the check, so that no notification in between is lost.
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if self.ids.lock().insert(name.to_owned()) {
                return CompletionGuard { completions: Arc::clone(self), name: name.to_owned() };
            }
            ended.await;
        }
    }
}

impl Drop for CompletionGuard {
    fn drop(&mut self) {
        self.completions.ids.lock().remove(&self.name);
        self.completions.ended.notify_waiters();
    }
}
