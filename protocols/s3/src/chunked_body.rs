//! Bodies in pieces (`aws-chunked`), followed as they come.
//!
//! s3s has a piece in memory whole before it hands anything of it on, for it compares its signature. So that who is slow takes no memory for that, a long
//! piece is gathered here first, as bodies are: as far as there is room in memory, else on the disk. s3s is told of it when all of it is here.

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

/// Bytes of one piece, at most: clients send 64 KiB to 8 MiB.
const MOST: u64 = 16 << 20;
/// Bytes of one that s3s may have while it comes.
const SHORT: u64 = 64 << 10;
/// Digits of a length that s3s reads.
const DIGITS: usize = 8;

/// Why a body in pieces is not read on.
#[derive(Debug)]
pub(crate) enum ChunkError<E> {
    /// It broke off.
    Body(E),
    /// A piece is announced with so many bytes.
    TooLong(u64),
    /// There is no room for a piece.
    Room(Fault),
}

impl<E: fmt::Display> fmt::Display for ChunkError<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(formatter),
            Self::TooLong(length) => {
                write!(formatter, "a piece of it (`aws-chunked`) has {length} bytes; send pieces of at most {MOST}")
            }
            Self::Room(fault) => fault.fmt(formatter),
        }
    }
}

impl<E: std::error::Error> std::error::Error for ChunkError<E> {}

/// What pieces are gathered with.
#[derive(Clone)]
pub(crate) struct ChunkStorage {
    pub(crate) room: Arc<MemoryBudget>,
    pub(crate) lanes: Arc<Lanes>,
    /// Where those lie for which there is no room in memory.
    pub(crate) folder: PathBuf,
}

impl ChunkStorage {
    async fn gathered(&self, mut gathering: SpillBuffer, here: &[u8]) -> Result<SpillBuffer, Fault> {
        gathering.push(here);
        if !gathering.is_full() {
            return Ok(gathering);
        }
        let write_out = move || gathering.spill().map(|()| gathering);
        svcfs_listener::run_blocking(&self.lanes, Lane::Quick, write_out).await
    }
}

/// A body in pieces, none of them longer than they may be.
pub(crate) struct ChunkedBody<E> {
    coming: Pin<Box<dyn Stream<Item = Result<Bytes, ChunkError<E>>> + Send>>,
    length: SizeHint,
}

impl<E: Send + 'static> ChunkedBody<E> {
    /// The same body, followed.
    pub(crate) fn new(body: impl Body<Data = Bytes, Error = E> + Send + Unpin + 'static, place: ChunkStorage) -> Self {
        let length = body.size_hint();
        let following =
            ChunkReader { body, place, at: ChunkPosition::BEGIN, rest: Bytes::new(), gathering: None, held: None };
        let coming = stream::unfold(Some(following), |following| async move {
            let mut following = following?;
            match following.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(following))),
                Ok(None) => None,
                Err(failed) => Some((Err(failed), None)),
            }
        });
        Self { coming: Box::pin(coming), length }
    }
}

impl<E: Send + 'static> Body for ChunkedBody<E> {
    type Data = Bytes;
    type Error = ChunkError<E>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.coming.as_mut().poll_next(context).map_ok(Frame::data)
    }
    fn size_hint(&self) -> SizeHint {
        self.length
    }
}

/// How far such a body is read.
struct ChunkReader<B> {
    body: B,
    place: ChunkStorage,
    at: ChunkPosition,
    /// What came and was not looked at yet.
    rest: Bytes,
    /// The long piece that is coming.
    gathering: Option<SpillBuffer>,
    /// Room of the one that was handed on, held as long as s3s may have it: until it asks for more.
    held: Option<OwnedSemaphorePermit>,
}

impl<B: Body<Data = Bytes> + Unpin> ChunkReader<B> {
    /// What is handed on next; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ChunkError<B::Error>> {
        self.held = None;
        loop {
            while self.rest.is_empty() {
                let frame = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
                let Some(frame) = frame.transpose().map_err(ChunkError::Body)? else { return Ok(None) };
                self.rest = frame.into_data().unwrap_or_default();
            }
            let (next, length) = self.at.follow(&self.rest).map_err(ChunkError::TooLong)?;
            let here = self.rest.split_to(length);
            self.at = next;
            match (self.gathering.take(), next) {
                (Some(gathering), ChunkPosition::Piece(_)) => {
                    let gathering = self.place.gathered(gathering, &here).await.map_err(ChunkError::Room)?;
                    self.gathering = Some(gathering);
                }
                (Some(gathering), _) => {
                    let gathering = self.place.gathered(gathering, &here).await.map_err(ChunkError::Room)?;
                    return self.whole(gathering).await.map(Some).map_err(ChunkError::Room);
                }
                (None, ChunkPosition::Piece(left)) if left > SHORT + 2 => {
                    self.gathering = Some(SpillBuffer::new(&self.place.room, &self.place.folder));
                    return Ok(Some(here));
                }
                (None, _) => return Ok(Some(here)),
            }
        }
    }

    async fn whole(&mut self, gathering: SpillBuffer) -> Result<Bytes, Fault> {
        let length = gathering.length();
        let room = if gathering.is_on_disk() { Some(self.place.room.reserve_buffer(length).await?) } else { None };
        let lanes = &self.place.lanes;
        let (bytes, taken) = match gathering.is_on_disk() {
            true => svcfs_listener::run_blocking(lanes, Lane::Quick, move || gathering.into_bytes()).await?,
            false => gathering.into_bytes()?,
        };
        self.held = room.or(taken);
        Ok(bytes)
    }
}

