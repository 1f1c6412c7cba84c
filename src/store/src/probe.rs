//! Whether a disk takes writes: SQLite tells no more than "disk I/O error", whatever the disk said.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Room that must be left: what a small page needs in the log, in git and in the tree.
const ROOM: usize = 64 << 10;

/// Name of the file that is written and removed; a leftover is swept with the spool.
const NAME: &str = "probe";

/// Writes, flushes and removes a small file in `directory`.
///
/// # Errors
/// What the disk said: `StorageFull`, `ReadOnlyFilesystem`, `PermissionDenied`, …
pub(crate) fn write(directory: &Path) -> io::Result<()> {
    let path = directory.join(NAME);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&[0; ROOM])?;
        file.sync_all()
    });
    // The first failure is the one that tells.
    let removed = fs::remove_file(&path);
    written.and(removed)
}
