//! Rate limit of requests per caller, for every protocol that has requests.
//!
//! Invariant: a caller with a valid key is counted by that key, any other caller by address. A
//! wrong key is ignored: otherwise inventing keys would give a full bucket for each request.

use std::net::IpAddr;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use svcfs_base::{Fault, Kind, network_prefix};
use svcfs_config::{KeyDigest, RateLimitSettings};

/// Key in a fault's details: seconds after which the caller may retry.
pub const RETRY_AFTER_KEY: &str = "retry_after";
const RETRY_AFTER_SECS: u64 = 60;
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
const MAX_CALLERS: usize = 65_536;
const MIN_SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const TOKEN_BYTES: usize = 8;

/// The caller that a request is counted for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RateLimitKey {
    /// Requests with this token: the first bytes of its digest, in hex.
    Token(String),
    /// Requests from this address or network.
    Address(IpAddr),
    /// Passwords for a share, from this address or network.
    Share(String, IpAddr),
}

impl RateLimitKey {
    /// The key for a request with this valid token, if any, from this address.
    pub fn new(token: Option<&KeyDigest>, address: IpAddr) -> Self {
        token.map_or_else(|| Self::Address(network_prefix(address)), |token| Self::Token(token.short_hex(TOKEN_BYTES)))
    }
}

/// A token bucket per caller; each request takes one token.
pub struct RequestLimiter<C: Clock = DefaultClock> {
    buckets: RateLimiter<RateLimitKey, HashMapStateStore<RateLimitKey>, C, NoOpMiddleware<C::Instant>>,
    clock: C,
    last_sweep: Mutex<C::Instant>,
}

impl RequestLimiter {
    /// A limiter with these settings.
    pub fn new(settings: RateLimitSettings) -> Self {
        Self::with(settings, DefaultClock::default())
    }
}

impl<C: Clock + Clone> RequestLimiter<C> {
    fn with(settings: RateLimitSettings, clock: C) -> Self {
        let RateLimitSettings { requests_per_minute, burst_size } = settings;
        let quota = Quota::per_minute(requests_per_minute).allow_burst(burst_size);
        let buckets = RateLimiter::new(quota, HashMapStateStore::default(), clock.clone());
        Self { buckets, last_sweep: Mutex::new(clock.now()), clock }
    }

    /// Counts one request.
    ///
    /// # Errors
    /// `RateLimited`, with the seconds to wait.
    pub fn admit(&self, token: Option<&KeyDigest>, address: IpAddr) -> Result<(), Fault> {
        self.count(&RateLimitKey::new(token, address))
    }

    /// Counts one request for a key.
    ///
    /// # Errors
    /// `RateLimited`, with the seconds to wait.
    pub(crate) fn count(&self, key: &RateLimitKey) -> Result<(), Fault> {
        self.sweep();
        let to_fault =
            |_| Fault::new(Kind::RateLimited, "rate limit exceeded").with_detail(RETRY_AFTER_KEY, RETRY_AFTER_SECS);
        self.buckets.check_key(key).map_err(to_fault)
    }

    /// Removes callers whose bucket is full: a new caller would start with a full bucket, too.
    fn sweep(&self) {
        let now = self.clock.now();
        let Some(mut last_sweep) = self.last_sweep.try_lock() else { return };
        let elapsed: Duration = now.duration_since(*last_sweep).into();
        if elapsed >= SWEEP_INTERVAL || (elapsed >= MIN_SWEEP_INTERVAL && self.buckets.len() > MAX_CALLERS) {
            *last_sweep = now;
            drop(last_sweep);
            self.buckets.retain_recent();
            self.buckets.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use governor::clock::FakeRelativeClock;

    use super::*;

    fn limiter(requests_per_minute: u32, burst_size: u32) -> (RequestLimiter<FakeRelativeClock>, FakeRelativeClock) {
        let number = |number| NonZeroU32::new(number).unwrap();
        let clock = FakeRelativeClock::default();
        let settings =
            RateLimitSettings { requests_per_minute: number(requests_per_minute), burst_size: number(burst_size) };
        (RequestLimiter::with(settings, clock.clone()), clock)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_caller_may_use_its_burst_and_then_the_rate() {
        let (limiter, clock) = limiter(60, 3);
        let ask = || limiter.admit(None, address("10.0.0.1"));
        assert!((0..3).all(|_| ask().is_ok()));
        let fault = ask().unwrap_err();
        assert_eq!((fault.kind(), fault.message()), (Kind::RateLimited, "rate limit exceeded"));
        clock.advance(Duration::from_secs(1));
        assert!(ask().is_ok() && ask().is_err());
        clock.advance(Duration::from_secs(600));
        assert!((0..3).all(|_| ask().is_ok()) && ask().is_err(), "a bucket holds no more than the burst");
    }

    #[test]
    fn callers_are_limited_separately_by_token_or_address() {
        let (limiter, _) = limiter(1, 1);
        let (one, other) = (KeyDigest::from_key("one"), KeyDigest::from_key("other"));
        assert!(limiter.admit(Some(&one), address("10.0.0.1")).is_ok());
        assert!(limiter.admit(Some(&one), address("10.0.0.2")).is_err(), "a key is one caller wherever it comes from");
        assert!(limiter.admit(Some(&other), address("10.0.0.1")).is_ok());
        assert!(limiter.admit(None, address("10.0.0.1")).is_ok());
        assert!(limiter.admit(None, address("::ffff:10.0.0.1")).is_err(), "the same address, as IPv6 writes it");
        assert!(limiter.admit(None, address("2001:db8::1")).is_ok());
        assert!(limiter.admit(None, address("2001:db8::ffff:2")).is_err(), "one network is one caller");
        assert!(limiter.admit(None, address("2001:db8:0:1::1")).is_ok());
    }

    #[test]
    fn callers_that_rest_are_forgotten() {
        let (limiter, clock) = limiter(60, 2);
        for last in 0..=255_u8 {
            assert!(limiter.admit(None, IpAddr::from([10, 0, 0, last])).is_ok());
        }
        assert_eq!(limiter.buckets.len(), 256);
        clock.advance(SWEEP_INTERVAL);
        assert!(limiter.admit(None, address("10.1.0.0")).is_ok());
        assert_eq!(limiter.buckets.len(), 1);
    }
}
