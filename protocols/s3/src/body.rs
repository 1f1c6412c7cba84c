//! What comes with a request, read as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may send nothing in the middle of a body.
const PATIENCE: Duration = Duration::from_secs(60);

/// A body, and until when more of it must come.
pub(crate) struct Coming(Incoming, Pin<Box<Sleep>>);

impl Coming {
    pub(crate) fn new(body: Incoming) -> Self {
        Self(body, Box::pin(sleep(PATIENCE)))
    }
}

/// Why a body broke off.
#[derive(Debug)]
pub(crate) enum Broken {
    Lost(hyper::Error),
    Stalled,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(error) => error.fmt(formatter),
            Self::Stalled => write!(formatter, "nothing came for {} s", PATIENCE.as_secs()),
        }
    }
}

impl std::error::Error for Broken {}

impl Body for Coming {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Self(incoming, until) = &mut *self;
        match Pin::new(incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                until.as_mut().reset(Instant::now() + PATIENCE);
                Poll::Ready(frame.map(|frame| frame.map_err(Broken::Lost)))
            }
            Poll::Pending => until.as_mut().poll(cx).map(|()| Some(Err(Broken::Stalled))),
        }
    }
    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
