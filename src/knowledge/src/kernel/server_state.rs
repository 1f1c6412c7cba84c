//! The state of a running server.

use std::net::IpAddr;
use std::sync::Arc;

use svcfs_base::{Clock, Fault, Timestamp};
use svcfs_config::{KeyDigest, PublicUrl, Settings};

use super::Space;
use crate::access::{AccessControl, RequestLimiter};
use crate::metrics::ServerMetrics;
use crate::shares::GuessLimiter;
use crate::spaces::SpaceCollection;

/// The state of a running server. The settings of the first space are those of the server.
pub struct ServerState {
    spaces: SpaceCollection,
    clock: Arc<dyn Clock>,
    access: AccessControl,
    limiter: Option<RequestLimiter>,
    guess_limiter: GuessLimiter,
    started_at: Timestamp,
    metrics: ServerMetrics,
}

impl ServerState {
    /// A server that starts now.
    pub fn new(spaces: SpaceCollection, clock: Arc<dyn Clock>, access: AccessControl) -> Self {
        let limiter = spaces.first().settings.server.rate_limit.map(RequestLimiter::new);
        let access = access.with_resource(spaces.first().settings.server.public_url.as_ref().map(PublicUrl::as_str));
        let (guess_limiter, metrics) = Default::default();
        Self { spaces, started_at: clock.now(), clock, access, limiter, guess_limiter, metrics }
    }
    /// The space of requests that name none.
    pub fn primary(&self) -> &Arc<Space> {
        self.spaces.first()
    }
    /// All spaces.
    pub fn spaces(&self) -> &SpaceCollection {
        &self.spaces
    }
    /// The settings of the server.
    pub fn settings(&self) -> &Settings {
        &self.primary().settings
    }
    /// Access control.
    pub fn access(&self) -> &AccessControl {
        &self.access
    }
    /// Counts one request against the rate limit of this key, or else of this address.
    ///
    /// # Errors
    /// `RateLimited`, with the seconds to wait.
    pub fn check_rate_limit(&self, key: Option<&KeyDigest>, address: IpAddr) -> Result<(), Fault> {
        self.limiter.as_ref().map_or(Ok(()), |limiter| limiter.admit(key, address))
    }
    /// The limit on guessing of links and passwords.
    pub(crate) const fn guess_limiter(&self) -> &GuessLimiter {
        &self.guess_limiter
    }
    /// The metrics of the server.
    pub fn metrics(&self) -> &ServerMetrics {
        &self.metrics
    }
    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
    /// Start time of the server.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }
}
