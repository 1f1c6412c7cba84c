//! Waiting for conditions, never for times.

use std::time::{Duration, Instant};

/// Longest time anything is waited for, unless a test is about a shorter one. A condition that
/// never holds is told after it, and it is long enough for a machine that does other things at the
/// same time: nothing is promised by it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits until a condition holds; fails, saying what was waited for, when it does not become true
/// in time.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) -> Duration {
    within(LIMIT, what, condition)
}

/// Waits until a condition holds, at most for `limit`; answers with how long it took.
#[track_caller]
pub fn within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    loop {
        // Read before the condition is looked at: a condition that holds at the first look after
        // the limit is late.
        let waited = start.elapsed();
        if condition() {
            return waited;
        }
        assert!(waited < limit, "waited {limit:?} in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
