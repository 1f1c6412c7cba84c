//! What stands in front of the log's rows: accepted batches, each one stretch of a file and one flush.
//!
//! One rule: a batch is whole or it is nothing. It stands behind its length and a hash that begins with a key which the database has
//! for the file; with another key in the database, all that the file has is nothing. Two files are filled in turn: while one is, rows
//! are made of what the other has, and the transaction that makes the last of them gives that file another key.
//!
//! Why not rows at once? A transaction of SQLite is some ten pages of 4 KiB for a record of a few hundred bytes, at the end of a file that
//! grows: twice the time of a flush, which a writer waits for.

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

/// How many files there are.
pub(super) const FILES: usize = 2;
/// The other file's turn comes once one is as long as this, in bytes.
const TURN: u64 = 8 << 20;
/// So much is filled with zeros ahead of use: a flush of what lies in a file's blocks already need not bring its length to the disk as well.
const STRETCH: usize = 512 << 10;
/// The length of what follows, and its hash.
const HEADER: usize = 8 + 20;

/// What makes hashes belong to one life of one file. From a source that nobody can guess: contents come from anywhere, and must not be
/// taken for batches.
pub(super) type JournalKey = [u8; 16];

/// A key that no file had before.
pub(super) fn new_key() -> io::Result<JournalKey> {
    let mut key = JournalKey::default();
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    Ok(key)
}

/// Why a batch was not appended.
pub(super) struct AppendError {
    pub(super) error: StoreError,
    /// Whether it may be found there after a crash all the same, because a flush failed.
    pub(super) is_in_doubt: bool,
}

impl From<StoreError> for AppendError {
    fn from(error: StoreError) -> Self {
        Self { error, is_in_doubt: false }
    }
}

impl From<io::Error> for AppendError {
    fn from(error: io::Error) -> Self {
        StoreError::from(error).into()
    }
}

/// The two files, open to be appended to.
pub(super) struct Journal {
    files: [ActiveFile; FILES],
    current: usize,
    /// Where it is tried whether the disk has room.
    spool: PathBuf,
}

struct ActiveFile {
    file: File,
    key: JournalKey,
    /// Where the next batch goes.
    end: u64,
    /// Up to here the file has blocks.
    filled: u64,
    /// The newest record in it.
    newest: Seq,
}

impl Journal {
    /// Begins with empty files. Whatever they had must be rows, and their keys those of the database.
    pub(super) fn begin(paths: &[PathBuf; FILES], keys: [JournalKey; FILES], spool: &Path) -> io::Result<Self> {
        let open = |at: usize| -> io::Result<ActiveFile> {
            // Cut, not only written over: after a flush that failed nobody knows which of its blocks the disk has.
            let file = OpenOptions::new().write(true).create(true).truncate(true).open(&paths[at])?;
            Ok(ActiveFile { file, key: keys[at], end: 0, filled: 0, newest: Seq(0) })
        };
        let files = [open(0)?, open(1)?];
        if let Some(directory) = paths[0].parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(Self { files, current: 0, spool: spool.to_owned() })
    }

    /// Writes and flushes a batch that comes after a record.
    pub(super) fn append(&mut self, after: Seq, records: &[LogRecord], fail: &FailPoints) -> Result<(), AppendError> {
        if self.files[self.current].end >= TURN && self.files[1 - self.current].end == 0 {
            self.current = 1 - self.current;
        }
        let filling = &mut self.files[self.current];
        let mut bytes = record::written(after, records, HEADER)?;
        let (header, batch) = bytes.split_at_mut(HEADER);
        let (length, told) = header.split_at_mut(8);
        length.copy_from_slice(&(batch.len() as u64).to_le_bytes());
        told.copy_from_slice(&hash(&filling.key, batch));
        fail.check(FailPoint::LogWrite)?;
        let is_roomy = probe::has_room(&filling.file, &self.spool, bytes.len())?;
        let end = filling.end + bytes.len() as u64;
        if end > filling.filled && is_roomy {
            let from = filling.filled.max(end);
            filling.file.write_all_at(&[0; STRETCH][..], from)?;
            filling.filled = from + STRETCH as u64;
        }
        filling.file.write_all_at(&bytes, filling.end)?;
        let flushed = fail.check(FailPoint::LogFlush).and_then(|()| filling.file.sync_data());
        flushed.map_err(|error| AppendError { error: error.into(), is_in_doubt: true })?;
        filling.end = end;
        filling.newest = records.last().map_or(filling.newest, |record| record.seq);
        fail.hit(FailPoint::LogFlushed);
        Ok(())
    }

    /// The file that is not being filled, when it has anything, and its newest record: once that is a row, it can have another key.
    pub(super) fn waiting(&self) -> Option<(usize, Seq)> {
        let other = 1 - self.current;
        let ActiveFile { end, newest, .. } = self.files[other];
        (end > 0).then_some((other, newest))
    }

    /// Begins a file anew under the key that the database has for it by now.
    pub(super) fn renew(&mut self, file: usize, key: JournalKey) {
        let filling = &mut self.files[file];
        (filling.key, filling.end) = (key, 0);
    }
}

/// Every batch that the files have, in their order, each with the position that it comes after; whatever else is in them is nothing.
///
/// # Errors
/// What the disk says, also when a file is longer than it can give.
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
        while let Some((batch, after)) = first(rest, key) {
            batches.push(record::read(batch, spooled)?);
            rest = after;
        }
    }
    batches.sort_by_key(|(after, _)| *after);
    Ok(batches)
}

/// The batch at the beginning, if there is a whole one, and what follows it.
fn first<'b>(bytes: &'b [u8], key: &JournalKey) -> Option<(&'b [u8], &'b [u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (told, rest) = rest.split_first_chunk::<20>()?;
    let (batch, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    (hash(key, batch) == *told).then_some((batch, rest))
}

fn hash(key: &JournalKey, batch: &[u8]) -> [u8; 20] {
    Sha1::new().chain_update(key).chain_update(batch).finalize().into()
}

/// Gives the large content of an entry of a record.
pub(super) type SpooledContent<'s> = &'s dyn Fn(Seq, i64, Option<ETag>) -> Result<Bytes, StoreError>;

#[cfg(test)]
mod tests;
