//! Texts of rejected saves, stored on this machine.
//!
//! The mount shows them below `.svc/rejected/`, in file of the server's own.
#![expect(clippy::disallowed_methods, reason = "local files outside any tree")]

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{Fault, Kind, TreePath};

/// The directory on the mount that shows them.
const VIRTUAL_DIR: [&str; 2] = [".svc", "rejected"];

/// A rejected text, or a directory above some.
pub(super) struct RejectedEntry {
    pub(super) is_directory: bool,
    pub(super) size: u64,
    pub(super) modified: SystemTime,
}

/// The rejected saves of one mounted space.
pub(super) struct RejectedSaves {
    directory: PathBuf,
}

impl RejectedSaves {
    /// Stores them in a directory, created when needed.
    pub(super) const fn in_directory(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Whether a path of the mount is in their directory.
    pub(super) fn contains(path: &TreePath) -> bool {
        let mut parts = path.components();
        VIRTUAL_DIR.iter().all(|part| parts.next() == Some(part))
    }

    /// Refuses to write in their directory.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub(super) fn check_writable(path: &TreePath) -> Result<(), Fault> {
        match Self::contains(path) {
            true => Err(Fault::new(Kind::ReadOnly, "files in .svc/rejected/ can only be read, copied and removed")),
            false => Ok(()),
        }
    }

    /// Whether a path is the parent of their directory, which the server may not have.
    pub(super) fn is_parent(path: &TreePath) -> bool {
        path.as_str() == VIRTUAL_DIR[0]
    }

    pub(super) const fn dir_name() -> &'static str {
        VIRTUAL_DIR[1]
    }

    fn local_path(&self, path: &TreePath) -> PathBuf {
        let parts = path.components().skip(if Self::contains(path) { VIRTUAL_DIR.len() } else { 0 });
        self.directory.join(parts.collect::<PathBuf>())
    }

    /// Stores the text of a rejected save, replacing an earlier one of the same path.
    pub(super) fn store(&self, path: &TreePath, text: &[u8]) -> io::Result<()> {
        let file = self.local_path(path);
        let parent = file.parent().unwrap_or(&self.directory);
        // An earlier text may conflict as a file where a directory is needed, or the reverse: it is
        // removed.
        for ancestor in parent.ancestors().take_while(|ancestor| ancestor.starts_with(&self.directory)) {
            if ancestor.is_file() {
                fs::remove_file(ancestor)?;
            }
        }
        if file.is_dir() {
            fs::remove_dir_all(&file)?;
        }
        fs::create_dir_all(parent)?;
        let mut temp = tempfile::NamedTempFile::new_in(parent)?;
        temp.write_all(text)?;
        temp.as_file().sync_all()?;
        temp.persist(file)?;
        Ok(())
    }

    /// Discards the stored text, after a later save of the file succeeded.
    pub(super) fn discard(&self, path: &TreePath) {
        let file = self.local_path(path);
        if file.is_file()
            && let Err(error) = fs::remove_file(&file)
        {
            tracing::warn!(%path, %error, "cannot remove the text of an earlier rejected save");
        }
    }

    /// Attributes of a stored text or directory.
    ///
    /// # Errors
    /// `NotFound`, and other I/O errors.
    pub(super) fn stat(&self, path: &TreePath) -> Result<RejectedEntry, Fault> {
        let is_virtual_root = path.components().count() == VIRTUAL_DIR.len();
        match fs::symlink_metadata(self.local_path(path)) {
            Ok(metadata) => Ok(RejectedEntry {
                is_directory: metadata.is_dir(),
                size: metadata.len(),
                modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            }),
            Err(error) if is_virtual_root && error.kind() == io::ErrorKind::NotFound => {
                Ok(RejectedEntry { is_directory: true, size: 0, modified: SystemTime::UNIX_EPOCH })
            }
            Err(error) => Err(Fault::io(path, error)),
        }
    }

    pub(super) fn list(&self, path: &TreePath) -> Vec<String> {
        let entries = fs::read_dir(self.local_path(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// # Errors
    /// `NotFound`, and other I/O errors.
    pub(super) fn read(&self, path: &TreePath) -> Result<Bytes, Fault> {
        fs::read(self.local_path(path)).map(Bytes::from).map_err(|error| Fault::io(path, error))
    }

    /// Removes a stored text, or an empty directory.
    pub(super) fn remove(&self, path: &TreePath) -> Result<(), Fault> {
        let file = self.local_path(path);
        let removed = if file.is_dir() { fs::remove_dir(file) } else { fs::remove_file(file) };
        removed.map_err(|error| Fault::io(path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_rejected_content_stays_until_saved_or_removed() {
        let directory = tempfile::tempdir().unwrap();
        let rejected = RejectedSaves::in_directory(directory.path().join("rejected"));
        let path = |text| TreePath::parse(text).unwrap();
        let shown = path(".svc/rejected/a/b.md");
        assert!(rejected.stat(&path(".svc/rejected")).unwrap().is_directory);
        for text in ["one", "two"] {
            rejected.store(&path("a/b.md"), text.as_bytes()).unwrap();
        }
        assert_eq!(rejected.read(&shown).unwrap(), "two");
        assert_eq!(rejected.list(&path(".svc/rejected/a")), ["b.md"]);
        rejected.discard(&path("a/b.md"));
        assert!(rejected.stat(&shown).is_err());
        rejected.store(&path("a/b.md"), b"three").unwrap();
        rejected.remove(&shown).unwrap();
        assert!(rejected.read(&shown).is_err());
        // A file of that name is a directory now, and a file again.
        for name in ["c", "c/d", "c"] {
            rejected.store(&path(name), name.as_bytes()).unwrap();
            assert_eq!(rejected.read(&path(name)).unwrap(), name);
        }
    }
}
