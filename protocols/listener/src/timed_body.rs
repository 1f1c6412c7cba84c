//! A request body with a timeout between its pieces.
//!
//! The rest of a body that the handler did not read is drained for a while. If the connection were
//! closed with bytes in flight, the client would see a reset instead of the answer (RFC 9112 9.6).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep};

/// Longest pause in the middle of a body.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Limits for draining an unread rest.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_DRAIN_BYTES: u64 = 256 << 20;

/// A body in transit, with the deadline for its next piece.
pub struct TimedBody {
    incoming: Option<Incoming>,
    deadline: Pin<Box<Sleep>>,
}

impl TimedBody {
    /// Wraps the body of a request.
    pub fn new(incoming: Incoming) -> Self {
        Self { incoming: Some(incoming), deadline: Box::pin(sleep(READ_TIMEOUT)) }
    }
}

/// Why a body broke off.
#[derive(Debug)]
pub enum BodyError {
    /// The connection broke.
    Disconnected(hyper::Error),
    /// No data came before the timeout.
    Stalled,
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disconnected(error) => error.fmt(formatter),
            Self::Stalled => write!(formatter, "no data received for {} s", READ_TIMEOUT.as_secs()),
        }
    }
}

impl std::error::Error for BodyError {}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { incoming, deadline } = &mut *self;
        let Some(body) = incoming else { return Poll::Ready(None) };
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(frame) => {
                deadline.as_mut().reset(Instant::now() + READ_TIMEOUT);
                if !matches!(frame, Some(Ok(_))) {
                    *incoming = None;
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Disconnected)))
            }
            Poll::Pending => deadline.as_mut().poll(cx).map(|()| {
                *incoming = None;
                Some(Err(BodyError::Stalled))
            }),
        }
    }
    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }
    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        let rest = self.incoming.take().filter(|rest| !rest.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(rest)));
        }
    }
}

async fn drain(mut rest: Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx)).await {
        read += frame.data_ref().map_or(0, |data| data.len() as u64);
        if read > MAX_DRAIN_BYTES {
            return;
        }
    }
}
