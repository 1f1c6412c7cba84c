//! Reachability of the server.
//!
//! Invariant: only one program waits for the timeout of an unreachable server. After that, requests
//! fail immediately until the server responds again, which the event stream detects first because
//! it reconnects all the time. Because the stream may work while a single request got no response,
//! one request per interval is tried without retries.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use svcfs_base::{Fault, Kind};

/// How long requests fail immediately after a timeout.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

struct ServerOutage {
    reason: String,
    /// When the next request may try the server.
    next_attempt: Instant,
}

/// How often a request may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryMode {
    /// Until its timeout.
    UntilTimeout,
    /// Once: the server is unreachable as far as known.
    Once,
}

#[derive(Default)]
pub(super) struct ServerConnectivity {
    outage: Mutex<Option<ServerOutage>>,
    /// Signalled when the server responds again.
    recovered: Condvar,
}

impl ServerConnectivity {
    /// Admits a request. While the server is unreachable, admits one per interval; `limit` is how
    /// long that may take.
    ///
    /// # Errors
    /// `Upstream`, with the reason, immediately.
    pub(super) fn admit(&self, limit: Duration) -> Result<RetryMode, Fault> {
        let mut outage = self.outage.lock();
        let Some(outage) = outage.as_mut() else { return Ok(RetryMode::UntilTimeout) };
        let now = Instant::now();
        if now < outage.next_attempt {
            return Err(Fault::new(Kind::Upstream, outage.reason.clone()));
        }
        outage.next_attempt = now + limit;
        Ok(RetryMode::Once)
    }
    /// The server responded.
    pub(super) fn report_success(&self) {
        if self.outage.lock().take().is_some() {
            tracing::info!("the server is reachable again");
            self.recovered.notify_all();
        }
    }
    /// The event stream is open: wakes waiting requests.
    pub(super) fn stream_connected(&self) {
        self.report_success();
        self.recovered.notify_all();
    }
    /// A request timed out.
    pub(super) fn report_failure(&self, fault: &Fault) {
        let outage = ServerOutage { reason: fault.message().to_owned(), next_attempt: Instant::now() + RETRY_INTERVAL };
        if self.outage.lock().replace(outage).is_none() {
            tracing::warn!("{fault}; operations fail until the server is reachable");
        }
    }
    #[cfg(test)]
    pub(super) fn is_unreachable(&self) -> bool {
        self.outage.lock().is_some()
    }

    /// Waits until the server responds, up to `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        self.recovered.wait_for(&mut self.outage.lock(), limit);
    }
}
