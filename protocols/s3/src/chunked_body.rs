//! Limits the memory that `aws-chunked` bodies take.
//!
//! s3s reads a chunk fully into memory before it passes it on, because it verifies the signature of
//! the chunk. So that slow clients do not occupy memory, a long chunk is first collected here in a
//! spill buffer, and passed to s3s when it is complete.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, stream};
use hyper::body::{Body, Frame, SizeHint};
use svcfs_base::Fault;
use svcfs_listener::{MemoryBudget, SpillBuffer};
use svcfs_work::{Lane, Lanes};
use tokio::sync::OwnedSemaphorePermit;

/// Longest chunk in bytes; clients send 64 KiB to 8 MiB.
const MAX_CHUNK_BYTES: u64 = 16 << 20;
/// Chunks up to this length are passed on as they arrive.
const UNBUFFERED_BYTES: u64 = 64 << 10;
/// Hex digits of a length that s3s reads.
const MAX_LENGTH_DIGITS: usize = 8;

/// Why a chunked body cannot be read.
#[derive(Debug)]
pub(crate) enum ChunkError<E> {
    /// The connection broke.
    Body(E),
    /// A chunk declares too many bytes.
    TooLong(u64),
    /// No memory or disk space for a chunk.
    Storage(Fault),
}

impl<E: fmt::Display> fmt::Display for ChunkError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(formatter),
            Self::TooLong(length) => {
                write!(
                    formatter,
                    "a chunk (`aws-chunked`) has {length} bytes; send chunks of at most {MAX_CHUNK_BYTES} bytes"
                )
            }
            Self::Storage(fault) => fault.fmt(formatter),
        }
    }
}

impl<E: std::error::Error> std::error::Error for ChunkError<E> {}

/// Resources for buffering chunks.
#[derive(Clone)]
pub(crate) struct ChunkStorage {
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) lanes: Arc<Lanes>,
    /// The folder for spilled chunks.
    pub(crate) folder: PathBuf,
}

impl ChunkStorage {
    async fn append(&self, mut buffer: SpillBuffer, bytes: &[u8]) -> Result<SpillBuffer, Fault> {
        buffer.push(bytes);
        if !buffer.is_full() {
            return Ok(buffer);
        }
        let write_out = move || buffer.spill().map(|()| buffer);
        svcfs_listener::run_blocking(&self.lanes, Lane::Quick, write_out).await
    }
}

/// A chunked body with limited chunk length.
pub(crate) struct ChunkedBody<E> {
    stream: Pin<Box<dyn Stream<Item = Result<Bytes, ChunkError<E>>> + Send>>,
    length: SizeHint,
}

impl<E: Send + 'static> ChunkedBody<E> {
    /// Wraps a body.
    pub(crate) fn new(
        body: impl Body<Data = Bytes, Error = E> + Send + Unpin + 'static,
        storage: ChunkStorage,
    ) -> Self {
        let length = body.size_hint();
        let reader = ChunkReader {
            body,
            storage,
            position: ChunkPosition::START,
            rest: Bytes::new(),
            buffer: None,
            permit: None,
        };
        let stream = stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Self { stream: Box::pin(stream), length }
    }
}

impl<E: Send + 'static> Body for ChunkedBody<E> {
    type Data = Bytes;
    type Error = ChunkError<E>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.stream.as_mut().poll_next(context).map_ok(Frame::data)
    }
    fn size_hint(&self) -> SizeHint {
        self.length
    }
}

/// The state of reading such a body.
struct ChunkReader<B> {
    body: B,
    storage: ChunkStorage,
    position: ChunkPosition,
    /// Received, not parsed yet.
    rest: Bytes,
    /// The current long chunk.
    buffer: Option<SpillBuffer>,
    /// The memory permit of the chunk passed on last, held until s3s asks for more.
    permit: Option<OwnedSemaphorePermit>,
}

