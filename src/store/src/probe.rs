//! Test writes: SQLite says only "disk I/O error", and libgit2 sometimes nothing, whatever the
//! system error was.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use git2::ErrorClass;
use rusqlite::ErrorCode;

use crate::StoreError;

/// Free space that a write needs, in bytes: a small page in the log, in git and in the tree.
pub(crate) const MIN_FREE_BYTES: usize = 64 << 10;

/// With this many free bytes no test write is needed.
const PLENTY_BYTES: u64 = 8 << 20;

/// Name of the test file; a leftover is removed with the spool.
const FILE_NAME: &str = "probe";

/// Writes, flushes and removes a file of `size` bytes in `directory`.
///
/// # Errors
/// The system error: `StorageFull`, `ReadOnlyFilesystem`, `PermissionDenied`, …
pub(crate) fn write(directory: &Path, size: usize) -> io::Result<()> {
    let path = directory.join(FILE_NAME);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0; size])?;
        file.sync_all()
    });
    // The first failure is the meaningful one.
    let unlinked = match fs::remove_file(&path) {
        // A concurrent probe or a sweep removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    written.and(unlinked)
}

/// Whether the disk of `file` has plenty of free space for `bytes`; false when little is free, but
/// enough.
///
/// What is logged must also fit into git and the tree, which need space later than the log.
///
/// # Errors
/// `StorageFull` when the free space does not suffice, or another system error.
pub(crate) fn has_plenty_free(file: &File, directory: &Path, bytes: usize) -> io::Result<bool> {
    let disk = rustix::fs::fstatvfs(file)?;
    if disk.f_bavail.saturating_mul(disk.f_frsize) >= PLENTY_BYTES + 4 * bytes as u64 {
        return Ok(true);
    }
    // The rest may be reserved for root: only writing shows that.
    write(directory, MIN_FREE_BYTES + 2 * bytes)?;
    Ok(false)
}

/// Replaces an error without a cause by the system error of a test write of `size` bytes.
pub(crate) fn with_cause(error: StoreError, directory: &Path, size: usize) -> StoreError {
    let is_vague = match &error {
        StoreError::Database(source) => matches!(
            source.sqlite_error_code(),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly)
                // SQLite's code for a file that the disk cannot read.
                | Some(ErrorCode::DatabaseCorrupt)
        ),
        // libgit2 loses the cause when a write into its buffer fails, or misses the object it
        // failed to write.
        StoreError::Git(source) => {
            source.class() == ErrorClass::None
                || source.class() == ErrorClass::Odb && source.code() == git2::ErrorCode::NotFound
        }
        StoreError::Disk { .. }
        | StoreError::SymlinkInPath(_)
        | StoreError::Unrecordable { .. }
        | StoreError::FilterFailed { .. }
        | StoreError::State(_)
        | StoreError::GitFile(_)
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
