//! Request bodies, limited in size and time.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use svcfs_base::{Fault, Kind};
use tokio::time::Instant;

/// Maximum size of a body, in bytes (110 MiB).
pub(crate) const MAX_BODY_BYTES: usize = 110 << 20;

/// Maximum pause within a body.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum average bytes per second after that: a client cannot hold a connection with a byte now
/// and then.
const MIN_BYTES_PER_SEC: usize = 4096;

/// The parts of a body as they arrive; errors are those of the connection.
pub(crate) type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// A request body that is not read yet.
pub(crate) struct UnreadBody {
    parts: BodyStream,
    /// Value of `Content-Length`.
    content_length: Option<usize>,
    /// The client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
}

impl UnreadBody {
    /// The body that belongs to these headers.
    pub(crate) fn new(parts: BodyStream, headers: &HeaderMap) -> Self {
        let content_length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        Self { parts, content_length, expects_continue: headers.contains_key(EXPECT) }
    }
}

/// Reads a body of at most `limit` bytes.
///
/// Bytes over the limit are read and dropped up to [`MAX_BODY_BYTES`], because a client that is
/// still sending when the connection closes does not see the response. A client that sent `Expect:
/// 100-continue` gets it immediately. Errors: `TooLarge`, naming `what`; `Invalid` when the body is
/// incomplete, pauses for 30 s, or takes longer than 30 s plus a second per 4 KiB.
pub(crate) async fn read(mut body: UnreadBody, limit: usize, what: &str) -> Result<Bytes, Fault> {
    if body.expects_continue && body.content_length.is_some_and(|length| length > limit) {
        return Err(Fault::too_large(what, limit));
    }
    let (mut content, mut received) = (BytesMut::new(), 0);
    let started = Instant::now();
    loop {
        let deadline = started + PAUSE_TIMEOUT + Duration::from_secs((received / MIN_BYTES_PER_SEC) as u64);
        let timeout = PAUSE_TIMEOUT.min(deadline.saturating_duration_since(Instant::now()));
        let part = tokio::time::timeout(timeout, body.parts.next()).await.map_err(|_| {
            let seconds = started.elapsed().as_secs();
            let message = format!("{what} arrived too slowly, or not at all: {received} bytes in {seconds} s");
            Fault::new(Kind::Invalid, message)
        })?;
        match part {
            None => break,
            Some(Err(error)) => {
                return Err(
                    Fault::new(Kind::Invalid, format!("{what} broke off after {received} bytes")).with_context(error)
                );
            }
            Some(Ok(part)) => {
                received += part.len();
                if received <= limit {
                    content.extend_from_slice(&part);
                } else {
                    content = BytesMut::new();
                    if received > MAX_BODY_BYTES {
                        break;
                    }
                }
            }
        }
    }
    if received > limit {
        return Err(Fault::too_large(what, limit));
    }
    Ok(content.freeze())
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
    async fn a_trickling_body_is_aborted_and_a_merely_slow_one_is_not() {
        let started = Instant::now();
        let fault = read(body(100_000, 1, Duration::from_secs(1)), 1 << 20, "the body").await.unwrap_err();
        assert_eq!((fault.kind(), started.elapsed().as_secs()), (Kind::Invalid, 30));
        assert!(fault.message().starts_with("the body arrived too slowly"), "{fault}");
        let slow = read(body(600, 8192, Duration::from_secs(1)), 8 << 20, "the body").await.unwrap();
        assert_eq!(slow.len(), 600 * 8192);
        let paused = read(body(2, 1 << 20, Duration::from_secs(31)), 8 << 20, "the body").await.unwrap_err();
        assert_eq!(paused.kind(), Kind::Invalid);
    }
}