/// Where in such a body it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkPosition {
    /// In the length of a piece: what is known of it.
    Length { length: u64, digits: usize },
    /// Behind it, up to the end of the line.
    Line(u64),
    /// In a piece, with so much of it to come, and the end of the line behind it.
    Piece(u64),
    /// Behind the last one, or in what is no such body, as s3s says then.
    End,
}

impl ChunkPosition {
    const BEGIN: Self = Self::Length { length: 0, digits: 0 };

    /// Goes on by what has come, up to where a piece begins or ends; how many bytes that are. The length of a piece that is too long, as an error.
    fn follow(mut self, data: &[u8]) -> Result<(Self, usize), u64> {
        for (at, &byte) in data.iter().enumerate() {
            self = match self {
                Self::Length { length, .. } | Self::Line(length) if byte == b'\n' => match length {
                    0 => Self::End,
                    1..=MOST => return Ok((Self::Piece(length + 2), at + 1)),
                    _ => return Err(length),
                },
                Self::Length { length, digits } => match char::from(byte).to_digit(16).filter(|_| digits < DIGITS) {
                    Some(digit) => Self::Length { length: length * 16 + u64::from(digit), digits: digits + 1 },
                    None => Self::Line(length),
                },
                Self::Line(length) => Self::Line(length),
                Self::Piece(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                    let left = left - here as u64;
                    return Ok((if left == 0 { Self::BEGIN } else { Self::Piece(left) }, here));
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
        let mut at = ChunkPosition::BEGIN;
        for mut frame in body.chunks(frame) {
            while !frame.is_empty() {
                let (next, length) = at.follow(frame)?;
                (at, frame) = (next, &frame[length..]);
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
            self.0.poll_recv(context).map(|told| told.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    /// What is handed on as far as it comes.
    async fn handed_on(pieces: &mut ChunkedBody<std::io::Error>) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let next = std::future::poll_fn(|context| Poll::Ready(pieces.coming.as_mut().poll_next(context)));
            let Poll::Ready(Some(bytes)) = next.await else { break };
            all.extend_from_slice(&bytes.unwrap());
        }
        all
    }

    #[test]
    fn long_pieces_of_slow_clients_lie_on_the_disk_where_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let on_disk = move || {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            open.filter(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.starts_with(&path))).count()
        };
        let place = ChunkStorage {
            room: Arc::new(MemoryBudget::new(1024, 64 << 10)),
            lanes: Arc::default(),
            folder: folder.path().to_owned(),
        };
        let piece: Vec<u8> = (0..1_u32 << 20).map(|at| (at / 7) as u8).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        runtime
            .block_on(runtime.spawn(tokio::task::unconstrained(async move {
                let begin = format!("{:x}\r\n", piece.len()).into_bytes();
                let mut slow = Vec::new();
                for _ in 0..8 {
                    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
                    let mut pieces = ChunkedBody::new(Told(receiver), place.clone());
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
    fn a_piece_of_a_signed_body_is_refused_when_it_is_longer_than_fits_in_memory() {
        let signature = "0".repeat(64);
        let body = |second: &str| {
            format!("5;chunk-signature={signature}\r\n1\r\n2\n\r\n{second};chunk-signature={signature}\r\nabc")
        };
        for frame in [1, 2, 3, 7, 1000] {
            assert_eq!(followed(body("1000000").as_bytes(), frame), Ok(()), "{frame}");
            assert_eq!(followed(body("1000001").as_bytes(), frame), Err(MOST + 1), "{frame}");
            assert_eq!(followed(body("FFFFFFFF").as_bytes(), frame), Err(u64::from(u32::MAX)), "{frame}");
            // As s3s reads it: eight digits, and nothing of what comes behind them.
            assert_eq!(followed(body("0000000300").as_bytes(), frame), Ok(()), "{frame}");
            assert_eq!(followed(b"ffffffff\r\n", frame), Err(u64::from(u32::MAX)), "{frame}");
            assert_eq!(followed(b"1\r\na\r\n0\r\nffffffff:\r\n", frame), Ok(()), "{frame}: it ends before");
        }
    }
}
