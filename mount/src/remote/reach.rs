//! Whether the server can be reached.
//!
//! One rule: a program waits for a server that is away at most once. When somebody waited in vain, everybody else is told at once, until the
//! server is heard of again; the event stream, which is opened anew all the time, hears of it first.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use svcfs_base::{Fault, Kind};

/// What is known of the way to the server.
#[derive(Default)]
pub(super) struct Reach {
    /// Why somebody waited in vain.
    lost: Mutex<Option<String>>,
    /// Rung when the server is heard of again.
    heard: Condvar,
}

impl Reach {
    /// Refuses at once while the server is known to be away.
    ///
    /// # Errors
    /// `Upstream`, with the reason.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.lost.lock().as_ref().map_or(Ok(()), |why| Err(Fault::new(Kind::Upstream, why.clone())))
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
        if self.lost.lock().replace(fault.message().to_owned()).is_none() {
            tracing::warn!("{fault}; what needs it fails until it answers");
        }
    }
    /// Waits until the server is heard of, at most this long.
    pub(super) fn wait(&self, limit: Duration) {
        self.heard.wait_for(&mut self.lost.lock(), limit);
    }
}
