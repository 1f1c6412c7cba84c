//! Streams a file to a client, piece by piece, at the client's pace.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use svcfs_base::Fault;
use svcfs_work::{Lane, Lanes};

use crate::run_blocking;

/// Bytes of one piece.
const PIECE_BYTES: usize = 256 << 10;

/// How to read an open file: reader, offset, maximum length.
pub struct ReadFunctions<R> {
    /// Reads without blocking; `None` when that is not possible.
    pub try_read: fn(&R, u64, usize) -> Option<Bytes>,
    /// Reads in any case; may wait for the disk.
    pub read: fn(&R, u64, usize) -> Result<Bytes, Fault>,
}

/// Streams a part of a file as the client takes it. A lane is used only for data that is not in
/// memory.
pub fn stream_file<R: Send + Sync + 'static>(
    lanes: Arc<Lanes>,
    (reader, read): (R, ReadFunctions<R>),
    part: Range<u64>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + 'static {
    let (reader, ReadFunctions { try_read, read: read_blocking }) = (Arc::new(reader), read);
    stream::unfold((part.start, part.end.saturating_sub(part.start)), move |(offset, remaining)| {
        let (lanes, reader) = (Arc::clone(&lanes), Arc::clone(&reader));
        async move {
            if remaining == 0 {
                return None;
            }
            let length = usize::try_from(remaining).unwrap_or(usize::MAX).min(PIECE_BYTES);
            let piece = match try_read(&reader, offset, length) {
                Some(piece) => Ok(piece),
                None => run_blocking(&lanes, Lane::Quick, move || read_blocking(&reader, offset, length)).await,
            };
            let piece = match piece {
                Ok(piece) if !piece.is_empty() => Ok(piece),
                // The file was truncated: break the connection, so that the client notices.
                Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                Err(fault) => Err(io::Error::other(fault)),
            };
            let read = piece.as_ref().map_or(remaining, |piece: &Bytes| piece.len() as u64);
            Some((piece, (offset + read, remaining - read)))
        }
    })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    /// A file of which every other stretch of 100 KiB is in memory, and how often somebody waited
    /// for it.
    struct File {
        content: Vec<u8>,
        waited: parking_lot::Mutex<usize>,
    }

    const STRETCH: u64 = 100 << 10;

    impl File {
        fn of(length: usize) -> Self {
            Self { content: (0..length).map(|at| (at / 7) as u8).collect(), waited: parking_lot::Mutex::default() }
        }
        fn part(&self, offset: u64, length: u64) -> Bytes {
            let (begin, end) = (offset as usize, ((offset + length) as usize).min(self.content.len()));
            Bytes::copy_from_slice(self.content.get(begin..end).unwrap_or_default())
        }
        fn try_read(&self, offset: u64, length: usize) -> Option<Bytes> {
            let is_here = (offset / STRETCH).is_multiple_of(2);
            is_here.then(|| self.part(offset, (STRETCH - offset % STRETCH).min(length as u64)))
        }
        fn read_blocking(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
            *self.waited.lock() += 1;
            Ok(self.part(offset, length as u64))
        }
    }

    fn sent(file: &Arc<File>, part: Range<u64>) -> Vec<io::Result<Bytes>> {
        let read: ReadFunctions<Arc<File>> = ReadFunctions {
            try_read: |file, at, length| file.try_read(at, length),
            read: |file, at, length| file.read_blocking(at, length),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        runtime.block_on(stream_file(Arc::default(), (Arc::clone(file), read), part).collect())
    }

    #[test]
    fn a_partial_read_waits_only_for_data_outside_memory() {
        let file = Arc::new(File::of(1 << 20));
        let pieces: Vec<_> = sent(&file, 1000..900_000).into_iter().map(Result::unwrap).collect();
        assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE_BYTES));
        assert!(pieces.concat() == file.content[1000..900_000]);
        assert!((1..pieces.len()).contains(&*file.waited.lock()));
        assert!(sent(&file, 7..7).is_empty(), "nothing is read for nothing");
    }

    #[test]
    fn what_becomes_shorter_on_its_way_breaks_off() {
        let mut pieces = sent(&Arc::new(File::of(1000)), 0..2000);
        assert_eq!(pieces.pop().unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(pieces.into_iter().map(|piece| piece.unwrap().len()).sum::<usize>(), 1000);
    }
}
