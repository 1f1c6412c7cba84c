//! A pack file being written.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{FileReuse, owner};

/// Write size, in bytes.
const BUFFER_BYTES: usize = 128 << 10;

/// A file under a temporary name; removed unless installed.
pub(super) struct TempPack {
    name: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    /// Length from an earlier use, in bytes.
    old_length: u64,
}

impl TempPack {
    /// Creates a file: a recycled one if available, or a new one with this name.
    pub(super) fn create(name: PathBuf, reuse: Option<FileReuse<'_>>) -> io::Result<Self> {
        let (name, file, old_length) = match reuse.and_then(|reuse| reuse.pool.take(reuse.reclaimer)) {
            Some((name, file)) => {
                let old_length = file.metadata()?.len();
                (name, file, old_length)
            }
            None => {
                let file = create_or_replace(&name)?;
                (name, file, 0)
            }
        };
        Ok(Self { name, file: BufWriter::with_capacity(BUFFER_BYTES, file), bytes: 0, old_length })
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Completes the file.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        if self.old_length > self.bytes {
            self.file.get_ref().set_len(self.bytes)?;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.get_ref().sync_all()
    }

    /// Renames a completed file into place.
    pub(super) fn install(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.name, path)?;
        self.name.clear();
        Ok(())
    }
}

impl Write for TempPack {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TempPack {
    fn drop(&mut self) {
        if !self.name.as_os_str().is_empty() {
            // The first error is the meaningful one; a leftover is removed by the sweep at the next
            // open.
            let _ = fs::remove_file(&self.name);
        }
    }
}

/// Creates a file under a temporary name.
fn create_or_replace(path: &Path) -> io::Result<File> {
    match create_read_only(path) {
        // Left by a failed attempt.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create_read_only(path)
        }
        outcome => outcome,
    }
}

/// Creates a read-only file as git does: with the umask, and the owner of the repository.
pub(super) fn create_read_only(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
    owner::give_as_its_directory(path)?;
    Ok(file)
}
