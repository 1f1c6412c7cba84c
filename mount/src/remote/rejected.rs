//! Texts that the server did not take, kept on this machine.
//!
//! Shown on the mount below `.svc/rejected/`, as the server shows its own; where the server's own would be, these are.
#![expect(clippy::disallowed_methods, reason = "files of this machine, and of no tree")]

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use bytes::Bytes;
use svcfs_base::{Fault, Kind, TreePath};

/// The directory on the mount that holds them.
const PLACE: [&str; 2] = [".svc", "rejected"];

/// One of them, or a directory that leads to some.
pub(super) struct RejectedEntry {
    pub(super) is_directory: bool,
    pub(super) size: u64,
    pub(super) modified: SystemTime,
}

/// The texts of one mounted space.
pub(super) struct RejectedSaves {
    directory: PathBuf,
}

impl RejectedSaves {
    /// In a directory of their own, which is made when it is needed.
    pub(super) const fn in_directory(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Whether a path on the mount is theirs.
    pub(super) fn has(path: &TreePath) -> bool {
        let mut parts = path.components();
        PLACE.iter().all(|part| parts.next() == Some(part))
    }

    /// Refuses to write where they are.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub(super) fn check_writable(path: &TreePath) -> Result<(), Fault> {
        match Self::has(path) {
            true => Err(Fault::new(Kind::ReadOnly, "what was refused can be read, copied and removed")),
            false => Ok(()),
        }
    }

    /// Whether a path is the directory above theirs, which the server may not have.
    pub(super) fn is_above(path: &TreePath) -> bool {
        path.as_str() == PLACE[0]
    }

    /// The name of their directory in the one above.
    pub(super) const fn name() -> &'static str {
        PLACE[1]
    }

    fn place(&self, path: &TreePath) -> PathBuf {
        let parts = path.components().skip(if Self::has(path) { PLACE.len() } else { 0 });
        self.directory.join(parts.collect::<PathBuf>())
    }

    /// Keeps a text for the file that it was meant for. The newest of a file stays.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn keep(&self, path: &TreePath, text: &[u8]) -> io::Result<()> {
        let place = self.place(path);
        let above = place.parent().unwrap_or(&self.directory);
        // Where a file of that name was kept, and it is a directory now, or the other way round, the older makes room.
        for ancestor in above.ancestors().take_while(|ancestor| ancestor.starts_with(&self.directory)) {
            if ancestor.is_file() {
                fs::remove_file(ancestor)?;
            }
        }
        if place.is_dir() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(above)?;
        let mut file = tempfile::NamedTempFile::new_in(above)?;
        file.write_all(text)?;
        file.as_file().sync_all()?;
        file.persist(place)?;
        Ok(())
    }

    /// A later save of the file was taken: its text is no longer needed.
    pub(super) fn accepted(&self, path: &TreePath) {
        let place = self.place(path);
        if place.is_file()
            && let Err(error) = fs::remove_file(&place)
        {
            tracing::warn!(%path, %error, "the text of an earlier save that was refused could not be removed");
        }
    }

    /// What is at one of their paths on the mount.
    ///
    /// # Errors
    /// `NotFound`, or what the disk says.
    pub(super) fn look(&self, path: &TreePath) -> Result<RejectedEntry, Fault> {
        let is_top = path.components().count() == PLACE.len();
        match fs::symlink_metadata(self.place(path)) {
            Ok(found) => Ok(RejectedEntry {
                is_directory: found.is_dir(),
                size: found.len(),
                modified: found.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            }),
            Err(error) if is_top && error.kind() == io::ErrorKind::NotFound => {
                Ok(RejectedEntry { is_directory: true, size: 0, modified: SystemTime::UNIX_EPOCH })
            }
            Err(error) => Err(Fault::io(path, error)),
        }
    }

    /// The names in one of their directories.
    pub(super) fn list(&self, path: &TreePath) -> Vec<String> {
        let entries = fs::read_dir(self.place(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// One of them.
    ///
    /// # Errors
    /// `NotFound`, or what the disk says.
    pub(super) fn read(&self, path: &TreePath) -> Result<Bytes, Fault> {
        fs::read(self.place(path)).map(Bytes::from).map_err(|error| Fault::io(path, error))
    }

    /// Removes one of them, or an empty directory of theirs.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn remove(&self, path: &TreePath) -> Result<(), Fault> {
        let place = self.place(path);
        let removed = if place.is_dir() { fs::remove_dir(place) } else { fs::remove_file(place) };
        removed.map_err(|error| Fault::io(path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_text_of_a_file_is_kept_until_a_save_is_taken_or_somebody_removes_it() {
        let directory = tempfile::tempdir().unwrap();
        let kept = RejectedSaves::in_directory(directory.path().join("rejected"));
        let path = |text| TreePath::parse(text).unwrap();
        let shown = path(".svc/rejected/a/b.md");
        assert!(kept.look(&path(".svc/rejected")).unwrap().is_directory);
        for text in ["one", "two"] {
            kept.keep(&path("a/b.md"), text.as_bytes()).unwrap();
        }
        assert_eq!(kept.read(&shown).unwrap(), "two");
        assert_eq!(kept.list(&path(".svc/rejected/a")), ["b.md"]);
        kept.accepted(&path("a/b.md"));
        assert!(kept.look(&shown).is_err());
        kept.keep(&path("a/b.md"), b"three").unwrap();
        kept.remove(&shown).unwrap();
        assert!(kept.read(&shown).is_err());
        // A file of that name is a directory now, and a file again.
        for name in ["c", "c/d", "c"] {
            kept.keep(&path(name), name.as_bytes()).unwrap();
            assert_eq!(kept.read(&path(name)).unwrap(), name);
        }
    }
}
