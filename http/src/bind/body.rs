//! Bodies, bounded in size and time.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use svcfs_base::{Fault, Kind};
use tokio::time::Instant;

/// Longest body of any request, in bytes (gaps.md 4.1: 110 MB).
pub(crate) const MAX_BODY_BYTES: usize = 110 << 20;

/// How long a client may pause inside a body.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes a second that a body must have on the whole once it took longer than that: a byte now and then keeps no connection.
const SLOWEST: usize = 4096;

/// The parts of a body as they arrive; an error is the connection's.
pub(crate) type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// A request body that is not read yet.
pub(crate) struct UnreadBody {
    parts: BodyStream,
    /// Its length, when the client told.
    declared: Option<usize>,
    /// The client waits for `100 Continue` before it sends anything.
    asks_first: bool,
}

impl UnreadBody {
    /// The body that goes with these headers.
    pub(crate) fn new(parts: BodyStream, headers: &HeaderMap) -> Self {
        let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        Self { parts, declared, asks_first: headers.contains_key(EXPECT) }
    }
}

/// Reads a body of at most `limit` bytes.
///
/// What is over the limit is read and dropped up to [`MAX_BODY_BYTES`], because a client that is still sending when the
/// connection closes never sees the answer; one that asked first (`Expect: 100-continue`) is answered at once.
///
/// # Errors
/// `TooLarge`, naming `what`; `Invalid` when the body breaks off, pauses for 30 s, or takes longer than 30 s and a second for every 4 KiB.
pub(crate) async fn read(mut body: UnreadBody, limit: usize, what: &str) -> Result<Bytes, Fault> {
    if body.asks_first && body.declared.is_some_and(|length| length > limit) {
        return Err(Fault::too_large(what, limit));
    }
    let (mut kept, mut seen) = (BytesMut::new(), 0);
    let begun = Instant::now();
    loop {
        let end = begun + PATIENCE + Duration::from_secs((seen / SLOWEST) as u64);
        let patience = PATIENCE.min(end.saturating_duration_since(Instant::now()));
        let part = tokio::time::timeout(patience, body.parts.next()).await.map_err(|_| {
            let seconds = begun.elapsed().as_secs();
            let told = format!("{what} arrived too slowly, or not at all: {seen} bytes in {seconds} s");
            Fault::new(Kind::Invalid, told)
        })?;
        match part {
            None => break,
            Some(Err(error)) => {
                return Err(
                    Fault::new(Kind::Invalid, format!("{what} broke off after {seen} bytes")).with_context(error)
                );
            }
            Some(Ok(part)) => {
                seen += part.len();
                if seen <= limit {
                    kept.extend_from_slice(&part);
                } else {
                    kept = BytesMut::new();
                    if seen > MAX_BODY_BYTES {
                        break;
                    }
                }
            }
        }
    }
    if seen > limit {
        return Err(Fault::too_large(what, limit));
    }
    Ok(kept.freeze())
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    /// A body of parts of this many bytes, one after each pause.
    fn body(parts: usize, bytes: usize, pause: Duration) -> UnreadBody {
        let parts = stream::iter(0..parts).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok(Bytes::from(vec![b'a'; bytes]))
        });
        UnreadBody::new(Box::pin(parts), &HeaderMap::new())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_a_byte_a_second_is_given_up_and_one_over_a_slow_line_is_not() {
        let begun = Instant::now();
        let fault = read(body(100_000, 1, Duration::from_secs(1)), 1 << 20, "the body").await.unwrap_err();
        assert_eq!((fault.kind(), begun.elapsed().as_secs()), (Kind::Invalid, 30));
        assert!(fault.message().starts_with("the body arrived too slowly"), "{fault}");
        let slow = read(body(600, 8192, Duration::from_secs(1)), 8 << 20, "the body").await.unwrap();
        assert_eq!(slow.len(), 600 * 8192);
        let paused = read(body(2, 1 << 20, Duration::from_secs(31)), 8 << 20, "the body").await.unwrap_err();
        assert_eq!(paused.kind(), Kind::Invalid);
    }
}
