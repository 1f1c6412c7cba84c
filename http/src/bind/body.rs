//! Bodies, bounded in size and time.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use svcfs_base::{Fault, Kind};

/// Longest body of any request, in bytes (gaps.md 4.1: 110 MB).
pub(crate) const MAX_BODY_BYTES: usize = 110 << 20;

/// How long a client may pause inside a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// The parts of a body as they arrive; an error is the connection's.
pub(crate) type Parts = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// A request body that is not read yet.
pub(crate) struct Body {
    parts: Parts,
    /// Its length, when the client told.
    declared: Option<usize>,
    /// The client waits for `100 Continue` before it sends anything.
    asks_first: bool,
}

impl Body {
    /// The body that goes with these headers.
    pub(crate) fn new(parts: Parts, headers: &HeaderMap) -> Self {
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
/// `TooLarge`, naming `what`; `Invalid` when the body breaks off or pauses for 30 s.
pub(crate) async fn read(mut body: Body, limit: usize, what: &str) -> Result<Bytes, Fault> {
    if body.asks_first && body.declared.is_some_and(|length| length > limit) {
        return Err(Fault::too_large(what, limit));
    }
    let (mut kept, mut seen) = (BytesMut::new(), 0);
    loop {
        let part = tokio::time::timeout(PATIENCE, body.parts.next()).await.map_err(|_| {
            let seconds = PATIENCE.as_secs();
            Fault::new(Kind::Invalid, format!("{what} stopped arriving for {seconds} s after {seen} bytes"))
        })?;
        match part {
            None => break,
            Some(Err(error)) => {
                return Err(Fault::new(Kind::Invalid, format!("{what} broke off after {seen} bytes")).inside(error));
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
