//! Long answers on their way to clients.
//!
//! One rule: slow clients take no more memory than there is room for. The long answers of all of them have one room, and what finds none is set aside
//! on the disk and sent from there, piece by piece, as long files are. Where the disk takes nothing more, who only asked is told to come again.
//!
//! Why does nobody wait for room? Because those who are slow would keep all others out.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use headers::{ContentLength, HeaderMapExt};
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use svcfs_base::Fault;
use svcfs_knowledge::access::RETRY_AFTER_KEY;
use svcfs_knowledge::kernel::{FileContent, FileReader, JsonText, PIECE_BYTES, Route, Space};
use svcfs_listener::ReadFunctions;
use svcfs_work::{Lane, Lanes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;
use warp::Reply;
use warp::reply::Response;

use crate::app::AppState;
use crate::reply;

/// Bytes of a long answer handed to a connection at once; one that is no longer is sent as it is.
pub(crate) const PIECE: usize = PIECE_BYTES;
/// KiB of memory for long answers.
const ROOM: usize = 64 << 10;
/// KiB that one answer takes of it at most, whatever it holds: a few of the longest still find room.
const MOST_HELD: usize = ROOM / 8;
/// When somebody may come again for whose answer there was no room, in seconds.
const COME_AGAIN: u64 = 10;

/// Memory for long answers that are being sent.
pub(crate) struct ResponseBudget(pub(crate) Arc<Semaphore>);

impl Default for ResponseBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM)))
    }
}

impl AppState {
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
                match self.blocking(Lane::Quick, move || space.vfs.spill_content(content)).await {
                    Ok(FileContent::OnDisk(reader)) => self.streamed(reader, 0..length as u64),
                    Ok(FileContent::InMemory(content)) => from_memory(content, ()),
                    Err(fault) if is_reading => {
                        let told = "too many clients take long answers slowly, and the disk takes no more of them; try again in a moment";
                        return Err(Fault::unavailable(told)
                            .with_detail(RETRY_AFTER_KEY, COME_AGAIN)
                            .with_source(fault));
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

    /// An answer of a plain route, from its text. A long one is written while it is sent, and what it holds takes room until its client has
    /// it. Where there is none it is written out whole, and is then a long answer as all others are.
    ///
    /// # Errors
    /// Those of the text where it is written out whole.
    pub(crate) async fn written(&self, route: &Route, text: JsonText) -> Result<Response, Fault> {
        let Some(rest) = &text.rest else { return reply::written(route, text.first) };
        let kib = ((rest.memory_bytes() + 2 * PIECE) / 1024).min(MOST_HELD);
        let room = u32::try_from(kib).ok().and_then(|kib| Arc::clone(&self.sending.0).try_acquire_many_owned(kib).ok());
        let Some(room) = room else {
            let text = self.blocking(Lane::Slow, move || text.collect()).await?;
            return reply::written(route, text);
        };
        let mut response = reply::written(route, Vec::new())?;
        let pieces = pieces_of(text, (Arc::clone(&self.lanes), room));
        *response.body_mut() = piece_by_piece(pieces).into_body();
        Ok(response)
    }

    /// A part of a file, read piece by piece as the client takes it.
    pub(crate) fn streamed(&self, reader: FileReader, part: Range<u64>) -> Response {
        let read = ReadFunctions { try_read: FileReader::try_read_cached, read: FileReader::read };
        piece_by_piece(svcfs_listener::stream_file(Arc::clone(&self.lanes), (reader, read), part))
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

/// The pieces of a text, each written when the one before it is on its way; `room` is let go of after the last.
fn pieces_of(
    JsonText { first, rest }: JsonText,
    (lanes, room): (Arc<Lanes>, OwnedSemaphorePermit),
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + Sync + 'static {
    let span = tracing::Span::current();
    let first = stream::iter([Ok(Bytes::from(first))]);
    let others = stream::unfold((rest, room), move |(rest, room)| {
        let (lanes, span) = (Arc::clone(&lanes), span.clone());
        async move {
            let mut rest = rest?;
            let write = move || {
                let mut text = Vec::with_capacity(PIECE + PIECE / 16);
                let has_more = rest.write_next(&mut text)?;
                Ok((Bytes::from(text), has_more.then_some(rest)))
            };
            match svcfs_listener::run_blocking(&lanes, Lane::Quick, write).instrument(span.clone()).await {
                Ok((piece, rest)) => Some((Ok(piece), (rest, room))),
                // The connection breaks off, and the client knows that the answer is not complete.
                Err(fault) => {
                    span.in_scope(|| svcfs_listener::log_fault(&fault, "an answer that is sent in pieces"));
                    Some((Err(std::io::Error::other(fault)), (None, room)))
                }
            }
        }
    });
    first.chain(others)
}

fn piece_by_piece(pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + Sync + 'static) -> Response {
    warp::reply::stream(pieces).into_response()
}