impl<B: Body<Data = Bytes> + Unpin> ChunkReader<B> {
    /// The next bytes for s3s; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ChunkError<B::Error>> {
        self.permit = None;
        loop {
            while self.rest.is_empty() {
                let frame = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
                let Some(frame) = frame.transpose().map_err(ChunkError::Body)? else { return Ok(None) };
                self.rest = frame.into_data().unwrap_or_default();
            }
            let (next, length) = self.position.advance(&self.rest).map_err(ChunkError::TooLong)?;
            let bytes = self.rest.split_to(length);
            self.position = next;
            match (self.buffer.take(), next) {
                (Some(buffer), ChunkPosition::Data(_)) => {
                    let buffer = self.storage.append(buffer, &bytes).await.map_err(ChunkError::Storage)?;
                    self.buffer = Some(buffer);
                }
                (Some(buffer), _) => {
                    let buffer = self.storage.append(buffer, &bytes).await.map_err(ChunkError::Storage)?;
                    return self.complete(buffer).await.map(Some).map_err(ChunkError::Storage);
                }
                (None, ChunkPosition::Data(remaining)) if remaining > UNBUFFERED_BYTES + 2 => {
                    self.buffer = Some(SpillBuffer::new(&self.storage.memory, &self.storage.folder));
                    return Ok(Some(bytes));
                }
                (None, _) => return Ok(Some(bytes)),
            }
        }
    }

    async fn complete(&mut self, buffer: SpillBuffer) -> Result<Bytes, Fault> {
        let length = buffer.length();
        let memory = if buffer.is_on_disk() { Some(self.storage.memory.reserve_buffer(length).await?) } else { None };
        let lanes = &self.storage.lanes;
        let (bytes, buffer_permit) = match buffer.is_on_disk() {
            true => svcfs_listener::run_blocking(lanes, Lane::Quick, move || buffer.into_bytes()).await?,
            false => buffer.into_bytes()?,
        };
        self.permit = memory.or(buffer_permit);
        Ok(bytes)
    }
}

/// A position in the chunk framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkPosition {
    /// In the length of a chunk: the value so far.
    Length { length: u64, digits: usize },
    /// After the length, before the end of the line.
    Line(u64),
    /// In a chunk: remaining bytes, including the line end after it.
    Data(u64),
    /// After the last chunk, or after a framing error, which s3s reports.
    End,
}

impl ChunkPosition {
    const START: Self = Self::Length { length: 0, digits: 0 };

