//! The journal in front of the log's rows: accepted batches, each with one flush.
//!
//! Invariant: a batch is complete or ignored. It is stored after its length and a hash that starts
//! with the file's key in the database; with another key in the database, the whole file is
//! ignored. Two files alternate: while one is filled, the records of the other become rows, and the
//! transaction of the last of them changes that file's key.
//!
//! Rows alone are slower: a transaction of SQLite writes some ten pages of 4 KiB for a record of a
//! few hundred bytes to a growing file, twice the time of a flush.

mod record;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha1::{Digest, Sha1};
use svcfs_base::{ETag, Seq};

use super::LogRecord;
use crate::{FailPoint, FailPoints, StoreError, probe};

/// Number of files.
pub(super) const FILES: usize = 2;
/// Length at which the other file is used, in bytes.
const ROTATION_BYTES: u64 = 8 << 20;
/// Zeros are written this far ahead, in bytes: a flush within allocated blocks need not update the
/// file's length.
const PREALLOCATE_BYTES: usize = 512 << 10;
/// Length and hash of a batch.
const HEADER_BYTES: usize = 8 + 20;

/// A random key that ties hashes to one use of a file. It must be unpredictable: contents are
/// arbitrary, and must not be recognized as batches.
pub(super) type JournalKey = [u8; 16];

/// A new random key.
pub(super) fn new_key() -> io::Result<JournalKey> {
    let mut key = JournalKey::default();
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

/// Why a batch was not appended.
pub(super) struct AppendError {
    pub(super) error: StoreError,
    /// Whether the batch may be found after a crash, because its flush failed.
    pub(super) may_be_on_disk: bool,
}

impl From<StoreError> for AppendError {
    fn from(error: StoreError) -> Self {
        Self { error, may_be_on_disk: false }
    }
}

impl From<io::Error> for AppendError {
    fn from(error: io::Error) -> Self {
        StoreError::from(error).into()
    }
}

/// The two files, open for appending.
pub(super) struct Journal {
    files: [ActiveFile; FILES],
    current: usize,
    /// The directory for test writes.
    spool: PathBuf,
}

struct ActiveFile {
    file: File,
    key: JournalKey,
    /// The offset of the next batch.
    end: u64,
    /// Up to here the file is allocated.
    allocated: u64,
    /// Its newest record.
    newest: Seq,
}

impl Journal {
    /// Starts with empty files. Their records must be rows, and the keys in the database the given
    /// ones.
    pub(super) fn start(paths: &[PathBuf; FILES], keys: [JournalKey; FILES], spool: &Path) -> io::Result<Self> {
        let open = |at: usize| -> io::Result<ActiveFile> {
            // Truncated, not only overwritten: after a failed flush the state of its blocks is
            // unknown.
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(&paths[at])?;
            Ok(ActiveFile { file, key: keys[at], end: 0, allocated: 0, newest: Seq(0) })
        };
        let files = [open(0)?, open(1)?];
        if let Some(directory) = paths[0].parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(Self { files, current: 0, spool: spool.to_owned() })
    }

    /// Writes and flushes a batch that follows a record.
    pub(super) fn append(&mut self, after: Seq, records: &[LogRecord], fail: &FailPoints) -> Result<(), AppendError> {
        if self.files[self.current].end >= ROTATION_BYTES && self.files[1 - self.current].end == 0 {
            self.current = 1 - self.current;
        }
        let active = &mut self.files[self.current];
        let mut bytes = record::encode(after, records, HEADER_BYTES)?;
        let (header, batch) = bytes.split_at_mut(HEADER_BYTES);
        let (length, stored_hash) = header.split_at_mut(8);
        length.copy_from_slice(&(batch.len() as u64).to_le_bytes());
        stored_hash.copy_from_slice(&hash(&active.key, batch));
        fail.check(FailPoint::LogWrite)?;
        let has_plenty = probe::has_plenty_free(&active.file, &self.spool, bytes.len())?;
        let end = active.end + bytes.len() as u64;
        if end > active.allocated && has_plenty {
            let from = active.allocated.max(end);
            active.file.write_all_at(&[0; PREALLOCATE_BYTES][..], from)?;
            active.allocated = from + PREALLOCATE_BYTES as u64;
        }
        active.file.write_all_at(&bytes, active.end)?;
        let flushed = fail.check(FailPoint::LogFlush).and_then(|()| active.file.sync_data());
        flushed.map_err(|error| AppendError { error: error.into(), may_be_on_disk: true })?;
        active.end = end;
        active.newest = records.last().map_or(active.newest, |record| record.seq);
        fail.hit(FailPoint::LogFlushed);
        Ok(())
    }

    /// The file that is not being filled, if it has content, and its newest record: once that is a
    /// row, the file can be reused.
    pub(super) fn inactive(&self) -> Option<(usize, Seq)> {
        let other = 1 - self.current;
        let ActiveFile { end, newest, .. } = self.files[other];
        (end > 0).then_some((other, newest))
    }

    /// Empties a file; the database already has its new key.
    pub(super) fn reset(&mut self, file: usize, key: JournalKey) {
        let active = &mut self.files[file];
        (active.key, active.end) = (key, 0);
    }
}

/// Reads every batch of the files in order, each with the position that it follows; other bytes are
/// ignored.
///
/// # Errors
/// The system error, also when a file is too long to read.
pub(super) fn read(
    paths: &[PathBuf; FILES],
    keys: &[JournalKey; FILES],
    spooled: SpooledContent<'_>,
) -> Result<Vec<(Seq, Vec<LogRecord>)>, StoreError> {
    let mut batches = Vec::new();
    for (path, key) in paths.iter().zip(keys) {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            outcome => outcome?,
        };
        let mut rest = &bytes[..];
        while let Some((batch, after)) = split_first(rest, key) {
            batches.push(record::read(batch, spooled)?);
            rest = after;
        }
    }
    batches.sort_by_key(|(after, _)| *after);
    Ok(batches)
}

/// The batch at the start, if it is complete, and the rest.
fn split_first<'b>(bytes: &'b [u8], key: &JournalKey) -> Option<(&'b [u8], &'b [u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (stored_hash, rest) = rest.split_first_chunk::<20>()?;
    let (batch, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    (hash(key, batch) == *stored_hash).then_some((batch, rest))
}

fn hash(key: &JournalKey, batch: &[u8]) -> [u8; 20] {
    Sha1::new().chain_update(key).chain_update(batch).finalize().into()
}

/// Reads the large content of an entry of a record.
pub(super) type SpooledContent<'s> = &'s dyn Fn(Seq, i64, Option<ETag>) -> Result<Bytes, StoreError>;

#[cfg(test)]
mod tests;
