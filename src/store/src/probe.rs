//! Whether a disk takes writes: SQLite tells no more than "disk I/O error", libgit2 at times nothing, whatever the disk said.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use git2::ErrorClass;
use rusqlite::ErrorCode;

use crate::StoreError;

/// Room that must be left: what a small page needs in the log, in git and in the tree.
pub(crate) const ROOM: usize = 64 << 10;

/// With so much left a disk is not asked by writing.
const PLENTY: u64 = 8 << 20;

/// Name of the file that is written and removed; a leftover is swept with the spool.
const NAME: &str = "probe";

/// Writes, flushes and removes a file of `size` bytes in `directory`.
///
/// # Errors
/// What the disk said: `StorageFull`, `ReadOnlyFilesystem`, `PermissionDenied`, …
pub(crate) fn write(directory: &Path, size: usize) -> io::Result<()> {
    let path = directory.join(NAME);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; size])?;
        file.sync_all()
    });
    // The first failure is the one that tells.
    let removed = match fs::remove_file(&path) {
        // Somebody else tried it at the same time, or swept it away.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    written.and(removed)
}

/// Whether the disk of a file has plenty of room for some bytes; false when it is little, and enough for what is made of them.
///
/// What is in the log must be possible in git and in the tree: the log has room of its own already when there is none left for those.
///
/// # Errors
/// `StorageFull` when it is not enough, or what else the disk says.
pub(crate) fn has_room(file: &File, directory: &Path, bytes: usize) -> io::Result<bool> {
    let disk = rustix::fs::fstatvfs(file)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) >= PLENTY + 4 * bytes as u64 {
        return Ok(true);
    }
    // Some may be left that only root has: writing tells.
    write(directory, ROOM + 2 * bytes)?;
    Ok(false)
}

/// An error that does not say what the disk refused becomes what the disk says to a file of `size` bytes.
pub(crate) fn explained(error: StoreError, directory: &Path, size: usize) -> StoreError {
    let is_vague = match &error {
        StoreError::Database(source) => matches!(
            source.sqlite_error_code(),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly)
                // So it calls a file that the disk cannot read.
                | Some(ErrorCode::DatabaseCorrupt)
        ),
        // libgit2 forgets the reason when a write into its buffer fails, or misses what it could not write a moment ago.
        StoreError::Git(source) => {
            source.class() == ErrorClass::None
                || source.class() == ErrorClass::Odb && source.code() == git2::ErrorCode::NotFound
        }
        StoreError::Disk { .. }
        | StoreError::SymlinkInPath(_)
        | StoreError::Unrecordable { .. }
        | StoreError::State(_)
        | StoreError::Repository(_)
        | StoreError::AlreadyServed { .. }
        | StoreError::Damaged(_) => false,
    };
    if !is_vague {
        return error;
    }
    match write(directory, size) {
        Err(source) => StoreError::State(source),
        Ok(()) => error,
    }
}
