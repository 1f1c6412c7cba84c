//! Record marking (RFC 5531 11): each message is sent in fragments with a length header.
//!
//! Invariant: memory is allocated for bytes received, never for bytes announced.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use nfs3_types::rpc::fragment_header;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::rpc::RpcReply;

/// Maximum message size in bytes: the longest write with its header, doubled.
pub(crate) const MAX_RECORD_BYTES: usize = 2 << 20;
/// Bytes of a message that are read before memory is taken from the budget. A connection reads one
/// message at a time.
const UNBUDGETED_BYTES: usize = 64 << 10;
/// Time for the rest of a message to arrive, and for a reply to be sent.
const IO_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Memory budget in KiB. Large messages have their own part: clients that send half of one, or do
/// not read theirs, leave the rest for small ones.
pub(crate) struct MessageBudget {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl MessageBudget {
    /// A budget of `kib` KiB, a quarter of it for small messages.
    pub(crate) fn new(kib: usize) -> Self {
        Self { short: Arc::new(Semaphore::new(kib / 4)), long: Arc::new(Semaphore::new(kib - kib / 4)) }
    }

    /// Waits for `kib` KiB. Errors: when the budget is closed.
    pub(crate) async fn take(&self, kibibytes: u32) -> io::Result<OwnedSemaphorePermit> {
        let part = if kibibytes <= kib(UNBUDGETED_BYTES) { &self.short } else { &self.long };
        Arc::clone(part).acquire_many_owned(kibibytes).await.map_err(io::Error::other)
    }
}

/// A message and its share of the budget.
pub(crate) type ReceivedMessage = (Vec<u8>, OwnedSemaphorePermit);

pub(crate) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Reads the next message; `None` when the client has closed the connection. It takes memory from
/// `budget`: for a short message when it is complete, for a long one when its first part is.
/// Errors: `InvalidData` for a message that is too long, `TimedOut` for an incomplete one.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    budget: &MessageBudget,
) -> io::Result<Option<ReceivedMessage>> {
    let mut header = [0; 4];
    match tokio::time::timeout(IDLE_TIMEOUT, stream.read_exact(&mut header)).await? {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    };
    let mut partial = PartialRecord { record: Vec::new(), remaining: 0, is_last: false };
    partial.start_fragment(header)?;
    let is_complete = tokio::time::timeout(IO_TIMEOUT, partial.read_until(stream, UNBUDGETED_BYTES)).await??;
    let max_bytes = if partial.is_last { partial.record.len() + partial.remaining } else { MAX_RECORD_BYTES };
    let mut permits = budget.take(kib(max_bytes)).await?;
    if !is_complete {
        // One allocation; the system backs it with memory only as it is written.
        partial.record.reserve_exact(partial.remaining);
        tokio::time::timeout(IO_TIMEOUT, partial.read_until(stream, MAX_RECORD_BYTES)).await??;
    }
    // Give back the unused part.
    drop(permits.split(permits.num_permits().saturating_sub(kib(partial.record.len()) as usize)));
    Ok(Some((partial.record, permits)))
}

struct PartialRecord {
    record: Vec<u8>,
    /// Bytes of the current fragment not yet received.
    remaining: usize,
    is_last: bool,
}

impl PartialRecord {
    fn start_fragment(&mut self, header: [u8; 4]) -> io::Result<()> {
        let header = parse_header(header, self.record.len())?;
        (self.remaining, self.is_last) = (header.fragment_length() as usize, header.eof());
        Ok(())
    }

