//! What is in memory of a disk that failed.
//!
//! One rule: after a failed flush, memory is not asked. Linux takes what it could not write for written, and ext4 forgets besides that
//! the place of it on the disk was never filled: it may be written there again, and flushed, with success, and is zeros after the
//! next mount (Linux 6.18: "failed to convert unwritten extents"). Once memory has let go of it, everything goes all the way to the
//! disk again. Files that are written anew under another name, as pages and packs are, need none of this.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};
use rustix::fs::{Advice, fadvise};
use tracing::{debug, warn};

use crate::StoreError;

/// What SQLite writes ahead of a database.
pub(super) fn wal_of(file: &Path) -> PathBuf {
    let mut wal: OsString = file.to_owned().into();
    wal.push("-wal");
    wal.into()
}

/// Whether rows that were refused may stand on the disk all the same: when they could not be flushed. A crash would bring them back.
pub(super) fn is_left_by(error: &StoreError) -> bool {
    matches!(error, StoreError::Database(source) if source.sqlite_error_code() == Some(ErrorCode::SystemIoFailure))
}

/// Lets go of what memory has of files and the disk may not have. Not for a database that is open: to close any descriptor of its file takes
/// all locks of SQLite from it (fcntl(2)).
pub(super) fn forget<'f>(files: impl IntoIterator<Item = &'f PathBuf>) {
    for name in files {
        match File::open(name) {
            Ok(open) => let_go(&open, name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => warn_of(name, &error),
        }
    }
}

fn let_go(open: &File, name: &Path) {
    if let Err(error) = fadvise(open, 0, None, Advice::DontNeed) {
        warn_of(name, &error.into());
    }
}

fn warn_of(name: &Path, error: &io::Error) {
    warn!(file = %name.display(), %error, "what memory has of this file cannot be let go of");
}

/// The file of an open database, held open by itself for as long as any connection to it is: see [`forget`].
pub(super) struct DatabaseFile {
    pub(super) path: PathBuf,
    file: File,
}

impl DatabaseFile {
    pub(super) fn of(path: PathBuf) -> io::Result<Self> {
        Ok(Self { file: File::open(&path)?, path })
    }

    /// Lets go of what memory has of the file and of its write-ahead log.
    pub(super) fn forget(&self) {
        let_go(&self.file, &self.path);
        forget([&wal_of(&self.path)]);
    }

    /// Moves the pages of the write-ahead log into the file once they are of so many bytes, by a connection of its own: writers go on meanwhile.
    pub(super) fn shorten_wal(&self, kept: u64) -> Result<(), StoreError> {
        if std::fs::metadata(wal_of(&self.path))?.len() > kept {
            let moved = Connection::open(&self.path)?.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            moved.inspect_err(|_| self.forget())?;
        }
        Ok(())
    }

    /// The same, for whoever hears of no outcome: the next checkpoint tries it again.
    pub(super) fn shorten_wal_beside(&self, kept: u64) {
        if let Err(error) = self.shorten_wal(kept) {
            debug!(%error, "what SQLite wrote ahead of the log could not be moved into it");
        }
    }
}