    /// Advances to the next start or end of a chunk; returns the number of bytes. The error is the
    /// length of a chunk that is too long.
    fn advance(mut self, data: &[u8]) -> Result<(Self, usize), u64> {
        for (position, &byte) in data.iter().enumerate() {
            self = match self {
                Self::Length { length, .. } | Self::Line(length) if byte == b'\n' => match length {
                    0 => Self::End,
                    1..=MAX_CHUNK_BYTES => return Ok((Self::Data(length + 2), position + 1)),
                    _ => return Err(length),
                },
                Self::Length { length, digits } => {
                    match char::from(byte).to_digit(16).filter(|_| digits < MAX_LENGTH_DIGITS) {
                        Some(digit) => Self::Length { length: length * 16 + u64::from(digit), digits: digits + 1 },
                        None => Self::Line(length),
                    }
                }
                Self::Line(length) => Self::Line(length),
                Self::Data(remaining) => {
                    let bytes = usize::try_from(remaining).unwrap_or(usize::MAX).min(data.len());
                    let remaining = remaining - bytes as u64;
                    return Ok((if remaining == 0 { Self::START } else { Self::Data(remaining) }, bytes));
                }
                Self::End => return Ok((Self::End, data.len())),
            };
        }
        Ok((self, data.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a body that comes in frames of this length.
    fn followed(body: &[u8], frame: usize) -> Result<(), u64> {
        let mut position = ChunkPosition::START;
        for mut frame in body.chunks(frame) {
            while !frame.is_empty() {
                let (next, length) = position.advance(frame)?;
                (position, frame) = (next, &frame[length..]);
            }
        }
        Ok(())
    }

    /// A body whose frames are told one by one.
    struct Told(tokio::sync::mpsc::UnboundedReceiver<Bytes>);

    impl Body for Told {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            self.0.poll_recv(context).map(|to_s3_error| to_s3_error.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    /// What is handed on as far as it comes.
    async fn handed_on(pieces: &mut ChunkedBody<std::io::Error>) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let next = std::future::poll_fn(|context| Poll::Ready(pieces.stream.as_mut().poll_next(context)));
            let Poll::Ready(Some(bytes)) = next.await else { break };
            all.extend_from_slice(&bytes.unwrap());
        }
        all
    }

    #[test]
    fn long_chunks_of_slow_clients_spill_to_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let on_disk = move || {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            open.filter(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.starts_with(&path))).count()
        };
        let storage = ChunkStorage {
            memory: Arc::new(MemoryBudget::new(1024, 64 << 10)),
            lanes: Arc::default(),
            folder: folder.path().to_owned(),
        };
        let piece: Vec<u8> = (0..1_u32 << 20).map(|position| (position / 7) as u8).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        runtime
            .block_on(runtime.spawn(tokio::task::unconstrained(async move {
                let begin = format!("{:x}\r\n", piece.len()).into_bytes();
                let mut slow = Vec::new();
                for _ in 0..8 {
                    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
                    let mut pieces = ChunkedBody::new(Told(receiver), storage.clone());
                    sender.send(begin.clone().into()).unwrap();
                    piece[..1_000_000]
                        .chunks(10_000)
                        .for_each(|part| sender.send(Bytes::copy_from_slice(part)).unwrap());
                    assert_eq!(handed_on(&mut pieces).await, begin, "nothing of a long piece before all of it is here");
                    slow.push((sender, pieces));
                }
                assert!(on_disk() >= 7, "there is room for one: {}", on_disk());
                for (sender, mut pieces) in slow {
                    sender.send(Bytes::copy_from_slice(&piece[1_000_000..])).unwrap();
                    sender.send("\r\n3\r\nabc\r\n0\r\nx-amz-checksum-crc32:1\r\n".into()).unwrap();
                    drop(sender);
                    let rest: &[u8] = b"\r\n3\r\nabc\r\n0\r\nx-amz-checksum-crc32:1\r\n";
                    assert!(handed_on(&mut pieces).await == [&piece[..], rest].concat());
                }
                assert_eq!(on_disk(), 0);
            })))
            .unwrap();
    }

    #[test]
    fn a_signed_chunk_longer_than_the_memory_limit_is_refused() {
        let signature = "0".repeat(64);
        let body = |second: &str| {
            format!("5;chunk-signature={signature}\r\n1\r\n2\n\r\n{second};chunk-signature={signature}\r\nabc")
        };
        for frame in [1, 2, 3, 7, 1000] {
            assert_eq!(followed(body("1000000").as_bytes(), frame), Ok(()), "{frame}");
            assert_eq!(followed(body("1000001").as_bytes(), frame), Err(MAX_CHUNK_BYTES + 1), "{frame}");
            assert_eq!(followed(body("FFFFFFFF").as_bytes(), frame), Err(u64::from(u32::MAX)), "{frame}");
            // As s3s reads it: eight digits, and nothing of what comes behind them.
            assert_eq!(followed(body("0000000300").as_bytes(), frame), Ok(()), "{frame}");
            assert_eq!(followed(b"ffffffff\r\n", frame), Err(u64::from(u32::MAX)), "{frame}");
            assert_eq!(followed(b"1\r\na\r\n0\r\nffffffff:\r\n", frame), Ok(()), "{frame}: it ends before");
        }
    }
}
