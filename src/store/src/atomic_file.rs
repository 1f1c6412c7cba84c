//! Replacement of a file beside the tree of pages: settings, keys, state. A reader sees the old
//! content or the new one, also after a power failure.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use crate::history::give_as_its_directory;

/// Permissions of the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRights {
    /// These bits and the user of this process; not flushed, because the file is state of a
    /// process.
    Mode(u32),
    /// Bits and owner of the replaced file, or the default bits and, as root, the owner of the
    /// directory; flushed with its directory before this returns.
    Preserve,
}

/// Replaces or creates a file. Follows a symbolic link and replaces its target.
///
/// # Errors
/// I/O errors; the old file is unchanged then.
pub fn replace_file(path: &Path, content: &[u8], rights: FileRights) -> io::Result<()> {
    let path = match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        existing => existing?,
    };
    // The file may be of another program, which has files of its own beside it.
    let temporary = path.with_added_extension("svcfs-new");
    // A file of a killed process may be readable by other users.
    remove_if_present(&temporary)?;
    with_temporary(&temporary, || {
        match rights {
            FileRights::Mode(mode) => create(&temporary, mode)?.write_all(content)?,
            FileRights::Preserve => {
                let previous = path.metadata().ok();
                // Other users must not read it before it has the permissions of the old file.
                let mut file = create(&temporary, if previous.is_some() { 0o600 } else { 0o666 })?;
                match previous {
                    Some(previous) => {
                        let created = file.metadata()?;
                        if (created.uid(), created.gid()) != (previous.uid(), previous.gid()) {
                            fchown(&file, Some(previous.uid()), Some(previous.gid()))?;
                        }
                        file.set_permissions(Permissions::from_mode(previous.mode() & 0o7777))?;
                    }
                    None => give_as_its_directory(&temporary)?,
                }
                file.write_all(content)?;
                file.sync_all()?;
            }
        }
        fs::rename(&temporary, &path)
    })?;
    match rights {
        FileRights::Mode(_) => Ok(()),
        FileRights::Preserve => sync_directory_of(&path),
    }
}

/// Creates a file, durably, for the user of this process. A file that exists, or that another
/// process creates at the same time, is unchanged.
///
/// # Errors
/// I/O errors; there is no new file then.
pub fn create_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = path.with_added_extension(format!("{}.new", std::process::id()));
    remove_if_present(&temporary)?;
    with_temporary(&temporary, || {
        let mut file = create(&temporary, mode)?;
        file.write_all(content)?;
        file.sync_all()?;
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
        fs::remove_file(&temporary)
    })?;
    sync_directory_of(path)
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(mode).open(path)
}

/// Removes the temporary file if `work` fails.
fn with_temporary(temporary: &Path, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    work().inspect_err(|_| {
        // The first error is the meaningful one.
        let _ = fs::remove_file(temporary);
    })
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn a_replaced_file_preserves_mode_owner_and_its_symlink() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("config.toml"), folder.path().join("link.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&file, Some(65534), Some(65534)).unwrap();
        }
        symlink("config.toml", &link).unwrap();
        replace_file(&link, b"new", FileRights::Preserve).unwrap();
        let existing = file.metadata().unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), existing.mode() & 0o7777), ("new", 0o640));
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(existing.uid() == 65534, is_root, "the user that serves the root must still be able to read them");
        replace_file(&folder.path().join("key"), b"key", FileRights::Mode(0o600)).unwrap();
        assert_eq!(folder.path().join("key").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left there");
    }

    #[test]
    fn temporary_files_of_failed_and_killed_processes_do_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let count = || fs::read_dir(folder.path()).unwrap().count();
        for rights in [FileRights::Preserve, FileRights::Mode(0o600)] {
            fs::write(folder.path().join("state.svcfs-new"), "of a killed process").unwrap();
            replace_file(&path, b"new", rights).unwrap();
            assert_eq!((fs::read(&path).unwrap().as_slice(), count()), (&b"new"[..], 1), "{rights:?}");
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            replace_file(&path, b"new", rights).unwrap_err();
            assert_eq!(count(), 1, "{rights:?}");
            fs::remove_dir(&path).unwrap();
        }
    }

    #[test]
    fn a_file_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create_file(&path, b"first", 0o600).unwrap();
        create_file(&path, b"second", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