    /// Reads up to `limit` bytes; true when the message is complete.
    async fn read_until(&mut self, stream: &mut (impl AsyncRead + Unpin), limit: usize) -> io::Result<bool> {
        loop {
            let requested = self.remaining.min(limit.saturating_sub(self.record.len()));
            let read = (&mut *stream).take(requested as u64).read_to_end(&mut self.record).await?;
            if read < requested {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.remaining -= requested;
            if self.remaining > 0 {
                return Ok(false);
            }
            if self.is_last {
                return Ok(true);
            }
            let mut header = [0; 4];
            stream.read_exact(&mut header).await?;
            self.start_fragment(header)?;
        }
    }
}

/// Parses a fragment header that follows `received` bytes of its message.
fn parse_header(header: [u8; 4], received: usize) -> io::Result<fragment_header> {
    let header = fragment_header::from(header);
    let length = header.fragment_length() as usize;
    if length > MAX_RECORD_BYTES.saturating_sub(received) || (length == 0 && !header.eof()) {
        let message = format!("invalid fragment length {length}; the limit of a message is {MAX_RECORD_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(header)
}

/// Sends a message in one fragment. Errors: `TimedOut` when the client does not read it.
pub(crate) async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &RpcReply) -> io::Result<()> {
    let length = u32::try_from(message.length()).map_err(io::Error::other)?;
    let header = fragment_header::new(length, true).into_xdr_buf();
    let mut parts = Buf::chain(&header[..], &message.head[..]).chain(&message.data[..]).chain(message.padding());
    tokio::time::timeout(IO_TIMEOUT, async {
        stream.write_all_buf(&mut parts).await?;
        stream.flush().await
    })
    .await?
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let room = MessageBudget::new(2 * kib(MAX_RECORD_BYTES) as usize);
        Ok(read(&mut &*bytes, &room).await?.map(|(record, _)| record))
    }

    #[tokio::test]
    async fn fragments_are_put_together() {
        let sent = [&[0, 0, 0, 2][..], b"ab", &[0x80, 0, 0, 1], b"c", b"next"].concat();
        assert_eq!(read_all(&sent).await.unwrap().unwrap(), b"abc");
        assert_eq!(read_all(&[]).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_head_that_claims_too_much_is_refused_before_room_is_made() {
        for claimed in [[0xff, 0xff, 0xff, 0xff], [0x80, 0x20, 0, 1], [0, 0, 0, 0]] {
            let refused = read_all(&claimed).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{claimed:?}");
        }
        // Two that are too long together.
        let sent = [&0x0010_0000_u32.to_be_bytes()[..], &vec![0; 1 << 20], &0x8010_0001_u32.to_be_bytes()].concat();
        assert_eq!(read_all(&sent).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_all(&[0x80, 0, 0, 9, 1]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn who_only_announces_a_message_takes_no_room() {
        let room = MessageBudget::new(2 * kib(MAX_RECORD_BYTES) as usize);
        for begun in [&[0x80, 0, 0, 100][..], &[0x80, 0x20, 0, 0, 1, 2, 3], &[0, 0, 0, 1, 7]] {
            let (mut client, mut server) = tokio::io::duplex(64);
            client.write_all(begun).await.unwrap();
            let mut waiting = Box::pin(read(&mut server, &room));
            tokio::select! {
                biased;
                _ = &mut waiting => panic!("{begun:?} is no message"),
                () = std::future::ready(()) => {}
            }
            let remaining = (room.short.available_permits(), room.long.available_permits());
            assert_eq!(
                remaining,
                (kib(MAX_RECORD_BYTES) as usize / 2, 3 * kib(MAX_RECORD_BYTES) as usize / 2),
                "{begun:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_long_message_takes_as_much_room_as_it_has() {
        let content: Vec<u8> = (0..3 * UNBUDGETED_BYTES).map(|at| at as u8).collect();
        let (first, second) = content.split_at(UNBUDGETED_BYTES + 7);
        let header = |length: usize, last: u32| (last << 31 | length as u32).to_be_bytes();
        let sent = [&header(first.len(), 0)[..], first, &header(second.len(), 1), second].concat();
        let room = MessageBudget::new(2 * kib(MAX_RECORD_BYTES) as usize);
        let (record, taken) = read(&mut &sent[..], &room).await.unwrap().unwrap();
        assert!(record == content);
        assert_eq!(taken.num_permits(), kib(content.len()) as usize);
    }

    #[tokio::test]
    async fn half_of_a_long_message_leaves_room_for_short_ones() {
        let room = MessageBudget::new(2 * kib(MAX_RECORD_BYTES) as usize);
        let (mut client, mut server) = tokio::io::duplex(2 * UNBUDGETED_BYTES);
        client.write_all(&(0x8000_0000 | MAX_RECORD_BYTES as u32).to_be_bytes()).await.unwrap();
        client.write_all(&vec![0; UNBUDGETED_BYTES + 1]).await.unwrap();
        let mut waiting = Box::pin(read(&mut server, &room));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("half of it is no message"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(room.long.available_permits(), kib(MAX_RECORD_BYTES) as usize / 2, "it has its room");
        let short = [&[0x80, 0, 0, 3][..], b"abc"].concat();
        assert_eq!(read(&mut &short[..], &room).await.unwrap().unwrap().0, b"abc");
        assert_eq!(room.short.available_permits(), kib(MAX_RECORD_BYTES) as usize / 2, "and gives it back");
    }
}
