//! A lock file that names the process holding the lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;

/// An exclusive lock between processes (flock(2)), released on drop. It also ends with the process.
#[derive(Debug)]
pub struct PidLock(File);

/// Why a lock was not acquired.
#[derive(Debug)]
pub enum PidLockError {
    /// Another process has it.
    Locked {
        /// The line that the other process wrote: its id, then its label if it has one.
        owner: String,
    },
    /// The file could not be opened, locked, read or written.
    Io(io::Error),
}

impl PidLock {
    /// Creates the file if it is missing, locks it and writes this process's id and the label to
    /// it.
    ///
    /// # Errors
    /// Those of [`PidLockError`].
    pub fn acquire(path: &Path, label: &str) -> Result<Self, PidLockError> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                file.read_to_string(&mut owner)?;
                return Err(PidLockError::Locked { owner: owner.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        writeln!(file, "{}", format!("{} {label}", std::process::id()).trim_end())?;
        Ok(Self(file))
    }
}

impl From<io::Error> for PidLockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Drop for PidLock {
    fn drop(&mut self) {
        // Closing is not enough: a process forked at this moment shares the lock until it calls
        // exec.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_owner_learns_the_first_ones_id_and_label() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        File::create(&path).unwrap().write_all(b"a longer line of an earlier process\n").unwrap();
        let first = PidLock::acquire(&path, "/a root").unwrap();
        let expected = format!("{} /a root", std::process::id());
        assert!(matches!(PidLock::acquire(&path, ""), Err(PidLockError::Locked { owner }) if owner == expected));
        drop(first);
        drop(PidLock::acquire(&path, "").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        let missing = PidLock::acquire(&directory.path().join("no/lock"), "");
        assert!(matches!(missing, Err(PidLockError::Io(error)) if error.kind() == io::ErrorKind::NotFound));
    }
}
