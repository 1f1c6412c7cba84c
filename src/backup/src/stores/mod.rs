//! Places for bundles: a directory, or a bucket.

mod directory;
mod s3;

pub(crate) use directory::DirectoryStore;
pub(crate) use s3::S3Store;

use std::path::Path;

use crate::error::BackupError;

/// The list of what a backup consists of. It is written last, so a backup without it is not one.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Named objects.
pub(crate) trait BundleStore {
    /// A small object; none if there is none.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackupError>;
    /// Replaces a small object, all or nothing.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), BackupError>;
    /// Stores a file under a name, all or nothing. The file may be moved.
    fn store(&self, name: &str, file: &Path) -> Result<(), BackupError>;
    /// Copies an object into a file.
    fn fetch(&self, name: &str, to: &Path) -> Result<(), BackupError>;
    /// Size of an object; none if there is none.
    fn size(&self, name: &str) -> Result<Option<u64>, BackupError>;
    /// Removes an object that may be missing.
    fn remove(&self, name: &str) -> Result<(), BackupError>;
    /// The directory in which files are made that are stored later; none for any.
    fn staging_directory(&self) -> Option<&Path>;
}
