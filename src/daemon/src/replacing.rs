//! Files written whole or not at all: a reader sees the old one or the new one, never half of either.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Who may read and write the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRights {
    /// These bits, and this process's user; the file is the state of a process, and a machine that loses its power needs it no more.
    Mode(u32),
    /// Bits and owner of the file that is replaced; what any new file has where there is none. It is on the disk when this returns.
    Kept,
}

/// Puts a file in the place of another, or where none is. A link is followed: where it leads the file is replaced.
///
/// # Errors
/// Those of the disk; the old file is then as it was.
#[expect(clippy::disallowed_methods, reason = "settings and state of this process, which no door shows")]
pub fn replace(path: &Path, text: &[u8], rights: FileRights) -> io::Result<()> {
    let path = match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    let fresh = path.with_added_extension("new");
    // What is left of a killed process may be readable by others.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => removed?,
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    match rights {
        FileRights::Mode(mode) => options.mode(mode).open(&fresh)?.write_all(text)?,
        FileRights::Kept => {
            let before = path.metadata().ok();
            // Nobody else reads it before it has the rights of the old one.
            let mode = if before.is_some() { 0o600 } else { 0o666 };
            let mut file = options.mode(mode).open(&fresh)?;
            if let Some(before) = before {
                let made = file.metadata()?;
                if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
                    fchown(&file, Some(before.uid()), Some(before.gid()))?;
                }
                file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
            }
            file.write_all(text)?;
            file.sync_all()?;
        }
    }
    fs::rename(fresh, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of the test")]
    fn settings_keep_their_rights_and_owner_and_the_link_that_leads_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("config.toml"), folder.path().join("link.toml"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&file, Some(65534), Some(65534)).unwrap();
        }
        symlink("config.toml", &link).unwrap();
        replace(&link, b"new", FileRights::Kept).unwrap();
        let found = file.metadata().unwrap();
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), found.mode() & 0o7777), ("new", 0o640));
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(found.uid() == 65534, is_root, "whoever serves the root must still be able to read them");
        replace(&folder.path().join("key"), b"key", FileRights::Mode(0o600)).unwrap();
        assert_eq!(folder.path().join("key").metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left there");
    }
}
