//! Bodies, bounded in size and time.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use svcfs_base::{Fault, Kind};

/// Longest body of any request, in bytes (gaps.md 4.1: 110 MB).
pub(crate) const MAX_BODY_BYTES: usize = 110 << 20;

/// How long a client may pause inside a body.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request body as it arrives; an error is the connection's.
pub(crate) type Body = Pin<Box<dyn Stream<Item = Result<Bytes, String>> + Send>>;

/// Reads a body of at most `limit` bytes.
///
/// What is over the limit is read and dropped up to [`MAX_BODY_BYTES`], because a client that is still sending when the
/// connection closes never sees the answer; one that asked first (`Expect: 100-continue`) is answered at once.
///
/// # Errors
/// `TooLarge`, naming `what`; `Invalid` when the body breaks off or pauses for 30 s.
pub(crate) async fn read(mut body: Body, limit: usize, what: &str, expects_continue: bool) -> Result<Bytes, Fault> {
    let (mut kept, mut seen) = (BytesMut::new(), 0);
    loop {
        let part = tokio::time::timeout(PATIENCE, body.next()).await.map_err(|_| {
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
                    if expects_continue || seen > MAX_BODY_BYTES {
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
