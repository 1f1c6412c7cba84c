//! A file of a pack in the making.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{FileReuse, owner};

/// Written at once, in bytes.
const BUFFER: usize = 128 << 10;

/// A file under a temporary name, which goes unless it is placed.
pub(super) struct TempPack {
    name: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    /// How many bytes of an earlier use it has.
    used: u64,
}

impl TempPack {
    /// Begins a file: a spare one, where there is one, or a new one with this name.
    pub(super) fn begin(name: PathBuf, reuse: Option<FileReuse<'_>>) -> io::Result<Self> {
        let (name, file, used) = match reuse.and_then(|reuse| reuse.spares.take(reuse.disposal)) {
            Some((name, file)) => {
                let used = file.metadata()?.len();
                (name, file, used)
            }
            None => {
                let file = created_anew(&name)?;
                (name, file, 0)
            }
        };
        Ok(Self { name, file: BufWriter::with_capacity(BUFFER, file), bytes: 0, used })
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Says that everything is written.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        if self.used > self.bytes {
            self.file.get_ref().set_len(self.bytes)?;
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.get_ref().sync_all()
    }

    /// Gives a finished file its own name.
    pub(super) fn place(mut self, path: &Path) -> io::Result<()> {
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
            // The failure that matters is the first one; a leftover is swept at the next opening.
            let _ = fs::remove_file(&self.name);
        }
    }
}

/// A file under a temporary name.
fn created_anew(path: &Path) -> io::Result<File> {
    match created(path) {
        // Of an attempt that failed.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            created(path)
        }
        outcome => outcome,
    }
}

/// A file nobody writes again, as git makes them: readable for whom the umask lets, and the repository owner's.
pub(super) fn created(path: &Path) -> io::Result<File> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
    owner::give_as_its_directory(path)?;
    Ok(file)
}
