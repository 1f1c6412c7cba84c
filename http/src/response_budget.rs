//! Memory for large responses.
//!
//! Invariant: slow clients use no more memory than the budget. When it is used up, a response is
//! spilled to disk and sent from there in pieces, as large files are. If the disk is full, too, a
//! read gets 503.
//!
//! A request never waits for the budget: slow clients would then block all others.

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

/// Bytes of a large response that are sent at a time; shorter responses need no budget.
pub(crate) const PIECE: usize = PIECE_BYTES;
/// The budget in KiB.
const BUDGET_KIB: usize = 64 << 10;
/// Maximum KiB for one response that is generated while it is sent.
const MAX_STREAMED_KIB: usize = BUDGET_KIB / 8;
/// Seconds after which a client may retry.
const RETRY_AFTER_SECS: u64 = 10;

/// Memory for large responses that are being sent.
pub(crate) struct ResponseBudget(pub(crate) Arc<Semaphore>);

impl Default for ResponseBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_KIB)))
    }
}

impl AppState {
    /// Prepares a response for sending: a large one takes memory from the budget until it is sent,
    /// or is spilled to disk. Errors: `Unavailable` when neither is possible for a read. The
    /// response to a write is sent in any case.
    pub(crate) async fn bounded(
        &self,
        (space, is_read): (Arc<Space>, bool),
        original: Response,
    ) -> Result<Response, Fault> {
        let length = original.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length > PIECE) else { return Ok(original) };
        let (head, body) = original.into_parts();
        let content = body.collect().await.map_err(Fault::internal)?.to_bytes();
        let kib = u32::try_from(length / 1024 + 1).unwrap_or(u32::MAX);
        let mut response = match Arc::clone(&self.response_budget.0).try_acquire_many_owned(kib) {
            Ok(permit) => from_memory(content, permit),
            Err(_) => {
                let copy = content.clone();
                match self.blocking(Lane::Quick, move || space.vfs.spill_content(content)).await {
                    Ok(FileContent::OnDisk(reader)) => self.streamed(reader, 0..length as u64),
                    Ok(FileContent::InMemory(content)) => from_memory(content, ()),
                    Err(fault) if is_read => {
                        let message = "no memory for this large response, and the disk cannot store it; retry in 10 s";
                        return Err(Fault::unavailable(message)
                            .with_detail(RETRY_AFTER_KEY, RETRY_AFTER_SECS)
                            .with_source(fault));
                    }
                    Err(_) => from_memory(copy, ()),
                }
            }
        };
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        response.headers_mut().typed_insert(ContentLength(length as u64));
        Ok(response)
    }

    /// The response of a plain route, from its text. A large one is generated while it is sent and
    /// takes memory until then. Without budget it is generated completely and handled as other
    /// large responses. Errors: those of generating the text.
    pub(crate) async fn json_response(&self, route: &Route, text: JsonText) -> Result<Response, Fault> {
        let Some(rest) = &text.rest else { return reply::json_bytes(route, text.first) };
        let kib = ((rest.memory_bytes() + 2 * PIECE) / 1024).min(MAX_STREAMED_KIB);
        let permit = u32::try_from(kib)
            .ok()
            .and_then(|kib| Arc::clone(&self.response_budget.0).try_acquire_many_owned(kib).ok());
        let Some(permit) = permit else {
            let text = self.blocking(Lane::Slow, move || text.collect()).await?;
            return reply::json_bytes(route, text);
        };
        let mut response = reply::json_bytes(route, Vec::new())?;
        let pieces = pieces_of(text, (Arc::clone(&self.lanes), permit));
        *response.body_mut() = stream_response(pieces).into_body();
        Ok(response)
    }

    /// A range of a file, read in pieces as the client receives it.
    pub(crate) fn streamed(&self, reader: FileReader, part: Range<u64>) -> Response {
        let read = ReadFunctions { try_read: FileReader::try_read_cached, read: FileReader::read };
        stream_response(svcfs_listener::stream_file(Arc::clone(&self.lanes), (reader, read), part))
    }
}

/// Adds headers to an event stream that make proxies forward each event immediately and unchanged:
/// the first is for nginx, the second for proxies that would compress and thereby buffer it (RFC
/// 9111 5.2.2.6).
pub(crate) fn unbuffered(headers: &mut HeaderMap) {
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
}

/// A response in memory, and a guard that is dropped once it is sent.
fn from_memory<T: Send + Sync + 'static>(content: Bytes, guard: T) -> Response {
    stream_response(stream::unfold((content, guard), |(mut content, guard)| async move {
        let piece = content.split_to(content.len().min(PIECE));
        if piece.is_empty() { None } else { Some((Ok(piece), (content, guard))) }
    }))
}

/// The pieces of a text, each generated when the one before is being sent; `permit` is dropped
/// after the last.
fn pieces_of(
    JsonText { first, rest }: JsonText,
    (lanes, permit): (Arc<Lanes>, OwnedSemaphorePermit),
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + Sync + 'static {
    let span = tracing::Span::current();
    let first = stream::iter([Ok(Bytes::from(first))]);
    let remaining = stream::unfold((rest, permit), move |(rest, permit)| {
        let (lanes, span) = (Arc::clone(&lanes), span.clone());
        async move {
            let mut rest = rest?;
            let write = move || {
                let mut text = Vec::with_capacity(PIECE + PIECE / 16);
                let has_more = rest.write_next(&mut text)?;
                Ok((Bytes::from(text), has_more.then_some(rest)))
            };
            match svcfs_listener::run_blocking(&lanes, Lane::Quick, write).instrument(span.clone()).await {
                Ok((piece, rest)) => Some((Ok(piece), (rest, permit))),
                // The connection is closed, so the client knows that the response is incomplete.
                Err(fault) => {
                    span.in_scope(|| svcfs_listener::log_fault(&fault, "a response sent in pieces"));
                    Some((Err(std::io::Error::other(fault)), (None, permit)))
                }
            }
        }
    });
    first.chain(remaining)
}

fn stream_response(pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + Sync + 'static) -> Response {
    warp::reply::stream(pieces).into_response()
}
