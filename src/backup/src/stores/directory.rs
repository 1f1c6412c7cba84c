//! Bundles in a directory.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::BundleStore;
use crate::error::BackupError;

/// A directory, perhaps on another disk or a network file system.
pub(crate) struct DirectoryStore {
    directory: PathBuf,
}

impl DirectoryStore {
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Makes a file that is complete under a temporary name durable, and gives it its name.
    fn install(&self, temporary: &Path, name: &str) -> Result<(), BackupError> {
        let path = self.path(name);
        let install = || {
            File::open(temporary)?.sync_all()?;
            fs::rename(temporary, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        install().map_err(|error| BackupError::io("write", &path, &error))
    }
}

fn ignore_missing<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl BundleStore for DirectoryStore {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackupError> {
        let path = self.path(name);
        ignore_missing(fs::read(&path)).map_err(|error| BackupError::io("read", &path, &error))
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        let error = |error: io::Error| BackupError::io("write", &self.path(name), &error);
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory).map_err(error)?;
        file.write_all(content).map_err(error)?;
        let temporary = file.into_temp_path();
        self.install(&temporary, name)?;
        // It has another name now.
        let _renamed = temporary.keep();
        Ok(())
    }

    fn store(&self, name: &str, file: &Path) -> Result<(), BackupError> {
        if file.parent() == Some(&self.directory) {
            return self.install(file, name);
        }
        let error = |error: io::Error| BackupError::io("write", &self.path(name), &error);
        let copy = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory).map_err(error)?;
        let temporary = copy.into_temp_path();
        fs::copy(file, &temporary).map_err(error)?;
        self.install(&temporary, name)?;
        let _renamed = temporary.keep();
        Ok(())
    }

    fn fetch(&self, name: &str, to: &Path) -> Result<(), BackupError> {
        let path = self.path(name);
        fs::copy(&path, to).map(drop).map_err(|error| BackupError::io("read", &path, &error))
    }

    fn size(&self, name: &str) -> Result<Option<u64>, BackupError> {
        let path = self.path(name);
        let found = ignore_missing(path.metadata()).map_err(|error| BackupError::io("read", &path, &error))?;
        Ok(found.map(|found| found.len()))
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        let path = self.path(name);
        ignore_missing(fs::remove_file(&path)).map(drop).map_err(|error| BackupError::io("remove", &path, &error))
    }

    fn staging_directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }
}
