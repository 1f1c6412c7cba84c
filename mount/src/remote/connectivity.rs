//! Whether the server can be reached.
//!
//! One rule: a program waits for a server that is away at most once. When somebody waited in vain, everybody else is told at once, until the
//! server is heard of again; the event stream, which is opened anew all the time, hears of it first. The stream may be well, though, while a
//! single request got no answer: so now and then somebody asks once more, without waiting for long.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use svcfs_base::{Fault, Kind};

/// How long nobody asks a server that somebody waited for in vain.
const QUIET: Duration = Duration::from_secs(1);

/// Somebody waited in vain.
struct ServerOutage {
    why: String,
    /// When the next one asks whether the server is there.
    again: Instant,
}

/// Whoever may ask the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryMode {
    /// As often as patience allows.
    Patient,
    /// Once: the server is away, as far as is known.
    Once,
}

/// What is known of the way to the server.
#[derive(Default)]
pub(super) struct ServerConnectivity {
    lost: Mutex<Option<ServerOutage>>,
    /// Rung when the server is heard of again.
    heard: Condvar,
}

impl ServerConnectivity {
    /// Refuses at once while the server is known to be away, but for one now and then who asks whether it still is, and takes `limit` at most
    /// to find out.
    ///
    /// # Errors
    /// `Upstream`, with the reason.
    pub(super) fn enter(&self, limit: Duration) -> Result<RetryMode, Fault> {
        let mut lost = self.lost.lock();
        let Some(lost) = lost.as_mut() else { return Ok(RetryMode::Patient) };
        let now = Instant::now();
        if now < lost.again {
            return Err(Fault::new(Kind::Upstream, lost.why.clone()));
        }
        lost.again = now + limit;
        Ok(RetryMode::Once)
    }
    /// Notes that the server answered.
    pub(super) fn heard(&self) {
        if self.lost.lock().take().is_some() {
            tracing::info!("the server answers again");
            self.heard.notify_all();
        }
    }
    /// Notes that the event stream is open, and wakes those who wait for the server.
    pub(super) fn connected(&self) {
        self.heard();
        self.heard.notify_all();
    }
    /// Notes that somebody waited in vain.
    pub(super) fn lost(&self, fault: &Fault) {
        let lost = ServerOutage { why: fault.message().to_owned(), again: Instant::now() + QUIET };
        if self.lost.lock().replace(lost).is_none() {
            tracing::warn!("{fault}; what needs it fails until it answers");
        }
    }
    #[cfg(test)]
    pub(super) fn is_lost(&self) -> bool {
        self.lost.lock().is_some()
    }

    /// Waits until the server is heard of, at most this long.
    pub(super) fn wait(&self, limit: Duration) {
        self.heard.wait_for(&mut self.lost.lock(), limit);
    }
}
