//! Long answers on their way to clients.
//!
//! One rule: slow clients take no more memory than there is room for. The long answers of all of them have one room, and what finds none is set aside
//! on the disk and sent from there, piece by piece, as long files are. Where the disk takes nothing more, who only asked is told to come again.
//!
//! Why does nobody wait for room? Because those who are slow would keep all others out.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use headers::{ContentLength, HeaderMapExt};
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use svcfs_base::Fault;
use svcfs_knowledge::access::RETRY;
use svcfs_knowledge::kernel::{Content, Reader, Space};
use svcfs_listener::Read;
use svcfs_work::Lane;
use tokio::sync::Semaphore;
use warp::Reply;
use warp::reply::Response;

use crate::app::App;

/// Bytes of a long answer handed to a connection at once; one that is no longer is sent as it is.
pub(crate) const PIECE: usize = 256 << 10;
/// KiB of memory for long answers.
const ROOM: usize = 64 << 10;
/// When somebody may come again for whose answer there was no room, in seconds.
const COME_AGAIN: u64 = 10;

/// Memory for long answers that are being sent.
pub(crate) struct Sending(pub(crate) Arc<Semaphore>);

impl Default for Sending {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }
}

impl App {
    /// An answer as it is sent: a long one takes room until its client has it, or is on the disk.
    ///
    /// # Errors
    /// `Unavailable` where neither memory nor the disk has room for the answer to whom only asked. What was done is told in any case.
    pub(crate) async fn bounded(
        &self,
        (space, is_reading): (Arc<Space>, bool),
        response: Response,
    ) -> Result<Response, Fault> {
        let length = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length > PIECE) else { return Ok(response) };
        let (head, body) = response.into_parts();
        let content = body.collect().await.map_err(Fault::internal)?.to_bytes();
        let kib = u32::try_from(length / 1024 + 1).unwrap_or(u32::MAX);
        let mut sent = match Arc::clone(&self.sending.0).try_acquire_many_owned(kib) {
            Ok(room) => from_memory(content, room),
            Err(_) => {
                let kept = content.clone();
                match self.blocking(Lane::Quick, move || space.vfs.set_aside(content)).await {
                    Ok(Content::OnDisk(reader)) => self.streamed(reader, 0..length as u64),
                    Ok(Content::Here(content)) => from_memory(content, ()),
                    Err(fault) if is_reading => {
                        let told = "too many clients take long answers slowly, and the disk takes no more of them; try again in a moment";
                        return Err(Fault::unavailable(told).with(RETRY, COME_AGAIN).caused_by(fault));
                    }
                    Err(_) => from_memory(kept, ()),
                }
            }
        };
        *sent.status_mut() = head.status;
        *sent.headers_mut() = head.headers;
        sent.headers_mut().typed_insert(ContentLength(length as u64));
        Ok(sent)
    }

    /// A part of a file, read piece by piece as the client takes it.
    pub(crate) fn streamed(&self, reader: Reader, part: Range<u64>) -> Response {
        let read = Read { now: Reader::read_now, wait: Reader::read };
        piece_by_piece(svcfs_listener::streamed(Arc::clone(&self.lanes), (reader, read), part))
    }
}

/// Adds to the headers of an event stream what has proxies pass each event on immediately, and unchanged. nginx heeds the first, which is
/// its own; the second is for those that would compress, and so collect, what they pass on (RFC 9111 5.2.2.6).
pub(crate) fn unbuffered(headers: &mut HeaderMap) {
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
}

/// An answer that is in memory, and what is let go of once it is sent.
fn from_memory<T: Send + Sync + 'static>(content: Bytes, held: T) -> Response {
    piece_by_piece(stream::unfold((content, held), |(mut content, held)| async move {
        let piece = content.split_to(content.len().min(PIECE));
        if piece.is_empty() { None } else { Some((Ok(piece), (content, held))) }
    }))
}

fn piece_by_piece(pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + Sync + 'static) -> Response {
    warp::reply::stream(pieces).into_response()
}
