//! Dropping the page cache after a failed flush.
//!
//! Invariant: after a failed flush the page cache is not trusted. Linux marks the failed pages
//! clean, and ext4 also forgets that their blocks were never initialized: later writes and flushes
//! of them succeed, and the blocks are zeros after the next mount (Linux 6.18: "failed to convert
//! unwritten extents"). Once the cache is dropped, writes reach the disk again. Files that are
//! rewritten under another name, such as pages and packs, are not affected.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};
use rustix::fs::{Advice, fadvise};
use tracing::{debug, warn};

use crate::StoreError;

/// The write-ahead log of a database file.
pub(super) fn wal_path(file: &Path) -> PathBuf {
    let mut wal: OsString = file.to_owned().into();
    wal.push("-wal");
    wal.into()
}

/// Whether refused rows may be on the disk nevertheless, because their flush failed: a crash could
/// bring them back.
pub(super) fn may_be_on_disk(error: &StoreError) -> bool {
    matches!(error, StoreError::Database(source) if source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure))
}

/// Drops cached pages of closed files. Not for an open database: closing any descriptor of its file
/// releases SQLite's locks (fcntl(2)).
pub(super) fn drop_cached<'f>(files: impl IntoIterator<Item = &'f PathBuf>) {
    for name in files {
        match File::open(name) {
            Ok(file) => drop_pages(&file, name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => warn_failure(name, &error),
        }
    }
}

fn drop_pages(file: &File, name: &Path) {
    if let Err(error) = fadvise(file, 0, None, Advice::DontNeed) {
        warn_failure(name, &error.into());
    }
}

fn warn_failure(name: &Path, error: &io::Error) {
    warn!(file = %name.display(), %error, "cached pages of this file could not be dropped");
}

/// A separate descriptor of an open database, kept open as long as its connections: see
/// [`drop_cached`].
pub(super) struct DatabaseFile {
    pub(super) path: PathBuf,
    file: File,
}

impl DatabaseFile {
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        Ok(Self { file: File::open(&path)?, path })
    }

    /// Drops cached pages of the file and its write-ahead log.
    pub(super) fn drop_cached(&self) {
        drop_pages(&self.file, &self.path);
        drop_cached([&wal_path(&self.path)]);
    }

    /// Checkpoints the write-ahead log when it is longer than `max_bytes`, on a separate
    /// connection: writers continue meanwhile.
    pub(super) fn shorten_wal(&self, max_bytes: u64) -> Result<(), StoreError> {
        if std::fs::metadata(wal_path(&self.path))?.len() > max_bytes {
            let result = Connection::open(&self.path)?.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            result.inspect_err(|_| self.drop_cached())?;
        }
        Ok(())
    }

    /// As [`DatabaseFile::shorten_wal`] for background use: the next checkpoint retries.
    pub(super) fn try_shorten_wal(&self, max_bytes: u64) {
        if let Err(error) = self.shorten_wal(max_bytes) {
            debug!(%error, "the write-ahead log of log.db could not be checkpointed");
        }
    }
}
