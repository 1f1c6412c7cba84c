//! What follows from an attempt.

use std::time::Duration;

use jiff::SignedDuration;
use svcfs_base::Timestamp;
use svcfs_net::{NetError, PostAnswer};

/// Delays before the next attempts; the last one repeats.
const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(15 * 60),
    MAX_DELAY,
];

const MAX_DELAY: Duration = Duration::from_secs(60 * 60);

/// A webhook whose attempts failed for so long is disabled.
const MAX_FAILING: SignedDuration = SignedDuration::from_hours(24);

/// Failed attempts of a notification before the last one that disables its webhook. After days
/// without events, one more failure must not be enough.
const MIN_FAILED: u32 = 4;

/// The result of an attempt, or of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttemptResult {
    /// Status of the answer; none without one.
    pub status: Option<u16>,
    /// Why it failed; none if it succeeded.
    pub error: Option<String>,
    /// When the receiver wants the next attempt.
    pub retry_after: Option<Duration>,
}

/// What follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is delivered.
    Delivered,
    /// It is tried again at a time.
    Retry(Timestamp),
    /// It is given up.
    GivenUp,
    /// The receiver is gone.
    Gone,
}

impl AttemptResult {
    pub fn of(outcome: Result<PostAnswer, NetError>) -> Self {
        match outcome {
            Ok(PostAnswer { status, retry_after }) => {
                let is_success = (200..300).contains(&status);
                let error = || match status {
                    300..400 => {
                        format!("the receiver answered {status}; only redirects 307 and 308 are followed, at most 3")
                    }
                    _ => format!("the receiver answered {status}"),
                };
                Self { status: Some(status), error: (!is_success).then(error), retry_after }
            }
            Err(error) => Self { status: None, error: Some(reason(&error)), retry_after: None },
        }
    }

    /// What follows from it, if `failed` attempts failed before; `random` spreads retries.
    pub fn verdict(&self, (failed, max_retries): (u32, u32), now: Timestamp, random: u8) -> Verdict {
        match self.status {
            _ if self.error.is_none() => Verdict::Delivered,
            Some(410) => Verdict::Gone,
            // Another attempt would be refused as well.
            Some(400..=407 | 409..=428 | 430..=499) => Verdict::GivenUp,
            _ if failed >= max_retries => Verdict::GivenUp,
            _ => {
                let delay = RETRY_DELAYS.get(failed as usize).copied().unwrap_or(MAX_DELAY);
                // Up to a quarter later, so that receivers do not get everything at the same time.
                let delay = delay.saturating_add(delay.mul_f64(f64::from(random) / 1024.0)).min(MAX_DELAY);
                let delay = delay.max(self.retry_after.unwrap_or_default().min(MAX_DELAY));
                Verdict::Retry(now.saturating_add(delay).unwrap_or(now))
            }
        }
    }
}

/// Why there is no answer. Without the address, which often contains credentials: the reason is in
/// logs and in the status.
fn reason(error: &NetError) -> String {
    match error {
        NetError::Fetch { source, .. } => format!("there was no answer: {source}"),
        NetError::InvalidUrl { reason, .. } => format!("the URL of the webhook, or of a redirect, {reason}"),
        NetError::Refused(_) | NetError::Decode { .. } | NetError::TooLarge { .. } => error.to_string(),
    }
}

/// Whether a webhook that fails since a time is disabled after an attempt, before which `failed`
/// attempts of the same notification failed.
pub(super) fn is_failing_long(since: Option<Timestamp>, now: Timestamp, (verdict, failed): (&Verdict, u32)) -> bool {
    let is_repeated = *verdict == Verdict::GivenUp || failed >= MIN_FAILED;
    is_repeated && since.is_some_and(|since| now.duration_since(since) >= MAX_FAILING)
}
