//! The body of a request, read as it comes.
//!
//! What nobody reads of it is read all the same, for a while: were the connection closed with bytes on their way, the client would hear of that
//! instead of the answer, and never why it was refused (RFC 9112 9.6).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may send nothing in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long is read what nobody wants, and how much of it.
const REST: Duration = Duration::from_secs(10);
const MOST_REST: u64 = 256 << 20;

/// A body on its way, and until when more of it must come.
pub struct TimedBody {
    incoming: Option<Incoming>,
    until: Pin<Box<Sleep>>,
}

impl TimedBody {
    /// The body of a request.
    pub fn new(incoming: Incoming) -> Self {
        Self { incoming: Some(incoming), until: Box::pin(sleep(PATIENCE)) }
    }
}

/// Why a body broke off.
#[derive(Debug)]
pub enum BodyError {
    /// With its connection.
    Disconnected(hyper::Error),
    /// Nothing came for too long.
    Stalled,
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disconnected(error) => error.fmt(formatter),
            Self::Stalled => write!(formatter, "nothing came for {} s", PATIENCE.as_secs()),
        }
    }
}

impl std::error::Error for BodyError {}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { incoming, until } = &mut *self;
        let Some(coming) = incoming else { return Poll::Ready(None) };
        match Pin::new(coming).poll_frame(cx) {
            Poll::Ready(frame) => {
                until.as_mut().reset(Instant::now() + PATIENCE);
                if !matches!(frame, Some(Ok(_))) {
                    *incoming = None;
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Disconnected)))
            }
            Poll::Pending => until.as_mut().poll(cx).map(|()| {
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
            runtime.spawn(tokio::time::timeout(REST, read_rest(rest)));
        }
    }
}

async fn read_rest(mut rest: Incoming) {
    let mut read = 0;
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx)).await {
        read += frame.data_ref().map_or(0, |data| data.len() as u64);
        if read > MOST_REST {
            return;
        }
    }
}
