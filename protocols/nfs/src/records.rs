//! Messages on a stream (RFC 5531 11): each in fragments, each with its length before it.
//!
//! One rule: room is made for bytes that came, never for bytes that were announced.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nfs3_types::rpc::fragment_header;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest message, in bytes: the longest write, its head, and as much again.
pub(crate) const LONGEST: usize = 2 << 20;
/// How long the rest of a message may take once it began, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nothing may come.
const REST: Duration = Duration::from_secs(3600);

/// A message, and the room it has taken.
pub(crate) type Taken = (Vec<u8>, OwnedSemaphorePermit);

/// KiB of room for so many bytes.
pub(crate) fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// The next message; none when the client has left. It waits for `room` (KiB) once it began.
///
/// # Errors
/// `InvalidData` for one that is too long, `TimedOut` for one that does not end.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin), room: &Arc<Semaphore>) -> io::Result<Option<Taken>> {
    let mut head = [0; 4];
    match tokio::time::timeout(REST, stream.read_exact(&mut head)).await? {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    };
    check(head, 0)?;
    let mut room = Arc::clone(room).acquire_many_owned(kib(LONGEST)).await.map_err(io::Error::other)?;
    let record = tokio::time::timeout(PATIENCE, rest(stream, head)).await??;
    // What it did not need.
    drop(room.split(room.num_permits().saturating_sub(kib(record.len()) as usize)));
    Ok(Some((record, room)))
}

async fn rest(stream: &mut (impl AsyncRead + Unpin), mut head: [u8; 4]) -> io::Result<Vec<u8>> {
    let mut record = Vec::new();
    loop {
        let head_of = check(head, record.len())?;
        let length = head_of.fragment_length() as usize;
        let read = (&mut *stream).take(length as u64).read_to_end(&mut record).await?;
        if read < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if head_of.eof() {
            return Ok(record);
        }
        stream.read_exact(&mut head).await?;
    }
}

/// The head of a fragment that comes after so many bytes of its message.
fn check(head: [u8; 4], before: usize) -> io::Result<fragment_header> {
    let head = fragment_header::from(head);
    let length = head.fragment_length() as usize;
    if length > LONGEST.saturating_sub(before) || (length == 0 && !head.eof()) {
        let told = format!("a message of {length} bytes more; the limit is {LONGEST}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, told));
    }
    Ok(head)
}

/// Sends a message, in one fragment.
///
/// # Errors
/// `TimedOut` when the client does not take it.
pub(crate) async fn write(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let head = fragment_header::new(length, true).into_xdr_buf();
    tokio::time::timeout(PATIENCE, async {
        stream.write_all(&head).await?;
        stream.write_all(message).await?;
        stream.flush().await
    })
    .await?
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let room = Arc::new(Semaphore::new(kib(LONGEST) as usize));
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
}
