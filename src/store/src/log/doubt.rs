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

use rusqlite::ErrorCode;
use rustix::fs::{Advice, fadvise};
use tracing::warn;

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

/// Lets go of what memory has of files and the disk may not have.
pub(super) fn forget<'f>(files: impl IntoIterator<Item = &'f PathBuf>) {
    for name in files {
        let forgotten = File::open(name).and_then(|open| Ok(fadvise(open, 0, None, Advice::DontNeed)?));
        match forgotten {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!(file = %name.display(), %error, "what memory has of this file cannot be let go of");
            }
            Ok(()) | Err(_) => {}
        }
    }
}
