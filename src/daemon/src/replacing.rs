//! Atomic file replacement: a reader sees the old file or the new one.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Permissions of the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRights {
    /// These bits and the user of this process; not flushed, because the file is state of a
    /// process.
    Mode(u32),
    /// Bits and owner of the replaced file, or the defaults of a new file; flushed before this
    /// returns.
    Preserve,
}

/// Replaces or creates a file. Follows a symbolic link and replaces its target.
///
/// # Errors
/// I/O errors; the old file is unchanged then.
#[expect(clippy::disallowed_methods, reason = "settings and state of this process, which no door shows")]
pub fn replace(path: &Path, text: &[u8], rights: FileRights) -> io::Result<()> {
    let path = match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        existing => existing?,
    };
    let temporary = path.with_added_extension("new");
    // A file of a killed process may be readable by other users.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => removed?,
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    match rights {
        FileRights::Mode(mode) => options.mode(mode).open(&temporary)?.write_all(text)?,
        FileRights::Preserve => {
            let previous = path.metadata().ok();
            // Other users must not read it before it has the permissions of the old file.
            let mode = if previous.is_some() { 0o600 } else { 0o666 };
            let mut file = options.mode(mode).open(&temporary)?;
            if let Some(previous) = previous {
                let made = file.metadata()?;
                if (made.uid(), made.gid()) != (previous.uid(), previous.gid()) {
                    fchown(&file, Some(previous.uid()), Some(previous.gid()))?;
                }
                file.set_permissions(Permissions::from_mode(previous.mode() & 0o7777))?;
            }
            file.write_all(text)?;
            file.sync_all()?;
        }
    }
    fs::rename(temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of the test")]
    fn settings_preserve_mode_owner_and_their_symlink() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("config.toml"), folder.path().join("link.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&file, Some(65534), Some(65534)).unwrap();
        }
        symlink("config.toml", &link).unwrap();
        replace(&link, b"new", FileRights::Preserve).unwrap();
        let existing = file.metadata().unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), existing.mode() & 0o7777), ("new", 0o640));
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(existing.uid() == 65534, is_root, "whoever serves the root must still be able to read them");
        replace(&folder.path().join("key"), b"key", FileRights::Mode(0o600)).unwrap();
        assert_eq!(folder.path().join("key").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left there");
    }
}
